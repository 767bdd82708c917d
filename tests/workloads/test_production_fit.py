"""The dials of a load like a server's: what a script sends, the mean of what is measured, and the search."""

import asyncio
import math
import random

import pytest

from pgtrial.workloads.production.draws import Dial
from pgtrial.workloads.production.fit import (
    CLOSE,
    choose,
    is_enough,
    mean_of,
    ratio_near,
    search,
    search_all,
    statement_of,
)
from pgtrial.workloads.production.record import dials_of

DRAW = "\\set n random(1, 20000)\nSELECT p.* FROM pgtrial_workload.s001 AS p WHERE n = :n \\gset\n"


@pytest.mark.parametrize(
    ("script", "found"),
    [
        (
            f"{DRAW}SELECT a::text FROM t WHERE k = :v0_1 AND b < :v0_2 OR k = :v0_1;\n",
            ("SELECT a::text FROM t WHERE k = $1 AND b < $2 OR k = $1", ("v0_1", "v0_2")),
        ),
        (f"{DRAW}BEGIN;\nSELECT 1 FROM t WHERE k = :v0_1;\nCOMMIT;\n", None),
        ("SELECT 1 FROM t;\n", None),
        (f"{DRAW}SELECT 1 FROM t;\n", None),
        ("SELECT clock_timestamp() AS v0_1 \\gset\nSELECT 1 FROM t WHERE k < :v0_1;\n", None),
    ],
)
def test_the_only_statement_of_a_script_is_what_is_measured(script, found):
    assert statement_of(script) == found


@pytest.mark.parametrize("kind", [Dial.KEYS, Dial.WIDTH])
@pytest.mark.parametrize("target", [3.0, 10.0, 250.0, 40_000.0])
def test_the_search_ends_where_blocks_are_those_of_the_original(kind, target):
    rows = [10**6 // rank for rank in range(1, 2001)]

    async def measure(value: float) -> float:
        if kind is not Dial.KEYS:
            return 2.5 + 20 * value
        weights = [(each + 0.5) ** value for each in rows]
        return 2 + sum(w * each / 100 for w, each in zip(weights, rows, strict=True)) / sum(weights)

    fitted = asyncio.run(search(kind, 1.0, target, measure))
    reachable = (
        target if kind is Dial.WIDTH else min(max(target, asyncio.run(measure(-2.0))), asyncio.run(measure(8.0)))
    )
    assert fitted.blocks == pytest.approx(reachable, rel=CLOSE)
    assert asyncio.run(measure(fitted.value)) == pytest.approx(fitted.blocks)


def test_what_no_value_changes_is_tried_a_few_times_only():
    tried = []

    async def measure(value: float) -> float:
        tried.append(value)
        return 3.0

    assert asyncio.run(search(Dial.KEYS, 1.0, 4.0, measure)).blocks == pytest.approx(3)
    assert len(tried) <= 12


def test_blocks_that_grow_and_fall_are_found_on_either_side():
    async def measure(value: float) -> float:
        return 1 + 100 * math.exp(-((value - 2) ** 2))

    for start in (0.0, 1.0, 4.0):
        assert asyncio.run(search(Dial.KEYS, start, 60.0, measure)).blocks == pytest.approx(60, rel=CLOSE)


@pytest.mark.parametrize("target", [0.5, 5.0, 50.0])
def test_less_of_a_rare_value_is_found_as_well_as_more(target):
    async def measure(value: float) -> float:
        rare, common = 0.01 * 0.01**value, 0.99 * 0.99**value
        return (100 * rare + 0.1 * common) / (rare + common)

    fitted = asyncio.run(search(Dial.OTHERS, 0.0, target, measure))
    assert fitted.blocks == pytest.approx(target, rel=CLOSE)


def test_a_dial_that_did_not_reach_is_turned_again_where_the_other_stands_now():
    """Newest rows of a rare state: hot keys alone do not find them, and a rare state alone not of hot keys."""
    rows = {(rank, state): share * 1000 / rank for rank in range(1, 300) for state, share in ((0, 0.9), (1, 0.1))}

    async def measure(dials):
        def weight(key):
            return rows[key] ** dials[Dial.KEYS] * (0.9, 0.1)[key[1]] ** dials[Dial.OTHERS]

        blocks = {key: 10_000 if key[0] <= 5 and key[1] else 50 for key in rows}
        return sum(weight(key) * blocks[key] for key in rows) / sum(map(weight, rows))

    start = {Dial.KEYS: 1.0, Dial.OTHERS: 0.0}
    found = asyncio.run(search_all(start, 9500.0, measure))

    stands = {kind: fitted.value for kind, fitted in found.items()}
    assert asyncio.run(measure(stands)) == pytest.approx(9500, rel=CLOSE)
    assert [*found.values()][-1].blocks == pytest.approx(9500, rel=CLOSE)  # the last that was turned is the last one


def test_one_state_is_asked_for_where_all_of_them_do_not_reach():
    """As by WHERE state = 'open': neither the most common one nor the rarest."""
    states = {1: 0.6, 2: 0.2, 3: 0.15, 4: 0.05}
    rows = {(rank, state): share * 1000 / rank for rank in range(1, 300) for state, share in states.items()}
    tried = []

    async def measure(dials):
        tried.append(dials)
        weights = {
            key: each ** dials[Dial.KEYS] * states[key[1]] ** dials[Dial.OTHERS] * (dials[Dial.ONLY] in (0, key[1]))
            for key, each in rows.items()
        }
        blocks = {key: 10_000 if key[0] <= 5 and key[1] == 3 else 50 for key in rows}
        return sum(weights[key] * blocks[key] for key in rows) / sum(weights.values())

    start = {Dial.KEYS: 1.0, Dial.OTHERS: 0.0, Dial.ONLY: 0.0}
    found = asyncio.run(search_all(start, 8000.0, measure))

    assert found[Dial.ONLY].value == 3
    stands = {**start, **{kind: fitted.value for kind, fitted in found.items()}}
    assert asyncio.run(measure(stands)) == pytest.approx(8000, rel=CLOSE)

    tried.clear()
    again = asyncio.run(search_all(stands, 7000.0, measure, is_first=False))
    assert again[Dial.KEYS].blocks == pytest.approx(7000, rel=CLOSE)
    asyncio.run(search_all(stands, 90_000.0, measure, is_first=False))  # more than there is
    assert {dials[Dial.ONLY] for dials in tried} == {3}


def test_dials_that_are_not_needed_stay():
    async def measure(dials):
        return 10 * dials[Dial.KEYS] + dials[Dial.OTHERS]

    found = asyncio.run(search_all({Dial.KEYS: 1.0, Dial.OTHERS: 0.0}, 20.0, measure))

    assert [*found] == [Dial.KEYS]
    assert found[Dial.KEYS].blocks == pytest.approx(20, rel=CLOSE)


def test_a_try_that_is_just_near_enough_is_not_the_last():
    """Sent once more, it would be too far off as often as not."""
    assert not is_enough([0.09])
    assert is_enough([0.3, 0.04])
    assert not is_enough([0.09, 0.08, 0.07])
    assert is_enough([0.09, 0.08, 0.07, 0.06])


def test_loads_that_were_near_the_original_say_how_blocks_of_a_load_differ_from_those_of_single_calls():
    """Where a statement goes through what the load itself has written, that depends on what is asked for."""
    far, near = (1000.0, 1000.0), (9600.0, 16_000.0)

    assert ratio_near(10_000, []) == 1
    assert ratio_near(10_000, [near]) == pytest.approx(0.6)
    assert ratio_near(10_000, [far, near]) == pytest.approx(0.6, rel=0.01)
    assert ratio_near(10_000, [(10_100, 10_000), (9900, 10_000)]) == pytest.approx(1, rel=0.001)  # chance: their mean


def test_the_mean_of_a_long_tail_is_found_from_a_few_hundred_calls():
    counts = sorted((max(1, round(6000 * rank**-1.1)) for rank in range(1, 5001)), reverse=True)
    blocks = [2 + 30_000 * rank**-0.9 for rank in range(1, 5001)]
    truth = sum(count * each for count, each in zip(counts, blocks, strict=True)) / sum(counts)
    errors = []
    for seed in range(50):
        chosen = choose(counts, 200, seed=seed)
        places = {*chosen[0], *chosen[1]}
        errors.append(mean_of(counts, chosen, {place: blocks[place] for place in places}) / truth - 1)
    assert max(map(abs, errors)) < 0.02
    assert abs(sum(errors) / len(errors)) < 0.003


def test_few_parameters_are_all_measured():
    counts = [random.Random(1).randint(1, 9) for _ in range(40)]
    chosen = choose(counts, 200, seed=1)
    assert chosen == (list(range(40)), [])
    assert mean_of(counts, chosen, dict(enumerate(map(float, counts)))) == pytest.approx(
        sum(count**2 for count in counts) / sum(counts)
    )


@pytest.mark.parametrize("line", ["keys = 'x'", "width = '0'", "width = '-1'", "keys = 'nan'", "other = '1'"])
def test_a_dial_of_somebody_else_that_is_none_is_an_error(line):
    assert dials_of("SET pgtrial_workload.s001_keys = '1.5';", "s001") == {Dial.KEYS: 1.5}
    with pytest.raises(ValueError):  # noqa: PT011
        dials_of(f"SET pgtrial_workload.s001_{line};", "s001")
