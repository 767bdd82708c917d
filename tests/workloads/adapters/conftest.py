from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest

from pgtrial.store.command_line import LONGEST_WHOLE, Told, parse_line
from pgtrial.workloads.adapters.base import Translate

CAPTURED = Path(__file__).parents[1] / "captured"


@pytest.fixture
def captured() -> Callable[[str], str]:
    """A text that a program has printed, by the name of the file."""
    return lambda name: (CAPTURED / name).read_bytes().decode()


@pytest.fixture
def tell(captured) -> Callable[[Translate, str], list[Told]]:
    """What a translator makes of a captured text, as it is read."""

    def read(translate: Translate, name: str) -> list[Told]:
        lines = [translate(line) for line in captured(name).split("\n") if line.strip()]
        return [parse_line(line, longest=LONGEST_WHOLE) for line in lines if line is not None]

    return read


@pytest.fixture
def clock() -> Callable[[], float]:
    """A second later whenever it is asked."""
    times = iter(range(1600000001, 1700000000))
    return partial(next, times)


@pytest.fixture
def no_files() -> Mapping[str, str]:
    return {}
