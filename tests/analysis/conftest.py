"""Simulated experiments, written and analysed once for all processes of the tests; what a test wants different it
replaces in memory.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pgtrial.analysis.analyze import analyze
from pgtrial.analysis.assessment import Assessment
from pgtrial.analysis.effects import Estimated, estimate_effects, find_primary
from pgtrial.analysis.evidence import Evidence, read_evidence
from pgtrial.analysis.findings import Findings
from pgtrial.analysis.observations import Values, index_values, observe_runs, reported_scenarios
from pgtrial.analysis.reduce import reduce_runs
from pgtrial.analysis.reduction import Reduction
from support import EXPERIMENT, write_result_folder

Kept = Callable[[str, Callable[[Path], Any]], Any]
Assess = Callable[..., Assessment]

# Parts of the evidence on which neither observations nor effects depend.
BESIDE = {"caveats", "events", "fingerprints", "fingerprints_after", "meta", "settings"}

MIX = (
    EXPERIMENT.replace('mix = "simple-update"', 'mix = "oltp"\nrate = [300, 600]\nlatency_limit = "1s"\nmax_tries = 3')
    .replace("clients = 4", "clients = [4, 9]")
    .replace('"10s"', '"4s"')
    .replace("blocks = 6", "blocks = 2")
    .replace("placebo = true", "placebo = false")
)


@pytest.fixture(scope="session")
def folder(kept: Kept) -> Path:
    """Six blocks of on, off and a placebo; off is twice as fast."""
    return kept("commit", write_result_folder)


@pytest.fixture(scope="session")
def mix_folder(kept: Kept) -> Path:
    """Two blocks of on and off with three scenarios at two load levels, open loop."""
    return kept("mix", lambda place: write_result_folder(place, text=MIX))


@pytest.fixture(scope="session")
def evidence(folder: Path) -> Evidence:
    return read_evidence(folder)


@pytest.fixture(scope="session")
def reduction(evidence: Evidence, kept: Kept) -> Reduction:
    return kept("commit-reduction", lambda _: reduce_runs(evidence))


@pytest.fixture(scope="session")
def values(evidence: Evidence, reduction: Reduction) -> Values:
    return index_values(observe_runs(evidence, reduction))


@pytest.fixture(scope="session")
def findings(folder: Path, kept: Kept) -> Findings:
    return kept("commit-findings", lambda _: analyze(folder))


@pytest.fixture(scope="session")
def estimated(evidence: Evidence, values: Values, kept: Kept) -> tuple[Estimated, ...]:
    return kept(
        "commit-estimated", lambda _: estimate_effects(evidence, values, scenarios=reported_scenarios(evidence))
    )


@pytest.fixture
def assess(evidence: Evidence, reduction: Reduction, values: Values, estimated: tuple[Estimated, ...]) -> Assess:
    """Assess the experiment with some of its evidence or reduction replaced."""

    known, effects = values, estimated

    def build(*, values: Values | None = None, reduced: dict[str, Any] | None = None, **changes: Any) -> Assessment:
        changed = replace(evidence, **changes)
        reduction_ = replace(reduction, **(reduced or {}))
        found, estimated = known, effects
        if values is not None or reduced or changes.keys() - BESIDE:
            found = index_values(observe_runs(changed, reduction_)) if values is None else values
            estimated = estimate_effects(changed, found, scenarios=reported_scenarios(changed))
        return Assessment(
            evidence=changed,
            reduction=reduction_,
            values=found,
            primary=find_primary(changed, estimated, arm=changed.hypothesis_arm),
            placebo=find_primary(changed, estimated, arm="placebo"),
        )

    return build
