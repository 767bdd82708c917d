"""The messages that are looked for: their formats in the sources of PostgreSQL 15 to 18, without length modifiers.

A name says what an argument is: "seconds/ms" adds milliseconds to the number "seconds", "bytes/B" bytes, and a name
without a unit is a text. An argument without a name does not matter.
"""

from collections.abc import Mapping
from typing import NamedTuple

# What a unit is in base units; "us" and "cs" are what stands behind the point of milliseconds and of seconds.
UNITS: Mapping[str, float] = {"ms": 1e-3, "us": 1e-6, "s": 1.0, "cs": 1e-2, "B": 1.0, "": 1.0}


class Format(NamedTuple):
    text: str
    names: tuple[str, ...] = ()


# xlog.c. Their values are found without these (see checkpoints.py); it is for putting them into English.
_CHECKPOINT_TAIL = (
    "%d WAL file(s) added, %d removed, %d recycled; write=%d.%03d s, sync=%d.%03d s, total=%d.%03d s; "
    "sync files=%d, longest=%d.%03d s, average=%d.%03d s; distance=%d kB, estimate=%d kB"
)
_LSN = "; lsn=%X/%X, redo lsn=%X/%X"
CHECKPOINTS = tuple(
    Format(f"{what} {text}")
    for what in ("checkpoint", "restartpoint")
    for text in (
        "starting:%s%s%s%s%s%s%s%s",
        f"complete: wrote %d buffers (%.1f%%); {_CHECKPOINT_TAIL}",  # 15
        f"complete: wrote %d buffers (%.1f%%); {_CHECKPOINT_TAIL}{_LSN}",  # 16, 17
        f"complete: wrote %d buffers (%.1f%%), wrote %d SLRU buffers; {_CHECKPOINT_TAIL}{_LSN}",  # 18
    )
)

# vacuumlazy.c: the first line of the message.
_TABLE = ("database", "schema", "table")
AUTOVACUUM = tuple(
    Format(f'automatic {kind} table "%s.%s.%s": index scans: %d', (*_TABLE, "index scans/"))
    for kind in (
        "vacuum of",
        "aggressive vacuum of",
        "vacuum to prevent wraparound of",
        "aggressive vacuum to prevent wraparound of",
    )
)
# analyze.c; some versions write nothing after this line.
AUTOANALYZE = (Format('automatic analyze of table "%s.%s.%s"', _TABLE),)
# Further lines of both.
DETAILS = (
    Format("pages: %u removed, %u remain, %u scanned (%.2f%% of total)", ("pages removed/",)),
    Format("pages: %u removed, %u remain, %u scanned (%.2f%% of total), %u eagerly scanned", ("pages removed/",)),  # 18
    Format(
        "tuples: %d removed, %d remain, %d are dead but not yet removable",
        ("tuples removed/", "", "tuples not removable/"),
    ),
    Format("buffer usage: %d hits, %d misses, %d dirtied", ("blocks hit/", "blocks read/", "blocks dirtied/")),
    Format("buffer usage: %d hits, %d reads, %d dirtied", ("blocks hit/", "blocks read/", "blocks dirtied/")),  # 17
    Format(
        "WAL usage: %d records, %d full page images, %u bytes",
        ("WAL records/", "WAL full page images/", "WAL bytes/B"),
    ),
    Format(
        "WAL usage: %d records, %d full page images, %u bytes, %d buffers full",  # 18
        ("WAL records/", "WAL full page images/", "WAL bytes/B"),
    ),
)
# pg_rusage.c, a part of the line "system usage: %s".
USAGE = Format(
    "CPU: user: %d.%02d s, system: %d.%02d s, elapsed: %d.%02d s",
    ("CPU seconds/s", "CPU seconds/cs", "CPU seconds/s", "CPU seconds/cs", "seconds/s", "seconds/cs"),
)

# fd.c
TEMPORARY_FILE = Format('temporary file: path "%s", size %u', ("", "bytes/B"))

# proc.c
_WAIT = ("pid", "mode", "target", "seconds/ms", "seconds/us")
LOCK_WAITING = Format("process %d still waiting for %s on %s after %d.%03d ms", _WAIT)
LOCK_OVER = (
    Format("process %d acquired %s on %s after %d.%03d ms", _WAIT),
    Format("process %d failed to acquire %s on %s after %d.%03d ms", _WAIT),
    Format("process %d avoided deadlock for %s on %s by rearranging queue order after %d.%03d ms", _WAIT),
    Format("process %d detected deadlock while waiting for %s on %s after %d.%03d ms", _WAIT),
)

# postgres.c, fastpath.c; the first that fits counts.
DURATIONS = (
    Format("duration: %s ms  statement: %s", ("seconds/ms", "statement")),
    Format("duration: %s ms  parse %s: %s", ("seconds/ms", "", "statement")),
    Format("duration: %s ms  bind %s%s%s: %s", ("seconds/ms", "", "", "", "statement")),
    Format('duration: %s ms  fastpath function call: "%s" (OID %u)', ("seconds/ms", "statement", "")),
    Format("duration: %s ms  %s %s%s%s: %s", ("seconds/ms", "", "", "", "", "statement")),
    Format("duration: %s ms", ("seconds/ms",)),
)

# Errors that are known by their text, where the log has no SQLSTATE.
STATES: Mapping[str, str] = {
    "deadlock detected": "40P01",
    "could not serialize access due to concurrent update": "40001",
    "could not serialize access due to concurrent delete": "40001",
    "could not serialize access due to read/write dependencies among transactions": "40001",
    'duplicate key value violates unique constraint "%s"': "23505",
    "canceling statement due to statement timeout": "57014",
    "canceling statement due to lock timeout": "55P03",
    "canceling statement due to user request": "57014",
    "canceling autovacuum task": "57014",
    "terminating connection due to administrator command": "57P01",
    "sorry, too many clients already": "53300",
    # Long before that one, for everybody but superusers: 15, then 16 and newer.
    "remaining connection slots are reserved for non-replication superuser connections": "53300",
    "remaining connection slots are reserved for roles with the %s attribute": "53300",
    'remaining connection slots are reserved for roles with privileges of the "%s" role': "53300",
    "out of memory": "53200",
    "out of shared memory": "53200",
}

# What a message as a whole is printed with, and what single lines of it are.
WHOLE = (
    *(each.text for each in (*CHECKPOINTS, TEMPORARY_FILE, LOCK_WAITING, *LOCK_OVER, *DURATIONS)),
    *STATES,
)
LINES = (*(each.text for each in (*AUTOVACUUM, *AUTOANALYZE, *DETAILS)), "system usage: %s")
