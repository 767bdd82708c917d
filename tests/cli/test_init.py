import shlex
from pathlib import Path

import pytest

from pgtrial.cli.main import main


def test_the_example_passes_the_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.toml"

    assert main(["init", str(path)]) == 0
    assert capsys.readouterr().out.startswith(f"wrote {path}\nnext: pgtrial check {path}")
    assert main(["check", str(path)]) == 0


@pytest.mark.parametrize("name", ["my file.toml", "x; touch owned.toml", "$(touch owned).toml"])
def test_the_next_commands_have_its_name_as_one_word(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name

    assert main(["init", str(path)]) == 0
    (_, after) = capsys.readouterr().out.splitlines()
    commands = after.removeprefix("next: ").split(", ")
    assert [shlex.split(each) for each in commands] == [["pgtrial", do, str(path)] for do in ("check", "plan", "run")]


def test_without_a_path_it_is_written_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert main(["init"]) == 0
    assert (tmp_path / "experiment.toml").read_text().startswith("# An experiment of pgtrial")


def test_a_file_is_replaced_only_when_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "e.toml"
    path.write_text("mine")

    assert main(["init", str(path)]) == 2
    assert path.read_text() == "mine"
    assert "already exists" in capsys.readouterr().err
    assert main(["init", "--force", str(path)]) == 0
    assert path.read_text() != "mine"


@pytest.mark.parametrize("name", ["", "none/e.toml"])
def test_a_place_that_cannot_be_written_is_one_error(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", "--force", str(tmp_path / name)]) == 2

    text = capsys.readouterr().err
    assert text.startswith("error: cannot write")
    assert len(text.splitlines()) == 1
