import random
import time

from pgtrial.fleet.differences import SLOW, find_differing, find_slow


def test_a_slow_host_is_named_and_no_other():
    (text,) = find_slow({"a": [10, 10], "b": [11, 10], "c": [30, 31]})

    assert text == "c is slow: a block takes it more than 1.5 times as long as the others."


def test_one_slow_block_says_nothing():
    assert list(find_slow({"a": [10, 10], "b": [30]})) == []


def test_a_host_alone_is_not_slow():
    assert list(find_slow({"a": [10, 50, 90]})) == []


def test_the_median_is_that_of_the_others():
    rng = random.Random(1)
    for count in (2, 3, 4, 5, 8, 9):
        for _ in range(200):
            seconds = {
                f"h{number}": [rng.choice((1.0, 1.5, 2.0, 3.0, rng.uniform(1, 4)))] * 2 for number in range(count)
            }
            slow = set()
            for host, (own, _other) in seconds.items():
                others = sorted(each[0] for name, each in seconds.items() if name != host)
                if own > SLOW * others[len(others) // 2]:
                    slow.add(host)
            assert {text.partition(" ")[0] for text in find_slow(seconds)} == slow


def test_a_thousand_hosts_are_compared_after_each_block():
    seconds = {f"h{number}": [10.0 + number / 1000] * 5 for number in range(1000)}
    began = time.process_time()
    for _ in range(10):
        list(find_slow(seconds))

    assert time.process_time() - began < 0.5


def test_what_differs_is_not_told_again_with_every_host_that_comes():
    told, facts = set[str](), {}
    for number in range(200):
        facts[f"h{number:03d}"] = {"kernel/release": ("6.1", "6.8")[number % 2]}
        told |= set(find_differing(facts))

    assert len(told) < 20
    (text,) = find_differing(facts)
    assert text.startswith(
        "the kernel is not the same on all hosts: 6.1 on h000, h002, h004, h006 and others; 6.8 on h001, h003,"
    )


def test_few_hosts_are_all_named():
    (text,) = find_differing({"b": {"machine/CPU": "x"}, "a": {"machine/CPU": "y"}, "c": {"machine/CPU": "x"}, "d": {}})

    assert (
        text
        == "the kind of CPU is not the same on all hosts: x on b, c; y on a. The effect may differ between them, too."
    )
