import asyncio

import pytest

from pgtrial.design.arms import resolve_arms
from pgtrial.engine.changes import HostChanges
from pgtrial.engine.events import ignore
from pgtrial.engine.fingerprint.read import VERSION_FACT
from pgtrial.engine.target.preparation import prepare_throwaway
from pgtrial.errors import PreflightError
from pgtrial.hosts.local import LocalHost
from pgtrial.spec.load import parse_experiment
from pgtrial.store.state import State

TEXT = """
format = 1
experiment = { name = "small" }
dataset = { scale = SCALE }
workload = { mix = "select-only" }
[arms.a]
[arms.b.postgresql]
work_mem = "8MB"
"""


@pytest.fixture
def state(tmp_path):
    state = State.create(tmp_path)
    yield state
    state.close()


def prepare(state, tmp_path, *, scale=1, more=""):
    loaded = parse_experiment(TEXT.replace("SCALE", str(scale)) + more, "small.toml", tmp_path)
    state.set_plan(resolve_arms(loaded.experiment), (), ())
    changes = HostChanges(journal=None, host=LocalHost(), folder=tmp_path, knobs=(), owner=None, tell=ignore)
    preparing = prepare_throwaway(loaded, state, host=LocalHost(), changes=changes, base=tmp_path / "work", tell=ignore)
    return asyncio.run(preparing)


def test_experiment_of_another_server_version_is_not_gone_on_with(state, tmp_path, programs):
    state.add_fingerprint({VERSION_FACT: "15.0"})

    with pytest.raises(PreflightError) as caught:
        prepare(state, tmp_path)

    assert caught.value.message.startswith(f"the experiment was begun with PostgreSQL 15.0, but {programs.version} is")
    assert not (tmp_path / "work").exists()


@pytest.mark.usefixtures("programs")
def test_data_for_which_there_is_no_space_are_not_begun(state, tmp_path):
    with pytest.raises(PreflightError, match="not enough space"):
        prepare(state, tmp_path, scale=1_000_000)

    assert not (tmp_path / "work").exists()
    assert state.work_directories() == ()


@pytest.mark.usefixtures("programs")
def test_place_for_the_wal_that_cannot_be_used_leaves_nothing_in_that_of_the_data(state, tmp_path):
    with pytest.raises(PreflightError, match='cannot make a directory in "/proc"'):
        prepare(state, tmp_path, more='[target.storage]\nwal = "/proc"\n')

    assert state.work_directories() != ()
    assert not [path for path in state.work_directories() if path.exists()]
