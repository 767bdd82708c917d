"""Timelines whose truth is known."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pgtrial.analysis.log_pairing import LogEvent
from pgtrial.analysis.timelines.timeline import Timeline

MakeTimeline = Callable[..., Timeline]
STARTED = 1_767_225_600.0


@pytest.fixture
def make_timeline() -> MakeTimeline:
    """A timeline of constant throughput; ``series`` maps a metric, or (metric, object), to an array or a number."""

    def make(
        series: dict[Any, Any] | None = None,
        *,
        run: int = 1,
        arm: str = "on",
        block: int = 1,
        level: int = 0,
        seconds: int = 100,
        tps: Any = 100.0,
        latency: Any = 0.01,
        offset: float = 0.0,
    ) -> Timeline:
        def spread(value: Any) -> Any:
            return np.broadcast_to(np.asarray(value, dtype=np.float64), (seconds,)).copy()

        keyed = {name if isinstance(name, tuple) else (name, ""): value for name, value in (series or {}).items()}
        return Timeline(
            run=run,
            arm=arm,
            block=block,
            level=level,
            started=STARTED + 1000 * run,
            offset=offset,
            tps=spread(tps),
            latency=spread(latency),
            series={key: spread(value) for key, value in keyed.items()},
        )

    return make


@pytest.fixture
def make_entry() -> Callable[..., LogEvent]:
    """An entry of the server's log, at seconds of a timeline."""

    def make(timeline: Timeline, start: float, end: float | None = None, **about: Any) -> LogEvent:
        ended = start if end is None else end
        return LogEvent(run=timeline.run, start=timeline.started + start, end=timeline.started + ended, **about)

    return make
