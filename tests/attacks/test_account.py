"""What the server and the load of an experiment can do: nothing that the account does not have, and nothing to root."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgtrial.engine.leftovers import mark_of
from pgtrial.engine.loads.pgbench import PgbenchLoad
from pgtrial.engine.target.base import RunningServer
from pgtrial.experiment_file.workload_table import WorkloadTable
from pgtrial.hosts.base import Account
from pgtrial.hosts.local import LocalHost, server_account
from pgtrial.hosts.operations import MARK, Operations, session_group
from pgtrial.hosts.processes import end_strays, find_marked, identify, is_alive
from pgtrial.model.arm import Arm, Role
from pgtrial.postgres.settings import Setting
from pgtrial.workloads.scenarios import Scenario
from support import wait_until
from support.attack.races import below, neighbour

pytestmark = [
    pytest.mark.pg,
    pytest.mark.skipif(os.geteuid() != 0, reason="without root, server and load run as the user himself"),
]
TEXT = """
format = 1
experiment = { name = "gift" }
hypothesis = { claim = "b is better", arm = "b", expect = "better" }
dataset = { kind = "sql", setup = "setup.sql" }
design = { blocks = 1 }
[workload]
clients = 1
duration = "2s"
warmup = 0
[[workload.scenario]]
name = "s"
file = "s.sql"
[arms.a.postgresql]
work_mem = "4MB"
[arms.b.postgresql]
work_mem = "8MB"
"""
PROBE = """#!/bin/sh
cd {out} || exit
id -u > $1-uid
id -G > $1-groups
grep NoNewPrivs /proc/self/status > $1-nnp
env > $1-env
cat {secret} > $1-secret 2>&1
echo owned >> {victim}
echo 1
"""


@pytest.fixture
def account() -> Account:
    found = server_account()
    assert found is not None
    return found


@pytest.fixture
def place(storage: Path, account: Account) -> Iterator[Path]:
    """A directory of root's that everybody may enter; what is written into ``out`` is the account's."""
    place = storage / f"pgtrial-attack-{os.getpid()}"
    place.mkdir(mode=0o755)
    (place / "out").mkdir()
    os.chown(place / "out", account.uid, account.gid)
    for name in ("secret", "victim"):
        (place / name).write_text("precious\n")
        (place / name).chmod(0o600)
    yield place
    subprocess.run(["rm", "-rf", place], check=True)


def write(place: Path, *, setup: str = "SELECT 1;\n", script: str = "SELECT 1;\n") -> Path:
    (place / "setup.sql").write_text(setup)
    (place / "s.sql").write_text(script)
    (place / "e.toml").write_text(TEXT)
    probe = place / "probe"
    probe.write_text(PROBE.format(out=place / "out", secret=place / "secret", victim=place / "victim"))
    probe.chmod(0o755)
    return place / "e.toml"


def load_by_psql(place: Path, text: str) -> None:
    """Let the data of the experiment come from a file for psql."""
    (place / "e.toml").write_text(TEXT.replace('setup = "setup.sql"', 'load = ["load.sql"]'))
    (place / "load.sql").write_text(text)


def environment_of(place: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PGTRIAL_STATE_DIRECTORY": str(place / "state"),
        "AWS_SECRET_ACCESS_KEY": "geheim",
        "PGTRIAL_NARRATE_KEY": "geheim",
    }


def command(place: Path, *options: str) -> list[str]:
    work = str(place / "work")
    return [sys.executable, "-m", "pgtrial", "run", "-q", "e.toml", "--work-directory", work, *options]


def run(place: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(place, *options),
        cwd=place,
        env=environment_of(place),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_code_of_a_file_has_the_rights_of_the_account_and_no_others(place: Path, account: Account) -> None:
    write(
        place,
        setup=f"COPY (SELECT 1) TO PROGRAM 'cat > /dev/null; {place}/probe sql';\n",
        script=f"\\setshell x {place}/probe load\nSELECT :x;\n",
    )

    done = run(place, "--allow-code")

    assert done.returncode == 0, done.stderr
    out = {path.name: path.read_text() for path in (place / "out").iterdir()}
    (results,) = (place / "results").iterdir()
    out["group"] = str(session_group(mark_of(results)))
    for who in ("sql", "load"):
        assert int(out[f"{who}-uid"]) == account.uid
        assert out[f"{who}-groups"].split() in ([str(account.gid)], [str(account.gid), out["group"].strip()])
        assert out[f"{who}-nnp"].split() == ["NoNewPrivs:", "1"]
        assert "Permission denied" in out[f"{who}-secret"]
        assert "geheim" not in out[f"{who}-env"]
    assert (place / "victim").read_text() == "precious\n"


def test_commands_of_data_to_load_have_the_rights_of_the_account(place: Path, account: Account) -> None:
    write(place)
    load_by_psql(place, f"SELECT 1;\n\\! {place}/probe psql\n")

    done = run(place, "--allow-code")

    assert done.returncode == 0, done.stderr
    out = {path.name: path.read_text() for path in (place / "out").iterdir()}
    (results,) = (place / "results").iterdir()
    group = session_group(mark_of(results))
    assert int(out["psql-uid"]) == account.uid
    assert out["psql-groups"].split() == [str(account.gid), *([] if group is None else [str(group)])]
    assert out["psql-nnp"].split() == ["NoNewPrivs:", "1"]
    assert "Permission denied" in out["psql-secret"]
    assert "geheim" not in out["psql-env"]
    assert (place / "victim").read_text() == "precious\n"


def test_code_is_not_executed_unasked(place: Path) -> None:
    write(place, script=f"\\setshell x {place}/probe load\nSELECT :x;\n")

    done = run(place)

    assert done.returncode == 2
    assert "--allow-code" in done.stderr
    assert list((place / "out").iterdir()) == []


def test_the_account_is_none_that_owns_a_server(account: Account) -> None:
    assert account.name in ("pgtrial", "nobody")


def test_root_does_not_write_where_the_account_can_swap_names(place: Path, account: Account) -> None:
    """As the account does, whoever has it: every name in its directories is a link to root's file half of the time."""
    write(place)
    work = place / "work"

    def names() -> list[Path]:
        found = []
        for directory in work.glob("pgtrial-*"):
            # What lies in root's directories he cannot list, and has to guess.
            for name in ("pgtrial.conf", "pgtrial.conf.new", "startup.log", "snapshot.complete"):
                found.append(directory / name)
            for part in ("data", "log", "s", "wal", "snapshot"):
                found += [directory / part, *below(directory / part)]
        return found

    swaps = 0
    for _ in range(5):  # a name is there for moments only, and the neighbour has to meet one of them
        with neighbour(names, place / "victim", user=(account.uid, account.gid)) as told:
            done = run(place)
            swaps += int(told.read_text())
        if swaps:
            break

    assert (place / "victim").read_text() == "precious\n"
    assert swaps > 0
    for path in place.rglob("*"):  # nor was it read into what is kept
        if path.is_file() and not path.is_symlink() and path.name not in ("victim", "secret"):
            assert b"precious" not in path.read_bytes(), (path, done.stderr)


@pytest.mark.parametrize("what", ["wal", "tablespace", "archive", "pgbouncer"])
def test_root_does_not_go_where_the_account_swaps_names_beside_the_data(
    place: Path, account: Account, what: str
) -> None:
    """The WAL on a disk of its own, a tablespace, an archive, a pooler's files: the same neighbour as above."""
    if what == "pgbouncer" and shutil.which("pgbouncer") is None:
        pytest.skip("pgbouncer is not installed")
    disk, own = place / "disk", place / "out" / "own"
    disk.mkdir(mode=0o755)
    own.mkdir()
    os.chown(own, account.uid, account.gid)
    setup = f"CREATE TABLESPACE t LOCATION '{own}'; CREATE TABLE x TABLESPACE t AS SELECT 1;\n"
    write(place, setup=setup if what == "tablespace" else "SELECT 1;\n")
    tables = {
        "wal": f'[arms.{{}}.storage]\nwal = "{disk}"\n',
        "archive": f'archive_mode = "on"\narchive_timeout = "1s"\narchive_command = "cp %p {own}/%f"\n',
        "pgbouncer": '[arms.{}.pgbouncer]\npool_mode = "session"\n',
    }
    for arm, memory in (("a", "4MB"), ("b", "8MB")):
        (place / "e.toml").write_text(
            (place / "e.toml")
            .read_text()
            .replace(f'work_mem = "{memory}"\n', f'work_mem = "{memory}"\n{tables.get(what, "").format(arm)}')
        )

    def names() -> list[Path]:
        found = [*below(own), *below(disk)]
        for directory in (*(place / "work").glob("pgtrial-*"), *disk.glob("pgtrial-*")):
            for name in ("pgbouncer.ini", "pgbouncer.users", "pgbouncer.log", "wal", "data"):
                found.append(directory / name)
            for part in ("s", "wal", "data/pg_tblspc", "data/pg_wal", "log"):
                found += [directory / part, *below(directory / part)]
        return found

    swaps, said = 0, []
    for _ in range(4):
        with neighbour(names, place / "victim", user=(account.uid, account.gid)) as told:
            said.append(run(place, "--allow-code").stderr)
            swaps += int(told.read_text())
        if swaps:
            break

    assert (place / "victim").read_text() == "precious\n"
    assert swaps > 0, said
    for path in place.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.name not in ("victim", "secret"):
            assert b"precious" not in path.read_bytes(), (path, said)


def test_root_does_not_follow_what_the_load_swaps_in_its_own_directory(place: Path) -> None:
    """Nobody reaches it from elsewhere, so whoever swaps names there comes out of the load."""
    swapper = place / "swapper"
    swapper.write_text(
        f"""#!/bin/sh
mkdir .once 2> /dev/null && setsid sh -c 'while :; do for name in *; do
    mv -T "$name" .away && ln -sT {place}/secret "$name" && echo swapped >> {place}/out/swaps
    rm -f "$name"; mv -T .away "$name"
done; done' > /dev/null 2>&1 < /dev/null &
echo 1
"""
    )
    swapper.chmod(0o755)
    write(place, script=f"\\setshell x {swapper}\nSELECT :x;\n")

    swaps = place / "out" / "swaps"
    for _ in range(5):  # the load may be over before the swapper has begun
        run(place, "--allow-code")
        if swaps.exists():
            break

    assert "swapped" in swaps.read_text()
    assert (place / "secret").read_text() == "precious\n"
    for path in (place / "results").rglob("*"):
        assert path.is_symlink() or not path.is_file() or b"precious" not in path.read_bytes(), path


def test_links_that_the_server_leaves_are_not_followed(place: Path) -> None:
    """A set-up that puts a link in the place of the log and of what else root reads."""
    trap = place / "trap"
    trap.write_text(
        f"""#!/bin/sh
cat > /dev/null
for name in ../log/server.json ../startup.log ../pgtrial.conf postgresql.conf.new pgtrial.conf.new pgtrial.conf; do
    ln -sf {place}/victim $name 2>> {place}/out/refused
done
"""
    )
    trap.chmod(0o755)
    write(place, setup=f"COPY (SELECT 1) TO PROGRAM '{trap}';\n")

    run(place, "--allow-code")

    assert (place / "victim").read_text() == "precious\n"
    assert "Permission denied" in (place / "out" / "refused").read_text()
    for path in (place / "results").rglob("*"):
        assert not path.is_file() or b"precious" not in path.read_bytes()


def test_a_place_that_others_can_change_is_refused(place: Path, account: Account) -> None:
    write(place)
    (place / "work").mkdir()
    os.chown(place / "work", account.uid, account.gid)

    done = run(place)

    assert done.returncode != 0
    assert f'others may change "{place / "work"}"' in done.stderr
    assert list((place / "work").iterdir()) == []


def daemon(place: Path) -> Path:
    """A program that leaves one running which has forgotten where it comes from; its process id is in ``out/pid``."""
    path = place / "daemon"
    path.write_text(
        f"#!/bin/sh\nsetsid env -i /bin/sh -c 'echo $$ > {place}/out/new; mv {place}/out/new {place}/out/pid; "
        "exec sleep 900' > /dev/null 2>&1 < /dev/null &\necho 1\n"
    )
    path.chmod(0o755)
    return path


def pid_of(place: Path) -> int:
    path = place / "out" / "pid"
    wait_until(path.exists)
    return int(path.read_text())


@pytest.mark.parametrize("by", ["sql", "load", "psql"])
def test_what_an_experiment_starts_ends_with_it(place: Path, by: str) -> None:
    start = daemon(place)
    setup, script = f"COPY (SELECT 1) TO PROGRAM 'cat > /dev/null; {start}';\n", f"\\setshell x {start}\nSELECT :x;\n"
    write(place, setup=setup if by == "sql" else "SELECT 1;\n", script=script if by == "load" else "SELECT 1;\n")
    if by == "psql":
        load_by_psql(place, f"SELECT 1;\n\\! {start}\n")

    done = run(place, "--allow-code")

    assert done.returncode == 0, done.stderr
    assert identify(pid_of(place)) is None
    assert "what the experiment had left running: sleep 900" in done.stderr


@pytest.mark.parametrize("by", ["sql", "psql"])
def test_what_an_experiment_starts_ends_with_restore_after_a_kill(place: Path, by: str) -> None:
    write(place, setup=f"COPY (SELECT 1) TO PROGRAM 'cat > /dev/null; {daemon(place)}';\nSELECT pg_sleep(900);\n")
    if by == "psql":
        load_by_psql(place, f"\\! {daemon(place)}\nSELECT pg_sleep(900);\n")
    with subprocess.Popen(command(place, "--allow-code"), cwd=place, env=environment_of(place)) as pgtrial:
        try:
            stray = identify(pid_of(place))
        finally:
            pgtrial.kill()
    assert stray is not None
    assert is_alive(stray)

    restored = subprocess.run(
        [sys.executable, "-m", "pgtrial", "restore"],
        env=environment_of(place),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )

    assert not is_alive(stray), restored.stdout + restored.stderr


def test_a_neighbour_with_the_mark_of_a_folder_is_not_ended(tmp_path: Path, account: Account) -> None:
    """Anybody can put it into his environment; only root can give a process the group."""
    group = session_group(str(tmp_path))
    if group is None:
        pytest.skip("this container has no such groups")

    def start(groups: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["setpriv", f"--reuid={account.uid}", f"--regid={account.gid}", groups, "sleep", "900"],
            env={**os.environ, MARK: str(tmp_path), "PGTRIAL_CODE": "load"},
        )

    with start("--clear-groups") as neighbour_, start(f"--groups={group}") as own:
        try:
            wait_until(lambda: find_marked(str(tmp_path)))

            assert len(end_strays(str(tmp_path))) == 1
            assert own.wait(timeout=60) == -9
            assert neighbour_.poll() is None
        finally:
            neighbour_.kill()
            own.kill()


class NotingOperations(Operations):
    """Notes whose directory it is in which root makes a file."""

    def __init__(self) -> None:
        self.owners: list[int] = []

    def put(self, path: str, text: str, owner: tuple[int, int] | None = None, mode: int = 0o644) -> None:
        self.owners.append(Path(path).parent.stat().st_uid)
        super().put(path, text, owner, mode)


def test_root_writes_the_script_of_a_trial_before_the_account_can_move_its_directory(account: Account) -> None:
    ops = NotingOperations()
    host = LocalHost(ops=ops)
    load = PgbenchLoad(
        program=Path("/bin/true"),
        account=account,
        workload=WorkloadTable.model_validate({"mix": "select-only"}),
        scenarios=(Scenario(name="s", script="SELECT 1;"),),
        seed=1,
        here=host,
        there=host,
    )
    server = RunningServer(
        settings={
            "max_connections": Setting(
                name="max_connections",
                value="100",
                unit="",
                vartype="integer",
                source="default",
                source_file="",
                shown="100",
            )
        },
        changes=(),
        version="16.2",
        version_num=160000,
        database="x",
        control="",
        conninfo=lambda database: database,
        environment={},
        directories=(),
        groups=(),
        confirmed=frozenset(),
    )

    asyncio.run(load.try_out(Arm(name="a", role=Role.CONTROL), server))

    assert ops.owners == [0]
