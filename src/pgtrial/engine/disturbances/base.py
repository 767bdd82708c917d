"""Disturbances of a measurement: the form of a remark, and the facts that checks judge."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from pgtrial.knobs.sysctl import dotted
from pgtrial.model.caveat import Severity
from pgtrial.model.fingerprint import CPU_ALL


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """``text`` is the finding, ``why`` why it matters, ``remedy`` what to do, ``command`` what to type for it.

    All but the command are full sentences; the last two may be empty. A warning is likely to change results, an info
    may.
    """

    code: str
    severity: Severity
    text: str
    why: str
    remedy: str = ""
    command: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What an experiment is going to do on the host, as far as its file says.

    ``places`` are (data,) or (data, WAL) for each place where a cluster is to lie, ``bytes_needed`` in each of them.
    ``postgres`` are the versions or directories of programs, None for what is found first. ``knobs`` is arm to knob to
    what it sets, PostgreSQL's settings among them.
    """

    places: tuple[tuple[str, ...], ...] = (("/var/tmp",),)
    bytes_needed: float = 0.0
    postgres: tuple[str | None, ...] = (None,)
    clients: int | None = None
    threads: int | None = None
    knobs: Mapping[str, Mapping[str, Mapping[str, str]]] = field(default_factory=dict)

    def varies(self, knob: str, name: str | None = None) -> bool:
        """Whether an arm sets a knob, or this name of it: then it is measured and does not disturb."""
        tables = [knobs[knob] for knobs in self.knobs.values() if knob in knobs]
        if name is None:
            return bool(tables)
        return any(dotted(key) == name for table in tables for key in table)


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A host, looked at for a moment: its facts before and after it, and those of the storage of each place.

    ``with_assertions`` are programs of servers that were built so, ``missing`` says which programs there are not, and
    ``other_servers`` counts the PostgreSQL servers that run there.
    """

    intent: Intent
    before: Mapping[str, str]
    facts: Mapping[str, str]
    places: tuple[Mapping[str, str], ...] = ()
    with_assertions: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    other_servers: int = 0

    def number(self, name: str) -> float | None:
        return _number(self.facts, name)

    def increase(self, name: str) -> float | None:
        before, after = _number(self.before, name), _number(self.facts, name)
        return None if before is None or after is None else after - before

    def cpu_share(self, seconds: float | None) -> float:
        """Share of the CPU time of the moment; 0 where it is not known."""
        passed = self.increase(CPU_ALL)
        return seconds / passed if seconds is not None and passed else 0.0


Check = Callable[[Situation], Iterator[Disturbance]]


def _number(facts: Mapping[str, str], name: str) -> float | None:
    try:
        number = float(facts[name])
    except (KeyError, ValueError):
        return None
    return number if math.isfinite(number) else None
