"""Every design on machines that are noisy in different ways, with and without stopping early.

A machine is the log of its speed in each quarter of a second over all blocks of an experiment. The product's plan says
which arm runs when, its steps how arms share a block; the estimate of a block is the log of the ratio of the arms'
work in their counted time, and its interval the product's. So the whole way from the machine's noise to the interval is
tested, and not a distribution assumed for the ratios.
"""

import math
import random

import numpy as np
import pytest
from scipy import stats

from calibration.trials import ROWS, most
from pgtrial.design.methods import BLOCKS, MethodChoice, plan_steps, turn_seed
from pgtrial.design.plan import FIRST_LOOK, plan_schedule
from pgtrial.design.slices import WASHOUT, duet_guard
from pgtrial.model.arm import Arm, Role
from pgtrial.model.rules import CURRENT
from pgtrial.stats.crossover import fit_crossover
from pgtrial.stats.interval import mean_and_sd, t_quantile
from pgtrial.stats.paired import compare_blocks
from pgtrial.stats.sequential import nominal_levels, precision_confidence

ARMS = (Arm(name="a", role=Role.CONTROL), Arm(name="b", role=Role.CANDIDATE))
DESIGNS = {
    "blocks": BLOCKS,
    "interleaved": MethodChoice(method="interleaved", reason="", guard=WASHOUT, slice=1.0, doubled=True),
    "duet": MethodChoice(method="duet", reason="", guard=duet_guard(0.25), slice=0.25),
}
NOISES = {
    "white": "white",
    "ar 0.9": "AR(1), 0.9 per second",
    "ar 0.99": "AR(1), 0.99 per second",
    "bursts": "a neighbour in bursts",
    "drift": "drift and a slow wave",
}
SECONDS = 16  # of work for each arm in a block
OWN_NOISE = 0.03  # of a second of an arm, that no other has
CELL = 0.25  # s
LONGEST = {"blocks": 32.0, "interleaved": 70.0, "duet": 24.0}  # s of a block, at least as long as its steps
QUICK, THOROUGH = 150, 800
PRECISE = {("interleaved", "ar 0.99", 40): 2500}  # experiments where fewer could not tell a rate above the nominal one
EFFECT = -0.05
# Orders that are balanced early keep step with a slow wave: of orders drawn by coins 6.6 and 5.1 % miss with 6 and 12
# blocks, of the product's 8.3 and 7.3 % (2,400 experiments each). docs/exceptions.md has it.
NOMINAL, EXCEPTIONS = 0.05, {("blocks", "drift"): 0.085}


def machine(kind, seconds, block, rng):
    """Log speed by cell, without what single arms have; ``block`` is the seconds of a block."""
    cells = math.ceil(seconds / CELL)
    name, _, parameter = kind.partition(" ")
    if name == "white":
        return np.zeros(cells)
    if name == "drift":  # one per cent per block, up or down, and a slow wave of unknown phase
        time = np.arange(cells) * CELL / block
        return 0.01 * rng.choice((-1, 1)) * time + 0.1 * np.sin(2 * np.pi * (time / 3.7 + rng.random()))
    speed = np.empty(cells)
    if name == "ar":
        rho = float(parameter) ** CELL
        state, draws = rng.normal(), math.sqrt(1 - rho**2) * rng.normal(size=cells)
        for cell in range(cells):
            state = rho * state + draws[cell]
            speed[cell] = 0.1 * state
        return speed
    # A neighbour that takes half of the machine, comes every 40 s and stays for 10 s on average.
    at, is_there = 0.0, rng.random() < 0.2
    while at < cells:
        length = max(1.0, rng.exponential(10 if is_there else 40) / CELL)
        speed[int(at) : int(at + length)] = -math.log(2) * is_there
        at, is_there = at + length, not is_there
    return speed


def work(speed, spans):
    """Work done in each (start, end), in seconds at usual speed."""
    reached = np.concatenate([[0.0], np.cumsum(np.exp(speed) * CELL)])
    edges = np.interp(np.asarray(spans) / CELL, np.arange(reached.size), reached)
    return edges[:, 1] - edges[:, 0]


def run_block(design, order, *, seed, block, speeds, start):
    """Log of each arm's work per second of counted time: (control, treated), and when the block ends."""
    choice, names = DESIGNS[design], [arm.name for arm in ARMS]
    if design == "blocks":
        spans = {name: [(start + SECONDS * place, start + SECONDS * (place + 1))] for place, name in enumerate(order)}
        places, at = {name: [0] for name in names}, start + 2 * SECONDS
    else:
        spans, places, at = {name: [] for name in names}, {name: [] for name in names}, start
        steps = plan_steps(choice, names, seconds=SECONDS, seed=turn_seed(seed, block, 0), block=block)
        for step in steps:
            for place, name in enumerate(step.arms):
                spans[name].append((at + step.guard, at + step.length))
                places[name].append(place)
            at += step.length
    found = []
    for name in names:
        done = np.zeros(len(spans[name]))
        for place in set(places[name]):
            mine = np.array(places[name]) == place
            done[mine] = work(speeds[place], np.array(spans[name])[mine])
        found.append(math.log(done.sum() / sum(end - begin for begin, end in spans[name])))
    return found, at


def simulate(design, kind, blocks, *, experiments, seed):
    """Log ratios (experiments, blocks), and whether b ran after a in each; None where both had the block's time."""
    seeds, ratios, orders = random.Random(f"{design}/{kind}/{blocks}/{seed}"), [], []
    for _ in range(experiments):
        plan_seed = seeds.randrange(2**31)
        rng = np.random.default_rng(plan_seed)
        slots = plan_schedule(ARMS, blocks=blocks, seed=plan_seed)
        length = LONGEST[design] * blocks
        common = machine(kind, length, LONGEST[design], rng)
        # Of two halves of a machine one is faster, and each has noise of its own beside the common one.
        speeds = [common]
        if design == "duet":
            halves = [machine(kind, length, LONGEST[design], rng) / 2 for _ in range(2)]
            speeds = [common + 0.05 + halves[0], common + halves[1]]
        row, after, at = [], [], 0.0
        for block in range(1, blocks + 1):
            order = [slot.arm for slot in slots if slot.block == block]
            (control, treated), at = run_block(design, order, seed=plan_seed, block=block, speeds=speeds, start=at)
            luck = rng.normal(0, OWN_NOISE / math.sqrt(SECONDS), 2)
            row.append(EFFECT + treated - control + luck[1] - luck[0])
            after.append(order[0] == "a")
        ratios.append(row)
        orders.append(after)
    return np.array(ratios), np.array(orders) if design == "blocks" else None


def estimate(ratios, after):
    """Effect, standard error and degrees of freedom, as the product finds them."""
    fit = None if after is None else fit_crossover(ratios, after, may_differ=CURRENT.tells_orders_apart)
    if fit is not None:
        return fit.effect, fit.sd / math.sqrt(fit.information), fit.degrees
    mean, sd = mean_and_sd(ratios)
    return mean, sd / math.sqrt(ratios.size), ratios.size - 1


def is_missed(ratios, after, *, level=0.05):
    effect, error, degrees = estimate(ratios, after)
    return abs(effect - EFFECT) > t_quantile(1 - level / 2, degrees) * error


def is_missed_at_any_look(ratios, after):
    """Whether the interval misses at any look, after every block: at least as often as at the end."""
    looks = range(FIRST_LOOK, ratios.size + 1)
    levels = nominal_levels(tuple(looks), ratios.size, alpha=0.05)
    return any(
        is_missed(ratios[:look], None if after is None else after[:look], level=level)
        for look, level in zip(looks, levels, strict=True)
    )


def is_missed_when_narrow(ratios, after, width):
    """Whether the interval misses at the first look at which half of it is at most ``width``."""
    level = 1 - precision_confidence(0.95)
    for look in range(FIRST_LOOK, ratios.size + 1):
        effect, error, degrees = estimate(ratios[:look], None if after is None else after[:look])
        half = t_quantile(1 - level / 2, degrees) * error
        if half <= width or look == ratios.size:
            return abs(effect - EFFECT) > half
    raise AssertionError("there is a last look")


def count(design, kind, blocks, *, experiments, seed):
    """Misses at the end, at any look, and when the interval is narrow; and the SD of a block."""
    ratios, orders = simulate(design, kind, blocks, experiments=experiments, seed=seed)
    rows = [(row, None if orders is None else orders[number]) for number, row in enumerate(ratios)]
    sd = float(np.median(ratios.std(axis=1, ddof=1)))
    width = 1.5 * sd * t_quantile(0.975, 8) / 3
    return (
        sum(is_missed(*row) for row in rows),
        sum(is_missed_at_any_look(*row) for row in rows) if blocks > FIRST_LOOK else 0,
        sum(is_missed_when_narrow(*row, width) for row in rows) if blocks > FIRST_LOOK else 0,
        sd,
    )


def test_the_simulation_takes_the_interval_that_is_shipped():
    ratios, orders = simulate("blocks", "bursts", 8, experiments=1, seed=1)
    effect, error, degrees = estimate(ratios[0], orders[0])
    half = t_quantile(0.975, degrees) * error
    shipped = compare_blocks(np.ones(8), np.exp(ratios[0]), after=orders[0], may_differ=True)

    assert (math.log(shipped.low), math.log(shipped.high)) == pytest.approx((effect - half, effect + half))


@pytest.mark.simulated
@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("kind", ["bursts", "drift"])
def test_quick_false_alarms_of_every_design_with_and_without_stopping(design, kind):
    for missed in count(design, kind, 8, experiments=QUICK, seed=2)[:3]:
        assert missed <= most(QUICK, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("kind", NOISES)
def test_intervals_cover_and_rules_for_stopping_keep_to_their_error(kind):
    cells = []
    for design in DESIGNS:
        ends, looks, sd = [], [], 0.0
        for blocks in (6, 12, 40):
            experiments = PRECISE.get((design, kind, blocks), THOROUGH if blocks < 40 else THOROUGH // 2)
            end, any_look, narrow, sd = count(design, kind, blocks, experiments=experiments, seed=3)
            allowed = EXCEPTIONS.get((design, kind), NOMINAL)
            assert max(end, any_look, narrow) <= most(experiments, allowed)
            ends.append(f"{100 * end / experiments:.1f}")
            looks += [f"{100 * any_look / experiments:.1f}"] if blocks > FIRST_LOOK else []
        cells.append(f"{', '.join(ends)}; {', '.join(looks)} | {sd:.3f}")
    text = f'noise = "{NOISES[kind]}"\ncells = "{" | ".join(cells)}"\n'
    (ROWS / f"noise-{list(NOISES).index(kind)}.toml").write_text(text, encoding="utf-8")


@pytest.mark.simulated
@pytest.mark.parametrize("kind", ["ar 0.9", "bursts", "drift"])
def test_arms_that_take_turns_differ_less_than_arms_that_follow_each_other(kind):
    spread = {
        design: simulate(design, kind, 4, experiments=QUICK, seed=4)[0].std() for design in ("blocks", "interleaved")
    }

    assert spread["interleaved"] < spread["blocks"] / 2


@pytest.mark.parametrize(("rho", "expected"), [(0.2, 0.10), (0.4, 0.17)])
def test_what_carries_over_from_block_to_block_makes_intervals_too_narrow(rho, expected):
    """No design repairs it; docs/statistics.md says by how much."""
    rng, missed, experiments = np.random.default_rng(7), 0, 4000
    for _ in range(experiments):
        ratios = rng.normal(size=10)
        for block in range(1, 10):
            ratios[block] = rho * ratios[block - 1] + math.sqrt(1 - rho**2) * ratios[block]
        missed += is_missed(ratios + EFFECT, None)

    assert missed / experiments == pytest.approx(expected, abs=0.02)


def test_more_misses_than_allowed_would_be_seen():
    assert most(QUICK, 0.05) < stats.binom.ppf(0.5, QUICK, 0.15)
