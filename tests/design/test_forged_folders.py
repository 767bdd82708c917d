"""A folder that was altered, so that its claim may be younger than its data: no verdict of it goes without a word."""

import shutil
from dataclasses import replace
from pathlib import Path
from unittest.mock import create_autospec

import pytest

from pgtrial.analysis.analyze import analyze
from pgtrial.analysis.evidence import read_evidence
from pgtrial.analysis.validity.assessment import Assessment
from pgtrial.analysis.validity.registration import check_registration
from pgtrial.design.registration import attempts_digest, plan_digest, register
from pgtrial.errors import StoreError
from pgtrial.findings.findings import Findings
from pgtrial.findings.message import say
from pgtrial.model.caveat import Severity
from pgtrial.model.rules import CURRENT
from pgtrial.model.verdict import Verdict
from pgtrial.store import layout
from pgtrial.store.attempts import ATTEMPTS, Claim, note_attempt
from pgtrial.store.journal_file import VARIABLE
from pgtrial.store.plans import read_plan
from support import EXPERIMENT, Simulation, write_result_folder
from support.aging import change_record, make_old

# "Better by 5 %" is refuted: it is better by 2 %. Whoever has seen that could claim that it is not worse.
NEAR = Simulation(tps={"on": 1000.0, "off": 1020.0}, run_sd=0.004)
AFTERWARDS = EXPERIMENT.replace('expect = "better"', 'expect = "not-worse"')
WITHOUT_RECORD = (
    "DELETE FROM meta WHERE key IN "
    "('rules', 'seed', 'digest', 'digest_rest', 'contents', 'attempts_before', 'attempts_digest')"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_result_folder(tmp_path / "r", simulation=NEAR)


def claim_afterwards(folder: Path) -> None:
    """Put another claim into the file, and into the plan where there is one."""
    (folder / layout.EXPERIMENT).write_text(AFTERWARDS)
    change_record(
        folder,
        """UPDATE meta SET value = json_set(value, '$.experiment.hypothesis.expect', 'not-worse') WHERE key = 'plan'""",
    )


def register_anew(folder: Path, *, rules: int) -> None:
    """Write a record that fits what the folder claims, as the rules' version wrote it."""
    change_record(folder, f"UPDATE meta SET value = '{rules}' WHERE key = 'rules'")
    plan = read_plan(folder)
    registered = register(plan.experiment, plan.arms, rules=rules, contents={})
    digest = registered.digest if rules > 2 else plan_digest(plan.experiment, plan.arms)
    attempts = attempts_digest(digest, "")
    for key, value in (("digest", digest), ("digest_rest", registered.rest), ("attempts_digest", attempts)):
        change_record(folder, f"UPDATE meta SET value = '{value}' WHERE key = '{key}'")


def caveats(findings: Findings) -> dict[str, Severity]:
    return {each.code: each.severity for each in findings.caveats}


def test_what_is_claimed_before_the_data_is_refuted(folder: Path) -> None:
    findings = analyze(folder)

    assert findings.hypothesis.verdict is Verdict.REFUTED
    assert not caveats(findings)


@pytest.mark.parametrize("kept", ["plan", "no plan"])
def test_a_table_of_old_folders_makes_no_old_folder(folder: Path, kept: str) -> None:
    change_record(folder, WITHOUT_RECORD, "CREATE TABLE process (pid INTEGER)")
    if kept == "no plan":
        change_record(folder, "DELETE FROM meta WHERE key = 'plan'")
    claim_afterwards(folder)

    assert "whatever it claims now is post hoc" in say(analyze(folder).hypothesis.reason)


@pytest.mark.parametrize("rules", [1, 2, 3, 8])
def test_data_of_today_are_not_judged_by_rules_before_them(folder: Path, rules: int) -> None:
    kept = [*folder.glob(f"{layout.RUNS}/*/{layout.TRANSACTIONS}")]
    today = {path: path.read_bytes() for path in kept}
    make_old(folder, rules=rules)
    for path, content in today.items():
        path.write_bytes(content)
    claim_afterwards(folder)
    if rules > 1:
        register_anew(folder, rules=rules)

    assert analyze(folder).hypothesis.verdict is Verdict.INVALID


@pytest.mark.parametrize("key", ["loaded", "revision"])
def test_a_key_that_came_later_makes_a_folder_younger(folder: Path, key: str) -> None:
    make_old(folder, rules=1)
    assert analyze(folder).hypothesis.verdict is not Verdict.INVALID
    change_record(folder, f"INSERT INTO meta VALUES ('{key}', '[]')")

    assert analyze(folder).hypothesis.verdict is Verdict.INVALID


def test_an_old_folder_is_judged_by_its_rules_and_says_that_nobody_knows_when_it_was_claimed(folder: Path) -> None:
    make_old(folder, rules=1)
    claim_afterwards(folder)
    findings = analyze(folder)

    assert findings.experiment.rules == 1
    assert findings.hypothesis.verdict is Verdict.SUPPORTED
    assert caveats(findings) == {"unregistered": Severity.WARNING}


def test_a_digest_that_cannot_be_checked_is_no_record(folder: Path) -> None:
    register_anew(folder, rules=2)
    make_old(folder, rules=2)
    assert caveats(analyze(folder)) == {}
    change_record(folder, "DELETE FROM meta WHERE key = 'plan'")
    (folder / layout.EXPERIMENT).write_text(AFTERWARDS)

    assert caveats(analyze(folder)) == {"unregistered": Severity.WARNING}


def test_a_copy_without_its_plan_may_have_other_arms_and_that_costs_trust(tmp_path: Path) -> None:
    """Its file and its tables could have control and candidate exchanged, and the digest would be the published one."""
    worse = Simulation(tps={"on": 1000.0, "off": 500.0}, run_sd=0.01)
    folder = write_result_folder(tmp_path / "r", simulation=worse)
    assert analyze(folder).hypothesis.verdict is Verdict.REFUTED
    exchanged = "CASE name WHEN 'on' THEN 'candidate' WHEN 'off' THEN 'control' ELSE role END"
    change_record(folder, "DELETE FROM meta WHERE key IN ('plan', 'contents')", f"UPDATE arm SET role = {exchanged}")
    (told,) = (each for each in analyze(folder).caveats if each.code == "plan-redacted")

    assert told.severity is Severity.WARNING
    assert "which arm is the control" in say(told.text)


def test_a_claim_that_was_recorded_after_the_first_run_is_post_hoc(folder: Path) -> None:
    change_record(folder, "INSERT INTO meta VALUES ('created', (SELECT min(started) - 1 FROM run))")
    assert not caveats(analyze(folder))
    change_record(folder, "UPDATE meta SET value = (SELECT min(started) + 3600 FROM run) WHERE key = 'created'")

    assert caveats(analyze(folder)) == {"post-hoc": Severity.INVALID}
    change_record(folder, "UPDATE meta SET value = 'before' WHERE key = 'created'")
    with pytest.raises(StoreError, match="damaged"):
        analyze(folder)


def test_a_clock_that_was_put_right_a_little_is_no_forgery(folder: Path) -> None:
    change_record(folder, "INSERT INTO meta VALUES ('created', (SELECT min(started) + 30 FROM run))")

    assert not caveats(analyze(folder))


def test_hosts_of_a_fleet_have_clocks_of_their_own(tmp_path: Path) -> None:
    folder = write_result_folder(tmp_path / "r", simulation=replace(NEAR, hosts=("db-1",)))
    change_record(folder, "INSERT INTO meta VALUES ('created', (SELECT min(started) + 3600 FROM run))")

    assert "post-hoc" not in caveats(analyze(folder))


def test_readings_of_another_time_than_the_runs_are_data_of_another_folder(folder: Path) -> None:
    """The record of a new experiment, with the runs of one whose data were seen."""
    change_record(
        folder,
        "UPDATE run SET started = started + 86400, ended = ended + 86400",
        "UPDATE phase SET started = started + 86400, ended = ended + 86400",
    )
    findings = analyze(folder)

    assert findings.hypothesis.verdict is Verdict.INVALID
    assert caveats(findings)["foreign-data"] is Severity.INVALID


def test_a_record_that_is_written_anew_shows_in_its_digest_alone(folder: Path) -> None:
    """Nobody can prevent it. What the digest of before the run was has to have been published."""
    published = analyze(folder).experiment.digest
    claim_afterwards(folder)
    register_anew(folder, rules=CURRENT.version)
    findings = analyze(folder)

    assert findings.hypothesis.verdict is Verdict.SUPPORTED
    assert findings.experiment.digest != published


CLAIM = Claim(test="of the claim", words="the claim")
BEGUN = 1_767_225_000.5  # before the first run


@pytest.fixture
def noted(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder, and the machine on which its experiment was begun as the second attempt at its claim."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "state"))
    change_record(folder, f"INSERT INTO meta VALUES ('created', '{BEGUN}')")
    note_attempt(CLAIM, digest="of an earlier one", folder=tmp_path / "earlier", t=BEGUN - 60)
    note_attempt(CLAIM, digest=read_evidence(folder).meta["digest"], folder=folder, t=BEGUN)
    set_attempts(folder, "1")
    return folder


def set_attempts(folder: Path, before: str) -> None:
    """Write another number of earlier attempts into the record, with the digest that fits it."""
    digest = attempts_digest(read_evidence(folder).meta["digest"], before)
    for key, value in (("attempts_before", before), ("attempts_digest", digest)):
        change_record(folder, f"UPDATE meta SET value = '{value}' WHERE key = '{key}'")


def forge(folder: Path) -> None:
    """Claim what the data show, with a record that fits it."""
    claim_afterwards(folder)
    register_anew(folder, rules=CURRENT.version)
    set_attempts(folder, "1")


def told(folder: Path) -> set[str]:
    """Codes of what is said of the record, without looking at the data."""
    assessment = create_autospec(Assessment, instance=True, evidence=read_evidence(folder))
    return {each.code for each in check_registration(assessment)}


def test_another_claim_with_its_own_digest_is_known_where_the_experiment_was_begun(noted: Path) -> None:
    forge(noted)
    findings = analyze(noted)

    assert findings.hypothesis.verdict is Verdict.INVALID
    assert caveats(findings)["post-hoc"] is Severity.INVALID
    assert "this machine noted" in say(findings.hypothesis.reason)


def test_a_forged_folder_is_known_by_its_place_or_its_time(noted: Path) -> None:
    forge(noted)
    moved = Path(shutil.copytree(noted, noted.with_name("elsewhere")))
    change_record(noted, f"UPDATE meta SET value = '{BEGUN + 1}' WHERE key = 'created'")

    assert "post-hoc" in told(noted) & told(moved)


@pytest.mark.parametrize("before", ["0", ""])
def test_how_often_a_claim_was_tried_is_known_where_the_experiment_was_begun(noted: Path, before: str) -> None:
    set_attempts(noted, before)

    assert told(noted) == {"post-hoc"}


def test_a_record_that_is_taken_out_is_known_where_the_experiment_was_begun(noted: Path) -> None:
    """Elsewhere it looks like a folder of before there were rules."""
    make_old(noted, rules=1)

    assert told(noted) == {"post-hoc"}


@pytest.mark.parametrize(
    "line",
    [
        "",
        f'{{"t": {BEGUN}, "claim": "the claim", "folder": "/r"}}',
        f'{{"t": {BEGUN}, "claim": "the claim", "digest": ["x"], "folder": ["/r"]}}',
        f'{{"t": {BEGUN}, "claim": "the claim", "digest": "x", "fol',
        f'{{"t": {BEGUN + 9}, "claim": "the claim", "digest": "x", "folder": 7}}',
    ],
)
def test_a_list_of_attempts_that_says_nothing_of_a_folder_is_no_alarm(noted: Path, tmp_path: Path, line: str) -> None:
    (tmp_path / "state" / ATTEMPTS).write_text(line)

    assert told(noted) == {"another-attempt"}


def test_a_line_of_before_attempts_were_noted_with_their_number_tells_the_digest_alone(
    noted: Path, tmp_path: Path
) -> None:
    digest = read_evidence(noted).meta["digest"]
    (tmp_path / "state" / ATTEMPTS).write_text(f'{{"t": {BEGUN}, "digest": "{digest}", "before": "7"}}')
    assert told(noted) == {"another-attempt"}
    forge(noted)

    assert "post-hoc" in told(noted)


def test_a_list_of_attempts_that_others_may_write_is_not_believed(noted: Path, tmp_path: Path) -> None:
    forge(noted)
    assert "post-hoc" in told(noted)
    (tmp_path / "state" / ATTEMPTS).chmod(0o666)

    assert told(noted) == {"another-attempt"}


def test_a_folder_as_it_was_made_is_as_noted_wherever_it_is(noted: Path, tmp_path: Path) -> None:
    assert told(noted) == {"another-attempt"}
    # Begun in the same second, by the same name: its own folder has a number behind that.
    note_attempt(
        Claim(test="of another claim", words="another claim"), digest="of another one", folder=noted, t=BEGUN + 0.1
    )
    assert told(noted) == {"another-attempt"}
    assert told(Path(shutil.copytree(noted, tmp_path / "copy"))) == {"another-attempt"}
    assert told(noted.rename(tmp_path / "renamed")) == {"another-attempt"}


def test_what_no_rule_has_stopped_is_provisional_whatever_the_record_says(tmp_path: Path) -> None:
    """Else whoever likes the first blocks takes the others off, and has a verdict as of one look."""
    folder = write_result_folder(
        tmp_path / "r", text=EXPERIMENT.replace("blocks = 6", "blocks = 12"), simulation=NEAR, runs=8 * 3
    )
    before = analyze(folder).hypothesis
    change_record(folder, "INSERT INTO meta VALUES ('stopped', 'It is decided.')")

    assert analyze(folder).hypothesis == before
    assert read_evidence(folder).is_provisional
