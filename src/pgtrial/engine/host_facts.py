"""Facts for choosing a method: what the kernel says of CPUs and memory, and what the scripts say of their pauses."""

from dataclasses import replace
from pathlib import Path

from pgtrial.design.method_case import HostFacts
from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.hosts.base import LOCAL, Host
from pgtrial.hosts.local import LocalHost
from pgtrial.postgres.existing.session import session_settings
from pgtrial.workloads.pauses import find_pauses

_KIB = 1024
_MEMORY = "/proc/meminfo"
_STATUS = "/proc/self/status"
_SIBLINGS = "/sys/devices/system/cpu/cpu[0-9]*/topology/thread_siblings_list"


def facts_for(experiment: Experiment, folder: Path, *, is_here: bool = True) -> HostFacts | None:
    """The facts of this machine, where the experiment runs on it, and of its scripts, whose paths begin at ``folder``.

    Of another machine the file says what there is to say: None. Unless it ``is_here``, pgtrial is on the machine then,
    of which nothing is known now. Raises SpecError for a script that cannot be read.
    """
    if experiment.target.host is not None:
        return None
    own = read_facts(LocalHost()) if is_here else HostFacts(local=True, cores=(), memory_available=None)
    facts = replace(own, pauses=find_pauses(experiment, resolve_arms(experiment), folder))
    if experiment.target.kind != "server":
        return facts
    return replace(facts, session_settings=session_settings())


def read_facts(host: Host) -> HostFacts:
    """Read a host's current facts. Where the kernel does not show the topology, each CPU counts as a core."""
    texts = host.ops.read_all([_MEMORY, _STATUS, _SIBLINGS])
    allowed = _allowed(texts.get(_STATUS, "")) or tuple(range(host.ops.cpus()[1]))
    cores = {cpu: frozenset((cpu,)) for cpu in allowed}
    for path, text in texts.items():
        if path in (_MEMORY, _STATUS):
            continue
        siblings = frozenset(parse_cpus(text)) & frozenset(allowed)
        cores |= dict.fromkeys(siblings, siblings)
    return HostFacts(
        local=host.name == LOCAL,
        cores=tuple(tuple(sorted(core)) for core in sorted(set(cores.values()), key=min)),
        memory_available=_find(texts.get(_MEMORY, ""), "MemAvailable"),
        swap=_find(texts.get(_MEMORY, ""), "SwapTotal"),
    )


def parse_cpus(text: str) -> tuple[int, ...]:
    """The CPUs of a list as the kernel writes it: "0-3,8" is 0, 1, 2, 3, 8."""
    found: list[int] = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first:
            found += range(int(first), int(last or first) + 1)
    return tuple(found)


def _allowed(status: str) -> tuple[int, ...]:
    lists = [line.partition(":")[2] for line in status.splitlines() if line.startswith("Cpus_allowed_list:")]
    return parse_cpus(lists[0]) if lists else ()


def _find(meminfo: str, name: str) -> int | None:
    for line in meminfo.splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * _KIB
    return None
