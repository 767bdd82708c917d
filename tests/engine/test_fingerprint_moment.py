from dataclasses import replace

import pytest

from pgtrial.engine.fingerprint.moment import ProcessTime, compare_times, moment_facts
from pgtrial.model.fingerprint import (
    CPU_ALL,
    CPU_KERNEL,
    CPU_OTHERS,
    CPU_OWN,
    CPU_STEAL,
    CPU_TASKS,
    OOM_KILLS,
    OTHERS,
    SWAP_USED,
    SWAPPED,
    THERMAL,
)


def process(pid: int, seconds: float, *, name: str = "", parent: int = 1, whose: str = "other") -> ProcessTime:
    return ProcessTime(
        pid=pid, parent=parent, start_ticks=pid * 10, whose=whose, name=name or f"p{pid}", seconds=seconds
    )


def test_cpu_time_is_told_in_seconds():
    # user nice system idle iowait irq softirq steal guest guest_nice, in hundredths of a second
    texts = {"/proc/stat": "cpu  1000 200 300 5000 400 50 60 70 900 0\ncpu0 1 2 3\nintr 5\n"}

    assert moment_facts(texts, page_size=4096) == {CPU_ALL: "70.80", CPU_TASKS: "15.00", CPU_STEAL: "0.70"}


def test_swap_and_throttling_are_counted():
    texts = {
        "/proc/meminfo": "SwapTotal: 1000 kB\nSwapFree: 400 kB\n",
        "/proc/vmstat": "pswpin 3\npswpout 7\noom_kill 2\n",
        "/sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count": "4\n",
        "/sys/devices/system/cpu/cpu1/thermal_throttle/package_throttle_count": "5\n",
    }

    assert moment_facts(texts, page_size=4096) == {
        SWAP_USED: str(600 * 1024),
        SWAPPED: str(10 * 4096),
        OOM_KILLS: "2",
        THERMAL: "9",
    }


def test_a_kernel_that_tells_nothing_has_no_facts():
    assert moment_facts({"/proc/stat": "cpu  1 2 3\n"}, page_size=4096) == {}


def test_cpu_time_between_two_moments_is_told_by_whose_it_was():
    before = [process(10, 5.0, whose="own"), process(20, 1.0, name="restic"), process(30, 0.5, whose="kernel")]
    after = [
        process(10, 25.0, whose="own"),
        process(20, 4.0, name="restic"),
        process(30, 1.5, whose="kernel"),
        process(40, 1.0, name="cron"),
    ]

    assert compare_times(before, after, cpu_seconds=40.0) == {
        CPU_OWN: "20.00",
        CPU_KERNEL: "1.00",
        CPU_OTHERS: "4.00",
        OTHERS: "restic 7.5 %, cron 2.5 %",
    }


def test_programs_of_one_name_are_added_and_the_first_three_are_named():
    before = [process(pid, 0.0) for pid in range(1, 9)]
    after = [
        *(process(pid, float(pid)) for pid in range(1, 7)),
        process(7, 4.0, name="same"),
        process(8, 4.0, name="same"),
    ]

    assert compare_times(before, after, cpu_seconds=100.0)[OTHERS] == "same 8.0 %, p6 6.0 %, p5 5.0 %"


def test_what_a_process_used_before_is_not_counted_when_its_parent_waits_for_it():
    # A shell has waited for a program that had used 9 s before the first moment and 2 s after it.
    before = [process(2, 1.0, name="sh"), process(3, 9.0, name="cc", parent=2)]
    after = [process(2, 12.0, name="sh")]

    assert compare_times(before, after, cpu_seconds=10.0) == {
        CPU_OWN: "0.00",
        CPU_KERNEL: "0.00",
        CPU_OTHERS: "2.00",
        OTHERS: "sh 20.0 %",
    }


def test_so_it_is_when_the_parent_has_ended_too():
    before = [process(1, 5.0), process(2, 1.0, parent=1), process(3, 9.0, parent=2)]
    after = [process(1, 16.0)]  # 5 + 1 + 9, and 1 s in all that came after

    assert compare_times(before, after, cpu_seconds=10.0)[CPU_OTHERS] == "1.00"


def test_a_process_that_nobody_waits_for_takes_nothing_away():
    before = [process(2, 9.0, parent=99)]

    assert compare_times(before, [process(5, 1.0)], cpu_seconds=10.0)[CPU_OTHERS] == "1.00"


def test_a_child_that_its_parent_does_not_wait_for_hides_nothing_of_others():
    # Who ignores the signal of its children's end has none of their time.
    before = [process(2, 1.0), process(3, 50.0, parent=2)]
    after = [process(2, 1.2), process(4, 3.0)]

    assert compare_times(before, after, cpu_seconds=10.0) == {
        CPU_OWN: "0.00",
        CPU_KERNEL: "0.00",
        CPU_OTHERS: "3.20",
        OTHERS: "p4 30.0 %, p2 2.0 %",
    }


def test_the_time_of_an_orphan_is_with_init():
    before = [process(1, 7.0), process(2, 1.0), process(3, 1.0, parent=2), process(4, 50.0, parent=3)]
    after = [process(1, 58.5), process(2, 1.0)]  # init waited for both: 51 s from before

    assert compare_times(before, after, cpu_seconds=10.0)[CPU_OTHERS] == "0.50"


def test_parents_that_go_in_a_circle_are_looked_at_once():
    before = [process(2, 1.0, parent=3), process(3, 1.0, parent=2), process(4, 9.0, parent=3)]

    assert compare_times(before, before[:2], cpu_seconds=10.0)[CPU_OTHERS] == "0.00"


def test_another_process_of_the_same_number_is_another_process():
    before = [process(5, 9.0)]
    after = [replace(process(5, 1.0), start_ticks=777)]

    assert compare_times(before, after, cpu_seconds=10.0)[CPU_OTHERS] != "-8.00"
    assert float(compare_times(before, after, cpu_seconds=10.0)[CPU_OTHERS]) >= 0


@pytest.mark.parametrize("passed", [0.0, float("nan")])
def test_no_shares_are_told_where_no_time_has_passed(passed):
    assert OTHERS not in compare_times([], [process(5, 1.0)], cpu_seconds=passed)


def test_what_would_be_written_as_nothing_is_not_named():
    assert OTHERS not in compare_times([], [process(5, 0.01)], cpu_seconds=100.0)
