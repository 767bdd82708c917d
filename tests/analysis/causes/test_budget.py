import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from pgtrial.analysis.causes.budget import compare_budgets, describe_budgets
from pgtrial.analysis.causes.explain import tell_why
from pgtrial.analysis.evidence import Evidence, read_evidence
from pgtrial.analysis.observations import Values, index_values, observe_runs
from pgtrial.analysis.reduce import reduce_runs
from pgtrial.analysis.reduction import Reduction, SessionGroup, Totals
from pgtrial.analysis.slices import windows
from pgtrial.findings.message import say
from pgtrial.findings.session_time import (
    CPU,
    CPU_QUEUE,
    IDLE_IN_TRANSACTION,
    OUTSIDE,
    POOL,
    SCHEDULE_LAG,
    BudgetDifference,
    BudgetPart,
    LatencyBudget,
)
from pgtrial.model.metrics import POOL_WAIT
from support import EXPERIMENT, Simulation, write_result_folder

LATENCY, TPS = "pgbench.latency_mean", "pgbench.tps"
LEVELS = EXPERIMENT.replace("clients = 4", "clients = [4, 9]").replace('"10s"', '"4s"')


@pytest.fixture(scope="module")
def levels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Evidence, Reduction, Values]:
    """Six blocks at two load levels; accounts of the kernel, and sessions between two statements."""
    simulation = Simulation(
        waits={
            ("active", "", ""): 0.4,
            ("active", "IO", "WALSync"): 0.2,
            ("idle in transaction", "Client", "ClientRead"): 0.25,
            ("idle", "Client", "ClientRead"): 0.15,
        }
    )
    folder = write_result_folder(tmp_path_factory.mktemp("budget") / "levels", text=LEVELS, simulation=simulation)
    evidence = read_evidence(folder)
    reduction = reduce_runs(evidence)
    increases = dict(reduction.increases)
    for run, level in ((run.id, level) for run in evidence.valid for level in evidence.levels):
        # In 4 s, of 0.4 sessions per client without a wait: a quarter on a CPU.
        increases[run, level.index, "backend_cpu.run"] = {"client backend": 4 * 0.1 * level.clients}
        increases[run, level.index, "backend_cpu.queue"] = {"client backend": 4 * 0.3 * level.clients}
    return evidence, replace(reduction, increases=increases), index_values(observe_runs(evidence, reduction))


def find(budgets: tuple[LatencyBudget, ...], arm: str, level: int | str = "all") -> LatencyBudget:
    (found,) = (b for b in budgets if (b.arm, b.load_level, b.scenario) == (arm, level, None))
    return found


def seconds(parts: tuple[BudgetPart, ...]) -> dict[tuple[str, str], float]:
    return {(part.kind, part.event): part.seconds.value for part in parts}


def test_the_parts_add_up_to_the_mean_latency(levels: tuple[Evidence, Reduction, Values]) -> None:
    budgets = describe_budgets(*levels)

    assert {(b.arm, b.load_level) for b in budgets} == {(a, n) for a in ("on", "off", "placebo") for n in (0, 1, "all")}
    for budget in budgets:
        assert sum(seconds(budget.parts).values()) == pytest.approx(budget.latency.value, rel=1e-12)


def test_each_part_is_its_sessions_over_the_throughput(
    evidence: Evidence, reduction: Reduction, values: Values
) -> None:
    budget = find(describe_budgets(evidence, reduction, values), "on", 0)
    runs = evidence.runs_of("on")
    per_session = np.mean([1 / values[run.id, TPS, None, 0] for run in runs])

    # 0.4, 0.3 and 0.1 of 4 clients; the 0.2 that idle are what is left.
    assert seconds(budget.parts) == pytest.approx(
        {
            ("LWLock", "WALWrite"): 1.6 * per_session,
            (CPU, ""): 1.2 * per_session,
            ("IO", "WALSync"): 0.4 * per_session,
            (OUTSIDE, ""): 0.8 * per_session,
        },
        rel=1e-3,
    )
    assert budget.latency.value == pytest.approx(np.mean([values[run.id, LATENCY, None, 0] for run in runs]))


def test_sampling_accounts_for_all_the_time_of_a_closed_loop(
    evidence: Evidence, reduction: Reduction, values: Values
) -> None:
    for budget in describe_budgets(evidence, reduction, values):
        assert budget.closure == pytest.approx(1, abs=1e-3)


def test_parts_are_ordered_by_size(levels: tuple[Evidence, Reduction, Values]) -> None:
    for parts in (
        *(budget.parts for budget in describe_budgets(*levels)),
        *(difference.parts for difference in compare_budgets(*levels)),
    ):
        sizes = [abs(part.seconds.value) for part in parts]
        assert sizes == sorted(sizes, reverse=True)


def test_cpu_and_its_queue_are_parts_of_their_own(levels: tuple[Evidence, Reduction, Values]) -> None:
    budget = find(describe_budgets(*levels), "on", 1)
    parts = seconds(budget.parts)

    assert parts[CPU_QUEUE, ""] == pytest.approx(3 * parts[CPU, ""])
    assert parts[CPU, ""] + parts[CPU_QUEUE, ""] == pytest.approx(0.4 * budget.latency.value, rel=0.01)
    assert parts[IDLE_IN_TRANSACTION, ""] == pytest.approx(0.25 * budget.latency.value, rel=0.03)
    assert parts[OUTSIDE, ""] == pytest.approx(0.15 * budget.latency.value, rel=0.05)


def test_all_levels_together_are_the_mean_of_the_levels(levels: tuple[Evidence, Reduction, Values]) -> None:
    budgets = describe_budgets(*levels)
    every, first, second = (find(budgets, "off", level) for level in ("all", 0, 1))

    assert every.latency.value == pytest.approx((first.latency.value + second.latency.value) / 2)
    for kind, value in seconds(every.parts).items():
        assert value == pytest.approx((seconds(first.parts)[kind] + seconds(second.parts)[kind]) / 2)


def test_intervals_are_those_of_student_over_the_blocks(
    evidence: Evidence, reduction: Reduction, values: Values
) -> None:
    latencies = [values[run.id, LATENCY, None, 0] for run in evidence.runs_of("off")]
    found = find(describe_budgets(evidence, reduction, values), "off", 0).latency

    # scipy as an independent implementation.
    low, high = stats.t.interval(0.95, len(latencies) - 1, loc=np.mean(latencies), scale=stats.sem(latencies))
    assert (found.low, found.high) == pytest.approx((low, high))


def find_difference(differences: tuple[BudgetDifference, ...], arm: str, level: int | str) -> BudgetDifference:
    (found,) = (d for d in differences if (d.arm, d.load_level) == (arm, level))
    return found


def test_the_difference_adds_up_and_its_intervals_are_over_pairs_of_a_block(
    evidence: Evidence, reduction: Reduction, values: Values
) -> None:
    differences = compare_budgets(evidence, reduction, values)
    assert {(d.arm, d.control, d.load_level) for d in differences} == {
        (arm, "on", level) for arm in ("off", "placebo") for level in (0, "all")
    }
    for each in differences:
        assert sum(seconds(each.parts).values()) == pytest.approx(each.difference.value, abs=1e-12)

    found = find_difference(differences, "off", 0).difference
    one, other = ([values[pair[side].id, LATENCY, None, 0] for pair in evidence.pairs("off")] for side in (0, 1))
    # A regression on the place in the block as an independent implementation.
    sides = [1.0 if run.slot.position > control.slot.position else -1.0 for control, run in evidence.pairs("off")]
    table = np.column_stack((np.ones(len(sides)), sides))
    fit, (residuals,), *_ = np.linalg.lstsq(table, np.subtract(other, one))
    degrees = len(sides) - 2
    error = math.sqrt(np.linalg.inv(table.T @ table)[0, 0] * residuals / degrees)
    half = stats.t.ppf(0.975, degrees) * error
    assert found.value == pytest.approx(fit[0])
    assert (found.low, found.high) == pytest.approx((fit[0] - half, fit[0] + half))


def test_a_difference_is_the_difference_of_the_budgets(levels: tuple[Evidence, Reduction, Values]) -> None:
    budgets = describe_budgets(*levels)
    found = find_difference(compare_budgets(*levels), "off", 1)

    one, other = (seconds(find(budgets, arm, 1).parts) for arm in ("on", "off"))
    assert seconds(found.parts) == pytest.approx({kind: other[kind] - one[kind] for kind in one})


def test_a_wait_that_one_run_did_not_have_counts_as_zero_there(
    evidence: Evidence, reduction: Reduction, values: Values
) -> None:
    first = evidence.runs_of("on")[0].id
    lock = SessionGroup(scenario="all", state="active", wait_type="Lock", wait_event="tuple", query="", sessions=1.0)
    sessions = {**reduction.sessions, (first, 0): (*reduction.sessions[first, 0], lock)}
    budget = find(describe_budgets(evidence, replace(reduction, sessions=sessions), values), "on", 0)

    expected = 1.0 / values[first, TPS, None, 0] / len(evidence.runs_of("on"))
    assert seconds(budget.parts)["Lock", "tuple"] == pytest.approx(expected)
    assert sum(seconds(budget.parts).values()) == pytest.approx(budget.latency.value)


def test_a_run_whose_damaged_times_add_up_to_nothing_is_left_out(
    evidence: Evidence, reduction: Reduction, values: Values
) -> None:
    first = evidence.runs_of("on")[0].id
    budgets = describe_budgets(evidence, reduction, {**values, (first, LATENCY, None, 0): 0.0})

    whole = find(describe_budgets(evidence, reduction, values), "on", 0)
    assert find(budgets, "on", 0).latency.value != whole.latency.value
    assert find(budgets, "on", 0).latency.value > 0


def test_a_run_whose_sessions_were_not_sampled_is_left_out(
    evidence: Evidence, reduction: Reduction, values: Values
) -> None:
    kept = {key: value for key, value in reduction.sessions.items() if key[0] == evidence.runs_of("on")[0].id}
    budgets = describe_budgets(evidence, replace(reduction, sessions=kept), values)

    assert {budget.arm for budget in budgets} == {"on"}
    assert all(budget.latency.low is None for budget in budgets)
    assert compare_budgets(evidence, replace(reduction, sessions=kept), values) == ()


def test_times_of_nothing_have_no_budget(levels: tuple[Evidence, Reduction, Values]) -> None:
    evidence, reduction, values = levels
    nothing = {key: 0.0 if key[1] == LATENCY else value for key, value in values.items()}

    assert not describe_budgets(evidence, reduction, nothing)


def test_what_waits_for_a_free_client_is_a_part_of_its_own_in_an_open_loop(mix_folder: Path) -> None:
    evidence = read_evidence(mix_folder)
    reduction = reduce_runs(evidence)
    totals = {
        key: replace(each, lag_sum=0.25 * each.latency_sum) if key[2] is None else each
        for key, each in reduction.totals.items()
    }
    values = index_values(observe_runs(evidence, reduction))
    budgets = describe_budgets(evidence, replace(reduction, totals=totals), values)

    for budget in budgets:
        if budget.scenario is None and isinstance(budget.load_level, int):
            lag = seconds(budget.parts)[OUTSIDE, SCHEDULE_LAG]
            assert lag == pytest.approx(0.25 * budget.latency.value, rel=1e-6)
            assert sum(seconds(budget.parts).values()) == pytest.approx(budget.latency.value)
            # Clients idle because nothing is due: no sum of sessions has to be found again.
            assert budget.closure is None


def test_what_waits_for_a_session_of_a_pool_is_a_part_of_its_own(mix_folder: Path) -> None:
    evidence = read_evidence(mix_folder)
    reduction = reduce_runs(evidence)
    values = index_values(observe_runs(evidence, reduction))
    waited = {  # on average half a client, all the time
        (run.id, window.level, POOL_WAIT): {"": 0.5 * (window.ended - window.started)}
        for run in evidence.valid
        for window in windows(run)
    }
    with_pool = replace(reduction, increases={**reduction.increases, **waited})

    for before, budget in zip(
        describe_budgets(evidence, reduction, values), describe_budgets(evidence, with_pool, values), strict=True
    ):
        parts = seconds(budget.parts)
        assert sum(parts.values()) == pytest.approx(budget.latency.value)
        if budget.scenario is None and isinstance(budget.load_level, int):
            runs = evidence.runs_of(budget.arm)
            ended = [
                values[run.id, TPS, None, budget.load_level]
                * reduction.totals[run.id, budget.load_level, None].attempts
                for run in runs
            ]
            expected = sum(0.5 / each for each in ended) / len(ended)
            assert parts[OUTSIDE, POOL] == pytest.approx(expected)
            assert parts[OUTSIDE, ""] == pytest.approx(seconds(before.parts)[OUTSIDE, ""] - expected)
        else:
            assert (OUTSIDE, POOL) not in parts or budget.scenario is None


def test_a_scenario_with_sessions_of_its_own_has_a_budget_of_its_own(mix_folder: Path) -> None:
    evidence = read_evidence(mix_folder)
    reduction = reduce_runs(evidence)
    first, *others = evidence.scenarios
    # The simulated sessions do not tell scenarios apart; here all of them are the first one's.
    sessions = {
        key: tuple(replace(group, scenario=first) for group in groups) for key, groups in reduction.sessions.items()
    }
    budgets = describe_budgets(
        evidence, replace(reduction, sessions=sessions), index_values(observe_runs(evidence, reduction))
    )

    assert {budget.scenario for budget in budgets} == {None, first}
    assert len(others) == 2


def simulate_sessions(
    rng: np.random.Generator, means: dict[tuple[str, str, str], float], *, clients: int, length: float
) -> tuple[tuple[SessionGroup, ...], Totals, dict[tuple[str, str, str], float]]:
    """Clients that go through states of exponential length again and again, polled ten times a second.

    What polling finds, the transactions that ended, and the mean time that these really spent in each state.
    """
    polls = np.arange(0, length, 0.1)
    seen = dict.fromkeys(means, 0)
    count, spent = 0, dict.fromkeys(means, 0.0)
    for _ in range(clients):
        times = {state: rng.exponential(mean, int(2 * length / sum(means.values()))) for state, mean in means.items()}
        ends = np.cumsum(np.column_stack(list(times.values())).ravel())
        place = np.searchsorted(ends, polls + rng.uniform(0, 0.001))
        for index, state in enumerate(means):
            seen[state] += int(np.sum(place % len(means) == index))
        done = int(np.searchsorted(ends[len(means) - 1 :: len(means)], length))
        count += done
        for state, each in times.items():
            spent[state] += float(each[:done].sum())
    groups = tuple(
        SessionGroup(
            scenario="all", state=state, wait_type=kind, wait_event=event, query="", sessions=number / polls.size
        )
        for (state, kind, event), number in seen.items()
    )
    totals = Totals(count=count, latency_sum=sum(spent.values()), failed=0, skipped=0, late=0)
    return groups, totals, {state: value / count for state, value in spent.items()}


@pytest.mark.parametrize("seed", range(3))
def test_the_budget_finds_the_true_times_of_simulated_sessions(
    evidence: Evidence, reduction: Reduction, seed: int
) -> None:
    means = {
        ("active", "", ""): 0.005,
        ("active", "IO", "DataFileRead"): 0.003,
        ("active", "Lock", "tuple"): 0.002,
        ("idle in transaction", "Client", "ClientRead"): 0.0005,
        ("idle", "Client", "ClientRead"): 0.001,
    }
    groups, totals, true = simulate_sessions(np.random.default_rng(seed), means, clients=8, length=300.0)
    run = evidence.runs_of("on")[0].id
    values: Values = {
        (run, TPS, None, 0): totals.count / 300.0,
        (run, LATENCY, None, 0): totals.latency_sum / totals.count,
    }
    changed = replace(reduction, sessions={(run, 0): groups}, totals={(run, 0, None): totals})

    budget = find(describe_budgets(evidence, changed, values), "on", 0)
    # Of the same transactions three in ten are rolled back at their end: the others take no more time for that.
    count = round(0.7 * totals.count)
    failing = replace(changed, totals={(run, 0, None): replace(totals, count=count, failed=totals.count - count)})
    fewer = {**values, (run, TPS, None, 0): count / 300.0}
    rolled_back = find(describe_budgets(evidence, failing, fewer), "on", 0)
    assert seconds(rolled_back.parts) == pytest.approx(seconds(budget.parts))
    assert rolled_back.closure == pytest.approx(budget.closure)

    # 24 000 sampled sessions: the standard error of a share of 0.45 is 0.3 %, of 0.04 it is 0.13 %.
    parts = seconds(budget.parts)
    for kind, state in (
        ((CPU, ""), ("active", "", "")),
        (("IO", "DataFileRead"), ("active", "IO", "DataFileRead")),
        (("Lock", "tuple"), ("active", "Lock", "tuple")),
        ((IDLE_IN_TRANSACTION, ""), ("idle in transaction", "Client", "ClientRead")),
        ((OUTSIDE, ""), ("idle", "Client", "ClientRead")),
    ):
        assert parts[kind] == pytest.approx(true[state], abs=0.015 * budget.latency.value)
    assert budget.closure == pytest.approx(1, abs=0.01)


def test_what_is_twice_as_fast_in_every_block_is_faster_also_where_seconds_scatter(
    evidence: Evidence, reduction: Reduction, values: Values
) -> None:
    """One block on a machine that is busy: its seconds are thirty times those of the others, its ratio is as theirs."""
    slowed = dict(values)
    for run in (run for run in evidence.valid if run.slot.block == 3):
        slowed[run.id, LATENCY, None, 0] *= 30
        slowed[run.id, TPS, None, 0] /= 30
    found = find_difference(compare_budgets(evidence, reduction, slowed), "off", "all")

    assert found.difference.side() == 0
    assert found.ratio is not None
    assert found.ratio.value == pytest.approx(0.5, rel=0.1)
    assert found.side() == -1
    assert say(tell_why(evidence, [found], ())) == (
        "A transaction of off takes less time than one of on; how much less differs so much from block to block that "
        "it cannot be split into parts."
    )


def test_findings_of_earlier_versions_have_no_ratio_and_the_seconds_decide(
    evidence: Evidence, reduction: Reduction, values: Values
) -> None:
    found = find_difference(compare_budgets(evidence, reduction, values), "off", "all")

    assert found.model_copy(update={"ratio": None}).side() == found.side() == -1
