"""Result folder -> findings: all of inference, in order."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pgtrial import __version__
from pgtrial.analysis.calibration.promise import parse_calibration, shown_label
from pgtrial.analysis.causes.explain import explain
from pgtrial.analysis.causes.ledger import keep_ledger
from pgtrial.analysis.causes.proofs import read_proofs
from pgtrial.analysis.causes.waits import describe_waits
from pgtrial.analysis.curves import collect_distributions, map_latencies, trace_curve, trace_series
from pgtrial.analysis.describe import describe_experiment, describe_runs, sum_overhead
from pgtrial.analysis.effects.acceptance import judge_acceptance
from pgtrial.analysis.effects.adjustment import adjust_primary
from pgtrial.analysis.effects.claim import claims_of
from pgtrial.analysis.effects.estimate import Estimated, estimate_effects, find_primary, take_single_runs
from pgtrial.analysis.effects.failures import bound_primary
from pgtrial.analysis.effects.hosts import describe_hosts
from pgtrial.analysis.effects.parts import estimate_parts
from pgtrial.analysis.effects.stopping import describe_stopping
from pgtrial.analysis.effects.verdict import judge_hypothesis
from pgtrial.analysis.engagement import find_engagements, say_untested
from pgtrial.analysis.evidence import Evidence, read_evidence
from pgtrial.analysis.factors import describe_factors
from pgtrial.analysis.large import refuse_large
from pgtrial.analysis.metric_table import compare_metrics
from pgtrial.analysis.observations import (
    index_values,
    observe_lost,
    observe_runs,
    observe_steps,
    observe_turns,
    reported_scenarios,
)
from pgtrial.analysis.pages.gains import describe_pages
from pgtrial.analysis.reduce import reduce_runs
from pgtrial.analysis.sampled import find_devices, observe_samples, observe_scenarios
from pgtrial.analysis.slices import describe_slices
from pgtrial.analysis.soak import describe_soak
from pgtrial.analysis.timelines.read import read_timelines
from pgtrial.analysis.validity.assessment import Assessment
from pgtrial.analysis.validity.check import check_quality
from pgtrial.analysis.world.fingerprint import describe_world
from pgtrial.analysis.world.settings import compare_settings
from pgtrial.findings.findings import CalibratedNoise, Findings, Noise
from pgtrial.findings.questions import Hosts
from pgtrial.stats.power import detectable_ratio
from pgtrial.units import format_duration

_log = logging.getLogger(__name__)


def analyze(folder: Path, *, rules: int | None = None, of_any_size: bool = False) -> Findings:
    """Conclude everything from a result folder, whatever state it is in; the folder is only read.

    An experiment that is not finished gives findings about the blocks it has. StoreError when the folder is no
    result folder, of a newer format, or lacks a file of a run that counts. ``rules``: version of those to judge by,
    default those of the experiment's time. Unless ``of_any_size``, also StoreError where there is much to read in a
    folder that was not measured here.
    """
    with _log_time("read the record of the runs"):
        evidence = read_evidence(folder, rules=rules)
    if not of_any_size:
        refuse_large(evidence)
    with _log_time("reduced transactions, samples and waits"):
        reduction = reduce_runs(evidence)
        timelines = read_timelines(evidence, reduction)
        sampled = (*observe_samples(evidence, timelines), *observe_scenarios(evidence, reduction))
        claimed = {claim.metric.name for claim in claims_of(evidence)}
        observed = observe_runs(evidence, reduction)
        observations = (*observed, *(one for one in sampled if one.metric in claimed))
        borne = (
            *observe_turns(evidence, reduction),
            *observe_steps(evidence, reduction, observed),
            *observe_lost(evidence, reduction, observed),
        )
    values = index_values((*observations, *sampled, *borne))
    with _log_time("estimated the effects"):
        estimated = estimate_effects(evidence, values, scenarios=reported_scenarios(evidence))
    primary = find_primary(evidence, estimated, arm=evidence.hypothesis_arm)
    placebo = find_primary(evidence, estimated, arm=evidence.placebo.name) if evidence.placebo else None
    with _log_time("compared the slices"):
        slices = describe_slices(evidence, reduction)
    parts = estimate_parts(evidence, values)
    engagements = find_engagements(evidence, timelines)
    stopping = describe_stopping(evidence, primary, parts)
    bounded = bound_primary(evidence, primary)
    soak = describe_soak(evidence, values, timelines)
    hosts = describe_hosts(evidence, primary)
    with _log_time("checked the quality"):
        caveats = check_quality(
            Assessment(
                evidence=evidence,
                reduction=reduction,
                values=values,
                primary=primary,
                placebo=placebo,
                slices=slices,
                stopping=stopping,
                failures=bounded.finding if bounded else None,
                engagements=engagements,
                soak=soak,
                hosts=hosts,
                devices=find_devices(evidence, timelines),
            )
        )
    hypothesis, needed = judge_hypothesis(evidence, primary, caveats, stopping, bounded, parts=parts)
    deciding = [part.estimated for part in parts] if parts else [primary]
    effects = [None if one is None else one.effect for one in deciding]
    hypothesis, needed = say_untested(hypothesis, needed, engagements, effects=effects)
    candidates = {arm.name for arm in evidence.candidates}
    with _log_time("looked for causes"):
        proofs = read_proofs(evidence, of_any_size=of_any_size)
        causes = explain(evidence, reduction, timelines, values, estimated, proofs=proofs)
    with _log_time("described runs, series, distributions and waits"):
        return Findings(
            pgtrial_version=__version__,
            experiment=describe_experiment(evidence),
            hypothesis=hypothesis,
            effects=tuple(one.effect for one in estimated if one.effect.arm in candidates),
            placebo=tuple(one.effect for one in estimated if one.effect.arm not in candidates),
            noise=_noise(evidence, primary, placebo, hosts),
            adjusted=adjust_primary(evidence, reduction, primary),
            failures=bounded.finding if bounded else None,
            hosts=hosts,
            single_runs=take_single_runs(evidence, estimated),
            acceptance=judge_acceptance(evidence, values, caveats),
            slices=slices,
            needed=needed,
            stopping=stopping,
            runs=describe_runs(evidence, values),
            observations=observations,
            engagements=engagements,
            factors=describe_factors(evidence, values),
            metrics=compare_metrics(evidence, timelines, values, sampled),
            curve=trace_curve(evidence, values),
            series=trace_series(evidence, reduction),
            distributions=collect_distributions(evidence, reduction),
            latency_maps=map_latencies(evidence, reduction),
            waits=describe_waits(evidence, reduction, values),
            causes=causes,
            ledger=keep_ledger(evidence, values),
            proofs=proofs,
            soak=soak,
            pages=describe_pages(evidence, values),
            settings=compare_settings(evidence),
            fingerprint=describe_world(evidence),
            overhead=sum_overhead(evidence),
            caveats=caveats,
        )


@contextmanager
def _log_time(step: str) -> Iterator[None]:
    started = time.perf_counter()
    yield
    _log.info("%s in %s", step, format_duration(time.perf_counter() - started))


def _noise(evidence: Evidence, primary: Estimated | None, placebo: Estimated | None, hosts: Hosts | None) -> Noise:
    """Of blocks, which is the noise inside hosts where there are several; what is found depends on both."""
    sd = primary.comparison.sd_log_ratio if primary else None
    if evidence.is_spread:
        return Noise(
            sd_log_ratio=hosts.within.value if hosts and hosts.within else None,
            sd_log_ratio_placebo=None,
            detectable=_detectable(evidence, sd, primary) if primary and not evidence.is_provisional else None,
            calibration=None,
        )
    return Noise(
        sd_log_ratio=sd,
        sd_log_ratio_placebo=placebo.comparison.sd_log_ratio if placebo else None,
        detectable=_detectable(evidence, sd, primary) if primary else None,
        calibration=_calibrated(evidence, primary) if primary else None,
    )


def _detectable(evidence: Evidence, sd: float | None, primary: Estimated) -> float | None:
    """At the confidence of the interval; None while a rule for stopping allows none."""
    blocks = primary.comparison.observations
    due = evidence.confidence_at(blocks)
    if due is None:
        return None
    degrees = primary.comparison.degrees
    return detectable_ratio(sd, blocks, confidence=due, comparisons=evidence.comparisons, degrees=degrees)


def _calibrated(evidence: Evidence, primary: Estimated) -> CalibratedNoise | None:
    """What the calibration that was there when the experiment began had promised."""
    found, choice = parse_calibration(evidence.meta.get("calibration")), evidence.method
    if found is None:
        return None
    one, sd = found.nearest(choice), found.noise(choice, evidence.experiment.workload.duration)
    if one is None or sd is None:
        return None
    return CalibratedNoise(
        method=shown_label(one),
        created=found.created,
        folder=found.folder,
        sd_log_ratio=sd,
        detectable=_detectable(evidence, sd, primary),
        recommended=found.recommendation.label,
    )
