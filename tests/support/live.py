"""What is shown of an experiment while it runs: the arm "off" of 18 runs is being measured."""

from collections.abc import Sequence

from pgtrial.engine.events import EstimateUpdated
from pgtrial.engine.live.view import ArmView, LiveView


def make_estimate(
    ratio: float, low: float | None, high: float | None, *, margin: float = 0.05, blocks: int = 3
) -> EstimateUpdated:
    """The effect so far, of "off" on throughput."""
    return EstimateUpdated(
        arm="off",
        control="on",
        metric="pgbench.tps",
        ratio=ratio,
        low=low,
        high=high,
        confidence=0.95,
        margin=margin,
        blocks=blocks,
    )


def make_view(
    arms: Sequence[ArmView],
    estimate: EstimateUpdated,
    *,
    run: int,
    block: int,
    spent: float,
    length: float,
    tps: float,
    remaining: float,
    share_done: float,
    t: float = 1767225600.0,
) -> LiveView:
    """``spent`` of ``length`` seconds of the measured time have passed."""
    return LiveView(
        t=t,
        state="running",
        step="",
        run=run,
        last_run=run,
        runs=18,
        block=block,
        arms_at_work=("off",),
        attempt=1,
        phase="measure",
        level="4 clients",
        phase_spent=spent,
        phase_length=length,
        tps=tps,
        remaining=remaining,
        share_done=share_done,
        arms=tuple(arms),
        estimate=estimate,
    )
