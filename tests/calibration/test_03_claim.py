"""Defect 3: the claim could be rewritten after the data."""

import json
import sqlite3
from pathlib import Path

import pytest

from calibration.trials import Row, record
from pgtrial.analysis.analyze import analyze
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


@pytest.mark.slow
def test_no_claim_that_is_written_after_the_data_is_supported(tmp_path: Path) -> None:
    folder = write_result_folder(tmp_path / "r", text=EXPERIMENT, simulation=SMALL)
    told = []
    for old, new in REWRITTEN:
        (folder / layout.EXPERIMENT).write_text(EXPERIMENT.replace(old, new), encoding="utf-8")
        told.append(analyze(folder).hypothesis)
    rewrite_record(folder)
    changed = analyze(folder).hypothesis.verdict

    assert {(found.verdict, found.margin, found.expect) for found in told} == {(Verdict.REFUTED, 0.05, "better")}
    assert changed is Verdict.INVALID
    record(
        Row(
            number=3,
            defect="one folder, “better by 5 %” refuted; the claim is edited to an easier one and analysed again",
            before="supported, no caveat, by four other claims",
            after="refuted as before, by three edits of experiment.toml; invalid (post hoc), by an edit of the record",
        )
    )
