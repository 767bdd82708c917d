import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrial.errors import SpecError
from pgtrial.experiment_file.workload_table import WorkloadTable
from pgtrial.model.run import LoadLevel
from pgtrial.workloads.pgbench import LARGEST_WEIGHT, Generator, integer_weights, plan_generators, split_rate
from pgtrial.workloads.scenarios import Scenario

MIX = (
    Scenario(name="read", script="SELECT 1;", share=0.7, variables=(("scale", "685"),)),
    Scenario(name="insert", script="SELECT 2;", share=0.2, variables=(("scale", "685"),)),
    Scenario(name="update", script="SELECT 3;", share=0.1, variables=(("scale", "685"),)),
)


SECONDS = 30


def plan(
    scenarios: tuple[Scenario, ...] = MIX,
    *,
    clients: int = 10,
    rate: float | None = None,
    logged: bool = True,
    seed: int | None = 1,
    index: int = 0,
    **workload: Any,
) -> tuple[Generator, ...]:
    return plan_generators(
        scenarios,
        LoadLevel(index=index, clients=clients, rate=rate),
        program=Path("pgbench"),
        workload=WorkloadTable.model_validate({"mix": "oltp", **workload}),
        seconds=SECONDS,
        cpus=2,
        directory="/load",
        logged=logged,
        seed=seed,
    )


def options(generator: Generator, name: str) -> list[str]:
    return [word.partition("=")[2] for word in generator.argv_tail if word.partition("=")[0] == name]


def test_sessions_give_each_scenario_a_process_of_its_own() -> None:
    generators = plan()

    assert [g.scenario_names for g in generators] == [("read",), ("insert",), ("update",)]
    assert [g.clients for g in generators] == [7, 2, 1]
    assert [g.environment["PGAPPNAME"] for g in generators] == [
        "pgtrial/read",
        "pgtrial/insert",
        "pgtrial/update",
    ]
    assert [options(g, "--file") for g in generators] == [
        ["read.sql@1"],
        ["insert.sql@1"],
        ["update.sql@1"],
    ]
    assert [options(g, "--client") for g in generators] == [["7"], ["2"], ["1"]]


@given(clients=st.integers(3, 5000))
def test_sessions_add_up_to_what_was_asked(clients: int) -> None:
    assert sum(g.clients for g in plan(clients=clients)) == clients


def test_constant_sessions_come_on_top() -> None:
    watch = Scenario(name="watch", builtin="select-only", sessions=3)

    generators = plan((*MIX, watch), clients=10)

    assert [g.clients for g in generators] == [7, 2, 1, 3]
    assert options(generators[3], "--builtin") == ["select-only@1"]
    assert options(generators[3], "--define") == []


def test_fewer_clients_than_scenarios_is_an_error() -> None:
    with pytest.raises(SpecError):
        plan(clients=2)


def test_transactions_share_one_process_with_weights() -> None:
    (generator,) = plan(share="transactions", rate=100.0)

    assert options(generator, "--file") == ["read.sql@7", "insert.sql@2", "update.sql@1"]
    assert generator.scenario_names == ("read", "insert", "update")
    assert (generator.clients, options(generator, "--rate")) == (10, ["100.0"])
    assert generator.environment["PGAPPNAME"] == "pgtrial/all"
    assert options(generator, "--define") == ["scale=685"]


def test_every_process_never_vacuums_and_reports_each_second_with_the_time() -> None:
    for generator in plan():
        words = generator.argv_tail
        assert {"--no-vacuum", "--progress=1", "--progress-timestamp", "--failures-detailed", "--time=30"} <= {*words}


def test_pgbench_speaks_english_without_colours_whatever_the_environment_says() -> None:
    for generator in plan():
        assert (generator.environment["LC_ALL"], generator.environment["PG_COLOR"]) == ("C", "never")
        assert generator.environment["PGCLIENTENCODING"] == "UTF8"  # as the scripts are read


def test_logs_of_processes_and_levels_have_names_of_their_own() -> None:
    prefixes = [g.log_prefix for index in range(2) for g in plan(index=index)]

    assert prefixes[0] == "level0-read"
    assert len(set(prefixes)) == 6
    assert options(plan()[0], "--log-prefix") == ["level0-read"]


def test_what_is_not_measured_is_not_logged() -> None:
    (generator,) = plan(MIX[:1], logged=False)

    assert generator.log_prefix is None
    assert not [word for word in generator.argv_tail if word.startswith("--log")]


def test_options_of_the_file_reach_pgbench() -> None:
    (generator,) = plan(MIX[:1], protocol="prepared", latency_limit="250us", max_tries=5, threads=6, rate=50.0)

    assert options(generator, "--protocol") == ["prepared"]
    assert options(generator, "--latency-limit") == ["0.25"], "pgbench wants milliseconds"
    assert options(generator, "--max-tries") == ["5"]
    assert options(generator, "--jobs") == ["6"]


def test_threads_are_the_cpus_but_not_more_than_the_clients() -> None:
    assert [options(g, "--jobs") for g in plan()] == [["2"], ["2"], ["1"]]


def test_the_seed_is_the_same_again_and_another_for_each_process_level_and_block() -> None:
    seeds = [
        options(g, "--random-seed")[0] for seed in (1, 2) for index in (0, 1) for g in plan(seed=seed, index=index)
    ]

    assert len(set(seeds)) == 12
    assert seeds[:3] == [options(g, "--random-seed")[0] for g in plan(seed=1, index=0)]
    assert all(0 <= int(seed) < 2**63 for seed in seeds)
    assert seeds[0] == "7352718359580724766", "another number would make old experiments impossible to repeat"


def test_without_a_seed_pgbench_chooses_one() -> None:
    assert options(plan(seed=None)[0], "--random-seed") == []


def test_with_a_rate_pgbench_has_time_until_the_next_transaction_after_what_is_measured() -> None:
    assert [options(generator, "--time") for generator in plan()] == [[str(SECONDS)]] * 3

    for generator in plan(rate=2.0):
        (rate,), (seconds,) = options(generator, "--rate"), options(generator, "--time")
        chance = math.exp(-(int(seconds) - SECONDS) * float(rate))  # that nothing is due for so long
        assert chance < 1.1e-4
        assert math.exp(-(int(seconds) - SECONDS - 1) * float(rate)) > 0.9e-4  # and no second more than it takes


def test_the_rate_is_split_by_share_where_the_clients_had_to_be_rounded() -> None:
    generators = plan(clients=4, rate=1000.0)

    assert [g.clients for g in generators] == [2, 1, 1]
    assert [float(options(g, "--rate")[0]) for g in generators] == [700.0, 200.0, 100.0]


def test_constant_sessions_get_their_clients_part_of_the_rate() -> None:
    watch = Scenario(name="watch", builtin="select-only", sessions=10)

    generators = plan((*MIX, watch), clients=10, rate=1000.0)

    assert [float(options(g, "--rate")[0]) for g in generators] == [350.0, 100.0, 50.0, 500.0]


@given(
    rate=st.floats(1e-3, 1e7),
    shares=st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=6),
    sessions=st.lists(st.integers(1, 50), max_size=2),
)
def test_rates_are_positive_and_add_up_to_what_was_asked(rate: float, shares: list[float], sessions: list[int]) -> None:
    scenarios = [Scenario(name=f"s{i}", builtin="select-only", share=share) for i, share in enumerate(shares)]
    scenarios += [Scenario(name=f"c{i}", builtin="select-only", sessions=count) for i, count in enumerate(sessions)]
    clients = {s.name: s.sessions or 1 for s in scenarios}

    parts = split_rate(rate, scenarios, clients)

    assert sum(parts) == Decimal(repr(rate))
    assert min(parts) > 0


@pytest.mark.parametrize(
    ("shares", "weights"),
    [
        ([0.7, 0.2, 0.1], (7, 2, 1)),
        ([70, 20, 10], (7, 2, 1)),
        ([1, 1, 1], (1, 1, 1)),
        ([1 / 3, 2 / 3], (1, 2)),
        ([0.125, 1], (1, 8)),
        ([5], (1,)),
        ([1e-9, 1], (1, 1_000_000)),
    ],
)
def test_weights_are_the_smallest_whole_numbers_in_the_ratio_of_the_shares(
    shares: list[float], weights: tuple[int, ...]
) -> None:
    assert integer_weights(shares) == weights


@given(st.lists(st.decimals("0.01", "1", places=2).map(float), min_size=1, max_size=8))
def test_weights_of_shares_with_two_digits_are_exact(shares: list[float]) -> None:
    weights = integer_weights(shares)

    ratios = {Fraction(repr(share)) / weight for share, weight in zip(shares, weights, strict=True)}
    assert len(ratios) == 1


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=8))
def test_weights_are_numbers_that_pgbench_takes(shares: list[float]) -> None:
    assert all(1 <= weight <= LARGEST_WEIGHT for weight in integer_weights(shares))
