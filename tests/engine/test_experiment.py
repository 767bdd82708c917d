from contextlib import closing

import pytest

from pgtrial.design.plan import make_plan
from pgtrial.engine.experiment import Permission, run_experiment
from pgtrial.engine.folder import create_folder
from pgtrial.experiment_file.load import load_experiment
from pgtrial.hosts.base import LOCAL
from pgtrial.store.belongings import Belongings, Made
from pgtrial.store.state import STOPPED, State

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
def make_finished(tmp_path):
    """A result folder of an experiment that was over when pgtrial was killed, and the directory that it left."""

    def make(target=""):
        (tmp_path / "e.toml").write_text(TEXT.format(target=target))
        loaded = load_experiment(tmp_path / "e.toml")
        folder = create_folder(loaded, make_plan(loaded.experiment), tmp_path)
        left = tmp_path / "pgtrial-0000002a"
        left.mkdir()
        with closing(State.open(folder, write=True)) as state:
            state.set_meta(**{STOPPED: "the claim is decided"})
        Belongings.of(folder).add_directory(Made(path=left, host=loaded.experiment.target.host or LOCAL))
        return folder, left

    return make


def test_what_a_finished_experiment_left_is_removed(make_finished):
    folder, left = make_finished()

    run_experiment(folder, permission=Permission(), tell=pytest.fail)

    assert not left.exists()


@pytest.mark.parametrize("is_new", [True, False])
def test_only_a_folder_that_was_made_here_is_on_record_as_measured_here(make_finished, is_new):
    folder, _ = make_finished()

    run_experiment(folder, permission=Permission(), tell=pytest.fail, is_new=is_new)

    assert Belongings.of(folder).is_measured_here() is is_new


def test_what_one_left_on_another_host_is_not_looked_for_here(make_finished, monkeypatch):
    monkeypatch.setenv("PGTRIAL_SSH", "false")  # a host that cannot be reached
    folder, left = make_finished('target = { host = "ssh://dba@db.invalid" }')

    run_experiment(folder, permission=Permission(), tell=pytest.fail)

    assert left.exists()
