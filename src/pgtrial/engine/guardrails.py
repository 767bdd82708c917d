"""Look after a server that others use while it is switched: limits at once, harm by an arm once it is shown.

Everything is asked of what is there anyway: the log of the load while it grows, and a few of the server's counters.
"""

import asyncio
import math
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import NoReturn, Protocol

from pgtrial.engine.live.follower import LogSampler
from pgtrial.errors import HarmError, PreflightError, TargetError
from pgtrial.experiment_file.guardrails_table import FEWEST, WINDOW, GuardrailsTable
from pgtrial.findings.caveat import caveat
from pgtrial.model.caveat import STOPPED_FOR_HARM
from pgtrial.model.run import LoadLevel
from pgtrial.postgres.connect import fetch
from pgtrial.stats.harm import HarmTest
from pgtrial.store.state import STOPPED, State
from pgtrial.units import format_duration, format_percent, format_share

LOOK = 1.0  # s between two looks
ALPHA = 0.05  # of experiments without harm, how many a test of harm ends at most
_BREACH = "a guardrail was breached: {}"
PAIR = "guarded-pair"  # kind of event: what the test of harm has seen, for who resumes the experiment
_STILL = 10.0  # s in which none of the load's transactions ends
_MEAN_GAPS = 25  # as much longer than the mean is practically no gap of transactions that come at random
_BUSY = 3  # looks in a row with too many sessions at work: one is a coincidence
_PATIENCE = 5.0  # s for the server to answer
_SERVER = """
    -- Neither a backup that is taken, nor what only receives WAL, nor the first copy of a table is one.
    WITH standby AS (
        SELECT application_name, replay_lag FROM pg_catalog.pg_stat_replication WHERE replay_lsn IS NOT NULL
        AND application_name OPERATOR(pg_catalog.!~) '^pg_[0-9]+_sync_[0-9]+_'
    )
    SELECT pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE'),
        ARRAY(SELECT application_name FROM standby ORDER BY application_name),
        (SELECT max(EXTRACT(epoch FROM replay_lag))::pg_catalog.float8 FROM standby),
        (SELECT sum(xact_commit)::pg_catalog.int8 FROM pg_catalog.pg_stat_database),
        (SELECT sum(xact_rollback)::pg_catalog.int8 FROM pg_catalog.pg_stat_database),
        (SELECT count(*) FROM pg_catalog.pg_stat_activity
            WHERE backend_type OPERATOR(pg_catalog.=) 'client backend' AND state OPERATOR(pg_catalog.=) 'active'
            AND pid OPERATOR(pg_catalog.<>) pg_catalog.pg_backend_pid())
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerHealth:
    """What a server says of itself; ``standbys`` are the names of those that replay, ``lag`` is in seconds, None where
    none of them tells one. Counts since it began.
    """

    may_see: bool
    standbys: tuple[str, ...]
    lag: float | None
    committed: int
    rolled_back: int
    active: int


Ask = Callable[[], Awaitable[ServerHealth]]


class PutsBack(Protocol):
    """What can undo all switching at once; ``has_switched`` says whether there was any, ever."""

    @property
    def has_switched(self) -> bool: ...

    async def put_back(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What counts of an arm's turn, in seconds since the epoch."""

    arm: str
    counted: float
    ended: float


@dataclass(slots=True, kw_only=True)
class RecentLatencies:
    """(end, seconds, how many it stands for) of the load's transactions, those of the last while, in no order."""

    _found: deque[tuple[float, float, float]] = field(default_factory=deque, init=False)

    def add(self, lines: Iterable[bytes], weight: float) -> None:
        """Lines of pgbench's log; in place of a time stands a word where a transaction failed or was skipped."""
        for line in lines:
            fields = line.split(b" ")
            if len(fields) >= 6 and all(part.isdigit() for part in (fields[2], fields[4], fields[5])):
                self._found.append((int(fields[4]) + int(fields[5]) / 1e6, int(fields[2]) / 1e6, weight))

    def forget(self, before: float) -> None:
        """Those that had ended before this time."""
        self._found = deque(one for one in self._found if one[0] >= before)

    @property
    def newest(self) -> float:
        """When the last one ended that is known; -infinity if none is."""
        return max((ended for ended, _, _ in self._found), default=-math.inf)

    def count(self, start: float, *, longer: float) -> tuple[float, float]:
        """How many have ended since ``start``, and how many of these took longer."""
        weights = [(weight, seconds > longer) for ended, seconds, weight in self._found if ended >= start]
        return math.fsum(weight for weight, _ in weights), math.fsum(weight for weight, is_long in weights if is_long)

    def rate(self, start: float, end: float) -> float:
        """How many ended in a second of [start, end); NaN where there is no such time."""
        count = math.fsum(weight for ended, _, weight in self._found if start <= ended < end)
        return count / (end - start) if end > start else math.nan

    def p99(self, start: float, end: float) -> float | None:
        """99th percentile (s) of those that ended in [start, end); None of fewer than 100."""
        found = sorted((seconds, weight) for ended, seconds, weight in self._found if start <= ended < end)
        if len(found) < FEWEST:
            return None
        sums = list(accumulate(weight for _, weight in found))
        return next(seconds for (seconds, _), sum_ in zip(found, sums, strict=True) if sum_ >= 0.99 * sums[-1])


@dataclass(slots=True, kw_only=True)
class Guard:
    """``arms`` are their names, the control first. ``survey`` before each block, ``begin`` at each load level, and
    ``look`` about once a second.

    ``ask`` asks the server, and ``state`` keeps what the test of harm has seen, and that it has ended.
    """

    table: GuardrailsTable
    arms: Sequence[str]
    board: PutsBack
    ask: Ask
    state: State
    error: HarmError | None = field(default=None, init=False)  # why nothing is switched any more
    _tests: dict[str, HarmTest] = field(default_factory=dict, init=False)
    _log: LogSampler | None = field(default=None, init=False)
    _latencies: RecentLatencies = field(default_factory=RecentLatencies, init=False)
    _turns: list[Turn] = field(default_factory=list, init=False)  # that the test has not looked at yet
    _counted: float = field(default=math.inf, init=False)  # since when the turn counts that has not ended yet
    _rate: float | None = field(default=None, init=False)
    _counts: deque[tuple[float, int, int]] = field(default_factory=deque, init=False)  # (t, committed, rolled back)
    _standbys: tuple[str, ...] = field(default=(), init=False)
    _busy: int = field(default=0, init=False)  # looks in a row with too many sessions at work
    _told: tuple[float, float] = field(default=(0.0, 0.0), init=False)  # (last second with transactions, of how many)

    def __post_init__(self) -> None:
        self._tests = _seen_before(self.state, self.arms)

    async def survey(self) -> None:
        """Before anything of a block is switched: which standbys there are. Raises HarmError where nothing is to be
        switched any more, PreflightError for what cannot be looked after, TargetError.
        """
        if self.error is not None:
            raise self.error
        seen, limit = await self.ask(), self.table.replication_lag
        self._standbys, self._log, self._latencies, self._told = seen.standbys, None, RecentLatencies(), (0.0, 0.0)
        self._busy, self._counts = 0, deque()
        for name, value in (("replication_lag", self.table.replication_lag), ("active", self.table.active)):
            if value is not None and not seen.may_see:
                raise PreflightError(
                    f'the guardrail "{name}" cannot be looked after: the role may not see what others do',
                    hint="Let an administrator GRANT pg_monitor to it.",
                )
        if limit is not None and not seen.standbys:
            raise PreflightError(
                'the guardrail "replication_lag" cannot be looked after: the server has no standby that replays',
                hint="Remove it from [guardrails], or connect to the primary.",
            )
        if limit is not None and seen.lag is not None and seen.lag > limit:
            raise PreflightError(
                f"a standby is {format_duration(seen.lag)} behind before anything is switched, and "
                f"{format_duration(limit)} is the limit",
                hint="Wait until it has caught up. For one that is behind on purpose (recovery_min_apply_delay) give "
                "replication_lag a longer time.",
            )

    async def begin(self, folder: Path, level: LoadLevel, now: float) -> None:
        """Before the load of a level, whose logs will be in ``folder``. Raises TargetError."""
        seen = await self.ask()
        self._log, self._rate = LogSampler(folder=folder, level=level.index), level.rate
        self._latencies, self._turns, self._told, self._counted = RecentLatencies(), [], (now, 0.0), math.inf
        self._busy, self._counts = 0, deque([(now, seen.committed, seen.rolled_back)])

    def note_second(self, tps: float, now: float) -> None:
        """What the load tells each second."""
        if tps > 0:
            self._told = (now, max(tps, self._told[1]))

    def note_counted(self, start: float) -> None:
        """Since when the turn counts that goes on now, or will."""
        self._counted = start

    def note_turn(self, turn: Turn) -> None:
        """A turn has ended; the turns of all arms that follow each other are compared."""
        self._turns.append(turn)
        self._counted = math.inf

    async def look(self, now: float) -> None:
        """``stop`` where a guardrail is breached."""
        self._read_log(now)
        found = self._find_in_load(now) or await self._find_on_server(now)
        if not found:
            # A log is written in pieces, so a round of turns is looked at when the next one is over.
            found = self._judge_turns(keep=len(self.arms))
        if found:
            await self.stop(_BREACH.format(found))

    async def end(self, now: float) -> None:
        """After the load has ended: what is left of its log. Raises HarmError."""
        self._read_log(now)
        if found := self._judge_turns(keep=0):
            await self.stop(_BREACH.format(found))

    async def fail(self, what: str) -> NoReturn:
        """``stop`` as the load has failed or the server has, which an arm can have done to others as well."""
        await self.stop(f"the switching has ended: {what}")

    async def stop(self, why: str) -> NoReturn:
        """Switch nothing any more, now or when the experiment is resumed, put everything back, and raise HarmError.

        Raises RestoreError where that failed; who calls again tries it again, and does not change the reason.
        """
        try:
            if self.error is None:
                self.error = _error(why)
                note_stop(self.state, why)  # first, as whatever happens from here on is not to hide it
        finally:
            await self.board.put_back()
        raise self.error

    def _read_log(self, now: float) -> None:
        for part in self._log.look() if self._log is not None else ():
            self._latencies.add(part.lines, part.weight)
        last = self._last_known(now)
        self._latencies.forget(min([last - WINDOW, self._counted, *(turn.counted for turn in self._turns[:1])]))

    def _last_known(self, now: float) -> float:
        """Until when latencies are known: pgbench writes its log in pieces."""
        return min(now, self._latencies.newest)

    def _find_in_load(self, now: float) -> str:
        limit, (last, most) = self.table.p99, self._told
        if limit is None:
            return ""
        gap = 0.0 if self._rate is None else _MEAN_GAPS / self._rate
        if most > 0 and now - last > max(_STILL, 2 * limit, gap):
            return f"none of the load's transactions has ended for {format_duration(round(now - last))}"
        start = self._last_known(now) - WINDOW
        total, longer = self._latencies.count(start, longer=limit)
        if longer <= max(total, FEWEST) / 100:  # of fewer than a hundred, if all others were as quick as allowed
            return ""
        p99 = self._latencies.p99(start, math.inf)
        if p99 is not None:
            return f"the 99th percentile of the load is {format_duration(p99)}, and {format_duration(limit)} the limit"
        counts = f"{round(longer)} of the load's last {round(total)} transactions"
        return f"{counts} took longer than {format_duration(limit)}, the limit of its 99th percentile"

    async def _find_on_server(self, now: float) -> str:
        try:
            async with asyncio.timeout(_PATIENCE):
                seen = await self.ask()
        except TimeoutError:
            return f"the server has not answered for {format_duration(_PATIENCE)}"
        except TargetError as err:
            return f"the server does not let pgtrial look: {err.detail or err.message}"
        lag, active = self.table.replication_lag, self.table.active
        if lag is not None and (gone := Counter(self._standbys) - Counter(seen.standbys)):
            return f"of {len(self._standbys)} standbys one is gone: {', '.join(gone)}"
        if lag is not None and seen.lag is not None and seen.lag > lag:
            return f"a standby is {format_duration(seen.lag)} behind, and {format_duration(lag)} is the limit"
        self._busy = self._busy + 1 if active is not None and seen.active > active else 0
        if self._busy >= _BUSY:
            return f"{seen.active} sessions are at work, and {active} is the limit"
        return self._find_errors(seen, now)

    def _find_errors(self, seen: ServerHealth, now: float) -> str:
        self._counts.append((now, seen.committed, seen.rolled_back))
        while len(self._counts) > 2 and self._counts[1][0] <= now - WINDOW:
            self._counts.popleft()
        _, committed, rolled_back = self._counts[0]
        failed = seen.rolled_back - rolled_back
        total = seen.committed - committed + failed
        limit = self.table.errors
        if limit is None or failed < 0 or total < FEWEST or failed / total <= limit:
            return ""
        share = format_percent(failed / total)
        return f"{share} of the transactions were rolled back, and {format_share(limit)} is the limit"

    def _judge_turns(self, *, keep: int) -> str:
        """Compare the arms of each round of turns, of which the last ``keep`` turns are left for later."""
        size, found = len(self.arms), ""
        while len(self._turns) - keep >= size:
            round_, self._turns = self._turns[:size], self._turns[size:]
            turns = {turn.arm: turn for turn in round_}
            for arm, test in self._tests.items():
                if self.arms[0] in turns and arm in turns:
                    found = self._judge(arm, test, turns[arm], turns[self.arms[0]]) or found
        return found

    def _judge(self, arm: str, test: HarmTest, own_turn: Turn, control_turn: Turn) -> str:
        spans = [(turn.counted, turn.ended) for turn in (own_turn, control_turn)]
        own, control = (self._latencies.p99(*span) for span in spans)
        own_rate, control_rate = (self._latencies.rate(*span) for span in spans)
        factor, ratio = 1 + self.table.harm, None
        if own is not None and control is not None:
            ratio = own / control
            is_worse = ratio > factor
        elif control is not None and own_rate * factor < control_rate:
            is_worse = True
        elif own is not None and control_rate * factor < own_rate:
            is_worse = False  # else arms that are alike, of which either may have too few, would be worse each time
        else:
            return ""  # too few have ended as the slice was short, or in both
        test.add(is_worse=is_worse)
        self.state.add_event(time.time(), PAIR, arm=arm, ratio=ratio, worse=is_worse)
        if not test.is_shown:
            return ""
        last = "or too few transactions ended" if ratio is None else format_percent(ratio - 1)
        return (
            f'with "{arm}" the 99th percentile is longer than with "{self.arms[0]}" by more than '
            f"{format_share(self.table.harm)}, {last} in the last pair of slices"
        )


def refuse_harm(state: State, arms: Sequence[str]) -> None:
    """Raise HarmError where a pgtrial that was killed had seen that an arm does harm, before it could end for it."""
    for arm, test in _seen_before(state, arms).items():
        if test.is_shown:
            why = _BREACH.format(f'harm by "{arm}" had been shown when pgtrial was killed')
            note_stop(state, why)
            raise _error(why)


def note_stop(state: State, why: str) -> None:
    """Nothing is switched any more, and who resumes or reads the experiment is told so."""
    text = f"{why[:1].upper()}{why[1:]}."
    state.set_meta(**{STOPPED: text})
    state.add_caveat(caveat(STOPPED_FOR_HARM, why=text))


def _seen_before(state: State, arms: Sequence[str]) -> dict[str, HarmTest]:
    """The tests of all arms but the first with the pairs of turns that ``state`` has."""
    others = arms[1:]
    tests = {arm: HarmTest(alpha=ALPHA / len(others)) for arm in others}
    for _, kind, data in state.events():
        if kind == PAIR and (test := tests.get(str(data["arm"]))) is not None:
            test.add(is_worse=bool(data["worse"]))
    return tests


def _error(why: str) -> HarmError:
    return HarmError(
        why,
        detail="The settings were put back at once.",
        hint='Blocks that were done are kept; "pgtrial report" tells of them. It is not gone on with.',
    )


def asking(conninfo: str) -> Ask:
    """How the server with this connection string is asked."""

    async def ask() -> ServerHealth:
        ((may_see, standbys, lag, committed, rolled_back, active),) = await fetch(conninfo, _SERVER)
        return ServerHealth(
            may_see=may_see,
            standbys=tuple(standbys),
            lag=lag,
            committed=committed,
            rolled_back=rolled_back,
            active=active,
        )

    return ask
