"""The digest of a claim: what is in it, what is not, and that a folder with another one is post hoc."""

import json
import sqlite3
import subprocess
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from pgtrial.analysis.analyze import analyze
from pgtrial.analysis.evidence import read_evidence
from pgtrial.cli.main import main
from pgtrial.design.plan import Plan
from pgtrial.design.registration import claim_key, register
from pgtrial.engine import folder as engine_folder
from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.findings.message import say
from pgtrial.model.rules import CURRENT
from pgtrial.model.verdict import Verdict
from pgtrial.stats.sequential import nominal_confidence
from pgtrial.store.attempts import ATTEMPTS, Claim, note_attempt
from pgtrial.store.journal_file import VARIABLE
from support import EXPERIMENT, Simulation, write_result_folder
from support.aging import change_record, make_old

CLEAR = Simulation(tps={"on": 500.0, "off": 1000.0}, run_sd=0.01)


SEEDED = EXPERIMENT.replace("[design]\n", "[design]\nseed = 9\n")


def digests(text: str, *, rules: int = CURRENT.version) -> tuple[str, str]:
    experiment = Experiment.model_validate(tomllib.loads(text))
    arms = resolve_arms(experiment)
    registered = register(experiment, arms, rules=rules, contents={})
    return registered.digest, claim_key(experiment, arms, contents={})


def is_post_hoc(folder: Path) -> bool:
    found = analyze(folder)
    assert (found.hypothesis.verdict is Verdict.INVALID) == ("post-hoc" in {each.code for each in found.caveats})
    return found.hypothesis.verdict is Verdict.INVALID


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('margin = "5%"', 'margin = "0.5%"'),
        ('expect = "better"', 'expect = "not-worse"'),
        ('synchronous_commit = "off"', 'synchronous_commit = "local"'),
        ('expect = "better"', 'expect = "better"\nmetric = "pgbench.latency_p99"'),
    ],
)
def test_another_claim_or_arm_has_another_digest(old: str, new: str) -> None:
    assert digests(EXPERIMENT)[0] != digests(EXPERIMENT.replace(old, new))[0]
    assert digests(EXPERIMENT)[1] != digests(EXPERIMENT.replace(old, new))[1]


def test_another_requirement_has_another_digest_and_is_another_attempt() -> None:
    asking, more = (
        EXPERIMENT.replace("[design]", f'[[acceptance]]\nmetric = "pgbench.tps"\nat_least = {least}\n\n[design]')
        for least in (100, 200)
    )

    assert len({digests(text)[0] for text in (EXPERIMENT, asking, more)}) == 3
    assert len({digests(text)[1] for text in (EXPERIMENT, asking, more)}) == 1


def test_criteria_their_weights_and_directions_are_in_the_digest_and_are_no_other_claim() -> None:
    speed = '[[criteria]]\nmetric = "pgbench.tps"\n'
    texts = [EXPERIMENT.replace("[design]", f"{more}\n[design]") for more in (speed, speed + "weight = 5\n", "")]
    texts.append(texts[0].replace('"pgbench.tps"\n\n[design]', '"pgbench.tps"\nbetter = "lower"\n\n[design]'))

    assert len({digests(text)[0] for text in texts}) == 4
    assert len({digests(text)[1] for text in texts}) == 1
    # Folders of older rules have digests without them.
    assert len({digests(text, rules=14)[0] for text in texts}) == 1


def test_names_and_spelling_are_not_in_it() -> None:
    other = EXPERIMENT.replace('name = "commit"', 'name = "other"\ndescription = "x"')
    spelled = EXPERIMENT.replace('duration = "10s"', 'duration = "10000ms"')

    assert digests(EXPERIMENT) == digests(other) == digests(spelled)


def test_a_seed_that_was_chosen_is_in_the_digest_and_is_no_other_claim() -> None:
    others = SEEDED.replace("seed = 9", "seed = 10")

    assert len({digests(text)[0] for text in (EXPERIMENT, SEEDED, others)}) == 3
    assert len({digests(text)[1] for text in (EXPERIMENT, SEEDED, others)}) == 1
    # Folders of older rules have digests without it.
    assert digests(SEEDED, rules=12) == digests(EXPERIMENT, rules=12)


def test_a_seed_that_was_chosen_is_told(tmp_path: Path) -> None:
    folder = write_result_folder(tmp_path / "r", text=SEEDED, simulation=CLEAR)
    (told,) = (each for each in analyze(folder).caveats if each.code == "chosen-seed")

    assert "the seed 9" in say(told.text)
    assert not is_post_hoc(folder)
    drawn = analyze(write_result_folder(tmp_path / "drawn", simulation=CLEAR))
    assert "chosen-seed" not in {each.code for each in drawn.caveats}


def test_a_chosen_seed_that_the_record_does_not_have_is_post_hoc(tmp_path: Path) -> None:
    folder = write_result_folder(tmp_path / "r", text=SEEDED, simulation=CLEAR)
    change_record(folder, "UPDATE meta SET value = '10' WHERE key = 'seed'")

    assert is_post_hoc(folder)


def test_a_folder_of_older_rules_with_a_seed_keeps_its_verdict(tmp_path: Path) -> None:
    folder = write_result_folder(tmp_path / "r", text=SEEDED, simulation=CLEAR, rules=12)
    findings = analyze(folder)

    assert findings.hypothesis.verdict is Verdict.SUPPORTED
    assert findings.experiment.digest == digests(EXPERIMENT, rules=12)[0]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('expect = "better"', 'expect = "better"\narm = "off"'),
        ("placebo = true", "placebo = false"),
        ("arms.off.", "arms.quick."),
    ],
)
def test_the_same_claim_in_other_words_is_another_attempt_at_it(old: str, new: str) -> None:
    text = EXPERIMENT.replace('arm = "off"\n', "")
    assert old in text
    assert digests(text)[1] == digests(text.replace(old, new))[1]


def test_more_blocks_are_another_plan_of_the_same_claim() -> None:
    more = digests(EXPERIMENT.replace("blocks = 6", "blocks = 12"))

    assert more[0] != digests(EXPERIMENT)[0]
    assert more[1] == digests(EXPERIMENT)[1]


def test_a_folder_keeps_the_digest_of_its_file(tmp_path: Path) -> None:
    findings = analyze(write_result_folder(tmp_path / "r"))

    assert findings.experiment.digest == digests(EXPERIMENT)[0]
    assert "post-hoc" not in {caveat.code for caveat in findings.caveats}


def test_a_claim_that_is_put_in_after_the_data_is_not_supported(tmp_path: Path) -> None:
    folder = write_result_folder(tmp_path / "r")
    with sqlite3.connect(folder / "state.sqlite") as db:
        ((plan,),) = db.execute("SELECT value FROM meta WHERE key = 'plan'").fetchall()
        data = json.loads(plan)
        data["experiment"]["hypothesis"]["margin"] = 0.005
        db.execute("UPDATE meta SET value = ? WHERE key = 'plan'", (json.dumps(data),))
    db.close()
    findings = analyze(folder)

    assert findings.hypothesis.verdict is Verdict.INVALID
    assert "post-hoc" in {caveat.code for caveat in findings.caveats}


def test_a_file_that_is_changed_afterwards_changes_nothing(tmp_path: Path) -> None:
    folder = write_result_folder(tmp_path / "r")
    before = analyze(folder)
    (folder / "experiment.toml").write_text(EXPERIMENT.replace('margin = "5%"', 'margin = "0%"'))

    assert analyze(folder).hypothesis == before.hypothesis


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE meta SET value = '1' WHERE key = 'rules'",
        "UPDATE meta SET value = '2' WHERE key = 'rules'",
        "DELETE FROM meta WHERE key = 'digest'",
        "DELETE FROM meta WHERE key = 'contents'",
        "UPDATE meta SET value = '[' WHERE key = 'contents'",
        "DELETE FROM slot WHERE block > 4",
    ],
)
def test_a_record_that_lacks_what_was_registered_is_post_hoc(tmp_path: Path, statement: str) -> None:
    folder = write_result_folder(tmp_path / "r", simulation=CLEAR)
    assert not is_post_hoc(folder)
    # Runs of slots that are gone would be damage, and so would be their phases.
    gone = "SELECT number FROM slot WHERE block > 4"
    without_runs = (
        f"DELETE FROM phase WHERE run IN (SELECT id FROM run WHERE slot IN ({gone}))",
        f"DELETE FROM run WHERE slot IN ({gone})",
    )
    change_record(folder, *without_runs, statement)

    assert is_post_hoc(folder)


RECORD = "'rules', 'seed', 'digest', 'digest_rest', 'contents', 'attempts_before', 'attempts_digest'"
WITHOUT_RECORD = f"DELETE FROM meta WHERE key IN ({RECORD})"


@pytest.mark.parametrize(
    "statements",
    [
        (WITHOUT_RECORD,),
        (WITHOUT_RECORD, "DELETE FROM meta WHERE key = 'plan'"),
        (WITHOUT_RECORD, "INSERT INTO meta VALUES ('rules', '1')"),
        ("DELETE FROM meta WHERE key = 'rules'", "CREATE TABLE process (pid INTEGER)"),
    ],
)
def test_a_folder_without_its_record_is_no_old_one(tmp_path: Path, statements: tuple[str, ...]) -> None:
    folder = write_result_folder(tmp_path / "r", simulation=CLEAR)
    change_record(folder, *statements)
    (folder / "experiment.toml").write_text(EXPERIMENT.replace('margin = "5%"', 'margin = "0%"'))
    findings = analyze(folder)

    assert findings.hypothesis.verdict is Verdict.INVALID
    assert "whatever it claims now is post hoc" in say(findings.hypothesis.reason)


def test_a_folder_from_before_there_were_rules_is_judged_by_those_of_its_time(tmp_path: Path) -> None:
    folder = write_result_folder(tmp_path / "r", simulation=CLEAR)
    change_record(make_old(folder, rules=1), "DELETE FROM meta WHERE key = 'plan'")
    findings = analyze(folder)

    assert findings.experiment.rules == 1
    assert findings.hypothesis.verdict is Verdict.SUPPORTED
    assert "post-hoc" not in {each.code for each in findings.caveats}


def test_a_copy_without_its_plan_keeps_the_claim(tmp_path: Path) -> None:
    folder = write_result_folder(tmp_path / "r", simulation=CLEAR)
    change_record(folder, "DELETE FROM meta WHERE key IN ('plan', 'contents')")
    assert not is_post_hoc(folder)
    assert "plan-redacted" in {each.code for each in analyze(folder).caveats}

    (folder / "experiment.toml").write_text(EXPERIMENT.replace('margin = "5%"', 'margin = "0.1%"'))
    assert is_post_hoc(folder)

    (folder / "experiment.toml").write_text(EXPERIMENT)
    change_record(folder, "DELETE FROM meta WHERE key = 'digest_rest'")
    assert is_post_hoc(folder)


def test_older_rules_are_not_applied_to_newer_experiments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_result_folder(tmp_path / "r", simulation=CLEAR)

    assert main(["report", str(folder), "--rules", "1"]) == 2
    assert "rules 1 are older than those of the experiment" in capsys.readouterr().err
    assert not (folder / "findings.json").exists()


def test_scripts_and_data_are_in_the_digest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "setup.sql").write_text("CREATE TABLE t (a int);")
    (tmp_path / "work.sql").write_text("SELECT 1;")
    text = EXPERIMENT.replace('mix = "simple-update"', "") + (
        '\n[[workload.scenario]]\nname = "work"\nfile = "work.sql"\n\n[dataset]\nsetup = "setup.sql"\n'
    )
    (tmp_path / "e.toml").write_text(text)

    def registered() -> str:
        assert main(["register", str(tmp_path / "e.toml"), "--json"]) == 0
        return str(json.loads(capsys.readouterr().out)["digest"])

    found = {registered()}
    for name, content in (("work.sql", "SELECT 2;"), ("setup.sql", "CREATE TABLE t (a bigint);")):
        (tmp_path / name).write_text(content)
        found.add(registered())
    assert len(found) == 3


def claim_named(name: str) -> Claim:
    return Claim(test=f"test {name}", words=name)


def test_attempts_at_a_claim_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "state"))
    claims = ("a", "b", "a", "a")

    counts = [note_attempt(claim_named(claim), digest="d", folder=tmp_path, t=1.0) for claim in claims]

    assert counts == [0, 0, 1, 2]
    assert len((tmp_path / "state" / ATTEMPTS).read_text().splitlines()) == 4


def test_what_is_damaged_or_a_link_counts_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "state"))
    note_attempt(claim_named("a"), digest="d", folder=tmp_path, t=1.0)
    path = tmp_path / "state" / ATTEMPTS
    path.write_bytes(b"[" * 100_000 + b'\nnull\n{"claim": 1}\n\xff\n' + path.read_bytes())

    assert note_attempt(claim_named("a"), digest="d", folder=tmp_path, t=1.0) == 1

    victim = tmp_path / "victim"
    victim.write_text("untouched")
    path.unlink()
    path.symlink_to(victim)
    assert note_attempt(claim_named("a"), digest="d", folder=tmp_path, t=1.0) is None
    assert victim.read_text() == "untouched"


def test_the_commit_is_named_without_starting_what_the_repository_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def git(*words: str) -> str:
        named = ("-c", "user.name=n", "-c", "user.email=n@example.org")
        return subprocess.run(
            ["git", "-C", tmp_path, *named, *words], check=True, capture_output=True, text=True
        ).stdout

    file = tmp_path / "e.toml"
    file.write_text(EXPERIMENT)
    git("init", "-q")
    git("add", "e.toml")
    git("commit", "-qm", "the claim")
    hook = tmp_path / "hook"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\ncat\n")
    hook.chmod(0o755)
    (tmp_path / ".gitattributes").write_text("*.toml filter=any\n")
    for key in ("core.fsmonitor", "filter.any.clean", "gpg.program"):
        git("config", key, str(hook))
    git("config", "log.showSignature", "true")

    assert main(["register", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["commit"] == git("rev-parse", "HEAD").strip()
    assert not (tmp_path / "started").exists()

    file.write_text(EXPERIMENT + "\n")
    assert main(["register", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["commit"] == ""


def test_register_prints_the_digest_of_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "e.toml").write_text(EXPERIMENT)

    assert main(["register", str(tmp_path / "e.toml"), "--json"]) == 0

    found = json.loads(capsys.readouterr().out)
    assert found["digest"] == digests(EXPERIMENT)[0]
    assert found["commit"] == ""
    assert main(["register", str(tmp_path / "e.toml")]) == 0
    assert found["digest"] in capsys.readouterr().out


def key_of(text: str = EXPERIMENT, **given: object) -> str:
    experiment = Experiment.model_validate(tomllib.loads(text))
    return claim_key(experiment, resolve_arms(experiment), **{"contents": {}, **given})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[design]\n", '[target]\npostgres = "15"\n\n[design]\n'),
        ("[design]\n", "[dataset]\nscale = 77\n\n[design]\n"),
        ("clients = 4", "clients = 5"),
    ],
)
def test_another_server_data_or_load_is_another_claim(old: str, new: str) -> None:
    assert old in EXPERIMENT
    assert key_of() != key_of(EXPERIMENT.replace(old, new))


TWO = """
format = 1
experiment.name = "two"
hypothesis = {{ expect = "{expect}", margin = 0.05{more} }}
workload.mix = "select-only"
arms.{first}.postgresql.work_mem = "{one}"
arms.{second}.postgresql.work_mem = "{other}"
"""
COMPARED = ("16MB", "8MB")


def key_of_two(
    expect: str, one: str, other: str, *, first: str = "a", second: str = "b", more: str = "", added: str = ""
) -> str:
    """What is tested of two arms, as attempts at it are counted."""
    text = TWO.format(expect=expect, one=one, other=other, first=first, second=second, more=more) + added
    experiment = Experiment.model_validate(tomllib.loads(text))
    plan = SimpleNamespace(experiment=experiment, arms=resolve_arms(experiment))
    return engine_folder.claim_of(cast(Plan, plan), {}, engine_folder.Tested(programs=("its digest",))).test


@pytest.mark.parametrize(
    ("expect", "mirrored"),
    [
        ("better", "worse"),
        ("worse", "better"),
        ("better", "not-worse"),  # whose bound is that of the other arm
        ("higher", "lower"),
        ("equivalent", "equivalent"),
        ("different", "different"),
    ],
)
def test_a_claim_with_its_arms_exchanged_is_the_same(expect: str, mirrored: str) -> None:
    assert key_of_two(expect, "16MB", "8MB") == key_of_two(mirrored, "8MB", "16MB", first="x", second="y")
    if expect not in ("equivalent", "different"):
        assert key_of_two(expect, "16MB", "8MB") != key_of_two(expect, "8MB", "16MB")


@pytest.mark.parametrize(
    "words",
    [("not-worse", "worse", "lower"), ("better", "higher"), ("equivalent", "different")],
)
def test_words_for_one_test_are_one_claim(words: tuple[str, ...]) -> None:
    assert len({key_of_two(word, *COMPARED) for word in words}) == 1


def test_words_for_other_tests_are_other_claims() -> None:
    tests = [key_of_two(word, *COMPARED) for word in ("not-worse", "better", "equivalent")]
    margins = [key_of_two("not-worse", *COMPARED, more=f', confidence = 0.9, arm = "{arm}"') for arm in ("a", "b")]

    assert len({*tests, margins[0]}) == 4
    assert margins[1] == tests[0]


@pytest.mark.parametrize(
    "spelled",
    [
        {"one": "16384kB"},
        {"one": "16384"},  # its unit
        {"one": " 16 MB"},
        {"more": ', scenario = "select-only"'},
        {"more": ', metric = "pgbench.tps"'},
        {"added": 'arms.c.postgresql.work_mem = "32MB"'},
        {"added": "workload.threads = 2\nworkload.clients = [8]"},
        {"added": "target.postgresql.WORK_MEM = 7"},
        {"added": "target.postgresql.enable_sort = true"},  # as it is by itself
        {"added": 'target.restart = ["true"]'},
        {"added": 'target.directory = "/var/tmp/"'},
        {"added": 'target.postgres = "17"'},
        {"added": 'workload.share = "transactions"\nworkload.latency_limit = "1s"'},
    ],
)
def test_the_same_in_another_spelling_is_the_same_claim(spelled: dict[str, str]) -> None:
    first = key_of_two("not-worse", *COMPARED)

    assert key_of_two("not-worse", **{"one": COMPARED[0], "other": COMPARED[1], **spelled}) == first


def test_a_setting_that_is_no_default_is_of_the_claim() -> None:
    """On a server of the user's, whose defaults are not known, no setting is one."""
    server = '\ntarget = { kind = "server", postgresql = { %s } }'
    first = key_of_two("not-worse", *COMPARED)
    named = [key_of_two("not-worse", *COMPARED, added=server % text) for text in ("", "enable_sort = true")]
    spelled = [
        key_of_two("not-worse", *COMPARED, added=f"target.postgresql.enable_sort = {off}")
        for off in ("false", "0", '"no"')
    ]

    assert len({first, *named, *spelled}) == 4
    assert len(set(spelled)) == 1


def test_metrics_of_a_claim_are_the_same_in_any_order() -> None:
    def claimed(*metrics: str) -> str:
        first, *others = (f'metric = "{metric}", expect = "not-worse", margin = 0.05' for metric in metrics)
        text = TWO.replace('expect = "{expect}", margin = 0.05{more}', f"{first}, and = [{{{{{others[0]}}}}}]")
        return key_of(text.format(first="a", second="b", one="16MB", other="8MB"))

    metrics = ("pgbench.tps", "pgbench.latency_p99")
    assert claimed(*metrics) == claimed(*reversed(metrics))
    assert claimed(*metrics) != claimed("pgbench.tps", "pgbench.latency_p95")


SCENARIOS = """
format = 1
experiment.name = "several"
hypothesis = {{ expect = "not-worse", scenario = "{name}" }}
arms.a.postgresql.work_mem = "1MB"
arms.b.postgresql.work_mem = "2MB"
workload.scenario = [{{ name = "{name}", file = "x.sql" }}, {{ name = "other", builtin = "select-only" }}]
"""


def test_a_scenario_is_known_by_its_script() -> None:
    named = [
        key_of(SCENARIOS.format(name=name), contents={f"{name}.sql": digest})
        for name, digest in (("one", "1"), ("two", "1"), ("one", "2"))
    ]

    assert named[0] == named[1]
    assert named[0] != named[2]


def test_other_scripts_another_build_or_revision_are_another_claim() -> None:
    keys = {key_of(), key_of(contents={"a.sql": "1"}), key_of(contents={"a.sql": "2"}), key_of(tested=("commit 1",))}

    assert len(keys) == 4
    assert key_of(contents={"b.sql": "1"}) == key_of(contents={"a.sql": "1"})  # whatever its name


def test_another_attempt_is_decided_at_its_own_level(tmp_path: Path) -> None:
    clear = Simulation(tps={"on": 1000.0, "off": 1090.0}, run_sd=0.012)
    first, third = (
        analyze(write_result_folder(tmp_path / str(before), simulation=clear, attempts_before=before))
        for before in (0, 2)
    )
    effects = [each.effects[0] for each in (first, third)]

    assert (first.hypothesis.confidence, first.hypothesis.declared_confidence) == (0.95, None)
    assert third.hypothesis.confidence == pytest.approx(1 - 0.05 / 6)
    assert third.hypothesis.declared_confidence == 0.95
    assert {each.confidence for each in third.effects} == {third.hypothesis.confidence}
    assert effects[0].ratio == effects[1].ratio
    assert effects[1].low < effects[0].low  # type: ignore[operator]
    assert "another-attempt" not in {each.code for each in first.caveats}
    (told,) = (each for each in third.caveats if each.code == "another-attempt")
    assert told.text == (
        "Attempt 3 at this claim on this machine: decided by the 99.17 % interval, so that all attempts after the "
        "first, however many, mislead no more often than the first alone."
    )


def test_the_level_of_an_attempt_enters_the_boundary_of_a_rule_for_stopping(tmp_path: Path) -> None:
    text = EXPERIMENT.replace("blocks = 6", 'blocks = 12\nstop = "decision"\nlooks = 3')
    evidence = read_evidence(write_result_folder(tmp_path / "r", text=text, attempts_before=2))

    assert [evidence.confidence_at(look) for look in evidence.looks] == [
        nominal_confidence(evidence.looks, blocks=look, confidence=1 - 0.05 / 6, comparisons=evidence.comparisons)
        for look in evidence.looks
    ]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE meta SET value = '0' WHERE key = 'attempts_before'",
        "UPDATE meta SET value = '' WHERE key = 'attempts_before'",
        "DELETE FROM meta WHERE key = 'attempts_before'",
        "INSERT INTO meta VALUES ('attempts_since', '1.5')",
        "DELETE FROM meta WHERE key = 'attempts_digest'",
        "DELETE FROM meta WHERE key LIKE 'attempts%'",
    ],
)
def test_the_number_of_attempts_cannot_be_changed_in_the_record(tmp_path: Path, statement: str) -> None:
    folder = write_result_folder(tmp_path / "r", simulation=CLEAR, attempts_before=4)
    assert not is_post_hoc(folder)
    change_record(folder, statement)

    assert is_post_hoc(folder)


def test_folders_of_older_rules_are_only_warned_of(tmp_path: Path) -> None:
    folder = write_result_folder(tmp_path / "r", simulation=CLEAR, rules=3, attempts_before=4)
    make_old(folder, rules=3)
    findings = analyze(folder)

    assert findings.hypothesis.confidence == 0.95
    assert "repeated-claim" in {each.code for each in findings.caveats}
    assert analyze(folder, rules=4).hypothesis.confidence == pytest.approx(1 - 0.05 / 20)
