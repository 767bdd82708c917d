"""What a program tells of the time in which it stood still, and what follows from it."""

import random

import pytest

from pgtrial.store.command_line import Told
from pgtrial.workloads.standstill import Standstill, judge_standstill, plan_stops

READY = 100.0
STOPS = ((101.0, 102.0), (103.5, 104.5), (106.0, 107.0))
END = 108.5


def request(t, latency):
    return Told(t=t, seconds=0.0, latencies=((latency, 1),), failed=0, lag=None, retries=0)


def busy(*, step=0.01, in_flight=0.01):
    """A client that is always at work; ``in_flight`` is what it tells of the request during which it was stopped."""
    told, t = [], READY
    while (t := t + step) < END:
        for begun, ended in STOPS:
            if begun <= t < ended:
                t = ended + step
                told.append(request(t, in_flight))
                break
        else:
            told.append(request(t, step))
    return told


def judge(told, clients=1):
    return judge_standstill(told, STOPS, clients=clients, ready=READY)


def test_a_request_that_took_as_long_as_the_stop_has_it_in_its_latency():
    found = judge(busy(in_flight=1.01))

    assert found.found is Standstill.COUNTED
    assert (found.longest, found.usual) == (1.01, 0.01)
    assert found.text == (
        "stopped 3 times for 1 s, it tells of a request that took 1.01 s, and of none that took longer than 10 ms "
        "without the stops"
    )


def lengthened(told, latency):
    """Requests, of which the first ones after stops took as long."""
    ends = [min(one.t for one in told if one.t > end) for _, end in STOPS]
    return [request(one.t, latency) if one.t in ends else one for one in told]


@pytest.mark.parametrize(
    ("told", "clients", "why"),
    [
        ([*busy()[:-1], request(busy()[-1].t, 0.9)], 1, "which is 900 ms without the stop"),
        (lengthened(busy(), 0.6), 1, "and of some that have a part of a stop in their times"),
        (busy(in_flight=1.01) + busy(in_flight=0.01), 2, "but only of 3 that have a whole stop in their times"),
        (busy(in_flight=1.01) + busy(in_flight=0.02), 2, "and of some that have a part of a stop in their times"),
        # Beside other work clients are less at work, so fewer requests are in flight: one of each kind is enough.
        (
            busy(in_flight=1.01)
            + [request(one.t, 0.02 if one.latencies[0][0] > 0.01 else 0.0065) for one in busy(in_flight=0.02)],
            2,
            "and of some that have a part of a stop in their times",
        ),
        (
            [one for one in busy(in_flight=1.01) if not 102 < one.t < 102.015],
            1,
            "but only of 2 that have a whole stop in their times",
        ),
    ],
)
def test_what_counts_a_part_of_it_cannot_have_it_taken_out(told, clients, why):
    found = judge(sorted(told, key=lambda one: one.t), clients=clients)

    assert found.found is Standstill.PARTLY
    assert found.text.endswith(why)


def test_clients_that_pause_by_the_clock_catch_up_and_cannot_take_turns():
    pausing = [request(one.t, 0.005) for one in busy()]  # half of the time; their pauses run out while they stand still
    told = lengthened(pausing, 1.005)

    found = judge(told)
    assert found.found is Standstill.UNKNOWN
    assert "what they wait for goes on meanwhile" in found.text


def test_the_last_stop_is_as_long_as_the_longest_turns_of_others():
    def lengths(longest):
        return [length for _, length in plan_stops(longest, random.Random(1))]

    assert lengths(4.5) == [1.0, 1.0, 1.0, 1.0, 1.0, 4.5]
    assert lengths(0.3) == [1.0] * 6
    assert lengths(600.0)[-1] == 60.0


def test_stops_come_at_any_moment_of_a_programs_rhythm():
    period = 0.04
    phases = [
        sum(work for work, _ in plan_stops(1.0, random.Random(seed))[:number]) % period / period
        for seed in range(200)
        for number in range(2, 7)
    ]

    share = sum(phase < 0.5 for phase in phases) / len(phases)
    assert share == pytest.approx(0.5, abs=0.06)


def test_a_client_that_gives_up_sooner_than_that_is_found_out():
    stops = ((101.0, 102.0), (103.5, 104.5), (106.0, 110.0))
    told = [request(t / 100, 0.01) for t in range(10001, 11150) if not any(a < t / 100 <= b for a, b in stops)]
    ends = {min(one.t for one in told if one.t > end): end - start for start, end in stops}
    # Its requests are given up after 1.5 s, and tried again: what it tells of the last stop is the second try's time.
    told = [request(one.t, min(1.5, ends[one.t]) + 0.01) if one.t in ends else one for one in told]

    assert judge_standstill(told, stops, clients=1, ready=READY).found is Standstill.PARTLY


def test_a_program_whose_clock_stands_still_with_it_does_not_count_it():
    found = judge(busy(in_flight=0.012))

    assert found.found is Standstill.NOT_COUNTED
    assert found.text == "stopped 3 times for 1 s, it tells of no request that took longer than 12 ms"


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (
            [*busy(), Told(t=108.0, seconds=1.0, latencies=((0.01, 5),), failed=0, lag=None, retries=0)],
            "many requests at once",
        ),
        ([one for one in busy() if one.t > 102], "no request before it was stopped"),
        ([one for one in busy() if one.t < 107], "no request after it had been stopped"),
        ([request(one.t, 0.6) for one in busy()], "take up to 600 ms anyway"),
        (
            [*busy(), Told(t=104.6, seconds=0.0, latencies=(), failed=1, lag=None, retries=0)],
            "requests failed",
        ),
        ([*busy(), request(101.5, 0.01)], "its times are not those of the clock"),
        ([request(one.t, 0.004) for one in busy()], "at work for 39.6 % of the time"),
    ],
)
def test_what_cannot_be_told_is_not_taken_for_granted(told, why):
    found = judge(told)

    assert found.found is Standstill.UNKNOWN
    assert why in found.text
