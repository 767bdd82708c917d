"""Since when what is ready may have been so."""

import selectors
import socket
import threading
import time

import pytest

from pgtrial.workloads.replay.arrivals import Arrivals, timed


@pytest.fixture
def pair():
    near, far = socket.socketpair()
    with near, far:
        yield near, far


@pytest.fixture
def arrivals(pair):
    selector = Arrivals(1)
    selector.register(pair[0], selectors.EVENT_READ)
    yield selector
    selector.close()


def test_what_came_while_the_loop_was_at_work_may_have_come_since_it_looked(arrivals, pair) -> None:
    before = time.time()
    assert arrivals.select(0) == []
    looked = time.time()
    pair[1].send(b"x")
    time.sleep(0.05)  # at work

    ((key, _),) = arrivals.select()

    assert key.fd == pair[0].fileno()
    since = arrivals.take(key.fd)
    assert since is not None
    assert before <= since <= looked
    assert arrivals.take(key.fd) is None


def test_what_was_waited_for_has_come_then(arrivals, pair) -> None:
    sent: list[float] = []

    def send() -> None:
        sent.append(time.time())
        pair[1].send(b"x")

    timer = threading.Timer(0.05, send)
    arrivals.begin()
    timer.start()

    arrivals.select()
    timer.join()

    since = arrivals.take(pair[0].fileno())
    assert since is not None
    assert since >= sent[0] - 0.001  # what the kernel counts may begin a little before
    assert arrivals.busy < 1


def test_only_until_an_answer_comes_it_is_the_turn_of_the_server(arrivals, pair) -> None:
    def work():
        yield 1
        return "done"

    measured = timed(work(), pair[0].fileno(), arrivals)
    next(measured)
    begun = time.time()
    pair[1].send(b"x")
    arrivals.select()
    seen = time.time()
    time.sleep(0.05)  # before anybody handles it

    with pytest.raises(StopIteration) as end:
        measured.send(1)

    value, served = end.value.value
    assert value == "done"
    assert 0 <= served <= seen - begun + 0.01


def test_a_timeout_ends_when_it_should_though_it_is_waited_for_in_two_parts(arrivals, pair) -> None:
    ends = time.monotonic() + 0.1

    assert arrivals.select(0.1) == []
    assert time.monotonic() >= ends


@pytest.mark.parametrize("after", [0.01, 0.0975])  # in the first part of the wait, and about where the second begins
def test_what_comes_within_a_timeout_is_seen(arrivals, pair, after: float) -> None:
    timer = threading.Timer(after, pair[1].send, [b"x"])
    timer.start()

    found = arrivals.select(0.1) or arrivals.select()
    timer.join()

    assert [key.fd for key, _ in found] == [pair[0].fileno()]
