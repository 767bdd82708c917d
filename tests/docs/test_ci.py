"""The shell form of the recipe in docs/ci.md is run up to the point where it would take its time."""

import os
import re
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TITLED = re.compile(r'^```\w+ title="(?P<title>[^"]+)"\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL)


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """A directory with the files of the page."""
    for block in TITLED.finditer((ROOT / "docs/ci.md").read_text(encoding="utf-8")):
        (tmp_path / block["title"]).write_text(block["text"], encoding="utf-8")
    return tmp_path


@pytest.fixture
def command(tmp_path: Path) -> dict[str, str]:
    """An environment in which "pgtrial" is the one under test."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "pgtrial"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pgtrial "$@"\n', encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "PYTHONUTF8": "1"}


@pytest.mark.usefixtures("programs")
def test_the_script_checks_and_plans_the_change(recipe: Path, command: dict[str, str]) -> None:
    script = (recipe / "gate.sh").read_text(encoding="utf-8")
    before, run, options = script.partition("pgtrial run ")
    (recipe / "short.sh").write_text(before, encoding="utf-8")

    done = subprocess.run(
        ["sh", "short.sh"], cwd=recipe, env=command, capture_output=True, text=True, encoding="utf-8", check=False
    )

    assert done.returncode == 0, done.stderr
    assert run
    assert options == "gate-with-migration.toml --assert --junit pgtrial.xml --summary-markdown pgtrial.md\n"
    assert "ok: gate-with-migration.toml\n" in done.stdout
    assert "after is not worse than before in pgbench.tps, margin 3 %" in " ".join(done.stdout.split())
    assert "Schedule\n" in done.stdout


def test_the_change_is_in_the_experiment_as_it_was_written(recipe: Path) -> None:
    script = (recipe / "gate.sh").read_text(encoding="utf-8").partition("pgtrial check")[0]
    subprocess.run(["sh", "-c", script], cwd=recipe, check=True)

    written = tomllib.loads((recipe / "gate-with-migration.toml").read_text(encoding="utf-8"))
    assert written["arms"]["after"]["sql"]["apply"] == (recipe / "migration.sql").read_text(encoding="utf-8")
    assert list(written["arms"]) == ["before", "after"]
    assert written["hypothesis"]["expect"] == "not-worse"
    assert written["hypothesis"]["margin"] == "3%"


def test_a_mistake_in_the_file_stops_the_pipeline(recipe: Path, command: dict[str, str]) -> None:
    path = recipe / "gate.toml"
    path.write_text(path.read_text(encoding="utf-8").replace('"not-worse"', '"not-wurse"'), encoding="utf-8")

    done = subprocess.run(
        ["sh", "gate.sh"], cwd=recipe, env=command, capture_output=True, text=True, encoding="utf-8", check=False
    )

    assert done.returncode == 2
    assert 'Perhaps you meant "not-worse".' in done.stderr
    assert not (recipe / "results").exists()
