import asyncio
import subprocess
from dataclasses import replace

import pytest

from pgtrial.design.data_size import cluster_size
from pgtrial.design.methods import BLOCKS, MethodChoice
from pgtrial.design.plan import make_plan
from pgtrial.engine.changes import HostChanges
from pgtrial.engine.events import ignore
from pgtrial.engine.fingerprint.read import VERSION_FACT
from pgtrial.engine.target import preparation
from pgtrial.engine.target.preparation import prepare_throwaway
from pgtrial.errors import PreflightError
from pgtrial.experiment_file.load import parse_experiment
from pgtrial.hosts.base import LOCAL
from pgtrial.hosts.local import LocalHost
from pgtrial.hosts.operations import Operations
from pgtrial.store.belongings import Belongings
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


def prepare(state, tmp_path, *, scale=1, more="", choice=BLOCKS):
    loaded = parse_experiment(TEXT.replace("SCALE", str(scale)) + more, "small.toml", tmp_path)
    plan = replace(make_plan(loaded.experiment), method=choice)
    changes = HostChanges(journal=None, host=LocalHost(), folder=tmp_path, knobs=(), owner=None, tell=ignore)
    preparing = prepare_throwaway(
        plan,
        tmp_path,
        state,
        Belongings.of(tmp_path),
        host=LocalHost(),
        changes=changes,
        base=tmp_path / "work",
        may_run=False,
        tell=ignore,
    )
    return asyncio.run(preparing)


def test_experiment_of_another_server_version_is_not_gone_on_with(state, tmp_path, programs):
    state.add_fingerprint({VERSION_FACT: "15.0"})

    with pytest.raises(PreflightError) as caught:
        prepare(state, tmp_path)

    assert caught.value.message.startswith(
        f"the experiment was started with PostgreSQL 15.0, but {programs.version} is"
    )
    assert not (tmp_path / "work").exists()


@pytest.mark.usefixtures("programs")
def test_data_for_which_there_is_no_space_are_not_begun(state, tmp_path):
    with pytest.raises(PreflightError, match="not enough space"):
        prepare(state, tmp_path, scale=1_000_000)

    assert not (tmp_path / "work").exists()
    assert Belongings.of(tmp_path).paths(LOCAL) == ()


@pytest.mark.usefixtures("programs")
def test_place_for_the_wal_that_cannot_be_used_leaves_nothing_in_that_of_the_data(state, tmp_path):
    with pytest.raises(PreflightError, match='cannot create a directory in "/proc"'):
        prepare(state, tmp_path, more='[target.storage]\nwal = "/proc"\n')

    assert Belongings.of(tmp_path).paths(LOCAL) != ()
    assert not [path for path in Belongings.of(tmp_path).paths(LOCAL) if path.exists()]


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize(("method", "copies"), [("blocks", 2), ("interleaved", 4)])
def test_data_of_which_each_arm_has_a_copy_need_the_space_for_them(state, tmp_path, monkeypatch, method, copies):
    class EnoughError(Exception):
        """There was space enough."""

    async def stop(*_arguments):
        raise EnoughError

    monkeypatch.setattr(preparation, "check_access", stop)
    monkeypatch.setattr(preparation, "_shares_blocks", lambda *_arguments: False)
    needed = copies * (cluster_size(1) + 150 * 1024**2)
    for free, expected in ((needed - 1, PreflightError), (needed, EnoughError)):
        monkeypatch.setattr(Operations, "space", lambda *_arguments, free=free: (2 * free, free))
        with pytest.raises(expected):
            prepare(state, tmp_path, choice=MethodChoice(method=method, reason="", slice=1.0))
        assert not [path for path in Belongings.of(tmp_path).paths(LOCAL) if path.exists()]


def test_trying_whether_copies_share_blocks_leaves_nothing(tmp_path):
    result = subprocess.run(["cp", "--reflink=always", __file__, tmp_path / "copy"], capture_output=True, check=False)
    (tmp_path / "copy").unlink(missing_ok=True)

    # Where this file lies on another file system, nothing is shared between the two.
    assert preparation._shares_blocks(LocalHost(), tmp_path) or result.returncode != 0
    assert list(tmp_path.iterdir()) == []
