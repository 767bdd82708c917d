"""The claim on each of several hosts: where it holds, where the effect is another, and where to expect it elsewhere."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from pgtrial.analysis.effects.claim import Claim, claims_of
from pgtrial.analysis.effects.comparison import blocks_of, is_partly_known, places
from pgtrial.analysis.effects.estimate import Estimated
from pgtrial.analysis.evidence import Evidence
from pgtrial.findings.message import Message, message
from pgtrial.findings.questions import HostFinding, Hosts
from pgtrial.findings.record import Estimate
from pgtrial.model.verdict import Verdict
from pgtrial.stats.base import Comparison, Interval
from pgtrial.stats.equivalence import judge
from pgtrial.stats.hosts import FEWEST_HOSTS, FEWEST_TO_PREDICT, OTHER, OfHost, OverHosts, fit_hosts
from pgtrial.stats.interval import extend, ratio_of

_KIND = ("machine/model", "machine/CPU", "machine/CPUs", "machine/memory")  # facts that tell kinds of machine apart


def describe_hosts(evidence: Evidence, primary: Estimated | None) -> Hosts | None:
    """Of the effect that the claim is about; None where there is one host, two have no ratio, or a run no value."""
    claim = next(iter(claims_of(evidence)), None)
    if not evidence.is_spread or primary is None or claim is None:
        return None
    comparison, effect = primary.comparison, primary.effect
    if comparison.ratio is None and is_partly_known(comparison):
        return None
    pairs = evidence.pairs(effect.arm)
    after = places(evidence, pairs)
    known = [
        (math.log(ratio), host, after is not None and after[number])
        for number, (ratio, host) in enumerate(
            zip(effect.block_ratios, evidence.hosts_of(blocks_of(pairs)), strict=True)
        )
        if ratio is not None
    ]
    if len({host for _, host, _ in known}) < FEWEST_HOSTS:
        return None
    logs, hosts, came_after = zip(*known, strict=True)
    fit = fit_hosts(
        np.array(logs), hosts, None if after is None else np.array(came_after), confidence=1 - comparison.alpha
    )
    lowest, highest = evidence.rules.log_bounds(claim.margin)
    others = [_is_other(each) and not lowest <= each.difference <= highest for each in fit.hosts]
    hosts_found = tuple(
        HostFinding(
            host=each.host,
            blocks=each.blocks,
            effect=_ratio(each.mean, None if evidence.is_provisional else each.interval, comparison.hidden),
            verdict=_judge(evidence, claim, comparison, each, fit),
            others=math.exp(each.mean - each.difference),
            p_differs=each.p_differs,
            differs=is_other,
        )
        for each, is_other in zip(fit.hosts, others, strict=True)
    )
    interval = None if evidence.is_provisional else fit.interval
    prediction = None if evidence.is_provisional else fit.prediction
    return Hosts(
        arm=effect.arm,
        metric=effect.metric,
        scenario=effect.scenario,
        confidence=evidence.confidence,
        method=fit.method,
        hosts=hosts_found,
        mean=_ratio(fit.mean, interval, comparison.hidden),
        degrees=fit.degrees,
        within=_spread(fit.within, fit.within_interval),
        between=_spread(fit.between, fit.between_interval),
        prediction=None if prediction is None else _ratio(_centre(fit), prediction, comparison.hidden),
        no_prediction=None if prediction else _why_none(evidence, len(fit.hosts)),
        text=tuple(
            _texts(
                hosts_found,
                sorted(set(evidence.hosts.values()).difference(each.host for each in fit.hosts)),
                kinds=_kinds(evidence),
            )
        ),
    )


def _is_other(host: OfHost) -> bool:
    return host.p_differs is not None and host.p_differs <= OTHER


def _centre(fit: OverHosts) -> float:
    """Of the hosts' means, each with one weight, as the prediction has it."""
    return math.fsum(each.mean for each in fit.hosts) / len(fit.hosts)


def _ratio(log_ratio: float, interval: Interval | None, hidden: tuple[float, float]) -> Estimate:
    if interval is None:
        return Estimate(value=math.exp(log_ratio))
    return Estimate(value=log_ratio, low=interval.low - hidden[0], high=interval.high + hidden[1]).mapped(ratio_of)


def _spread(value: float | None, interval: Interval | None) -> Estimate | None:
    if value is None:
        return None
    return Estimate(
        value=value, low=None if interval is None else interval.low, high=None if interval is None else interval.high
    )


def _judge(evidence: Evidence, claim: Claim, comparison: Comparison, host: OfHost, fit: OverHosts) -> Verdict:
    """By as many degrees of freedom as the fewest blocks that decide anything have."""
    if evidence.is_provisional or host.interval is None or fit.free < evidence.rules.fewest_blocks - 1:
        return Verdict.INCONCLUSIVE
    alone = replace(
        comparison,
        ratio=math.exp(host.mean),
        low=ratio_of(host.interval.low),
        high=ratio_of(host.interval.high),
        sd_log_ratio=fit.within,
        information=host.blocks,
        degrees=fit.free,
        hidden=(0.0, 0.0),
        hosts=None,
    )
    expect, better = claim.judged
    down, up = comparison.hidden
    return judge(
        extend(alone, down=down, up=up), expect=expect, bounds=evidence.rules.log_bounds(claim.margin), better=better
    )


def _why_none(evidence: Evidence, count: int) -> Message:
    if evidence.is_provisional:
        return message("hosts.still-to-come")
    if count < FEWEST_TO_PREDICT:
        return message("hosts.no-prediction", count=count, fewest=FEWEST_TO_PREDICT)
    return message("hosts.no-spread")


def _kinds(evidence: Evidence) -> dict[str, tuple[str, ...]]:
    """What a kind of machine is known by, of each host."""
    of_block = {run.slot.block: run.id for run in evidence.valid}
    return {
        host: tuple(evidence.fact(name, of_block[block]) for name in _KIND)
        for block, host in evidence.hosts.items()
        if block in of_block
    }


def _texts(
    hosts: Sequence[HostFinding], without: Sequence[str], *, kinds: Mapping[str, tuple[str, ...]]
) -> Iterator[Message]:
    """``without``: hosts that were given blocks, of which none has both arms."""
    by_verdict = {verdict: tuple(each.host for each in hosts if each.verdict is verdict) for verdict in Verdict}
    yield message("hosts.supported", found=len(by_verdict[Verdict.SUPPORTED]), count=len(hosts) + len(without))
    of_kind: dict[tuple[str, ...], set[Verdict]] = {}
    for each in hosts:
        of_kind.setdefault(kinds.get(each.host, ()), set()).add(each.verdict)
    if 1 < len(of_kind) < len(hosts):
        whole = sum(verdicts == {Verdict.SUPPORTED} for verdicts in of_kind.values())
        yield message("hosts.kinds", found=whole, count=len(of_kind))
    if refuted := by_verdict[Verdict.REFUTED]:
        yield message("hosts.refuted", hosts=refuted)
    if undecided := by_verdict[Verdict.INCONCLUSIVE]:
        yield message("hosts.open", hosts=undecided)
    if without:
        yield message("hosts.without", hosts=tuple(without))
    if other := name_others(hosts):
        yield message("hosts.other", hosts=other)


def name_others(hosts: Sequence[HostFinding]) -> tuple[Message, ...]:
    """Each host whose effect is another, with that and the mean of the rest."""
    return tuple(
        message("hosts.other-change", host=each.host, change=each.effect.value, rest=each.others)
        for each in hosts
        if each.differs
    )
