"""What differs between the hosts of an experiment and may change its answer: it is told, and no reason to end."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pgtrial.model.run import RunRow, RunState
from pgtrial.store.state import State

# Facts of a run, and what a person calls them.
_FACTS = {
    "PostgreSQL/version": "PostgreSQL",
    "kernel/release": "kernel",
    "machine/CPUs online": "list of CPUs",
    "machine/CPU": "kind of CPU",
}
SLOW = 1.5  # times the median of the others
_FEWEST = 2  # blocks of a host before it is called slow


def find_differences(folder: Path) -> tuple[str, ...]:
    """Sentences about the hosts of the blocks that are done; () where there is nothing to say."""
    with contextlib.closing(State.open(folder)) as state:
        facts, runs = state.fingerprints(names=tuple(_FACTS)), _runs(state)
    own = {host: facts.get(run.id, {}) for host, run in runs}
    return (*_different(own), *find_slow(_block_seconds(runs)))


def block_seconds(folder: Path) -> dict[str, list[float]]:
    """How long its blocks have taken each host; no preparation is in it."""
    with contextlib.closing(State.open(folder)) as state:
        return _block_seconds(_runs(state))


def _runs(state: State) -> list[tuple[str, RunRow]]:
    hosts = state.block_hosts()
    done = [run for run in state.runs() if run.state is RunState.DONE]
    return [(hosts[run.slot.block], run) for run in done if run.slot.block in hosts]


def _block_seconds(runs: Sequence[tuple[str, RunRow]]) -> dict[str, list[float]]:
    times: dict[tuple[str, int], list[float]] = {}  # of a block's runs, which may be at the same time
    for host, run in runs:
        if run.started is not None and run.ended is not None:
            times.setdefault((host, run.slot.block), []).extend((run.started, run.ended))
    seconds: dict[str, list[float]] = {}
    for (host, _), each in times.items():
        seconds.setdefault(host, []).append(max(each) - min(each))
    return seconds


def _different(facts: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    for fact, name in _FACTS.items():
        values: dict[str, list[str]] = {}
        for host, known in facts.items():
            if fact in known:
                values.setdefault(known[fact], []).append(host)
        if len(values) > 1:
            listed = "; ".join(f"{value} on {', '.join(sorted(hosts))}" for value, hosts in sorted(values.items()))
            yield f"the {name} is not the same on all hosts: {listed}. The effect may differ between them, too."


def find_slow(seconds: Mapping[str, list[float]]) -> Iterator[str]:
    """Hosts whose blocks take much longer than those of the others; ``seconds`` of each block, by host."""
    means = {host: sum(each) / len(each) for host, each in seconds.items() if len(each) >= _FEWEST}
    for host, mean in means.items():
        others = sorted(other for name, other in means.items() if name != host)
        if others and mean > SLOW * others[len(others) // 2]:
            yield f"{host} is slow: a block takes it more than {SLOW:g} times as long as the others."
