import os
import shutil
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pgtrial.analysis.evidence import read_evidence
from pgtrial.design.method_case import HostFacts
from pgtrial.design.methods import MethodChoice
from pgtrial.design.plan import make_plan
from pgtrial.engine import folder as module
from pgtrial.engine.experiment import Permission, run_experiment
from pgtrial.engine.folder import create_folder, is_locked, load_stored, lock_folder, note_begun
from pgtrial.errors import PgTrialError, StoreError
from pgtrial.experiment_file.experiment import ArmTable
from pgtrial.model.arm import FileJob
from pgtrial.model.run import RunState
from pgtrial.store import layout
from pgtrial.store.attempts import Noted, find_attempts
from pgtrial.store.journal_file import VARIABLE
from pgtrial.store.plans import read_plan
from pgtrial.store.sqlite import connect
from pgtrial.store.state import STOPPED, State
from pgtrial.workloads.scenarios import scenarios_of, setup_sql
from support.experiments import load_experiment

JOB = FileJob(
    name="a",
    pattern="read",
    size=1 << 20,
    block_size=8192,
    direct=False,
    fsync=0,
    engine="external:/tmp/library.so",
    depth=1,
    share=1.0,
)
FACTS = HostFacts(local=True, cores=((0,), (1,)), memory_available=8 << 30)
TEXT = """
format = 1
[experiment]
name = "small"
[hypothesis]
claim = "größer is 更快"
[dataset]
scale = 1
setup = "tables für alles.sql"
[workload]
clients = [2, 4]
duration = "1s"
[[workload.scenario]]
name = "read"
file = "sub/lesen „schnell“.sql"
[[workload.scenario]]
name = "write"
builtin = "simple-update"
[arms.a]
[arms.b.postgresql]
work_mem = "8MB"
[design]
blocks = 2
"""


@pytest.fixture
def loaded(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/lesen „schnell“.sql").write_text("SELECT 'ß';\n", encoding="utf-8")
    (tmp_path / "tables für alles.sql").write_text("CREATE TABLE t ();\n", encoding="utf-8")
    (tmp_path / "e.toml").write_text(TEXT, encoding="utf-8")
    return load_experiment(tmp_path / "e.toml")


@pytest.fixture
def same_second(monkeypatch):
    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(2026, 1, 20, 10, 15, tzinfo=UTC)

    monkeypatch.setattr(module, "datetime", Clock)


def create(loaded, results):
    return create_folder(loaded, make_plan(loaded.experiment, FACTS), results)


def everything_in(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}


def test_new_folder_has_the_whole_schedule(loaded, tmp_path):
    folder = create(loaded, tmp_path / "new/results")

    state = State.open(folder)
    assert [name for name, _, _ in state.declared_arms()] == ["a", "b"]
    assert [level.clients for level in state.levels()] == [2, 4]
    assert [(slot.number, slot.block) for slot in state.slots()] == [(1, 1), (2, 1), (3, 2), (4, 2)]
    assert state.runs() == ()
    state.close()
    assert (folder / "experiment.toml").read_text(encoding="utf-8") == TEXT
    assert list((tmp_path / "new/results").iterdir()) == [folder]


@pytest.mark.parametrize(("asked", "method"), [("", "blocks"), ('method = "auto"', "interleaved")])
def test_new_folder_says_its_method_and_why(loaded, tmp_path, asked, method):
    text = TEXT.replace('duration = "1s"', 'duration = "20s"') + asked
    (tmp_path / "e.toml").write_text(text, encoding="utf-8")

    state = State.open(create(load_experiment(tmp_path / "e.toml"), tmp_path / "results"))
    meta = state.meta()
    state.close()

    assert meta["method"] == method
    assert meta["method_reason"].endswith(".")
    assert (float(meta["method_guard"]), float(meta["method_slice"])) == ((0.5, 1.0) if asked else (0.0, 0.0))


def test_what_was_planned_is_what_the_folder_says_whatever_becomes_of_the_file(loaded, tmp_path):
    plan = make_plan(loaded.experiment, FACTS)
    folder = create_folder(loaded, plan, tmp_path / "results")
    (folder / "experiment.toml").write_text("format = 1\n")

    assert read_plan(folder) == plan
    assert load_stored(folder).arms == plan.arms
    assert read_evidence(folder).experiment == loaded.experiment


def test_a_folder_without_a_plan_has_its_experiment_resolved(loaded, tmp_path):
    plan = make_plan(loaded.experiment)
    folder = create_folder(loaded, plan, tmp_path / "results")
    forget_plan(folder)

    old = read_plan(folder)

    assert (old.experiment, old.levels, old.slots, old.method) == (
        plan.experiment,
        plan.levels,
        plan.slots,
        plan.method,
    )
    assert [replace(arm, origins={}) for arm in old.arms] == [replace(arm, origins={}) for arm in plan.arms]


def test_a_plan_of_a_newer_pgtrial_is_not_guessed_at(loaded, tmp_path):
    folder = create(loaded, tmp_path / "results")
    with closing(State.open(folder, write=True)) as state:
        state.set_meta(plan=state.meta()["plan"].replace('"version":1', '"version":2'))

    with pytest.raises(StoreError, match="not one that this pgtrial understands") as caught:
        read_plan(folder)
    assert "newer" in caught.value.hint


def forget_plan(folder):
    db = connect(folder / layout.STATE, mode="rw")
    with db:
        db.execute("DELETE FROM meta WHERE key = 'plan'")
    db.close()


@pytest.mark.usefixtures("same_second")
def test_folders_of_the_same_second_have_different_names(loaded, tmp_path):
    first = create(loaded, tmp_path / "results")
    before = everything_in(first)
    others = [create(loaded, tmp_path / "results") for _ in range(2)]

    assert [path.name for path in (first, *others)] == [
        "small-20260120T101500Z",
        "small-20260120T101500Z-2",
        "small-20260120T101500Z-3",
    ]
    assert everything_in(first) == before


@pytest.mark.usefixtures("same_second")
def test_nothing_that_has_the_name_already_is_replaced(loaded, tmp_path):
    results = tmp_path / "results"
    results.mkdir()
    (results / "small-20260120T101500Z").mkdir()
    (results / "small-20260120T101500Z-2").write_text("a file")
    (results / "small-20260120T101500Z-3").symlink_to("nowhere")

    assert create(loaded, results).name == "small-20260120T101500Z-4"
    assert list((results / "small-20260120T101500Z").iterdir()) == []
    assert (results / "small-20260120T101500Z-2").read_text() == "a file"
    assert (results / "small-20260120T101500Z-3").is_symlink()


def test_folder_that_cannot_be_made_whole_is_not_there(loaded, tmp_path):
    (tmp_path / "tables für alles.sql").unlink()

    with pytest.raises(PgTrialError):
        create(loaded, tmp_path / "results")

    assert list((tmp_path / "results").iterdir()) == []


def test_place_that_cannot_be_written_is_an_error_with_advice(loaded, tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(StoreError, match="cannot create a result folder") as caught:
        create(loaded, tmp_path / "file")

    assert "--results" in caught.value.hint


def test_stored_scripts_are_used_even_if_the_originals_changed_or_vanished(loaded, tmp_path):
    folder = create(loaded, tmp_path / "results").rename(tmp_path / "moved")
    (tmp_path / "sub/lesen „schnell“.sql").write_text("SELECT 'changed';\n")
    (tmp_path / "tables für alles.sql").unlink()
    (tmp_path / "e.toml").unlink()

    stored = load_stored(folder)

    scripts = {scenario.name: scenario.script for scenario in scenarios_of(stored.experiment, folder / layout.FILES)}
    assert scripts == {"read": "SELECT 'ß';\n", "write": None}
    assert [sql for _, sql in setup_sql(stored.experiment, folder / layout.FILES)] == ["CREATE TABLE t ();\n"]
    assert stored.experiment.hypothesis.claim == "größer is 更快"


@pytest.mark.parametrize(
    "forge",
    [
        lambda arm: replace(arm, knobs={"extensions": {"create": "x\"; COPY t TO PROGRAM 'id'; --"}}),
        lambda arm: replace(arm, settings={"work_mem = 1\narchive_command": "id"}),
        lambda arm: replace(arm, settings={"listen_addresses": "*"}),
        lambda arm: replace(arm, variant=replace(arm.variant, postgres="/tmp/programs")),
        lambda arm: replace(arm, variant=replace(arm.variant, filesystem=(("type", "ext4"),))),
        lambda arm: replace(arm, cache="cold"),
        lambda arm: replace(arm, jobs=(JOB,)),
    ],
    ids=["extension", "name", "owned", "programs", "filesystem", "cache", "engine"],
)
def test_arms_that_are_not_those_of_the_experiment_are_not_continued(loaded, tmp_path, forge):
    plan = make_plan(loaded.experiment, FACTS)
    forged = replace(plan, arms=(plan.arms[0], forge(plan.arms[1])))
    folder = create_folder(loaded, forged, tmp_path / "results")

    with pytest.raises(StoreError, match="cannot be continued") as caught:
        load_stored(folder)
    assert caught.value.detail == "Its arms are not those of its experiment."


def test_an_experiment_that_no_file_could_have_is_not_continued(loaded, tmp_path):
    arms = {
        name: ArmTable.model_validate({"postgresql": {"listen_addresses": "*"}}) if name == "b" else arm
        for name, arm in loaded.experiment.arms.items()
    }
    experiment = loaded.experiment.model_copy(update={"arms": arms})
    loaded = replace(loaded, experiment=experiment)
    folder = create_folder(loaded, make_plan(experiment, FACTS), tmp_path / "results")

    with pytest.raises(StoreError, match="cannot be continued") as caught:
        load_stored(folder)
    assert caught.value.detail == (
        'arms.b.postgresql.listen_addresses: setting "listen_addresses" cannot be set in a throw-away cluster.'
    )


def test_load_levels_that_are_not_those_of_the_experiment_are_not_continued(loaded, tmp_path):
    plan = make_plan(loaded.experiment, FACTS)
    forged = replace(plan, levels=(replace(plan.levels[0], clients=10**6), *plan.levels[1:]))
    folder = create_folder(loaded, forged, tmp_path / "results")

    with pytest.raises(StoreError, match="cannot be continued"):
        load_stored(folder)


@pytest.mark.parametrize(
    ("asked", "forged"),
    [("auto", "switchback"), ("blocks", "interleaved"), ("duet", "interleaved")],
)
def test_a_method_that_the_file_does_not_lead_to_is_not_continued(loaded, tmp_path, asked, forged):
    plan = make_plan(loaded.experiment, FACTS)
    design = plan.experiment.design.model_copy(update={"method": asked})
    method = MethodChoice(method=forged, reason="", guard=0.1, slice=0.5)
    experiment = plan.experiment.model_copy(update={"design": design})
    loaded = replace(loaded, experiment=experiment)
    folder = create_folder(loaded, replace(plan, method=method), tmp_path / "results")

    with pytest.raises(StoreError, match="cannot be continued"):
        load_stored(folder)


def _stop(_event: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("arms", "base", "tell"),
    [
        pytest.param('[arms.b.sysctl]\n"vm.swappiness" = 1\n', None, pytest.fail, id="refused"),
        pytest.param('[arms.b.postgresql]\nwork_mem = "8MB"\n', "e.toml", lambda _: None, id="failing"),
        pytest.param('[arms.b.postgresql]\nwork_mem = "8MB"\n', None, _stop, marks=pytest.mark.pg, id="stopped"),
    ],
)
def test_a_folder_that_was_not_made_just_now_stays_whatever_happens(loaded, tmp_path, arms, base, tell):
    (tmp_path / "e.toml").write_text(TEXT.replace('[arms.b.postgresql]\nwork_mem = "8MB"\n', arms), encoding="utf-8")
    folder = create(load_experiment(tmp_path / "e.toml"), tmp_path / "results").rename(tmp_path / "received")
    (folder / "thesis").mkdir()
    (folder / "thesis" / "text").write_text("years")
    before = {path.name for path in folder.iterdir()}

    permission = Permission(work_base=None if base is None else tmp_path / base)
    with pytest.raises((PgTrialError, KeyboardInterrupt)):
        run_experiment(folder, permission=permission, tell=tell)

    assert {path.name for path in folder.iterdir()} >= before
    assert (folder / "thesis" / "text").read_text() == "years"


def test_folder_that_is_none_is_said_so(tmp_path):
    with pytest.raises(StoreError, match="is not a result folder"):
        load_stored(tmp_path)


def test_locked_folder_is_refused_until_it_is_let_go(tmp_path):
    assert not is_locked(tmp_path)
    with lock_folder(tmp_path):
        assert is_locked(tmp_path)
        with pytest.raises(StoreError, match="in use by another pgtrial"), lock_folder(tmp_path):
            pass
        assert is_locked(tmp_path)
    assert not is_locked(tmp_path)
    with lock_folder(tmp_path):
        pass


def test_looking_whether_a_folder_is_locked_needs_no_right_to_write(tmp_path):
    with lock_folder(tmp_path):
        (tmp_path / "lock").chmod(0o444)
        tmp_path.chmod(0o555)
        try:
            assert is_locked(tmp_path)
        finally:
            tmp_path.chmod(0o755)
    tmp_path.chmod(0o555)
    assert not is_locked(tmp_path)
    tmp_path.chmod(0o755)


def test_lock_of_a_killed_process_is_gone(tmp_path):
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        with lock_folder(tmp_path):
            os.write(tell, b"x")
            os.kill(os.getpid(), 9)
    os.read(ready, 1)
    os.waitpid(child, 0)
    os.close(ready)
    os.close(tell)

    assert not is_locked(tmp_path)


def begin(folder, *, times):
    """Begin the first run as often, as the schedule does it."""
    with closing(State.open(folder, write=True)) as state:
        for t in range(times):
            row = state.begin_run(state.slots()[0], float(t))
            note_begun(folder, state)
            state.end_runs([row.id], RunState.INTERRUPTED, t + 0.5)


@pytest.fixture
def attempt(loaded, tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "state"))
    return create_folder(loaded, make_plan(loaded.experiment, FACTS), tmp_path, tested=module.Tested())


def test_a_list_of_attempts_that_cannot_be_written_is_a_caveat(loaded, tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "e.toml"))  # a file, in which there can be no list
    folder = create_folder(loaded, make_plan(loaded.experiment, FACTS), tmp_path / "results", tested=module.Tested())

    with closing(State.open(folder)) as state:
        assert [caveat.code for _, caveat in state.caveats()] == ["attempts-unknown"]


@pytest.mark.parametrize("budget", [None, 3600.0])
def test_what_is_noted_of_a_new_folder_is_what_its_record_has(loaded, tmp_path, monkeypatch, budget):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "state"))
    design = loaded.experiment.design.model_copy(update={"budget": budget, "blocks": None if budget else 6})
    loaded = replace(loaded, experiment=loaded.experiment.model_copy(update={"design": design}))
    plan = make_plan(loaded.experiment, FACTS)
    first, second = (create_folder(loaded, plan, tmp_path / name, tested=module.Tested()) for name in ("r", "s"))

    with closing(State.open(second)) as state:
        meta = state.meta()
    assert find_attempts(second, float(meta["created"])) == (Noted(digest=meta["digest"], before=1),)
    assert [each.before for each in find_attempts(first, None)] == [0]
    with closing(State.open(first)) as state:
        began = float(state.meta()["created"])
    assert [read_plan(folder).attempts_since for folder in (first, second)] == [began, began]


def test_of_a_copied_folder_only_the_one_that_went_on_goes_on(attempt, tmp_path):
    begin(attempt, times=1)
    copy = shutil.copytree(attempt, tmp_path / "copy")
    begin(attempt, times=2)

    with pytest.raises(StoreError, match=r"went on without it: it has 1 of the 3 runs begun") as caught:
        run_experiment(copy, permission=Permission(), tell=pytest.fail)

    assert "another attempt" in caught.value.hint


def test_a_folder_that_was_moved_goes_on(attempt, tmp_path):
    begin(attempt, times=2)
    moved = attempt.rename(tmp_path / "moved")
    with closing(State.open(moved, write=True)) as state:
        state.set_meta(**{STOPPED: "the claim is decided"})  # so that nothing is left to do

    run_experiment(moved, permission=Permission(), tell=pytest.fail)
