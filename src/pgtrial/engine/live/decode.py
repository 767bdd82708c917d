"""The view of a running experiment out of what its file holds, which may be anybody's: checked piece by piece."""

import math
from typing import Any

from pgtrial.engine.events import EstimateUpdated
from pgtrial.engine.live.view import FORMAT, ArmView, LiveView
from pgtrial.model.arm import Role

_LONGEST = 1000  # characters of a text, and pieces of a list


def decode_view(found: Any) -> LiveView:
    """The same as was encoded by ``LiveView.as_dict``; ValueError, LookupError or TypeError if it is something else."""
    if found["format"] != FORMAT:
        raise ValueError("another format")
    estimate = found["estimate"]
    return LiveView(
        t=_number(found["t"]),
        state=_text(found["state"]),
        step=_text(found["step"]),
        run=_count_or_none(found["run"]),
        last_run=_count_or_none(found["last_run"]),
        runs=_count(found["runs"]),
        block=_count(found["block"]),
        arms_at_work=tuple(_text(name) for name in _pieces(found["arms_at_work"])),
        attempt=_count(found["attempt"]),
        phase=_text(found["phase"]),
        level=_text(found["level"]),
        phase_spent=_number(found["phase_spent"]),
        phase_length=_number_or_none(found["phase_length"]),
        tps=_number_or_none(found["tps"]),
        remaining=_number_or_none(found["remaining"]),
        share_done=min(1.0, max(0.0, _number(found["share_done"]))),
        arms=tuple(_arm(arm) for arm in _pieces(found["arms"])),
        estimate=None if estimate is None else _estimate(estimate),
    )


def _arm(found: Any) -> ArmView:
    return ArmView(
        name=_text(found["name"]),
        role=Role(found["role"]),
        is_at_work=found["is_at_work"] is True,
        runs_done=_count(found["runs_done"]),
        tps_now=_number_or_none(found["tps_now"]),
        p95_now=_number_or_none(found["p95_now"]),
        tps=tuple(_number_or_none(value) for value in _pieces(found["tps"])),
        p95=tuple(_number_or_none(value) for value in _pieces(found["p95"])),
        waits=tuple((_text(label), _number(sessions)) for label, sessions in _pieces(found["waits"])),
    )


def _estimate(found: Any) -> EstimateUpdated:
    return EstimateUpdated(
        arm=_text(found["arm"]),
        control=_text(found["control"]),
        metric=_text(found["metric"]),
        ratio=_number_or_none(found["ratio"]),
        low=_number_or_none(found["low"]),
        high=_number_or_none(found["high"]),
        confidence=_number(found["confidence"]),
        margin=_number(found["margin"]),
        blocks=_count(found["blocks"]),
    )


def _pieces(value: Any) -> list[Any]:
    if not isinstance(value, list) or len(value) > _LONGEST:
        raise ValueError("not a list, or too long")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > _LONGEST:
        raise ValueError("not a text, or too long")
    return value


def _number(value: Any) -> float:
    """A quantity: none of those here is negative, and none is larger than a double holds exactly."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**53:
        raise ValueError("not a number, or out of range")
    return float(value)


def _number_or_none(value: Any) -> float | None:
    return None if value is None else _number(value)


def _count(value: Any) -> int:
    number = _number(value)
    if number != math.floor(number):
        raise ValueError("not a whole number")
    return int(number)


def _count_or_none(value: Any) -> int | None:
    return None if value is None else _count(value)
