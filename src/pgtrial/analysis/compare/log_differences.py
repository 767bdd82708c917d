"""In what loads differ, as far as their logs tell it."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from pgtrial.analysis.compare.log_side import Side
from pgtrial.findings.comparison import WorldDifference
from pgtrial.model.caveat import Severity
from pgtrial.units import format_duration

UNLIKE = 0.1  # relative difference of lengths that is told


def compare_loads(sides: Sequence[Side]) -> Iterator[WorldDifference]:
    """What the logs themselves tell of how the loads were made."""
    texts: dict[str, tuple[dict[str, set[str]], str]] = {
        "clients": (_told(sides, "clients"), "Another number of clients is another load."),
        "scripts": (_told(sides, "scripts"), "Other scripts do other work."),
        "kind of log": (
            {
                side.key: {"aggregated" if run.run.is_aggregated else "per transaction" for run in side.runs}
                for side in sides
            },
            "An aggregated log has no percentiles.",
        ),
        "rate": (
            {side.key: {"limited" if run.run.has_rate else "not limited" for run in side.runs} for side in sides},
            "With --rate throughput is what was asked for, and latency begins when a transaction was due.",
        ),
        "runs": ({side.key: {str(len(side.runs))} for side in sides}, "One run says nothing of how runs differ."),
    }
    for name, (values, why) in texts.items():
        told = {key: " / ".join(sorted(found)) for key, found in values.items() if found}
        if len(set(told.values())) > 1:
            yield WorldDifference(group="load", name=name, values=told, severity=Severity.WARNING, why=why)
    seconds = {side.key: sum(run.run.seconds for run in side.runs) / len(side.runs) for side in sides}
    if max(seconds.values()) > (1 + UNLIKE) * min(seconds.values()):
        yield WorldDifference(
            group="load",
            name="length of a run",
            values={key: format_duration(length) for key, length in seconds.items()},
            severity=Severity.WARNING,
            why="What builds up slowly shows in long runs only.",
        )
    days = {side.key: _day(side.runs[0].run.started) for side in sides}
    if len(set(days.values())) > 1:
        yield WorldDifference(
            group="time",
            name="day",
            values=days,
            severity=Severity.INFO,
            why="Whatever changed on the machine in the meantime is in the difference.",
        )


def _told(sides: Sequence[Side], name: str) -> dict[str, set[str]]:
    """Side to the values that its logs tell."""
    values = {side.key: [getattr(run.run, name) for run in side.runs] for side in sides}
    return {key: {str(value) for value in found if value is not None} for key, found in values.items()}


def _day(t: float) -> str:
    return datetime.fromtimestamp(t, UTC).strftime("%Y-%m-%d")
