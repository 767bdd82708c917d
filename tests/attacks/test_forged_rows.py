"""Rows that name processes and directories, as older versions of pgtrial kept and obeyed them, are nobody's order."""

import contextlib
import os
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest

from pgtrial.cli.main import main
from pgtrial.hosts.processes import identify
from pgtrial.store import layout
from support import write_result_folder


def forge(folder: Path, precious: Path, pid: int, ticks: int, boot: str) -> None:
    worker = f"{pid} {ticks} {boot}"
    with contextlib.closing(sqlite3.connect(folder / layout.STATE)) as db, db:
        db.execute("CREATE TABLE IF NOT EXISTS process (pid INTEGER, start_ticks INTEGER, boot_id TEXT, role TEXT)")
        db.execute("INSERT INTO process VALUES (?, ?, ?, 'server')", (pid, ticks, boot))
        db.execute("CREATE TABLE IF NOT EXISTS work_directory (path TEXT, host TEXT, variant TEXT)")
        db.execute("INSERT INTO work_directory VALUES (?, 'local', '')", (str(precious),))
        db.execute("INSERT OR REPLACE INTO meta VALUES ('worker', ?)", (worker,))
        db.execute("INSERT OR REPLACE INTO meta VALUES ('work_directory', ?)", (str(precious),))
    for name in ("data", "spool", "work"):
        (folder / name).symlink_to(precious)
    run = folder / layout.RUNS / "9999-x"
    run.mkdir(parents=True, exist_ok=True)
    for name in ("spool", "spool-machine", "pgbench", "recorded"):
        (run / name).symlink_to(precious)


@pytest.mark.parametrize("way", ["folder", "bundle"])
def test_no_command_obeys_a_folder_in_what_is_ended_or_removed(way: str, tmp_path: Path) -> None:
    precious = tmp_path / "pgtrial-00000000"  # of the form of our own
    (precious / "data").mkdir(parents=True)
    (precious / "data" / "postmaster.pid").write_text("1\n")
    folder, mine = (write_result_folder(tmp_path / name, runs=2) for name in ("gift", "mine"))
    with subprocess.Popen(["sleep", "900"], env={**os.environ, "PGTRIAL_RESULT_FOLDER": "x"}) as victim:
        try:
            found = identify(victim.pid)
            assert found is not None
            for boot in (found.boot_id, "other"):  # with the latter it seems to be no pgtrial at work
                forge(gift := shutil.copytree(folder, tmp_path / f"gift-{boot}"), precious, victim.pid, 1, boot)
                forge_ticks = sqlite3.connect(gift / layout.STATE)
                with contextlib.closing(forge_ticks), forge_ticks:
                    forge_ticks.execute("UPDATE process SET start_ticks = ?", (found.start_ticks,))
                if way == "bundle":
                    bundle, results = tmp_path / f"{boot}.zip", tmp_path / f"results-{boot}"
                    assert main(["export", str(gift), "--bundle", "-o", str(bundle)]) == 0
                    assert main(["unpack", str(bundle), "--results", str(results)]) == 0
                    (gift,) = results.iterdir()
                out = tmp_path / f"out-{boot}"
                for command in (
                    ("status", gift),
                    ("report", gift),
                    ("resume", gift, "-q"),
                    ("export", gift, "--format", "csv", "-o", out / "csv"),
                    ("narrate", gift),
                    ("apply", gift),
                    ("suggest", gift, "-o", out / "next"),
                    ("predict", gift, "--change", "flush=0.5"),
                    ("compare", gift, mine),
                    ("restore",),
                ):
                    assert main([str(word) for word in command]) in (0, 1, 2), command
                assert victim.poll() is None
                assert (precious / "data" / "postmaster.pid").read_text() == "1\n"
                assert [path.name for path in sorted(precious.rglob("*"))] == ["data", "postmaster.pid"]
        finally:
            victim.kill()
