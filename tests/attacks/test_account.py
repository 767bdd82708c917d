"""What the server and the load of an experiment can do: nothing that the account does not have, and nothing to root."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgtrial.engine.loads.pgbench import PgbenchLoad
from pgtrial.engine.target.base import RunningServer
from pgtrial.experiment_file.experiment import WorkloadTable
from pgtrial.hosts.base import Account
from pgtrial.hosts.local import LocalHost, server_account
from pgtrial.hosts.operations import Operations
from pgtrial.model.arm import Arm, Role
from pgtrial.postgres.settings import Setting
from pgtrial.workloads.scenarios import Scenario
from support.attack.races import neighbour

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


def run(place: Path, *options: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PGTRIAL_STATE_DIRECTORY": str(place / "state"),
        "AWS_SECRET_ACCESS_KEY": "geheim",
        "PGTRIAL_NARRATE_KEY": "geheim",
    }
    return subprocess.run(
        [sys.executable, "-m", "pgtrial", "run", "-q", "e.toml", "--work-directory", str(place / "work"), *options],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_code_of_a_file_has_the_rights_of_the_account_and_no_others(place: Path, account: Account) -> None:
    write(
        place,
        setup=f"COPY (SELECT 1) TO PROGRAM '{place}/probe sql';\n",
        script=f"\\setshell x {place}/probe load\nSELECT :x;\n",
    )

    done = run(place, "--allow-code")

    assert done.returncode == 0, done.stderr
    out = {path.name: path.read_text() for path in (place / "out").iterdir()}
    for who in ("sql", "load"):
        assert int(out[f"{who}-uid"]) == account.uid
        assert out[f"{who}-groups"].split() == [str(account.gid)]
        assert out[f"{who}-nnp"].split() == ["NoNewPrivs:", "1"]
        assert "Permission denied" in out[f"{who}-secret"]
        assert "geheim" not in out[f"{who}-env"]
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
            for part in ("", "data", "log", "s", "data/log"):
                for name in ("pgtrial.conf", "pgtrial.conf.new", "startup.log", "server.json", "snapshot.complete"):
                    found.append(directory / part / name)
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
        clients=1,
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
