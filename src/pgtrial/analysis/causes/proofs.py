"""Limits that an experiment has proved, and what the rules named held against them: the intervention counts."""

from collections.abc import Iterator, Mapping, Sequence

from pgtrial.analysis.causes.ledger import is_larger_without_excess, is_the_largest, keep_ledger
from pgtrial.analysis.causes.limits import EXPLAINS, name_resource
from pgtrial.analysis.evidence import Evidence, read_evidence
from pgtrial.analysis.large import refuse_large
from pgtrial.analysis.observations import index_values, observe_runs
from pgtrial.analysis.reduce import reduce_runs
from pgtrial.findings.causes import Limit, Resource
from pgtrial.findings.message import Message, Value, message
from pgtrial.findings.naming import name_level
from pgtrial.findings.questions import Ledger, LedgerEntry
from pgtrial.store import layout
from pgtrial.store.proofs import find_proofs
from pgtrial.store.rows import damaged

# What limits an arm of whose time most is lost, as the rules call it.
RESOURCES: Mapping[str, Resource] = {
    "slowdown.cpu": Resource.CPU,
    "slowdown.flush": Resource.WAL_FLUSH,
    "slowdown.files": Resource.DISK_LATENCY,
    "slowdown.generator": Resource.LOAD_GENERATOR,
    "cgroup.read_iops": Resource.DISK_IOPS,
    "cgroup.write_iops": Resource.DISK_IOPS,
    "cgroup.read_bytes": Resource.DISK_THROUGHPUT,
    "cgroup.write_bytes": Resource.DISK_THROUGHPUT,
    "workload.pauses": Resource.CLIENT,
}
# Nothing makes these longer: a wait for them is as long as what their holders do.
_HELD = (Resource.LOCKS, Resource.LWLOCKS)


def read_proofs(evidence: Evidence, *, of_any_size: bool) -> tuple[Ledger, ...]:
    """The ledgers of the experiments that were run after this one, in its folder; () where it asks for none.

    StoreError as ``analyze``.
    """
    return tuple(_read_ledgers(evidence, of_any_size=of_any_size))


def _read_ledgers(evidence: Evidence, *, of_any_size: bool) -> Iterator[Ledger]:
    for place in find_proofs(evidence.folder, evidence.experiment, evidence.arms):
        proof = read_evidence(place)
        if proof.experiment.limits is None or proof.experiment.limits.of != place.name:
            raise damaged(place / layout.STATE, f'it proves nothing about arm "{place.name}"')
        if not of_any_size:
            refuse_large(proof)
        ledger = keep_ledger(proof, index_values(observe_runs(proof, reduce_runs(proof))))
        if ledger is not None:
            yield ledger


def apply_proofs(evidence: Evidence, limits: Sequence[Limit], ledgers: Sequence[Ledger]) -> tuple[Limit, ...]:
    """The limits, with those that an experiment has proved in the place of what the rules named.

    A ledger is of all load levels together, so it says nothing about one of several.
    """
    if len(evidence.levels) != 1:
        return tuple(limits)
    by_arm = {ledger.of: ledger for ledger in ledgers}
    level = name_level(evidence.levels[0])
    found = [_overrule(limit, by_arm[limit.arm], level) if limit.arm in by_arm else limit for limit in limits]
    control = next((one for one in found if evidence.control is not None and one.arm == evidence.control.name), None)
    return tuple(_tell_apart(limit, control) for limit in found)


def _overrule(limit: Limit, ledger: Ledger, level: Message) -> Limit:
    first = ledger.entries[0]
    if not is_the_largest(ledger):
        # It does not say what limits the arm, and may well say what does not.
        named = [entry for entry in ledger.entries if RESOURCES[entry.resource] is limit.resource]
        if not named or any(_may_be_as_large(entry, ledger) for entry in named):
            return limit
        text = message("limit.refuted", arm=limit.arm, level=level, by_rules=name_resource(limit))
        return limit.model_copy(
            update={"resource": Resource.UNDETERMINED, "detail": "", "text": text, "by_rules": limit.resource}
        )
    proved, elasticity = RESOURCES[first.resource], first.elasticity
    found = {"elasticity": elasticity, "proved": proved}
    if limit.resource is proved:
        return limit.model_copy(update=found)
    of_time: dict[str, Value] = {"name": first.name, "elasticity": elasticity.value}
    if limit.resource in _HELD or proved in EXPLAINS.get(limit.resource, ()):
        told = message("limit.held-for" if limit.resource in _HELD else "limit.costs", **of_time)
        return limit.model_copy(update={**found, "text": message("sentences", parts=(limit.text, told))})
    values: dict[str, Value] = {"arm": limit.arm, "level": level, **of_time}
    if limit.resource is Resource.UNDETERMINED:
        text = message("limit.proved", **values)
    else:
        text = message("limit.overruled", **values, by_rules=name_resource(limit))
    return limit.model_copy(
        update={**found, "resource": proved, "detail": "", "text": text, "by_rules": limit.resource}
    )


def _may_be_as_large(entry: LedgerEntry, ledger: Ledger) -> bool:
    """Also where it is not shown that throughput owes anything to the first."""
    first = ledger.entries[0]
    if entry is first or first.elasticity.side() <= 0:
        return True
    return not is_larger_without_excess(first.elasticity, entry.elasticity, ledger.total)


def _tell_apart(limit: Limit, control: Limit | None) -> Limit:
    """Of two that are proved it is known whether they are the same; not of two names that one time may have."""
    if control is None or limit is control or limit.elasticity is None or control.elasticity is None:
        return limit
    is_same = limit.resource is control.resource
    if limit.proved is control.proved and not is_same:
        return limit
    return limit.model_copy(update={"is_apart": not is_same})


def tell_proofs(limits: Sequence[Limit], ledgers: Sequence[Ledger]) -> Iterator[Message]:
    """What the experiments found, and where they say something else than the rules."""
    for ledger in ledgers:
        yield message("proof.found", arm=ledger.of, text=ledger.text)
        yield from (limit.text for limit in limits if limit.arm == ledger.of and limit.by_rules is not None)
