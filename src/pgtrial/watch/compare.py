"""Two windows of a watched server's time, side by side: what was different, with intervals that know about time.

Values are those of minutes, in a short window of parts of a minute, which depend on each other; ``stats.long_run`` says
how sure their mean is, and the difference of two windows is that of two such means (Welch). All intervals of a table
hold together in 95 of 100 comparisons, those of all tables of which sentences are made (``Comparison.told``) as well.
They say by how much the windows differ beyond what the steps of each differ among themselves, and nothing about why.
A window is best compared with the same hour and weekday, where the watch has it.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pgtrial.collectors import blocking, server_views
from pgtrial.errors import SpecError, StoreError
from pgtrial.watch.layout import DAY, HOUR, KINDS, MINUTE, SAMPLES, STATEMENTS, WAITS, retry_once
from pgtrial.watch.rows import CONFIDENCE, Draft, Row, by_mean, by_quotient, finish, share_out
from pgtrial.watch.series import (
    ACTIVE_NAME,
    COMMITS,
    COMMITS_NAME,
    RATES,
    TIME_NAME,
    Array,
    Counted,
    active_sessions,
    empty,
    growth_of,
    rate_of,
    read_background,
    read_blocking,
    read_gauge,
    read_polls,
    read_rates,
    read_statements,
    read_waits,
    read_work,
    waits_of_work,
)
from pgtrial.watch.windows import Sums, Window, fine_step, window_sums

OTHER_WAITS, OTHER_WORK, OTHERS = "other waits", "other statements", "others"
_TOLD = 6  # tables of which sentences are made: together they are held to what one is
_LEAST = 0.02  # share of all sessions at work that a part has to have for a row of its own
_MOST_STATEMENTS = 20
# What of the machine is worth a sentence.
NAMED = (
    "waiting for a CPU, of the server",
    "CPU of the server",
    "CPU stolen by the host",
    "bytes of temporary files",
    "blocks read",
    "rows read",
    "checkpoints by request",
    "WAL",
    "deadlocks",
    "rollbacks",
    "some task stalled on memory",
    "connections opened",
    "blocks per row",
    "growth of WAL that a replication slot holds",
)
BLOCKS, ROWS = ("pg_stat_database.blks_hit", "pg_stat_database.blks_read"), ("pg_stat_database.tup_returned",)
GAUGES = (("memory available", "B", "proc_meminfo.MemAvailable"), ("connections", "", "pg_stat_database.numbackends"))
_LEAST_READ = 0.75  # share of a window


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Average sessions at work on a statement, without literals; ``wait`` is what most of its difference is made of."""

    query: str
    sessions: Row
    wait: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocking:
    """Average sessions whose statement waits for a lock, until somebody in ``state`` ends what ``holder`` began."""

    waiting: str
    state: str
    holder: str
    sessions: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedStatement:
    """A statement in both windows: calls per second, seconds, rows and blocks per call, blocks per row, and share of
    the statements' time.
    """

    queryid: str
    query: str
    calls: Row
    time: Row
    rows: Row
    blocks: Row
    blocks_per_row: Row
    share_a: float
    share_b: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """``covered_*`` are the shares of the windows in which the server was read; ``step_*`` are in seconds.

    ``time`` is the time at work per commit with an interval of its own, for who asks for nothing else; ``latency`` is
    its difference, and the waits of which that is the sum.
    """

    a: Window
    b: Window
    step_a: int
    step_b: int
    covered_a: float
    covered_b: float
    time: Row
    throughput: tuple[Row, ...]
    latency: tuple[Row, ...]
    waits: tuple[Row, ...]
    work: tuple[Work, ...]
    blocking: tuple[Blocking, ...]
    background: tuple[Row, ...]
    statements: tuple[ComparedStatement, ...]
    machine: tuple[Row, ...]


@retry_once
def compare(root: Path, a: Window, b: Window) -> Comparison:
    """Raises StoreError where the folder has nothing of a window, or a file is damaged."""
    with ExitStack() as stack:
        both = [stack.enter_context(_window_sums(root, window)) for window in (a, b)]
        # Statements are read once in a minute.
        whole = [
            stack.enter_context(window_sums(root, each.window, kinds=(SAMPLES, STATEMENTS)))
            if STATEMENTS not in each.files
            else each
            for each in both
        ]
        rates = [read_rates(each) for each in both]
        polls = [read_polls(each) for each in both]
        waits = [read_waits(each, poll) for each, poll in zip(both, polls, strict=True)]
        commits = [rate.get(COMMITS, empty(poll.size)) for rate, poll in zip(rates, polls, strict=True)]
        covered = [float(np.mean(poll > 0)) for poll in polls]
        none = [np.where(poll > 0, 0.0, np.nan) for poll in polls]
        told = 1 - (1 - CONFIDENCE) / _TOLD
        active = [active_sessions(wait, poll) for wait, poll in zip(waits, polls, strict=True)]
        return Comparison(
            a=both[0].window,
            b=both[1].window,
            step_a=both[0].step,
            step_b=both[1].step,
            covered_a=covered[0],
            covered_b=covered[1],
            time=finish([by_quotient(TIME_NAME, "s", active, commits, is_ratio=True)])[0],
            throughput=_throughput(commits, active, told),
            latency=_latency(commits, active, share_out(waits, none, least=_LEAST, rest=OTHER_WAITS), told),
            waits=_waits(waits, none),
            work=_work(both, polls, none, told),
            blocking=_blocking(both, none, told),
            background=_background(both, polls, none),
            statements=_statement_rows(whole, told),
            machine=_machine(both, rates, told),
        )


def _window_sums(root: Path, window: Window) -> AbstractContextManager[Sums]:
    step = fine_step(window)
    return window_sums(root, window, step, kinds=(SAMPLES, WAITS) if step < MINUTE else KINDS)


def _throughput(commits: Sequence[Array], active: Sequence[Array], confidence: float) -> tuple[Row, ...]:
    return finish(
        [
            by_mean(COMMITS_NAME, "1/s", commits, is_ratio=True),
            # Little's law: time in the system = sessions at work / throughput.
            by_quotient(TIME_NAME, "s", active, commits, is_ratio=True),
            by_mean(ACTIVE_NAME, "sessions", active),
        ],
        confidence=confidence,
    )


def _latency(
    commits: Sequence[Array],
    active: Sequence[Array],
    parts: "dict[str, tuple[Array, Array]]",
    confidence: float,
) -> tuple[Row, ...]:
    drafts = [by_quotient(name, "s", pair, commits, is_ratio=False) for name, pair in parts.items()]
    return finish([by_quotient(TIME_NAME, "s", active, commits, is_ratio=False), *drafts], confidence=confidence)


def _waits(waits: "Sequence[dict[str, Array]]", none: Sequence[Array]) -> tuple[Row, ...]:
    pairs = share_out(waits, none, least=0.0, rest="")
    rows = finish([by_mean(event, "sessions", pair) for event, pair in pairs.items()])
    return tuple(sorted(rows, key=lambda row: -abs(row.change or 0.0)))


def _work(both: Sequence[Sums], polls: Sequence[Array], none: Sequence[Array], confidence: float) -> tuple[Work, ...]:
    found = [read_work(each, poll) for each, poll in zip(both, polls, strict=True)]
    pairs = share_out(found, none, least=_LEAST, rest=OTHER_WORK)
    rows = finish([by_mean(query, "sessions", pair) for query, pair in pairs.items()], confidence=confidence)
    waits = [waits_of_work(each, poll) for each, poll in zip(both, polls, strict=True)]
    return tuple(
        Work(query=row.name, sessions=row, wait=_largest_change(*(each.get(row.name, {}) for each in waits)))
        for row in sorted(rows, key=lambda row: -abs(row.change or 0.0))
    )


def _largest_change(a: "dict[str, float]", b: "dict[str, float]") -> str:
    """The wait that changed most in the direction in which their sum did."""
    sign = 1 if sum(b.values()) >= sum(a.values()) else -1
    return max({**a, **b}, key=lambda event: sign * (b.get(event, 0.0) - a.get(event, 0.0)), default="")


def _blocking(both: Sequence[Sums], none: Sequence[Array], confidence: float) -> tuple[Blocking, ...]:
    # Where nothing is known of a step's polls, nothing is known of who blocked whom either.
    pairs = share_out([read_blocking(each) for each in both], none, least=_LEAST, rest="")
    rows = finish([by_mean(about, "sessions", pair) for about, pair in pairs.items() if about], confidence=confidence)
    found = []
    for row in sorted(rows, key=lambda row: -abs(row.change or 0.0)):
        if (about := blocking.read_about(row.name)) is not None:
            found.append(Blocking(waiting=about[0], state=about[1], holder=about[2], sessions=row))
    return tuple(found)


def _background(both: Sequence[Sums], polls: Sequence[Array], none: Sequence[Array]) -> tuple[Row, ...]:
    found = [read_background(each, poll) for each, poll in zip(both, polls, strict=True)]
    pairs = share_out(found, none, least=_LEAST, rest=OTHERS)
    return finish([by_mean(name, "sessions", pair) for name, pair in pairs.items()])


def _machine(both: Sequence[Sums], rates: "Sequence[dict[str, Array]]", confidence: float) -> tuple[Row, ...]:
    drafts = [_rate(name, unit, metrics, both, rates) for name, unit, metrics in RATES]
    for name, unit, metric in GAUGES:
        drafts.append(by_mean(name, unit, [read_gauge(sums, metric) for sums in both]))
    above, below = (
        [rate_of(rate, metrics, sums.steps) for sums, rate in zip(both, rates, strict=True)]
        for metrics in (BLOCKS, ROWS)
    )
    drafts.append(by_quotient("blocks per row", "", above, below, is_ratio=True))
    # Of what grows as long as nobody reads from a slot no interval tells the mean; how fast it grows is steady.
    held = [growth_of(read_gauge(sums, server_views.HELD), sums.step) for sums in both]
    drafts.append(by_mean("growth of WAL that a replication slot holds", "B/s", held))
    drafts = [each for each in drafts if each.means != (None, None)]
    told = finish([each for each in drafts if each.name in NAMED], confidence=confidence)
    rows = {row.name: row for row in (*told, *finish([each for each in drafts if each.name not in NAMED]))}
    return tuple(rows[each.name] for each in drafts)


def _rate(
    name: str, unit: str, metrics: tuple[str, ...], both: Sequence[Sums], rates: "Sequence[dict[str, Array]]"
) -> Draft:
    factor = HOUR if unit == "1/h" else 1
    return by_mean(
        name, unit, [factor * rate_of(rate, metrics, sums.steps) for sums, rate in zip(both, rates, strict=True)]
    )


def _statement_rows(both: Sequence[Sums], confidence: float) -> tuple[ComparedStatement, ...]:
    tables = [read_statements(each) for each in both]
    totals = [sum(float(np.nansum(each.times)) for each in table.values()) for table in tables]
    order: dict[str, float] = {}
    for table in tables:
        for queryid, counted in table.items():
            order[queryid] = order.get(queryid, 0.0) + float(np.nansum(counted.times))
    chosen = sorted(order, key=lambda queryid: -order[queryid])[:_MOST_STATEMENTS]
    shown: list[Draft] = []
    told: list[Draft] = []
    found = {}
    for queryid in chosen:
        pair = [table.get(queryid, _never(each.steps)) for table, each in zip(tables, both, strict=True)]
        found[queryid] = pair
        calls, rows, blocks = zip(*((each.calls, each.rows, each.blocks) for each in pair), strict=True)
        shown += [
            by_mean("calls", "1/s", [call / each.step for call, each in zip(calls, both, strict=True)]),
            by_quotient("time", "s", [each.times for each in pair], calls, is_ratio=True),
            by_quotient("rows", "", rows, calls, is_ratio=True),
        ]
        told += [
            by_quotient("blocks", "", blocks, calls, is_ratio=True),
            by_quotient("blocks per row", "", blocks, rows, is_ratio=True),
        ]
    of_all, of_plan = iter(finish(shown)), iter(finish(told, confidence=confidence))
    return tuple(
        ComparedStatement(
            queryid=queryid,
            query=pair[1].query or pair[0].query,
            calls=next(of_all),
            time=next(of_all),
            rows=next(of_all),
            blocks=next(of_plan),
            blocks_per_row=next(of_plan),
            share_a=_share(pair[0].times, totals[0]),
            share_b=_share(pair[1].times, totals[1]),
        )
        for queryid, pair in found.items()
    )


def _share(times: Array, total: float) -> float:
    return float(np.nansum(times)) / total if total else 0.0


def _never(steps: int) -> Counted:
    none = np.zeros(steps)
    return Counted(calls=none, times=none, rows=none, blocks=none, query="")


def comparable_window(root: Path, b: Window) -> tuple[Window, str]:
    """The window to compare ``b`` with, and in words which one that is. Raises SpecError where there is none."""
    length = b.end - b.start
    for back, words in (
        (7 * DAY, "A is the same time a week before."),
        (DAY, "A is the same time the day before: of a week before too little was read, and weekdays may differ."),
        (length, "A is the time right before B: of the same time a day or a week before too little was read."),
    ):
        if back >= length and _is_read(root, found := Window(b.start - back, b.end - back)):
            return found, words
    raise SpecError(
        f'"{root}" has nothing that {b} could be compared with: too little was read of the time before it',
        hint="Name the other window: pgtrial compare-times FOLDER A B.",
    )


def _is_read(root: Path, window: Window) -> bool:
    try:
        with window_sums(root, window) as sums:
            return float(np.mean(read_polls(sums) > 0)) >= _LEAST_READ
    except StoreError:
        return False
