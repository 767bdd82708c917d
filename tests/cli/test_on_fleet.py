"""What the commands say about a fleet before anything is run."""

import importlib.util
import json
from pathlib import Path

import pytest

from pgtrial.cli.main import main

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


def test_the_plan_as_json_has_the_hosts(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "e.toml", "--fleet", "hosts.toml", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)

    assert [host["blocks"] for host in found["fleet"]["hosts"]] == [3, 2]
    assert found["fleet"]["seconds"] > 0


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
