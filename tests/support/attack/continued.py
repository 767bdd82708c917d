"""Mutants of a result folder that pgtrial was killed in, for "resume": what it reads, ends, removes and refuses."""

import contextlib
import random
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from pgtrial.engine.folder import LOGS, RECORDED, SPOOL
from pgtrial.hosts.processes import ProcessId
from pgtrial.store import layout
from pgtrial.store.belongings import Belongings, Made
from support.attack import folders, others
from support.attack.trial import PRECIOUS

_NO_DIRECTORY = "file"  # given to resume for its data: it gets as far as needing them, and starts nothing


def interrupt(folder: Path, rng: random.Random) -> None:
    """Leave the folder as after a kill, with what that leaves elsewhere, and change some of it."""
    (folder.parent / _NO_DIRECTORY).touch()
    precious = folder.parent / PRECIOUS
    if rng.random() < 0.7:  # else all runs are done, and it is only cleaned up
        _break_off(folder, precious, rng)
    if rng.random() < 0.9:
        folders.mutate_folder(folder, rng)
    with contextlib.suppress(OSError):  # the folder may be a link by now
        _leave_behind(folder, precious, rng)


def commands(rng: random.Random, folder: Path) -> Sequence[Sequence[str]]:
    resume = ("resume", str(folder), "--work-directory", str(folder.parent / _NO_DIRECTORY))
    more = rng.choice((("--quiet",), (), ("--allow-host-changes",), ("--allow-writes",)))
    return rng.choice((((*resume, *more),), ((*resume, *more), ("status", str(folder)))))


def _break_off(folder: Path, precious: Path, rng: random.Random) -> None:
    """The last run was under way, and what it had written so far lies there, or a link in its place."""
    run = max((folder / layout.RUNS).iterdir())
    for name in (SPOOL, LOGS, RECORDED):
        if rng.random() < 0.2:
            (run / name).symlink_to(precious)
            continue
        (run / name).mkdir()
        (run / name / "raw").write_text("raw")
        (run / name / "link").symlink_to(precious)
    with contextlib.closing(sqlite3.connect(folder / layout.STATE)) as db:
        db.execute("UPDATE run SET state = 'running', ended = NULL WHERE id = (SELECT max(id) FROM run)")
        if rng.random() < 0.7:  # else the server's programs are found to be others
            db.execute("DELETE FROM fingerprint")
        db.execute("INSERT OR REPLACE INTO meta VALUES ('worker', ?)", (rng.choice(("1 1 x", "4194305 1 x", "", "x")),))
        db.commit()


def _leave_behind(folder: Path, precious: Path, rng: random.Random) -> None:
    """A directory of data, and its record with that of a process that has ended."""
    data = folder.parent / "pgtrial-00000000"
    data.mkdir()
    (data / "link").symlink_to(precious)
    belongings = Belongings.of(folder)
    belongings.add_process(ProcessId(pid=2**22 + 1, start_ticks=5, boot_id="x"), "load")
    belongings.add_directory(Made(path=data, host="local"))
    if rng.random() < 0.5:
        others.mutate_record(belongings.path, rng)
    if rng.random() < 0.1:
        data.rename(data.with_name("moved"))
        data.symlink_to(precious)
