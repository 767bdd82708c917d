from collections.abc import Callable

import numpy as np
import pytest

from pgtrial.analysis.causes.explain import describe_legacy
from pgtrial.analysis.timelines.timeline import Timeline

Make = Callable[..., Timeline]


def test_speed_is_calls_and_rows_per_minute_and_waitings_six_thousand_per_waiting_session(make_timeline: Make) -> None:
    (found,) = describe_legacy(
        [
            make_timeline(
                {
                    "statements.calls": 100.0,
                    "statements.rows": 150.0,
                    "sessions.active": 4.0,
                    "waits.IO": 1.0,
                    "waits.Lock": 0.5,
                    "waits.CPU": 2.0,
                    "waits.Client": 0.5,
                }
            )
        ]
    )

    assert (found.arm, found.load_level, found.speed) == ("on", 0, 15_000)
    assert found.waitings == 9_000  # neither CPU nor the client count


def test_quiet_seconds_count_as_zero(make_timeline: Make) -> None:
    """pg_expecto leaves minutes without a wait out, which makes rare waits frequent."""
    waits = np.zeros(100)
    waits[:10] = 5.0
    (found,) = describe_legacy([make_timeline({"sessions.active": 5.0, "waits.IO": waits})])

    assert found.waitings == pytest.approx(3_000)


def test_what_was_not_read_is_not_known(make_timeline: Make) -> None:
    (nothing,) = describe_legacy([make_timeline()])
    (idle,) = describe_legacy([make_timeline({"sessions.active": 0.0})])

    assert (nothing.speed, nothing.waitings) == (None, None)
    assert idle.waitings == 0
