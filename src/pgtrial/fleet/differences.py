"""What differs between the hosts of an experiment and may change its answer: it is told, and no reason to end."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
_MOST_NAMED = 4  # hosts with one value: with all of them the sentence would be another with each host that comes


@dataclass(slots=True, kw_only=True)
class Shown:
    """What the blocks that are done in the main ``folder`` have shown of their hosts; each is read once."""

    folder: Path
    seconds: dict[str, list[float]] = field(default_factory=dict, init=False)  # of each block, by host
    facts: dict[str, dict[str, str]] = field(default_factory=dict, init=False)  # of its last run, by host
    _known: set[int] = field(default_factory=set, init=False)

    def follow(self, done: Mapping[int, str]) -> None:
        """Read what is new of the blocks that are ``done``, each with its host; no preparation is in their seconds."""
        new = [block for block in done if block not in self._known]
        if not new:
            return
        by_block: dict[int, list[RunRow]] = {}
        with contextlib.closing(State.open(self.folder)) as state:
            only = new[0] if len(new) == 1 else None  # of many, as after a resume, all are read at once
            for run in state.runs(block=only):
                if run.state is RunState.DONE:
                    by_block.setdefault(run.slot.block, []).append(run)
            last = {done[block]: by_block[block][-1].id for block in new if block in by_block}
            facts = {host: state.fingerprints(names=tuple(_FACTS), run=run) for host, run in last.items() if host}
        for block in new:
            self._known.add(block)
            times = [time for run in by_block.get(block, ()) for time in (run.started, run.ended) if time is not None]
            if done[block] and times:  # of runs that may be at the same time
                self.seconds.setdefault(done[block], []).append(max(times) - min(times))
        self.facts |= {host: found.get(last[host], {}) for host, found in facts.items()}

    def find_differences(self) -> tuple[str, ...]:
        """Sentences about the hosts; () where there is nothing to say."""
        return (*find_differing(self.facts), *find_slow(self.seconds))


def find_differing(facts: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """What is not the same on all hosts; ``facts`` of a run, by host."""
    for fact, name in _FACTS.items():
        values: dict[str, list[str]] = {}
        for host, known in facts.items():
            if fact in known:
                values.setdefault(known[fact], []).append(host)
        if len(values) > 1:
            listed = "; ".join(f"{value} on {_names(sorted(hosts))}" for value, hosts in sorted(values.items()))
            yield f"the {name} is not the same on all hosts: {listed}. The effect may differ between them, too."


def _names(hosts: Sequence[str]) -> str:
    return ", ".join(hosts[:_MOST_NAMED]) + (" and others" if len(hosts) > _MOST_NAMED else "")


def find_slow(seconds: Mapping[str, list[float]]) -> Iterator[str]:
    """Hosts whose blocks take much longer than those of the others; ``seconds`` of each block, by host."""
    means = {host: sum(each) / len(each) for host, each in seconds.items() if len(each) >= _FEWEST}
    ranked, middle = sorted(means.values()), (len(means) - 1) // 2
    for host, mean in means.items():
        if len(ranked) > 1 and mean > SLOW * ranked[middle + (mean <= ranked[middle])]:  # the median of the others
            yield f"{host} is slow: a block takes it more than {SLOW:g} times as long as the others."
