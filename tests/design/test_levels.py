from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrial.design.levels import load_levels, part_of
from pgtrial.errors import SpecError
from pgtrial.experiment_file.workload_table import WorkloadTable
from pgtrial.model.run import LoadLevel


def levels(**keys: Any) -> list[tuple[int, float | None]]:
    found = load_levels(WorkloadTable.model_validate({"mix": "olap", **keys}))
    assert [level.index for level in found] == list(range(len(found)))
    return [(level.clients, level.rate) for level in found]


def test_a_number_is_one_level() -> None:
    assert load_levels(WorkloadTable.model_validate({"clients": 3})) == (LoadLevel(index=0, clients=3),)


def test_an_exponential_ramp_has_equal_ratios_in_whole_clients() -> None:
    found = levels(clients={"ramp": "exponential", "from": 5, "to": 22, "levels": 6})

    # 22 / 5 = 4.4; 4.4 ** (1/5) = 1.345: 5, 6.72, 9.04, 12.16, 16.36, 22
    assert [clients for clients, _ in found] == [5, 7, 9, 12, 16, 22]


def test_a_linear_ramp_may_go_down() -> None:
    assert [clients for clients, _ in levels(clients={"ramp": "linear", "from": 9, "to": 3, "levels": 3})] == [9, 6, 3]


def test_levels_that_rounding_makes_equal_are_kept_once() -> None:
    found = levels(clients={"ramp": "exponential", "from": 1, "to": 4, "levels": 9})

    assert [clients for clients, _ in found] == [1, 2, 3, 4]


def test_rates_go_with_constant_clients_or_in_step() -> None:
    assert levels(clients=8, rate=[10, 20]) == [(8, 10), (8, 20)]
    assert levels(clients=[4, 8], rate=10) == [(4, 10), (8, 10)]
    assert levels(clients=[4, 8], rate=[10, 20]) == [(4, 10), (8, 20)]
    assert levels(clients=8, rate={"ramp": "linear", "from": 10, "to": 20, "levels": 3}) == [(8, 10), (8, 15), (8, 20)]


def test_lists_of_different_length_are_refused() -> None:
    with pytest.raises(SpecError, match="clients has 3 levels, rate has 2; they must match"):
        levels(clients=[1, 2, 3], rate=[10, 20])


@given(
    ramp=st.sampled_from(["linear", "exponential"]),
    start=st.integers(1, 1000),
    stop=st.integers(1, 1000),
    count=st.integers(2, 100),
)
def test_a_ramp_is_monotonic_distinct_and_has_both_ends(ramp: str, start: int, stop: int, count: int) -> None:
    clients = [clients for clients, _ in levels(clients={"ramp": ramp, "from": start, "to": stop, "levels": count})]

    assert (clients[0], clients[-1]) == (start, stop)
    assert len(set(clients)) == len(clients) <= count
    assert clients == sorted(clients, reverse=start > stop)


@given(
    clients=st.integers(1, 1000),
    machines=st.integers(1, 64),
    rate=st.one_of(st.none(), st.floats(0.1, 1e6)),
)
def test_the_parts_of_machines_make_the_whole_level(clients: int, machines: int, rate: float | None) -> None:
    whole = LoadLevel(index=2, clients=clients, rate=rate)
    parts = [part_of(whole, number, of=machines) for number in range(machines)]

    assert sum(part.clients for part in parts) == clients
    assert max(part.clients for part in parts) - min(part.clients for part in parts) <= 1
    assert {part.index for part in parts} == {2}
    if rate is None:
        assert all(part.rate is None for part in parts)
    else:
        assert sum(part.rate or 0.0 for part in parts) == pytest.approx(rate)
