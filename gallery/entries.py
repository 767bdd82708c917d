"""The experiments of the gallery: what each one asks, its files, what its page shows and says."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gallery.published import Published, read_published
from pgtrial.knobs import KNOBS
from pgtrial.knobs.declaration import Scope

FOLDER = Path(__file__).parent
ENTRIES = FOLDER / "gallery.toml"
EXAMPLES = FOLDER.parent / "examples" / "gallery"

# What a page can show of the findings; charts.py draws them.
CHARTS = (
    "effects",
    "scenarios",
    "blocks",
    "curve",
    "budget",
    "budget-by-scenario",
    "difference",
    "throughput",
    "waits",
    "disk",
    "disk-rates",
    "page-gains",
    "memory",
    "write-back",
)
NEEDS = ("swap",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """What a quick file was like before the day ``until`` ("2026-11-30"), as a part of a sentence."""

    until: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One experiment of the gallery. ``quick`` is the file that is run, ``full`` are those of the article's size.

    ``article`` is the experiment's name in the published series ("A1"), ``scaled`` says how the quick size differs.
    ``context`` is what the article reports, ``reading`` how the page is read; both are Markdown. ``published`` are its
    figures, which are held against those here; ``bottleneck`` are those that say what limited it. ``needs`` is what the
    runner makes where the machine lacks it. ``earlier`` is what the quick file was like when an older result was
    measured.
    """

    name: str
    title: str
    article: str
    question: str
    scaled: str
    reading: str
    context: str
    charts: tuple[str, ...]
    quick: Path
    full: tuple[Path, ...]
    needs: tuple[str, ...]
    published: tuple[Published, ...] = ()
    bottleneck: tuple[Published, ...] = ()
    earlier: tuple[Earlier, ...] = ()

    @property
    def changes_host(self) -> bool:
        """Whether the quick file touches more than its own server: then it needs root and a permission."""
        table = _read(self.quick)
        arms = [table.get("target", {}), *table.get("arms", {}).values()]
        factors = table.get("factors", {})
        knobs = {*(name for arm in arms for name in arm), *(factor.get("knob") for factor in factors.values())}
        empties_cache = table.get("design", {}).get("cache") == "cold"
        changes_host = any(KNOBS[knob].scope is Scope.HOST for knob in knobs & KNOBS.keys())
        return changes_host or "disks" in table or empties_cache or bool(self.needs)

    @property
    def scripts(self) -> tuple[Path, ...]:
        """The SQL files that the quick file names, in its order."""
        table = _read(self.quick)
        scenarios = table.get("workload", {}).get("scenario", [])
        names = [table.get("dataset", {}).get("setup"), *(scenario.get("file") for scenario in scenarios)]
        return tuple(self.quick.parent / name for name in dict.fromkeys(names) if name)


def read_entries(path: Path = ENTRIES) -> tuple[Entry, ...]:
    """All entries in the order of the file. ValueError where one of them makes no sense."""
    return tuple(_entry(table) for table in _read(path)["experiment"])


def _read(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _entry(table: dict[str, Any]) -> Entry:
    name = table["name"]
    folder = EXAMPLES / table.get("folder", name)
    entry = Entry(
        name=name,
        title=table["title"],
        article=table["article"],
        question=table["question"].strip(),
        scaled=table["scaled"].strip(),
        reading=table["reading"].strip(),
        context=table["context"].strip(),
        charts=tuple(table["charts"]),
        quick=folder / table.get("quick", "quick.toml"),
        full=tuple(folder / file for file in table.get("full", ["full.toml"])),
        needs=tuple(table.get("needs", ())),
        published=read_published(table.get("published", ())),
        bottleneck=read_published(table.get("bottleneck", ())),
        earlier=tuple(Earlier(**each) for each in table.get("earlier", ())),
    )
    unknown = {*(set(entry.charts) - set(CHARTS)), *(set(entry.needs) - set(NEEDS))}
    missing = [str(file) for file in (entry.quick, *entry.full) if not file.is_file()]
    if unknown or missing or not entry.charts or not entry.full:
        what = ", ".join([*sorted(unknown), *missing]) or "no charts, or no file of the full size"
        raise ValueError(f'experiment "{name}" of the gallery: {what}')
    return entry


def choose(entries: tuple[Entry, ...], names: list[str]) -> tuple[Entry, ...]:
    """The entries of these names; all without any. ValueError for a name that none has."""
    known = [entry.name for entry in entries]
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise ValueError(f"the gallery has no {', '.join(unknown)}; there are {', '.join(known)}")
    return tuple(entry for entry in entries if not names or entry.name in names)
