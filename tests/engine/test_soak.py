"""A soak on a real server: one server for all windows, and what a resume keeps."""

import os
import signal
from contextlib import closing
from dataclasses import replace

import pytest

from pgtrial.analysis.analyze import analyze
from pgtrial.design.plan import make_plan
from pgtrial.engine import folder as folders
from pgtrial.engine.events import RunEnded
from pgtrial.engine.experiment import Permission, run_experiment
from pgtrial.experiment_file import design_checks
from pgtrial.model.run import PhaseName, RunState
from pgtrial.model.verdict import Verdict
from pgtrial.report.html import render_html
from pgtrial.report.text import render_text
from pgtrial.store import layout
from pgtrial.store.plans import ATTEMPTS, REVISION
from pgtrial.store.state import State
from support.experiments import load_experiment

TEXT = """
format = 1
experiment = { name = "soak" }
dataset = { scale = 1 }
workload = { mix = "simple-update", clients = 1, warmup = 0 }
design = { soak = "16s", windows = 8 }
[target.postgresql]
synchronous_commit = "off"
[arms.neglected.postgresql]
autovacuum = "off"
"""
BEFORE = 2  # windows until somebody stops it


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of a soak that was stopped after two windows and resumed."""
    place = tmp_path_factory.mktemp("soak")
    ended = []

    def stop(event):
        if isinstance(event, RunEnded):
            ended.append(event)
            if len(ended) == BEFORE:
                os.kill(os.getpid(), signal.SIGINT)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(design_checks, "LEAST_WINDOW", 1.0)
        (place / "e.toml").write_text(TEXT)
        loaded = load_experiment(place / "e.toml")
        plan = make_plan(loaded.experiment)
        tested = folders.Tested(programs=(), revision="r7")
        folder = folders.create_folder(replace(loaded, experiment=plan.experiment), plan, place, tested=tested)
        with pytest.raises(KeyboardInterrupt):
            run_experiment(folder, permission=Permission(), tell=stop)
        run_experiment(folder, permission=Permission(), tell=lambda _: None)
    return folder


@pytest.fixture(scope="module")
def done(folder):
    with closing(State.open(folder)) as state:
        return [run for run in state.runs() if run.state is RunState.DONE]


@pytest.mark.slow
def test_the_data_are_put_back_where_a_stretch_begins_and_never_within_it(done):
    restored = [run.slot.block for run in done if any(phase.name is PhaseName.RESTORE for phase in run.phases)]

    assert [run.slot.block for run in done] == list(range(1, 9))
    assert restored == [1, BEFORE + 1]


@pytest.mark.slow
def test_a_soak_is_no_attempt_at_a_claim(folder):
    with closing(State.open(folder)) as state:
        meta = state.meta()

    assert (meta[ATTEMPTS], meta[REVISION]) == ("", "r7")


@pytest.mark.slow
def test_a_window_has_its_own_part_of_the_servers_log(folder, done):
    logs = [(layout.run_folder(folder, run.folder) / layout.SERVER_LOG).read_text() for run in done]

    assert [log.count("database system is ready to accept connections") for log in logs] == [1, 0, 1, 0, 0, 0, 0, 0]


@pytest.mark.slow
def test_the_longest_stretch_is_looked_at_and_no_claim_is_decided(folder):
    findings = analyze(folder)

    (arm,) = findings.soak.arms
    assert (arm.stretches, arm.windows) == (2, tuple(range(BEFORE + 1, 9)))
    sizes = next(drift.values for drift in arm.drifts if drift.metric == "tables.bytes")
    assert sizes[-1] > sizes[0]  # the history grows
    assert findings.hypothesis.verdict is Verdict.INCONCLUSIVE
    assert {caveat.code for caveat in findings.caveats} >= {"soak-interrupted"}
    assert not [effect for effect in findings.effects if effect.low is not None]


@pytest.mark.slow
def test_the_page_and_the_terminal_ask_whether_it_stays_as_it_is(folder):
    findings = analyze(folder)

    page = render_html(findings)
    assert '<section id="soak"' in page
    assert '<section id="verdict"' not in page
    assert "Soak of 8 windows of 2 s each." in render_text(findings)
