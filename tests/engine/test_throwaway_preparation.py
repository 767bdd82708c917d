import asyncio
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from pgtrial.design.data_size import cluster_size
from pgtrial.design.methods import BLOCKS, MethodChoice
from pgtrial.design.plan import make_plan
from pgtrial.design.variants import may_count_statements
from pgtrial.engine.changes import HostChanges
from pgtrial.engine.events import ignore
from pgtrial.engine.fingerprint.read import VERSION_FACT
from pgtrial.engine.target import preparation
from pgtrial.engine.target.base import Preparation
from pgtrial.engine.target.preparation import prepare_throwaway
from pgtrial.engine.target.twins import make_twins
from pgtrial.errors import PreflightError
from pgtrial.experiment_file.load import parse_experiment
from pgtrial.hosts.base import LOCAL
from pgtrial.hosts.local import LocalHost
from pgtrial.hosts.operations import Operations
from pgtrial.postgres.programs import has_library
from pgtrial.store.belongings import Belongings

TEXT = """
format = 1
experiment = { name = "small" }
dataset = { scale = SCALE }
workload = { mix = "select-only" }
[arms.a]
[arms.b.postgresql]
work_mem = "8MB"
"""


def prepare(state, tmp_path, **options):
    return asyncio.run(preparing(state, tmp_path, **options))


def preparing(state, tmp_path, *, scale=1, more="", choice=BLOCKS, base=None, host=None):
    loaded = parse_experiment(TEXT.replace("SCALE", str(scale)) + more, "small.toml", tmp_path)
    plan = replace(make_plan(loaded.experiment), method=choice)
    changes = HostChanges(journal=None, host=LocalHost(), folder=tmp_path, knobs=(), owner=None, tell=ignore)
    task = Preparation(
        plan=plan,
        scripts=tmp_path,
        state=state,
        belongings=Belongings.of(tmp_path),
        host=host or LocalHost(),
        here=LocalHost(),
        changes=changes,
        base=base or tmp_path / "work",
        may_run=False,
        may_change=False,
        caller={},
        tell=ignore,
    )
    return prepare_throwaway(task)


LOADED = "SELECT setting FROM pg_settings WHERE name = 'shared_preload_libraries'"
COUNTED = "SELECT count(*) > 0 FROM pg_stat_statements"


@pytest.fixture
def place(storage):
    """A directory that the servers' account can reach, which tmp_path is not."""
    with tempfile.TemporaryDirectory(prefix="pgtrial-test-", dir=storage) as made:
        Path(made).chmod(0o711)
        yield Path(made)


async def start_both(state, tmp_path, place, more):
    """What each arm's server has loaded, and whether it counts statements."""
    target = await preparing(state, tmp_path, more=more, base=place)
    found = []
    try:
        arms = make_plan(target.experiment).arms
        for arm in arms[:2]:
            await target.restore(arm)
            server = await target.start(arm, run=None)
            async with await psycopg.AsyncConnection.connect(server.control) as connection:
                (libraries,) = await (await connection.execute(LOADED)).fetchone()
                counts = bool(libraries) and (await (await connection.execute(COUNTED)).fetchone())[0]
            found.append((libraries, counts))
            await target.stop(immediate=True)
    finally:
        await target.remove()
    return found


@pytest.mark.parametrize("says_no", [False, True])
def test_statements_are_counted_in_all_arms_alike_where_the_server_can_and_nobody_says_no(
    state, tmp_path, place, programs, says_no
):
    can = has_library(LocalHost().ops, programs, "pg_stat_statements")
    more = "[target]\ncount_statements = false\n" if says_no else ""

    found = asyncio.run(start_both(state, tmp_path, place, more))

    assert found == [("pg_stat_statements", True) if can and not says_no else ("", False)] * 2


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize("is_remote", [False, True])
def test_a_load_that_goes_through_ssh_is_told(state, tmp_path, place, is_remote):
    host = LocalHost()
    host.name = "db1" if is_remote else LOCAL

    async def caveats():
        target = await preparing(state, tmp_path, base=place, host=host)
        await target.remove()
        return [caveat.code for caveat in target.caveats]

    assert asyncio.run(caveats()) == (["load-through-ssh"] if is_remote else [])


@pytest.mark.parametrize(
    ("more", "may"),
    [
        ("", True),
        ("[target]\ncount_statements = false\n", False),
        ('[target.postgresql]\nshared_preload_libraries = "auto_explain"\n', False),
        ('[arms.b.extensions]\npreload = ["pg_stat_statements"]\n', False),
    ],
)
def test_no_library_comes_beside_those_that_the_file_names(tmp_path, more, may):
    loaded = parse_experiment(TEXT.replace("SCALE", "1") + more, "small.toml", tmp_path)

    assert may_count_statements(loaded.experiment, make_plan(loaded.experiment).arms) is may


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
    needed = copies * (cluster_size("pgbench", 1) + 150 * 1024**2)
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


async def prepare_twins(state, tmp_path, place):
    target = await preparing(state, tmp_path, base=place)
    try:
        plan = make_plan(target.experiment)
        twins = make_twins(target, Belongings.of(tmp_path), {arm.name: arm for arm in plan.arms[:2]})
        try:
            return target.counting, [member.counting for member in twins.members.values()]
        finally:
            await twins.remove()
    finally:
        await target.remove()


@pytest.mark.usefixtures("programs")
def test_arms_that_take_turns_count_statements_as_one_alone_would(state, tmp_path, place):
    alone, twins = asyncio.run(prepare_twins(state, tmp_path, place))

    assert twins == [alone, alone]


class Counted:
    """A record whose runs had these libraries."""

    def __init__(self, *libraries):
        self.libraries = libraries

    def settings(self):
        return {run: {"shared_preload_libraries": (each, "default")} for run, each in enumerate(self.libraries)}


@pytest.mark.parametrize(
    ("before", "goes_on"),
    [((), True), (("pg_stat_statements",), True), (("",), False), (("pg_stat_statements", ""), False)],
)
def test_an_experiment_goes_on_counting_as_it_began(tmp_path, programs, before, goes_on):
    plan = make_plan(parse_experiment(TEXT.replace("SCALE", "1"), "small.toml", tmp_path).experiment)
    found = preparation._counting(plan, Counted(*before), LocalHost(), [programs])

    can = has_library(LocalHost().ops, programs, "pg_stat_statements")
    assert bool(found) is (can and goes_on)
