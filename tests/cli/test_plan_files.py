import json
from pathlib import Path

import pytest

from pgtrial.cli.main import main

TEXT = """\
format = 1
[experiment]
name = "page-cache"
[target]
directory = "{directory}"
[target.fio]
block_size = "8kB"
[workload]
kind = "fio"
duration = "10s"
clients = [1, 2]
[factors.pattern]
knob = "fio"
levels = ["write", "randread"]
[factors.size]
knob = "fio"
levels = ["16MB", "64MB"]
[design]
blocks = 2
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "e.toml"
    path.write_text(TEXT.format(directory=tmp_path))
    return path


def test_check_says_what_the_jobs_do(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--no-host", str(file)]) == 0

    out = " ".join(capsys.readouterr().out.split())
    assert "files: write/randread, blocks of 8 kB, buffered, psync" in out
    assert "PostgreSQL" not in out


def test_the_plan_is_of_files_and_speaks_of_no_server(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(file)]) == 0

    out = capsys.readouterr().out
    flat = " ".join(out.split())
    assert "files 64 MB" in flat
    assert f"Files: below {file.parent}/pgtrial-<random>, 64 MB, removed at the end." in flat
    assert "server start" not in flat
    assert "fio.size" in flat
    assert max(len(line) for line in out.splitlines() if str(file.parent) not in line) <= 80


def test_the_plan_as_data_has_no_server(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--json", str(file)]) == 0

    data = json.loads(capsys.readouterr().out)
    assert data["servers"] == []
    assert data["server_starts"] == 0
    assert data["data_bytes"] == 64 << 20
    assert [level["by_scenario"] for level in data["levels"]] == [{"files": 1}, {"files": 2}]
    assert len(data["arms"]) == 4


def test_a_machine_without_fio_can_plan_but_says_so(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    assert main(["check", "--no-host", str(file)]) == 0

    assert 'note: program "fio" not found; the experiment cannot run' in capsys.readouterr().out
