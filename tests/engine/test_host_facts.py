import os
from dataclasses import dataclass, field

import pytest

from pgtrial.design.method_case import HostFacts
from pgtrial.engine.host_facts import parse_cpus, read_facts
from pgtrial.hosts.local import LocalHost
from pgtrial.hosts.operations import Operations

CPU = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"


@dataclass
class Told(Operations):
    """Answers from texts by path, as the patterns would find them."""

    texts: dict[str, str] = field(default_factory=dict)

    def read_all(self, patterns, limit=65536):
        return dict(self.texts)

    def cpus(self):
        return 8, 2


@pytest.mark.parametrize(
    ("text", "cpus"), [("0-3,8\n", (0, 1, 2, 3, 8)), ("5", (5,)), ("0,2", (0, 2)), ("\n", ()), ("", ())]
)
def test_lists_of_cpus_are_read_as_the_kernel_writes_them(text, cpus):
    assert parse_cpus(text) == cpus


def test_only_cpus_that_may_be_used_are_parts_of_cores():
    texts = {
        "/proc/meminfo": "MemTotal:  100 kB\nMemAvailable:    64 kB\n",
        "/proc/self/status": "Name:\tx\nCpus_allowed_list:\t0-2,5\n",
        **{CPU.format(cpu): f"{cpu % 4},{cpu % 4 + 4}\n" for cpu in range(8)},
    }

    facts = read_facts(LocalHost(ops=Told(texts=texts)))

    assert facts == HostFacts(local=True, cores=((0,), (1, 5), (2,)), memory_available=64 * 1024)


def test_what_the_kernel_does_not_tell_is_not_known():
    facts = read_facts(LocalHost(ops=Told()))

    assert facts == HostFacts(local=True, cores=((0,), (1,)), memory_available=None)


def test_this_machine_has_the_cpus_that_this_process_may_use():
    facts = read_facts(LocalHost())

    assert {cpu for core in facts.cores for cpu in core} == os.sched_getaffinity(0)
    assert facts.memory_available is None or facts.memory_available > 0
