"""What a session plays: which arms are at work when, for which of the contenders and cases it is."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from pgtrial.design.slices import Step, duet_guard, interleave, pair_up, shuffled
from pgtrial.experiment_file.experiment import DEFAULT_DUET_SLICE

CONTROL = "control"
COPY, SLOWER_5, SLOWER_10, ASYNC = "copy", "slower-5", "slower-10", "async-commit"
QUIET_CASES = (COPY, SLOWER_5, SLOWER_10, ASYNC)  # each is compared with the control; the copy is case A/A
BURSTY_CASES = (COPY, SLOWER_5)
TWICE = {SLOWER_5: 19, SLOWER_10: 9}  # transactions to each that does its work twice

CONTIGUOUS, BLOCKS, INTERLEAVED, DUET, LONG = "contiguous", "blocks", "interleaved", "duet", "long"
SESSIONS = 6  # of a repetition: the blocks of pgtrial's own contenders
RUN_GUARD = 0.2  # s before a run counts: on top of the wall time of a contender, as it would be in a longer run
PIECES = 30  # of a contiguous run, so that it can be read as one run, as three and as ten


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Steps that are played one after the other, all on all CPUs or all in pairs.

    ``cases`` says for each step in which comparisons it counts.
    """

    method: str
    steps: tuple[Step, ...]
    cases: tuple[tuple[str, ...], ...]


def session_segments(
    cases: Sequence[str], *, seconds: float, slice_length: float, guard: float, contiguous: bool, seed: str
) -> list[Segment]:
    """All segments of a session in random order; ``seconds`` are the wall time of a contender in a repetition, which
    is that of both arms of a case together. ``contiguous`` adds the runs that are made once per repetition.
    """
    rng = random.Random(seed)
    share = seconds / SESSIONS
    found = [
        _runs(BLOCKS, cases, length=share / 2, pieces=1, rng=rng),
        _turns(cases, seconds=share, slice_length=slice_length, guard=guard, rng=rng),
        duet(cases, seconds=share, seed=f"{seed}/duet"),
    ]
    if contiguous:
        found.append(_runs(CONTIGUOUS, cases, length=seconds / 2, pieces=PIECES, rng=rng))
    return shuffled(found, rng)


def chain(cases: Sequence[str], rng: random.Random) -> list[tuple[str, tuple[str, ...]]]:
    """Runs of the arms such that in every case the two runs are neighbours: (arm, cases in which it counts).

    A run of the control serves the case before it and the one behind it, so it is the second run of one and the first
    of the other; which is random.
    """
    order = shuffled(cases, rng)
    found: list[tuple[str, tuple[str, ...]]] = []
    for first, *second in (order[i : i + 2] for i in range(0, len(order), 2)):
        runs = [(first, (first,)), (CONTROL, (first, *second)), *((case, (case,)) for case in second)]
        found += runs if second or rng.random() < 0.5 else runs[::-1]
    return found


def _runs(method: str, cases: Sequence[str], *, length: float, pieces: int, rng: random.Random) -> Segment:
    steps: list[Step] = []
    counting: list[tuple[str, ...]] = []
    for arm, own in chain(cases, rng):
        for piece in range(pieces):
            guard = RUN_GUARD if piece == 0 else 0.0
            steps.append(Step(arms=(arm,), length=length / pieces + guard, guard=guard))
            counting.append(own)
    return Segment(method=method, steps=tuple(steps), cases=tuple(counting))


def _turns(cases: Sequence[str], *, seconds: float, slice_length: float, guard: float, rng: random.Random) -> Segment:
    """Each case in turns of its own two arms; the guards are part of the time."""
    steps: list[Step] = []
    counting: list[tuple[str, ...]] = []
    for case in shuffled(cases, rng):
        found = interleave(
            (CONTROL, case),
            seconds=seconds / 2,
            slice_length=fitting_slice(seconds, slice_length),
            guard=guard,
            seed=str(rng.random()),
        )
        steps += found
        counting += [(case,)] * len(found)
    return Segment(method=INTERLEAVED, steps=tuple(steps), cases=tuple(counting))


def interleaved(cases: Sequence[str], *, seconds: float, slice_length: float, guard: float, seed: str) -> Segment:
    """Only the turns, ``seconds`` for each case."""
    return _turns(cases, seconds=seconds, slice_length=slice_length, guard=guard, rng=random.Random(seed))


def duet(cases: Sequence[str], *, seconds: float, seed: str) -> Segment:
    """Each case for ``seconds`` with both arms at work, on each set of CPUs for half of it; guards are part of it."""
    steps: list[Step] = []
    counting: list[tuple[str, ...]] = []
    for case in shuffled(cases, random.Random(seed)):
        length = fitting_slice(seconds, DEFAULT_DUET_SLICE, of=2)
        guard = duet_guard(length)
        counted = seconds * (1 - guard / length)
        found = pair_up((CONTROL, case), seconds=counted, slice_length=length, guard=guard, seed=f"{seed}/{case}")
        steps += found
        counting += [(case,)] * len(found)
    return Segment(method=DUET, steps=tuple(steps), cases=tuple(counting))


def long_runs(*, runs: int, seconds: int) -> Segment:
    """Runs of the control and its copy one after the other, in pieces of a second."""
    arms = [(CONTROL, COPY)[run % 2] for run in range(runs)]
    steps = [
        Step(arms=(arm,), length=1.0 + guard, guard=guard)
        for arm in arms
        for guard in (RUN_GUARD, *(0.0 for _ in range(seconds - 1)))
    ]
    return Segment(method=LONG, steps=tuple(steps), cases=((COPY,),) * len(steps))


def fitting_slice(seconds: float, wanted: float, *, of: int = 4) -> float:
    """Length of slices of which whole rounds, ``of`` so many (ABBA), fill ``seconds``: at least the wanted one, if that
    fits at all.
    """
    return seconds / of / max(1, int(seconds / of / wanted + 1e-9))
