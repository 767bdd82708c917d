"""The stored results of a run: counts, from which the page is written without running anything."""

import gzip
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gym.recording import DATA
from gym.scores import SHARES, Cell, wilson

FILE = DATA / "results.json.gz"
Minutes = tuple[float, float, float]  # and from where to where simulation leaves it; infinite: never


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Of ``series`` histories of ``points`` without any change, noise AR(1) with ``phi``, ``alarms`` had an alarm."""

    phi: float
    points: int
    series: int
    alarms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    cells: tuple[Cell, ...]
    histories: tuple[History, ...] = ()

    def of(self, *, stream: str | None = None, contender: str | None = None) -> "Results":
        """Those of a stream or of a contender alone."""
        chosen = (
            cell
            for cell in self.cells
            if (stream is None or cell.stream == stream) and (contender is None or cell.contender == contender)
        )
        return Results(cells=tuple(chosen), histories=self.histories)

    def at(self, *, size: int, effect: float) -> Cell | None:
        return next((cell for cell in self.cells if (cell.size, cell.effect) == (size, effect)), None)

    @property
    def sizes(self) -> list[int]:
        return sorted({cell.size for cell in self.cells})


def merge(old: Results, new: Results) -> Results:
    """The new ones, and the old ones of streams that are not among them."""
    anew = {cell.stream for cell in new.cells}
    kept = tuple(cell for cell in old.cells if cell.stream not in anew)
    return Results(cells=(*kept, *new.cells), histories=new.histories or old.histories)


def write(results: Results, path: Path = FILE) -> None:
    text = json.dumps(
        {"cells": [asdict(cell) for cell in results.cells], "histories": [asdict(one) for one in results.histories]},
        separators=(",", ":"),
    )
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def read(path: Path = FILE) -> Results:
    """What ``write`` has written."""
    document: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return Results(
        cells=tuple(Cell(**{**cell, "ends": tuple(tuple(end) for end in cell["ends"])}) for cell in document["cells"]),
        histories=tuple(History(**one) for one in document["histories"]),
    )


def minutes_to_truth(results: Results, effect: float, share: float) -> Minutes | None:
    """Of one stream and contender: minutes of testing after which so large a share of experiments has said that the arm
    is slower. None where there is nothing to tell it from.

    Where a rule ends the experiment, of the largest cap; else of the smallest number of observations that does it.
    """
    cells = sorted((cell for cell in results.cells if cell.effect == effect), key=lambda cell: cell.size)
    if not cells:
        return None
    if cells[-1].ends:
        return cells[-1].ends[SHARES.index(share)]
    bounds = [wilson(cell.slower, cell.experiments) for cell in cells]
    return (
        _first(cells, [cell.slower / cell.experiments for cell in cells], share),
        _first(cells, [high for _, high in bounds], share),
        _first(cells, [low for low, _ in bounds], share),
    )


def _first(cells: Sequence[Cell], shares: Sequence[float], wanted: float) -> float:
    return next((cell.minutes for cell, share in zip(cells, shares, strict=True) if share >= wanted), math.inf)
