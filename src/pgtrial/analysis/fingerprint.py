"""The world around the runs: facts of the machine and the server, and what was not the same in all runs."""

from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.findings import Difference, Fact, Fingerprint
from pgtrial.analysis.settings import find_undeclared


def describe_world(evidence: Evidence) -> Fingerprint:
    """Facts of the experiment as a whole and those that all valid runs agree on; differences of all others.

    Settings that differ without having been declared are among the differences.
    """
    return Fingerprint(
        facts=tuple(_fact(name, value) for name, value in collect_facts(evidence).items()),
        differences=(*find_changes(evidence), *find_undeclared(evidence)),
    )


def collect_facts(evidence: Evidence) -> dict[str, str]:
    """Facts that hold for all valid runs, "group/name" to value."""
    facts = dict(evidence.fingerprints.get(None, {}))
    for name, values in _by_run(evidence).items():
        if len(set(values.values())) == 1:
            facts.setdefault(name, next(iter(values.values())))
    return facts


def find_changes(evidence: Evidence) -> tuple[Difference, ...]:
    """Facts that were not the same in all valid runs."""
    return tuple(
        Difference(
            name=name.replace("/", ": "), values={f"run {run}": value for run, value in values.items()}, declared=False
        )
        for name, values in _by_run(evidence).items()
        if len(set(values.values())) > 1
    )


def _by_run(evidence: Evidence) -> dict[str, dict[int, str]]:
    """Fact to valid run to value, by name."""
    found = {run.id: evidence.fingerprints.get(run.id, {}) for run in evidence.valid}
    names = sorted({name for facts in found.values() for name in facts})
    return {name: {run: facts[name] for run, facts in found.items() if name in facts} for name in names}


def _fact(name: str, value: str) -> Fact:
    group, _, rest = name.partition("/")
    return Fact(group=group, name=rest, value=value)
