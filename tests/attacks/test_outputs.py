"""Folders of a stranger side by side: their names and texts are text in every output of ``compare``."""

import contextlib
import json
import re
import sqlite3
from pathlib import Path

import pytest

from pgtrial.cli.main import main
from support import Simulation, write_result_folder
from support.html import Page

MARKUP = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
EVIL = f"{MARKUP}\x1b[2J\u202e\r\n| x | [a](http://evil.example) =cmd()"


def forge(folder: Path) -> Path:
    """What state.sqlite has of the world and of the settings says this, another thing in each folder."""
    with contextlib.closing(sqlite3.connect(folder / "state.sqlite")) as db, db:
        for table in ("fingerprint", "setting"):
            db.execute(f"UPDATE {table} SET value = value || ? || ?", (EVIL, folder.name))
        (plan,) = db.execute("SELECT value FROM meta WHERE key = 'plan'").fetchone()
        forged = plan.replace("Without waiting", json.dumps(MARKUP)[1:-1])
        db.execute("UPDATE meta SET value = ? WHERE key = 'plan'", (forged,))
        assert forged != plan
    return folder


@pytest.fixture
def folders(tmp_path: Path) -> list[str]:
    days = (("monday", 1), ("tuesday", 2))
    return [str(forge(write_result_folder(tmp_path / day, simulation=Simulation(seed=seed)))) for day, seed in days]


def test_a_comparison_of_forged_folders_shows_text(
    folders: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"

    status = main(["compare", *folders, "-o", str(page)])

    told = capsys.readouterr()
    assert "this is a bug" not in told.err
    assert re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e]", told.out + told.err) is None
    assert status == 0, told.err
    assert "\\x1b[2J" in told.out
    elements = Page(page.read_text(encoding="utf-8")).elements
    assert not any(name.startswith("on") for _, attributes in elements for name in attributes)
    assert not any(tag == "img" and attributes.get("src") == "x" for tag, attributes in elements)
    assert MARKUP not in page.read_text(encoding="utf-8")


def test_a_name_that_no_file_can_give_is_damage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [write_result_folder(tmp_path / name, runs=2) for name in ("monday", "tuesday")]
    with contextlib.closing(sqlite3.connect(folders[0] / "state.sqlite")) as db, db:
        db.execute("UPDATE slot SET arm = arm || ?", (EVIL,))

    assert main(["compare", *map(str, folders)]) == 1

    assert "is damaged" in capsys.readouterr().err


def test_json_of_forged_folders_is_json(folders: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *folders, "--json"]) == 0

    told = capsys.readouterr().out
    assert MARKUP in json.dumps(json.loads(told), ensure_ascii=False)
    assert "\x1b" not in told
    assert "\u202e" not in told


def test_outputs_are_for_their_owner_alone(tmp_path: Path) -> None:
    folder = str(write_result_folder(tmp_path / "own"))
    outputs = [tmp_path / name for name in ("page.html", "table.xlsx", "own.pgtrial.zip")]

    assert main(["report", folder, "-o", str(outputs[0])]) == 0
    assert main(["export", folder, "--format", "xlsx", "-o", str(outputs[1])]) == 0
    assert main(["export", folder, "--bundle", "-o", str(outputs[2])]) == 0

    assert [path.stat().st_mode & 0o777 for path in outputs] == [0o600] * 3
