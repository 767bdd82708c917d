import os
import subprocess
from contextlib import closing
from typing import NoReturn

import pytest

from pgtrial.design.plan import make_plan
from pgtrial.engine.experiment import Permission, run_experiment
from pgtrial.engine.folder import create_folder
from pgtrial.engine.leftovers import OWN_ROLE, mark_of
from pgtrial.errors import PgTrialError, TargetError
from pgtrial.hosts.base import LOCAL
from pgtrial.hosts.processes import MARK, find_marked, identify
from pgtrial.model.change import SERVER_SQL, Change
from pgtrial.store.belongings import Belongings, Made
from pgtrial.store.journal import Journal
from pgtrial.store.journal_file import VARIABLE
from pgtrial.store.state import STOPPED, State
from support import wait_until
from support.experiments import load_experiment

TEXT = """
format = 1
experiment = {{ name = "over" }}
{target}
[workload]
mix = "select-only"
clients = 1
duration = "1s"
[arms.a]
[arms.b.postgresql]
work_mem = "8MB"
"""


@pytest.fixture
def make_folder(tmp_path):
    """A result folder of an experiment of which nothing was run."""

    def make(target=""):
        (tmp_path / "e.toml").write_text(TEXT.format(target=target))
        loaded = load_experiment(tmp_path / "e.toml")
        return create_folder(loaded, make_plan(loaded.experiment), tmp_path)

    return make


@pytest.fixture
def make_finished(tmp_path, make_folder):
    """A result folder of an experiment that was over when pgtrial was killed, and the directory that it left."""

    def make(target=""):
        folder = make_folder(target)
        host = load_experiment(tmp_path / "e.toml").experiment.target.host
        left = tmp_path / "pgtrial-0000002a"
        left.mkdir()
        with closing(State.open(folder, write=True)) as state:
            state.set_meta(**{STOPPED: "the claim is decided"})
        Belongings.of(folder).add_directory(Made(path=left, host=host or LOCAL))
        return folder, left

    return make


def test_what_a_finished_experiment_left_is_removed(make_finished):
    folder, left = make_finished()

    run_experiment(folder, permission=Permission(), tell=pytest.fail)

    assert not left.exists()


def test_the_report_of_a_finished_experiment_leaves_what_a_hook_left_on_purpose(make_finished):
    folder, left = make_finished()
    process = identify(os.getpid())
    belongings = Belongings.of(folder)
    belongings.add_process(process, OWN_ROLE)
    belongings.add_ended()
    with subprocess.Popen(["sleep", "60"], env={**os.environ, MARK: mark_of(folder)}) as daemon:
        try:
            wait_until(lambda: find_marked(mark_of(folder)))
            run_experiment(folder, permission=Permission(), tell=pytest.fail)

            assert daemon.poll() is None
            assert not left.exists()
        finally:
            daemon.kill()


def test_an_end_in_order_is_on_record_also_one_with_an_error(make_folder, monkeypatch):
    monkeypatch.setattr("pgtrial.engine.experiment.open_host", _refuse_to_open)
    folder = make_folder()
    assert not Belongings.of(folder).has_ended()
    with pytest.raises(TargetError, match="not opened"):
        run_experiment(folder, permission=Permission(), tell=pytest.fail)
    assert Belongings.of(folder).has_ended()


@pytest.mark.parametrize("is_new", [True, False])
def test_only_a_folder_that_was_made_here_is_on_record_as_measured_here(make_finished, is_new):
    folder, _ = make_finished()

    run_experiment(folder, permission=Permission(), tell=pytest.fail, is_new=is_new)

    assert Belongings.of(folder).is_measured_here() is is_new


@pytest.mark.parametrize(
    ("target", "refused"),
    [
        ("", False),
        ("[target]\n[target.sysctl]\n'vm.swappiness' = 1", True),
        ('[target]\nkind = "server"\ndatabase = "erp"\n[dataset]\nkind = "existing"', True),
    ],
)
def test_an_arms_sql_in_an_existing_database_keeps_away_what_could_touch_it(
    target, refused, make_folder, start_process, monkeypatch
):
    folder = make_folder(target)
    monkeypatch.setenv(VARIABLE, f"{folder}-state")
    other = start_process()
    owner = other
    change = Change(knob=SERVER_SQL, name="SQL", old={}, new={}, old_text="not applied", new_text="applied")
    with Journal.open(write=True) as journal:
        journal.begin(change, host=LOCAL, boot_id="b", folder="/results/erp", run=1, owner=owner, t=1.0)
    monkeypatch.setattr("pgtrial.engine.experiment.open_host", _refuse_to_open)

    with pytest.raises(PgTrialError) as found:
        run_experiment(folder, permission=Permission(host_changes=True), tell=pytest.fail)

    assert ("in use by another experiment" in found.value.message) is refused
    assert refused or found.value.message == "not opened"


def _refuse_to_open(*_: object, **__: object) -> NoReturn:
    raise TargetError("not opened")


def test_what_one_left_on_another_host_is_not_looked_for_here(make_finished, monkeypatch):
    monkeypatch.setenv("PGTRIAL_SSH", "false")  # a host that cannot be reached
    folder, left = make_finished('target = { host = "ssh://dba@db.invalid" }')

    run_experiment(folder, permission=Permission(), tell=pytest.fail)

    assert left.exists()
