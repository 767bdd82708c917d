"""The recipe in docs/ci.md is run with ci/gate.sh, up to the point where it would take its time."""

import os
import re
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GATE = [ROOT / "ci/gate.sh", "gate.toml", "migration.sql"]
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
    text = f'#!/bin/sh\n[ "$1" != run ] || {{ echo "$@"; exit 0; }}\nexec "{sys.executable}" -m pgtrial "$@"\n'
    program.write_text(text, encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "PYTHONUTF8": "1"}


@pytest.mark.parametrize("name", ["gate.toml", "schema.sql", "buy.sql", "history.sql"])
def test_the_recipe_is_the_gate_whose_verdicts_were_counted(recipe: Path, name: str) -> None:
    assert (recipe / name).read_text(encoding="utf-8") == (ROOT / "gym/gate" / name).read_text(encoding="utf-8")


@pytest.mark.usefixtures("programs")
def test_the_script_checks_and_plans_the_change(recipe: Path, command: dict[str, str]) -> None:
    done = subprocess.run(GATE, cwd=recipe, env=command, capture_output=True, text=True, encoding="utf-8", check=False)

    assert done.returncode == 0, done.stderr
    (ran,) = (line for line in done.stdout.splitlines() if line.startswith("run "))
    assert ran.startswith("run gate-with-migration.toml --quiet --assert ")
    assert "ok: gate-with-migration.toml\n" in done.stdout
    assert "after is not worse than before in pgbench.tps, margin 5 %" in " ".join(done.stdout.split())
    assert "Schedule\n" in done.stdout


@pytest.mark.usefixtures("programs")
def test_the_change_is_in_the_experiment_as_it_was_written(recipe: Path, command: dict[str, str]) -> None:
    subprocess.run(GATE, cwd=recipe, env=command, check=True, capture_output=True)

    written = tomllib.loads((recipe / "gate-with-migration.toml").read_text(encoding="utf-8"))
    assert written["arms"]["after"]["sql"]["apply"] == (recipe / "migration.sql").read_text(encoding="utf-8")
    assert list(written["arms"]) == ["before", "after"]
    assert written["hypothesis"]["expect"] == "not-worse"
    assert written["hypothesis"]["margin"] == "5%"


def test_a_mistake_in_the_file_stops_the_pipeline(recipe: Path, command: dict[str, str]) -> None:
    path = recipe / "gate.toml"
    path.write_text(path.read_text(encoding="utf-8").replace('"not-worse"', '"not-wurse"'), encoding="utf-8")

    done = subprocess.run(GATE, cwd=recipe, env=command, capture_output=True, text=True, encoding="utf-8", check=False)

    assert done.returncode == 2
    assert 'Perhaps you meant "not-worse".' in done.stderr
    assert not (recipe / "results").exists()
