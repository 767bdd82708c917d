"""The detector: what it has learned, what it remembers, and what it says of one block after another.

All of it has a first axis of sets. A set is what a contract holds for, all signals of a server together; sets are
watched beside each other and share nothing, which is how a thousand months are simulated.

After an alarm the set pauses for an hour. The streams that the alarm names take the state since the change as the new
usual one: their means start anew from it, and for six hours they only learn. So do the other parts of a mix, and the
level of a signal whose spread has changed. So a shift that stays is one alarm, and the end of one that lasted longer
than that is another.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pgtrial.stats.alarms.betting import (
    BETS,
    DIRECTIONS,
    HEATS,
    Stakes,
    class_of,
    collect,
    gains,
    learn_stakes,
    raise_threshold,
    tell,
    warm,
    weigh,
)
from pgtrial.stats.alarms.blocks import DAY, MINUTES, Array, Aspect, Signal, Stream, blocks_of, learn_floors, streams_of
from pgtrial.stats.alarms.prediction import (
    FARTHEST,
    RUNS,
    Predictor,
    cut,
    expect,
    follow,
    learn_ahead,
    learn_predictor,
    pass_through,
    start_means,
)
from pgtrial.stats.alarms.seasons import Days, at_blocks, days_of, learn_profile, learn_shrinkage

FEWEST_DAYS = 14  # of calm data; with less no weekday is there twice
PAUSE = 60 // MINUTES  # blocks after an alarm in which the set collects nothing
LEARNING = 360 // MINUTES  # blocks in which a stream that an alarm names only learns
_WARM = 360 // MINUTES  # first blocks of calm data, before which the means are not yet there
_MOST_PARTS = 4
_ALSO = 20  # times less evidence is enough to be named beside the first
_SEED = 20220311
_WIDTH = 1.96

Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Learned:
    """What is usual. ``profile`` (sets, streams, 336) by half hour of the week; ``threshold`` (sets,), of which
    ``nominal`` is the one that theory asks for, the number of blocks in which one false alarm is allowed.

    ``ahead``: errors of means of RUNS blocks; ``means`` at the end of calm time; ``usual`` (sets, streams): the mean
    square of standardised errors, cut off.
    """

    signals: tuple[Signal, ...]
    streams: tuple[Stream, ...]
    floors: Array
    profile: Array
    predictor: Predictor
    stakes: Stakes
    ahead: Array
    means: Array
    usual: Array
    nominal: float
    threshold: Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class State:
    """What is remembered from block to block; ``block`` is the next one, counted from a Monday's midnight.

    (sets, streams): ``age`` in blocks of the means (sets, streams, 4), ``silent_until`` that block, and the mean square
    of errors in the last day against the usual (``unrest``), by which louder times are made calmer, and the ``heat``
    that far errors have left (sets, streams, 3). (sets, streams, 2,
    sizes): what bets have ``collected``, the gain since the likeliest change (``since``), when that was (``onset``),
    how many blocks came after it (``count``), the ``total`` of their values, and the reference before it (``before``).
    The block in which a change begins is partly of the time before it: its value stands only until there is another.
    """

    block: int
    means: Array
    age: Array
    silent_until: Places
    unrest: Array
    heat: Array
    collected: Array
    since: Array
    onset: Places
    count: Array
    total: Array
    before: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What changed since block ``onset``: by ``size`` with its 95 % interval, a difference of the mean of blocks.

    It is in the unit of the signal where that changes by differences, otherwise a log ratio: exp(size) - 1 is the
    relative change of a level or a standard deviation, or of a share against the other shares.
    """

    stream: Stream
    onset: int
    size: float
    low: float
    high: float

    @property
    def direction(self) -> int:
        return 1 if self.size > 0 else -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """Raised at the end of ``block``; the first of the changes has the most evidence, ``evidence`` is the statistic
    over its threshold.
    """

    set: int
    block: int
    changes: tuple[Change, ...]
    evidence: float


def learn(
    minutes: Array, signals: Sequence[Signal], *, first: int, days: float = 30.0, resample: bool = True
) -> Learned:
    """From calm minutes (sets, columns, n), FEWEST_DAYS or more, NaN for gaps, for one false alarm in ``days``.

    first : minutes since a Monday's midnight, in the time zone of the load's rhythm; a multiple of MINUTES.
    resample : whether the threshold may be raised above the nominal one by a bootstrap of the calm days.
    ValueError: fewer days, or minutes that begin inside a block.
    """
    if first % MINUTES or minutes.shape[-1] < FEWEST_DAYS * 1440:
        raise ValueError(f"expected whole blocks of {FEWEST_DAYS} days or more, got {minutes.shape[-1]} minutes")
    floors = learn_floors(minutes, signals)
    blocks = blocks_of(minutes, signals, floors)
    at = first // MINUTES + np.arange(blocks.shape[-1])
    hours = hours_of(at)
    days_ = days_of(blocks, int(at[0]))
    shrinkage = learn_shrinkage(days_)
    profile = learn_profile(days_, shrinkage)
    # What a rhythm learned from other days leaves of a day is what it will leave of days to come.
    parts = min(_MOST_PARTS, days_.weekdays.size // 7)
    part_of_day = np.arange(days_.weekdays.size) * parts // days_.weekdays.size
    part = part_of_day[(np.arange(blocks.shape[-1]) + int(at[0]) % DAY) // DAY]
    unlike = np.empty_like(blocks)
    for one in range(parts):
        others = Days(bins=days_.bins[..., part_of_day != one, :], weekdays=days_.weekdays[part_of_day != one])
        here = part == one
        unlike[..., here] = blocks[..., here] - at_blocks(learn_profile(others, shrinkage), at[here])
    predictor = learn_predictor(unlike, hours)
    passage = pass_through(unlike, predictor, hours)
    errors = (passage.errors / predictor.scale[..., hours])[..., _WARM:]
    stakes = learn_stakes(errors, [signal.group for signal in signals for _ in streams_of([signal])])
    nominal = days * DAY
    threshold = np.full(blocks.shape[0], nominal)
    if resample:
        threshold = raise_threshold(nominal, errors, stakes, seed=_SEED)
    return Learned(
        signals=tuple(signals),
        streams=streams_of(signals),
        floors=floors,
        profile=profile,
        predictor=predictor,
        stakes=stakes,
        ahead=learn_ahead(unlike, passage.references),
        usual=_mean_square(errors),
        means=start_means((blocks - at_blocks(profile, at))[..., -DAY:]),
        nominal=nominal,
        threshold=threshold,
    )


def hours_of(blocks: Places) -> Places:
    """Hour of the day, 0 to 23, of blocks since a Monday's midnight."""
    return blocks * MINUTES // 60 % 24


def begin(learned: Learned, block: int) -> State:
    """Nothing collected; ``block`` is the first to come."""
    shape = learned.means.shape[:-1]
    bets = (*shape, *BETS.shape)
    return State(
        block=block,
        means=learned.means,
        age=np.full(shape, float(DAY)),
        silent_until=np.full(shape, block, dtype=np.int64),
        unrest=np.ones(shape),
        heat=np.zeros((*shape, HEATS)),
        collected=np.zeros(bets),
        since=np.zeros(bets),
        onset=np.full(bets, block, dtype=np.int64),
        count=np.zeros(bets),
        total=np.zeros(bets),
        before=np.zeros(bets),
    )


def advance(learned: Learned, state: State, values: Array) -> tuple[State, tuple[Alarm, ...]]:
    """The state after a block of (sets, streams) values as ``blocks_of`` has them, NaN for gaps, and its alarms."""
    block = state.block
    values = values - at_blocks(learned.profile, np.array([block]))[..., 0]
    scale = learned.predictor.scale[..., int(hours_of(np.array([block]))[0])]
    expected = expect(state.means, learned.predictor.weights)
    errors = (values - expected) / scale
    calmer = errors / np.sqrt(np.maximum(state.unrest, 1.0))
    told = tell(errors) & (block >= state.silent_until)
    gained = np.where(told[..., None, None], gains(calmer, learned.stakes, class_of(state.heat)), 1.0)
    collected = collect(state.collected, gained, told)
    # A change is likeliest since the gains from there on are largest.
    anew = (state.since <= 1) & told[..., None, None]
    add = told[..., None, None].astype(np.float64)
    known = np.where(told, values, 0.0)[..., None, None]
    # A stream that learns anew may be far from where it will be: nothing is cut until it has.
    near = np.where(state.age < LEARNING, values, expected + cut(values - expected, scale))
    after = replace(
        state,
        block=block + 1,
        means=follow(state.means, near, state.age),
        unrest=_follow_unrest(state.unrest, errors, learned.usual),
        heat=warm(state.heat, calmer),
        age=np.minimum(state.age + np.isfinite(values), float(DAY)),
        collected=collected,
        since=np.where(told[..., None, None], np.maximum(state.since, 1.0) * gained, state.since),
        onset=np.where(anew, block, state.onset),
        count=np.where(anew, 0.0, state.count + add),
        total=np.where(anew | (state.count == 0) & (add > 0), known, state.total + known),
        before=np.where(anew, state.means[..., -1][..., None, None], state.before),
    )
    weight = weigh(collected, learned.stakes)
    evidence = weight.mean(axis=1) / learned.threshold
    raised = np.flatnonzero(evidence >= 1)
    if not raised.size:
        return after, ()
    return _settle(learned, after, raised, evidence, weight)


def _settle(
    learned: Learned, state: State, raised: NDArray[np.intp], evidence: Array, weight: Array
) -> tuple[State, tuple[Alarm, ...]]:
    """Alarms of the sets ``raised``, which pause, and whose named streams begin anew."""
    means, age, silent = state.means.copy(), state.age.copy(), state.silent_until.copy()
    unrest = state.unrest.copy()
    collected, since = state.collected.copy(), state.since.copy()
    alarms = []
    for one in raised:
        own = weight[one]
        most = int(own.argmax())
        enough = learned.nominal / _ALSO
        named = [most, *(int(stream) for stream in np.argsort(-own) if stream != most and own[stream] >= enough)]
        changes = tuple(_change(learned, state, int(one), stream) for stream in named)
        alarms.append(
            Alarm(
                set=int(one),
                block=state.block - 1,
                changes=changes,
                evidence=float(evidence[one]),
            )
        )
        silent[one] = np.maximum(silent[one], state.block + PAUSE)
        for change in changes:
            if change.stream.aspect is Aspect.SPREAD:
                level = learned.streams.index(replace(change.stream, aspect=Aspect.LEVEL))
                unrest[one, level] = max(unrest[one, level], math.exp(2 * change.size))
        for stream in _concerned(learned.streams, changes):
            direction, size = _likeliest(collected[one, stream])
            count = max(1.0, float(state.count[one, stream, direction, size]))
            if state.since[one, stream, direction, size] > 0:  # otherwise nothing has ever been known of it
                means[one, stream] = state.total[one, stream, direction, size] / count
                # As one block: if it was a burst, what comes after it is soon all that the means are of.
                age[one, stream] = 1.0
            silent[one, stream] = state.block + LEARNING
        collected[one], since[one] = 0.0, 0.0
    after = replace(state, means=means, age=age, silent_until=silent, unrest=unrest, collected=collected, since=since)
    return after, tuple(alarms)


def _concerned(streams: Sequence[Stream], changes: Sequence[Change]) -> list[int]:
    """Places of the streams that have to learn anew: parts of a mix together, and a level with its spread."""
    named = {change.stream for change in changes}
    mixes = {stream.signal for stream in named if stream.aspect is Aspect.SHARE}
    louder = {stream.column for stream in named if stream.aspect is Aspect.SPREAD}
    return [
        place
        for place, stream in enumerate(streams)
        if stream in named or stream.signal in mixes or (stream.aspect is Aspect.LEVEL and stream.column in louder)
    ]


def _mean_square(errors: Array) -> Array:
    squares = np.clip(errors, -FARTHEST, FARTHEST) ** 2
    known = np.isfinite(squares)
    mean: Array = np.where(known, squares, 0.0).sum(axis=-1) / np.maximum(1, known.sum(axis=-1))
    return np.where(mean > 0, mean, 1.0)


def _follow_unrest(unrest: Array, errors: Array, usual: Array) -> Array:
    squares = np.clip(np.nan_to_num(errors), -FARTHEST, FARTHEST) ** 2 / usual
    return np.where(tell(errors), unrest + (squares - unrest) / DAY, unrest)


def _likeliest(collected: Array) -> tuple[int, int]:
    direction, size = np.unravel_index(int(collected.argmax()), collected.shape)
    return int(direction), int(size)


def _change(learned: Learned, state: State, one: int, stream: int) -> Change:
    direction, size = _likeliest(state.collected[one, stream])
    at = (one, stream, direction, size)
    count = max(1.0, float(state.count[at]))
    shift = float(state.total[at]) / count - float(state.before[at])
    # Between the runs whose errors are known, as a line on logarithms; beyond the longest as of that one.
    ahead = learned.ahead[one, stream]
    error = float(np.interp(math.log(count), np.log(RUNS), ahead))
    return Change(
        stream=learned.streams[stream],
        onset=int(state.onset[at]),
        size=shift if shift != 0 else DIRECTIONS[direction] * 0.0,
        low=shift - _WIDTH * error,
        high=shift + _WIDTH * error,
    )
