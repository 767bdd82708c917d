import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrial.design.slices import has_whole_cores, split_cpus


@pytest.mark.parametrize(
    ("cores", "count", "sets"),
    [
        ([(0,), (1,)], 2, ((0,), (1,))),
        ([(0, 4), (1, 5), (2, 6), (3, 7)], 2, ((0, 4, 1, 5), (2, 6, 3, 7))),
        ([(0, 1)], 2, ((0,), (1,))),
        ([(0,), (1,), (2,)], 2, ((0,), (1,))),
        ([(0, 3), (1,), (2,)], 3, ((0,), (1,), (2,))),
        ([(0,)], 2, None),
    ],
)
def test_whole_cores_that_are_neighbours_make_a_set(cores, count, sets):
    assert split_cpus(cores, count) == sets


def test_parts_of_one_core_are_told():
    assert has_whole_cores([(0, 1), (2, 3)], 2)
    assert not has_whole_cores([(0, 1)], 2)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=12), st.integers(2, 6))
def test_sets_are_equal_and_have_nothing_in_common(sizes, count):
    cpus = iter(range(sum(sizes)))
    sets = split_cpus([[next(cpus) for _ in range(size)] for size in sizes], count)

    if sets is None:
        assert sum(sizes) < count
        return
    every = [cpu for chosen in sets for cpu in chosen]
    assert len(sets) == count
    assert len({len(chosen) for chosen in sets}) == 1
    assert len(set(every)) == len(every)
