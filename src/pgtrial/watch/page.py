"""Two windows of a watched server's time as one HTML page, in the style of an experiment's report."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from pgtrial.collectors.sessions import shown_query
from pgtrial.errors import StoreError
from pgtrial.findings.record import Estimate
from pgtrial.report.charts.base import (
    CANDIDATE_COLOURS,
    CONTROL_COLOUR,
    OTHER_COLOUR,
    Chart,
    Spec,
    is_plottable,
    kind_colour,
    shorten,
)
from pgtrial.report.charts.forest import forest_spec
from pgtrial.report.charts.waterfall import Bar, waterfall_rows, waterfall_spec
from pgtrial.report.comparison.page import render_sections
from pgtrial.report.words import change_text, interval_text
from pgtrial.safe_files import write_file
from pgtrial.units import format_share
from pgtrial.watch.compare import OTHER_WAITS, Comparison
from pgtrial.watch.folder import Mark
from pgtrial.watch.promise import Promise, promise_lines
from pgtrial.watch.rows import Row
from pgtrial.watch.series import TIME_NAME
from pgtrial.watch.words import (
    LEAST_SHARE,
    METHOD,
    OBSERVATION,
    cells,
    interval,
    pointers,
    sentences,
    shown,
    signed,
    wait_name,
    windows_lines,
)

_NUMBERS = ("A", "B", "A → B", "interval", "share A", "share B", "calls/s", "time", "blocks")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: tuple[str, ...] = _NUMBERS


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A section: texts, points, a chart, tables and notes, in this order; ``name`` is its anchor."""

    name: str
    title: str
    texts: tuple[str, ...] = ()
    points: tuple[str, ...] = ()
    chart: Chart | None = None
    tables: tuple[_Table, ...] = ()
    notes: tuple[str, ...] = ()
    is_answer: bool = False


def render_times(mark: Mark, found: Comparison, remarks: Sequence[str], promise: Promise | None = None) -> str:
    """The whole page; ``remarks`` are what else is to be said of the windows, ``promise`` that of an experiment."""
    return render_sections(
        f"Two times of database {mark.database} at {mark.server}",
        [(part.name, part.title, "times.html", {"part": part}) for part in _parts(found, remarks, promise)],
        version=version("pgtrial"),
    )


def write_times(
    mark: Mark, found: Comparison, remarks: Sequence[str], path: Path, *, promise: Promise | None = None
) -> None:
    """Put the page, as ``render_times`` makes it, at ``path``: whole, or not at all. Raises StoreError."""
    try:
        write_file(path, render_times(mark, found, remarks, promise))
    except OSError as err:
        raise StoreError(f'cannot write "{path}": {err.strerror}') from err


def _parts(found: Comparison, remarks: Sequence[str], promise: Promise | None) -> Iterator[_Part]:
    yield _Part(
        name="answer",
        title="What was different in B",
        texts=tuple(sentences(found)),
        notes=(*windows_lines(found), *remarks, OBSERVATION),
        is_answer=True,
    )
    if promise is not None:
        yield _Part(
            name="promise",
            title="Did it bring what was promised?",
            texts=promise_lines(promise, found.time),
            chart=_promised(promise, found.time),
        )
    if points := tuple(each.text for each in pointers(found)):
        yield _Part(
            name="pointers",
            title="What it points to",
            points=points,
            notes=("A guess from the differences above, and no cause: other things differed as well.",),
        )
    yield _Part(
        name="latency",
        title="Time at work per commit, by wait",
        chart=_waterfall(found),
        tables=(_table("Throughput", found.throughput), _table("Parts of the difference", found.latency, waits=True)),
        notes=("Sessions at work by commits per second (Little's law): the parts add up to the difference.",),
    )
    if found.work:
        yield _Part(name="work", title="Statements", tables=tuple(_statements(found)))
    if found.blocking:
        yield _Part(name="blocking", title="Who blocked whom", tables=(_blocking(found),))
    if found.background:
        yield _Part(name="background", title="Autovacuum and idle transactions", tables=(_background(found),))
    if found.machine:
        yield _Part(name="machine", title="Server and machine", tables=(_table("Server and machine", found.machine),))
    yield _Part(name="method", title="Method", texts=(METHOD,))


def _table(caption: str, rows: Sequence[Row], *, waits: bool = False) -> _Table:
    return _Table(
        caption=caption,
        head=("", "A", "B", "A → B", "interval"),
        rows=tuple((wait_name(row.name) if waits else row.name, *cells(row), interval(row)) for row in rows),
    )


def _background(found: Comparison) -> _Table:
    return _table("Average sessions", found.background)


def _statements(found: Comparison) -> Iterator[_Table]:
    yield _Table(
        caption="Average sessions at work on a statement, as they were polled",
        head=("statement", "A", "B", "A → B", "interval", "most of it"),
        rows=tuple(
            (shown(each.query), *cells(each.sessions), interval(each.sessions), wait_name(each.wait))
            for each in found.work
        ),
    )
    if found.statements:
        yield _Table(
            caption="By pg_stat_statements, A → B: calls, time and blocks per call, share of the time of all",
            head=("statement", "calls/s", "time", "blocks", "share A", "share B"),
            rows=tuple(
                (
                    shown(shown_query(each.query)) if each.query else each.queryid,
                    *(
                        " → ".join(cells(row)[:2]) + f" ({cells(row)[2]})"
                        for row in (each.calls, each.time, each.blocks)
                    ),
                    format_share(round(each.share_a, 3)),
                    format_share(round(each.share_b, 3)),
                )
                for each in found.statements
                if max(each.share_a, each.share_b) >= LEAST_SHARE
            ),
        )


def _blocking(found: Comparison) -> _Table:
    return _Table(
        caption="Average sessions that waited for a lock, and who held them up",
        head=("waits", "for a session that is", "last with", "A", "B", "A → B", "interval"),
        rows=tuple(
            (
                shown(each.waiting),
                each.state or "gone by then",
                shown(each.holder) if each.holder else "–",
                *cells(each.sessions),
                interval(each.sessions),
            )
            for each in found.blocking
        ),
    )


def _waterfall(found: Comparison) -> Chart | None:
    total, *parts = found.latency
    if total.change is None or not parts:
        return None
    bars = [
        Bar(
            name=wait_name(row.name),
            colour=OTHER_COLOUR if row.name == OTHER_WAITS else kind_colour(row.name.partition("/")[0]),
            seconds=Estimate(value=row.change or 0.0, low=row.low, high=row.high),
        )
        for row in sorted(parts, key=lambda row: -abs(row.change or 0.0))
    ]
    rows = waterfall_rows(bars, Estimate(value=total.change, low=total.low, high=total.high))
    difference = f"{signed(total.change, 's')} ({interval(total)})"
    return Chart(
        title=f"Time at work per commit, B less A: {difference}",
        text=f"Waterfall of the difference of the time at work per commit: {'; '.join(row['label'] for row in rows)}.",
        spec=waterfall_spec(rows),
    )


def _promised(promise: Promise, time: Row) -> Chart | None:
    """The experiment's effect, where one more block of it would lie as a row and as a band, and what was seen."""
    effect = (promise.ratio, promise.mean_low, promise.mean_high)
    if not all(is_plottable(each) for each in (*effect, promise.low, promise.high)):
        return None
    one, other = CANDIDATE_COLOURS[0], CONTROL_COLOUR
    rows = [
        _ratio_row(0, f"{promise.experiment}, arm {promise.arm}", one, effect, blocks=promise.blocks),
        _ratio_row(1, "one more block like its own", one, (promise.ratio, promise.low, promise.high)),
    ]
    if is_plottable(time.change):
        rows.append(_ratio_row(2, f"A → B, {TIME_NAME}", other, (time.change, time.low, time.high)))
    seen = "" if is_plottable(time.change) else " What was seen is not known."
    return Chart(
        title="What was promised, and what was seen. The band is where one more block of the experiment would lie; "
        "left of the dashed line, which is no change, is less time.",
        text="Forest plot of the change of the time of a transaction, as the experiment promised it and as it was "
        f"seen. {'; '.join(row['label'] for row in rows)}.{seen}",
        spec=forest_spec(rows, (promise.low, promise.high)),
        legend=((one, "promised"), (other, "seen")),
    )


def _ratio_row(
    number: int,
    name: str,
    colour: str,
    ratios: tuple[float | None, float | None, float | None],
    *,
    blocks: Sequence[float] = (),
) -> Spec:
    """A row of ``forest_spec``; ``ratios`` are the middle and the ends of the interval, None where there is none."""
    ratio, low, high = ratios
    between = "without an interval" if low is None else interval_text(low, high, ratio)
    has_interval = is_plottable(low) and is_plottable(high)
    return {
        "row": number,
        "label": f"{name}: {change_text(ratio, low, high)} ({between})",
        "colour": colour,
        "ratio": shorten(ratio),
        "low": shorten(low) if has_interval else None,
        "high": shorten(high) if has_interval else None,
        "blocks": [shorten(each) for each in blocks if is_plottable(each)],
    }
