import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrial.design.levels import ScenarioShare, split_clients
from pgtrial.errors import SpecError


def shares(*values: float) -> list[ScenarioShare]:
    return [ScenarioShare(name=f"s{n}", share=value) for n, value in enumerate(values)]


@pytest.mark.parametrize(
    ("total", "expected"),
    [
        (3, [1, 1, 1]),
        (5, [3, 1, 1]),
        (10, [7, 2, 1]),
        (22, [16, 4, 2]),  # 15.4, 4.4, 2.2: the client that is left goes to the first of the largest remainders
        (100, [70, 20, 10]),
    ],
)
def test_clients_are_split_by_largest_remainders(total: int, expected: list[int]) -> None:
    assert list(split_clients(total, shares(7, 2, 1)).values()) == expected


def test_constant_sessions_come_on_top() -> None:
    scenarios = [
        ScenarioShare(name="a", share=3.0),
        ScenarioShare(name="monitor", sessions=2),
        ScenarioShare(name="b"),
    ]

    assert split_clients(8, scenarios) == {"a": 6, "monitor": 2, "b": 2}


def test_only_constant_sessions_leave_the_total_unused() -> None:
    assert split_clients(8, [ScenarioShare(name="a", sessions=2)]) == {"a": 2}


def test_fewer_clients_than_scenarios_are_refused() -> None:
    with pytest.raises(SpecError, match="2 clients are too few for 3 scenarios"):
        split_clients(2, shares(1, 1, 1))


@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=6), st.integers(0, 500))
def test_the_parts_add_up_and_nobody_is_left_out(values: list[float], more: int) -> None:
    total = len(values) + more

    split = split_clients(total, shares(*values))

    assert sum(split.values()) == total
    assert min(split.values()) >= 1


@given(st.lists(st.integers(1, 50), min_size=1, max_size=5), st.integers(1, 20))
def test_no_part_is_a_client_or_more_away_from_its_share(values: list[int], factor: int) -> None:
    total = sum(values) * factor  # every quota is whole and at least one

    assert list(split_clients(total, shares(*values)).values()) == [value * factor for value in values]
