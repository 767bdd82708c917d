"""What a check looked at, for the advice that follows from it."""

from dataclasses import dataclass

from pgtrial.analysis.causes.cells import pooled_mean, rank_objects
from pgtrial.analysis.timeline import Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a check looked at: ``metric`` is its first series, ``about`` the device or error it is of."""

    timelines: tuple[Timeline, ...]
    metric: str
    about: str
    entries: tuple[str, ...] = ()  # of the log, in full

    def mean(self, metric: str, about: str = "") -> float | None:
        return pooled_mean(self.timelines, metric, about)

    def top(self, metric: str) -> tuple[tuple[str, float], ...]:
        return rank_objects(self.timelines, metric)


def say(*sentences: str) -> str:
    """One after the other; those that are "" are left out."""
    return " ".join(sentence for sentence in sentences if sentence)
