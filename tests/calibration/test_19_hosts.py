"""Blocks of few hosts say little of others: intervals over blocks hold the mean of hosts far too seldom."""

import random
from dataclasses import replace

import numpy as np
import pytest

from calibration.trials import Row, compare, misses, most, observe, percent, plan_trial, record
from pgtrial.stats.hosts import fit_hosts

RUN = 0.02  # SD of a run's log throughput
EFFECT = 0.1
UNEQUAL = {2: (2, 6), 4: (1, 2, 4, 6), 8: (1, 1, 2, 2, 3, 4, 6, 8), 32: (1, 2, 3, 6) * 8}


def count_misses(sizes, *, between, times, seed):
    """Of the interval over hosts, of the one over blocks, and of the prediction, the true value."""
    seeds, rng = random.Random(seed), np.random.default_rng(seed)
    over_hosts = over_blocks = predicted = 0
    for _ in range(times):
        evidence = plan_trial(seeds, blocks=sum(sizes))
        # Hosts take blocks as they get free, so that which blocks are whose is by chance.
        order = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
        own = rng.normal(0, between, len(sizes))
        spread = replace(evidence, hosts={block: f"h{host:02d}" for block, host in enumerate(order, start=1)})
        speeds = {
            slot.number: rng.normal(0, RUN)
            + RUN * (slot.position > 1)
            + (EFFECT + own[order[slot.block - 1]] if slot.arm == "b" else 0.0)
            for slot in evidence.slots
        }
        values = observe(evidence, speeds)
        over_hosts += misses(compare(spread, values), EFFECT)
        over_blocks += misses(compare(evidence, values), EFFECT)
        pairs = spread.pairs("b")
        logs = np.array([speeds[run.slot.number] - speeds[control.slot.number] for control, run in pairs])
        after = np.array([run.slot.position > control.slot.position for control, run in pairs])
        prediction = fit_hosts(logs, spread.hosts_of(run.slot.block for _, run in pairs), after).prediction
        if prediction is not None:
            predicted += not prediction.low <= EFFECT + rng.normal(0, between) <= prediction.high
    return over_hosts, over_blocks, predicted


@pytest.mark.simulated
@pytest.mark.parametrize(("sizes", "seed"), [((3, 3), 1), ((3,) * 4, 2), (UNEQUAL[4], 3), (UNEQUAL[8], 4)])
def test_intervals_over_hosts_hold_the_mean(sizes, seed):
    times = 150
    found, _, predicted = count_misses(sizes, between=0.03, times=times, seed=seed)

    assert found <= most(times, 0.05)
    assert predicted <= most(times, 0.05)


@pytest.mark.slow
def test_means_and_predictions_over_hosts_cover_as_often_as_they_promise() -> None:
    told, before, predicted = [], [], []
    for count in (2, 4, 8, 32):
        for sizes, shape in (((3,) * count, "equal"), (UNEQUAL[count], "unequal")):
            times = 600 if count <= 8 else 300
            for between in (0.0, 0.03):
                found, naive, following = count_misses(sizes, between=between, times=times, seed=count)
                assert found <= most(times, 0.05)
                assert following <= most(times, 0.05)
                if between:
                    told.append(f"{percent(times - found, times)} ({count}, {shape})")
                    before.append(f"{percent(times - naive, times)} ({count}, {shape})")
                    if count >= 8:
                        predicted.append(f"{percent(times - following, times)} ({count}, {shape})")
    record(
        Row(
            number=19,
            defect="hosts whose effects differ (SD 3 %, of a run 2 %), three blocks each or one to eight: intervals of "
            "95 % hold the mean of such hosts; predictions hold the next one",
            before=f"blocks as observations: {', '.join(before)}",
            after=f"{', '.join(told)}; {', '.join(predicted)}",
        )
    )
