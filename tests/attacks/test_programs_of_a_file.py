"""An experiment file from a stranger: check and plan start nothing that it names."""

import asyncio
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from pgtrial.cli.main import main
from pgtrial.errors import PreflightError
from pgtrial.hosts.local import LocalHost, own_program
from pgtrial.hosts.operations import Operations
from pgtrial.postgres.programs import NEEDED, find_programs

TEXT = """
format = 1
experiment = { name = "gift" }
hypothesis = { claim = "b is better", arm = "b", expect = "better" }
dataset = { scale = 1 }
workload = { mix = "select-only", clients = 1, duration = "2s" }
design = { blocks = 2 }
[arms.a.postgresql]
work_mem = "4MB"
[arms.b.postgresql]
work_mem = "8MB"
"""


def plant(directory: Path, witness: Path) -> Path:
    """Programs that leave a witness of having been started."""
    directory.mkdir(parents=True)
    for name in NEEDED:
        program = directory / name
        program.write_text(f"#!/bin/sh\nid -u > {witness}\necho '{name} (PostgreSQL) 16.2'\n")
        program.chmod(0o755)
    return directory


@pytest.fixture
def witness(tmp_path: Path) -> Path:
    return tmp_path / "witness"


@pytest.mark.parametrize("command", [["check"], ["check", "--no-host"], ["plan"], ["plan", "--json"]])
@pytest.mark.parametrize(
    "change",
    [
        lambda text, path: text + f'[target]\npostgres = "{path}"\n',
        lambda text, path: text.replace(
            "[arms.b.postgresql]", f'[arms.b.server]\npostgres = "{path}"\n[arms.b.postgresql]'
        ),
        lambda text, path: text.replace("select-only", "no-such-mix") + f'[target]\npostgres = "{path}"\n',
        lambda text, path: text + f'[target]\nkind = "server"\npostgres = "{path}"\n',
    ],
    ids=["target", "arm", "invalid file", "client of an existing server"],
)
def test_programs_that_a_file_names_are_not_started(
    command: Sequence[str],
    change,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    witness, pg = tmp_path / "witness", tmp_path / "pg"
    plant(pg, witness)
    file = tmp_path / "e.toml"
    file.write_text(change(TEXT, os.path.relpath(pg)))

    status = main([*command, str(file)])

    told = " ".join("".join(capsys.readouterr()).split())
    assert not witness.exists(), told
    assert "has not been started" in told or status == 2


@pytest.mark.parametrize("command", [["check"], ["plan"], ["plan", "--json"]])
def test_no_other_machine_is_asked_that_only_the_file_names(
    command: Sequence[str],
    tmp_path: Path,
    witness: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    ssh = programs / "ssh"
    ssh.write_text(f"#!/bin/sh\necho asked > {witness}\nexit 255\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    file = tmp_path / "e.toml"
    file.write_text(f'{TEXT}[target]\nhost = "ssh://db1"\n[arms.b.sysctl]\n"vm.swappiness" = 1\n')

    assert main([*command, str(file)]) == 0
    told = capsys.readouterr().out
    assert not witness.exists()
    assert "--host ssh://db1" in told or '"host_changes": null' in told

    assert main([*command, "--host", "ssh://db2", str(file)]) == 2
    assert 'the experiment runs on "ssh://db1", not on "ssh://db2"' in capsys.readouterr().err
    assert not witness.exists()

    main([*command, "--host", "ssh://db1", str(file)])
    assert witness.exists()


def test_programs_are_started_where_the_user_vouches_for_them(tmp_path: Path, witness: Path) -> None:
    place = plant(tmp_path / "pg", witness)

    with pytest.raises(PreflightError, match="has not been started"):
        find_programs(str(place))
    assert not witness.exists()

    assert find_programs(str(place), may_run=True).version == "16.2"
    assert witness.exists()


def test_directory_that_pg_config_names_needs_no_word_of_the_user(
    tmp_path: Path, witness: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = plant(tmp_path / "pg", witness)
    pg_config = place / "pg_config"
    pg_config.write_text(f"#!/bin/sh\necho {place}\n")
    pg_config.chmod(0o755)
    monkeypatch.setenv("PG_CONFIG", str(pg_config))

    assert find_programs(str(place)).version == "16.2"


@pytest.mark.parametrize("part", ["program", "directory", "above", "link"])
def test_programs_that_others_can_change_are_never_started(part: str, tmp_path: Path, witness: Path) -> None:
    place = plant(tmp_path / "above" / "pg", witness)
    others = {"program": place / "postgres", "directory": place, "above": place.parent}
    wanted = place
    if part == "link":  # a directory of others through which the programs are reached
        (tmp_path / "open").mkdir()
        (tmp_path / "open").chmod(0o777)
        (tmp_path / "open" / "pg").symlink_to(place)
        wanted = tmp_path / "link"
        wanted.symlink_to(tmp_path / "open" / "pg")
    else:
        others[part].chmod(0o777)

    with pytest.raises(PreflightError, match="others may change"):
        find_programs(str(wanted), may_run=True)
    assert not witness.exists()


def test_program_beside_the_file_is_not_found_by_a_path_with_a_dot(
    tmp_path: Path, witness: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(tmp_path / "gift", witness)
    (tmp_path / "gift" / "pg_config").write_text(f"#!/bin/sh\nid -u > {witness}\n")
    (tmp_path / "gift" / "pg_config").chmod(0o755)
    monkeypatch.chdir(tmp_path / "gift")
    monkeypatch.setenv("PATH", f".:{os.environ['PATH']}")
    monkeypatch.delenv("PG_CONFIG", raising=False)

    find_programs()

    assert not witness.exists()


def test_what_others_can_change_is_named(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    mine = shared / "mine"
    mine.write_text("")
    find = Operations().find_changeable

    assert find(str(mine)) == ""  # in such a directory only its owner may put another file in its place
    mine.chmod(0o666)
    assert find(str(mine)) == str(mine)
    mine.chmod(0o644)
    shared.chmod(0o777)
    assert find(str(mine)) == str(shared)
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"):
        find(str(tmp_path / "a"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_what_another_user_owns_is_changeable(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.write_text("")
    os.chown(theirs, 65534, 65534)

    assert Operations().find_changeable(str(theirs)) == str(theirs)


def test_a_known_directory_that_others_can_change_is_no_exception(
    tmp_path: Path, witness: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = plant(tmp_path / "pg", witness)
    monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")
    (place / "postgres").chmod(0o777)

    with pytest.raises(PreflightError, match="others may change"):
        find_programs(str(place))
    assert not witness.exists()


def test_a_known_directory_is_started_by_its_own_path(
    tmp_path: Path, witness: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = plant(tmp_path / "pg", witness)
    monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "open" / "pg").symlink_to(place)  # anybody may lead it elsewhere between two looks

    assert find_programs(str(tmp_path / "open" / "pg")).directory == place


def test_registering_starts_no_program_that_a_repository_names(
    tmp_path: Path, witness: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repository = tmp_path / "gift"
    (repository / "sub").mkdir(parents=True)
    file = repository / "sub" / "e.toml"
    file.write_text(TEXT)

    def git(*words: str) -> str:
        author = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        command = ("git", "-C", str(repository), *author, *words)
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message", "e")
    tree = git("rev-parse", "HEAD:sub")
    (repository / ".git" / "objects" / tree[:2] / tree[2:]).unlink()  # as in a partial clone, which fetches it
    for key, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": str(tmp_path / "none"),
        "remote.origin.uploadPack": f"touch {witness}; false",
    }.items():
        git("config", key, value)

    assert main(["register", str(file)]) == 0

    assert "commit" not in capsys.readouterr().out
    assert not witness.exists()


@pytest.mark.parametrize("module", ["pgtrial.engine.sampler", "pgtrial.engine.slicer"])
def test_packages_where_pgtrial_is_started_are_not_its_own(
    module: str, tmp_path: Path, witness: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gift = tmp_path / "pgtrial"
    gift.mkdir()
    (gift / "__init__.py").write_text(f"open({str(witness)!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)

    async def start() -> None:
        process = await LocalHost().start(own_program(module), role="sampler")  # which reads nothing, and ends
        await process.wait()

    asyncio.run(start())

    assert not witness.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_who_has_called_sudo_is_nobody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    os.chown(theirs, 65534, 65534)
    find = Operations().find_changeable

    monkeypatch.setenv("SUDO_UID", "1")
    assert find(str(theirs)) == str(theirs)
    monkeypatch.setenv("SUDO_UID", "65534")
    assert find(str(theirs)) == ""
    monkeypatch.setattr(os, "geteuid", lambda: 1)  # the variable says nothing where it gave no rights
    assert find(str(theirs)) != ""
