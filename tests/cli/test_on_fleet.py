"""What the commands say about a fleet before anything is run."""

import importlib.util
import json
from pathlib import Path

import pytest

from pgtrial.cli import session
from pgtrial.cli.main import main
from pgtrial.design.plan import Plan
from pgtrial.engine.folder import load_stored
from pgtrial.fleet import extra
from pgtrial.fleet.host_folders import host_folder, keep_hosts
from pgtrial.fleet.hosts_file import read_fleet
from pgtrial.store.journal_file import VARIABLE

TEXT = """\
format = 1
[experiment]
name = "small"
[workload]
mix = "select-only"
duration = "10s"
[arms.small.postgresql]
shared_buffers = "128MB"
[arms.large.postgresql]
shared_buffers = "256MB"
[design]
blocks = 5
seed = 3
"""
HOSTS = '[[host]]\nname = "db1"\nssh = "ssh://me@db1"\n[[host]]\nname = "here"\nlocal = true\n'

SSH = '[[host]]\nname = "db1"\nssh = "ssh://me@db1"\n[[host]]\nname = "db2"\nssh = "ssh://me@db2"\n'
LOCAL = '[[host]]\nname = "here"\nlocal = true\n'
FILES = """\
format = 1
[experiment]
name = "small"
[target]
kind = "host"
[target.fio]
pattern = "randread"
size = "64MB"
[arms.cold.fio]
cache = "cold"
[arms.warm.fio]
cache = "warm"
[workload]
kind = "fio"
"""
ELSEWHERE = TEXT.replace("[workload]", '[target]\ndirectory = "/only/on/hosts"\n[workload]', 1)
TURNS = TEXT.replace('"10s"', '"60s"').replace("seed", 'method = "interleaved"\nseed')
CHOSEN = TURNS.replace("interleaved", "auto")
LOADED = TEXT.replace('[workload]\nmix = "select-only"', '[dataset]\nkind = "sql"\nload = ["rows.sql"]\n[workload]')
LOADED += '[[workload.scenario]]\nname = "one"\nfile = "one.sql"\n'


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("e.toml").write_text(TEXT)
    Path("hosts.toml").write_text(HOSTS)
    return tmp_path


def test_the_plan_says_on_which_hosts_and_how_long(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "e.toml", "--fleet", "hosts.toml"]) == 0
    text = " ".join(capsys.readouterr().out.split())

    assert "Hosts host address blocks db1 ssh://me@db1 3 here local 2 Together about" in text
    assert "Not every host gets equally many blocks" in text
    assert "their workers and engines take up to 460 MB of memory here" in text


def test_the_plan_as_json_has_the_hosts(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "e.toml", "--fleet", "hosts.toml", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)

    assert [host["blocks"] for host in found["fleet"]["hosts"]] == [3, 2]
    assert found["fleet"]["seconds"] > 0
    assert found["fleet"]["memory"] > 2 * 60e6


def test_without_a_fleet_the_plan_has_no_hosts(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "e.toml", "--json"]) == 0

    assert "fleet" not in json.loads(capsys.readouterr().out)


def test_a_wrong_list_of_hosts_is_one_error_with_lines(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("hosts.toml").write_text('[[host]]\nname = "a b"\nlocal = true\nport = 22\n')
    assert main(["plan", "e.toml", "--fleet", "hosts.toml"]) == 2
    error = capsys.readouterr().err

    assert 'list of hosts "hosts.toml" has 2 errors' in error
    assert "hosts.toml:2" in error
    assert "hosts.toml:4" in error


def test_an_experiment_that_names_a_host_is_none_for_a_fleet(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("e.toml").write_text(TEXT.replace("[workload]", '[target]\nhost = "ssh://db"\n[workload]', 1))
    assert main(["plan", "e.toml", "--fleet", "hosts.toml"]) == 2

    assert "the file names a host, and --fleet names others" in capsys.readouterr().err


@pytest.mark.skipif(importlib.util.find_spec("distributed") is not None, reason="the extra is there")
def test_without_the_extra_running_says_what_to_install(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "e.toml", "--fleet", "hosts.toml"]) == 1

    assert "pip install 'distributed>=2026.8'" in capsys.readouterr().err
    assert not Path("results").exists()


def test_what_is_wrong_on_a_host_is_refused_with_its_line_before_anything_is_made(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(extra, "require_extra", lambda: None)
    Path("rows.sql").write_text("CREATE TABLE t (a int);\n")
    Path("one.sql").write_text("SELECT 1;\n")
    cases = (
        (TURNS, SSH, 'e.toml:13: design.method: on db1, db2: method "interleaved" is not valid here'),
        (TURNS, HOSTS, 'e.toml:13: design.method: on db1: method "interleaved" is not valid here'),
        (FILES, SSH, "e.toml:4: target.host: on db1, db2: a load on files (fio)"),
        (LOADED, SSH, "e.toml:6: dataset.load: on db1, db2: data are not loaded into servers of another machine"),
        (ELSEWHERE, LOCAL, 'e.toml:5: target.directory: on here: directory "/only/on/hosts" does not exist'),
        (ELSEWHERE, HOSTS, 'e.toml:5: target.directory: on here: directory "/only/on/hosts" does not exist'),
        (TEXT.replace("= 5\n", '= 12\nstop = "decision"\n'), SSH, 'e.toml:13: design.stop: stop = "decision" looks'),
    )
    for text, hosts, said in cases:
        Path("e.toml").write_text(text)
        Path("hosts.toml").write_text(hosts)
        for command in ("plan", "run"):
            assert main([command, "e.toml", "--fleet", "hosts.toml"]) == 2
            assert said in capsys.readouterr().err

    assert not Path("results").exists()


def test_what_is_wrong_with_the_file_is_not_said_of_hosts(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("e.toml").write_text(TURNS.replace("blocks = 5", "blocks = 0"))
    assert main(["plan", "e.toml", "--fleet", "hosts.toml"]) == 2

    assert "e.toml:12: design.blocks: " in (error := capsys.readouterr().err)
    assert "db1" not in error


@pytest.mark.parametrize("hosts", [SSH, HOSTS])
def test_auto_takes_a_method_that_is_valid_on_every_host(
    hosts: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("e.toml").write_text(CHOSEN)
    Path("hosts.toml").write_text(hosts)
    assert main(["plan", "e.toml", "--fleet", "hosts.toml", "--json"]) == 0

    assert json.loads(capsys.readouterr().out)["method"]["name"] == "blocks"


def test_the_plan_for_hosts_over_ssh_tells_nothing_of_this_machine(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("e.toml").write_text(ELSEWHERE)
    Path("hosts.toml").write_text(SSH)
    assert main(["plan", "e.toml", "--fleet", "hosts.toml"]) == 0
    text = " ".join(capsys.readouterr().out.split())

    assert "throw-away PostgreSQL 15 to 18 on each host" in text
    assert "On each host it sets: nothing. The hosts were not asked." in text
    assert "below /only/on/hosts/pgtrial-<random>" in text


@pytest.mark.parametrize("text", [ELSEWHERE, CHOSEN])
def test_what_is_valid_can_be_run_on_each_host(text: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders: list[Path] = []
    monkeypatch.setenv(VARIABLE, str(place / "state"))
    monkeypatch.setattr(extra, "require_extra", lambda: None)
    monkeypatch.setattr(session, "run_and_report", lambda folder, **_: folders.append(folder))
    Path("e.toml").write_text(text)
    Path("hosts.toml").write_text(SSH)
    assert main(["run", "e.toml", "--fleet", "hosts.toml"]) == 0
    [folder] = folders
    fleet = read_fleet(Path("hosts.toml"))
    keep_hosts(folder, fleet)
    plans: list[Plan] = [load_stored(host_folder(folder, host)) for host in fleet.host]

    assert load_stored(folder).experiment.target.host is None
    assert [plan.experiment.target.host for plan in plans] == ["ssh://me@db1", "ssh://me@db2"]
    assert {plan.method.method for plan in plans} == {"blocks"}
