"""The measured time of a run: its windows, or what counts of its slices where arms shared the time of a block."""

from dataclasses import dataclass
from itertools import pairwise

from pgtrial.analysis.evidence import measured
from pgtrial.model.run import RunRow, Slice


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Time without a break in which an arm was at work, guard time included; in seconds since the epoch.

    ``before`` is the sum of the run's earlier stretches, so that ``before + t - started`` is the arm's own time.
    """

    level: int
    started: float
    ended: float
    before: float

    @property
    def seconds(self) -> float:
        return self.ended - self.started


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The measured time of a run at a load level.

    ``started`` and ``ended`` are what lies around it, in seconds since the epoch, ``own_started`` and ``own_ended`` the
    same in the arm's own time, which stands still while the arm does. ``counted`` is the time of the transactions that
    count, ``active`` the time in which the arm worked for them; without slices all of these are the same window.
    """

    level: int
    started: float
    ended: float
    own_started: float
    own_ended: float
    counted: float

    @property
    def active(self) -> float:
        return self.own_ended - self.own_started


def slices_of(run: RunRow, level: int) -> tuple[Slice, ...]:
    return tuple(each for each in run.slices if each.level == level)


def counted_seconds(run: RunRow, level: int) -> float:
    """Measured time of a run at a load level."""
    if run.slices:
        return sum(each.seconds for each in run.slices if each.level == level)
    return sum(phase.end - phase.start for phase in measured(run) if phase.level == level)


def stretches(run: RunRow) -> tuple[Stretch, ...]:
    """When the arm of a run of slices was at work; () for a run without slices.

    Slices with consecutive numbers are one stretch: no other arm came between them, so this one was never stopped.
    """
    if not run.slices:
        return ()
    breaks = [
        place
        for place, (one, following) in enumerate(pairwise(run.slices), 1)
        if following.number != one.number + 1 or following.level != one.level
    ]
    found: list[Stretch] = []
    for begin, end in pairwise((0, *breaks, len(run.slices))):
        first, last = run.slices[begin], run.slices[end - 1]
        before = found[-1].before + found[-1].seconds if found else 0.0
        found.append(Stretch(level=first.level, started=first.started, ended=last.ended, before=before))
    return tuple(found)


def windows(run: RunRow) -> tuple[Window, ...]:
    """The measured time of a run, one per load level, in order of time."""
    at_work = stretches(run)
    found = []
    for phase in measured(run):
        level = phase.level or 0
        if not run.slices:
            found.append(
                Window(
                    level=level,
                    started=phase.start,
                    ended=phase.end,
                    own_started=phase.start,
                    own_ended=phase.end,
                    counted=phase.end - phase.start,
                )
            )
            continue
        mine = [stretch for stretch in at_work if stretch.level == level]
        if mine:
            found.append(
                Window(
                    level=level,
                    started=mine[0].started,
                    ended=mine[-1].ended,
                    own_started=mine[0].before,
                    own_ended=mine[-1].before + mine[-1].seconds,
                    counted=counted_seconds(run, level),
                )
            )
    return tuple(found)
