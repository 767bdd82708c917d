"""Defect 3: the claim could be rewritten after the data."""

import json
import sqlite3
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from calibration.before import judged_as_before
from calibration.trials import Row, record
from pgtrial.analysis.analyze import analyze
from pgtrial.analysis.effects.estimate import estimate_primary
from pgtrial.analysis.effects.verdict import judge_claim
from pgtrial.analysis.evidence import read_evidence
from pgtrial.analysis.observations import index_values, observe_runs
from pgtrial.analysis.reduce import reduce_runs
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.model.metric import Better
from pgtrial.model.verdict import Verdict
from pgtrial.store import layout
from support import EXPERIMENT, Simulation, write_result_folder

# Better by half a per cent: less than the margin, so "better" is refuted; other claims would be supported.
SMALL = Simulation(tps={"on": 1000.0, "off": 1005.0}, run_sd=0.002)
REWRITTEN = (
    ('margin = "5%"', 'margin = "0.1%"'),
    ('expect = "better"', 'expect = "not-worse"'),
    ('expect = "better"', 'expect = "equivalent"'),
)


def rewrite_record(folder: Path) -> None:
    """Put an easier claim where the product reads it: into the plan that the folder's record keeps."""
    with sqlite3.connect(folder / layout.STATE) as db:
        (plan,) = db.execute("SELECT value FROM meta WHERE key = 'plan'").fetchone()
        data = json.loads(plan)
        data["experiment"]["hypothesis"]["margin"] = 0.001
        db.execute("UPDATE meta SET value = ? WHERE key = 'plan'", (json.dumps(data),))


def judge_as_before(folder: Path) -> Verdict:
    """The claim was what experiment.toml says when the folder is analysed."""
    text = (folder / layout.EXPERIMENT).read_text(encoding="utf-8")
    experiment = Experiment.model_validate(tomllib.loads(text))
    evidence = judged_as_before(replace(read_evidence(folder), experiment=experiment))
    primary = estimate_primary(evidence, index_values(observe_runs(evidence, reduce_runs(evidence))))
    assert primary is not None
    return judge_claim(evidence, primary.comparison, better=Better(primary.effect.better))[0]


@pytest.mark.slow
def test_no_claim_that_is_written_after_the_data_is_supported(tmp_path: Path) -> None:
    folder = write_result_folder(tmp_path / "r", text=EXPERIMENT, simulation=SMALL)
    told, of_old = [], [judge_as_before(folder)]
    for old, new in REWRITTEN:
        (folder / layout.EXPERIMENT).write_text(EXPERIMENT.replace(old, new), encoding="utf-8")
        told.append(analyze(folder).hypothesis)
        of_old.append(judge_as_before(folder))
    rewrite_record(folder)
    changed = analyze(folder).hypothesis.verdict

    assert {(found.verdict, found.margin, found.expect) for found in told} == {(Verdict.REFUTED, 0.05, "better")}
    assert changed is Verdict.INVALID
    assert of_old == [Verdict.REFUTED, *[Verdict.SUPPORTED] * len(REWRITTEN)]  # the defect
    record(
        Row(
            number=3,
            defect="one folder, “better by 5 %” refuted; the claim is edited to an easier one and analysed again",
            audit="supported, no caveat, by four other claims",
            before="supported, by three edits of experiment.toml (no simulation: one folder, "
            "`test_no_claim_that_is_written_after_the_data_is_supported`)",
            after="refuted as it was, by these three edits; invalid (post hoc), by an edit of the record",
        )
    )
