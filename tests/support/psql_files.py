r"""Files for psql out of pieces that its scanner takes apart in ways of its own, each with commands that leave a mark.

A mark that psql prints is a command that it saw; it has to be one that was seen here, or stand where all is looked at.
"""

import random
import re
import subprocess
from contextlib import suppress
from pathlib import Path

from pgtrial.workloads.psql_scanner import Scanner
from pgtrial.workloads.psql_script import ScriptError, outside_data

_QUOTES = ("'", "''", "E'", "e'", '"', "$$", "$a$", "$", "U&'", "N'", "B'", "E'\\''", "$x$ $x$", "a$")
_COMMENTS = ("/*", "*/", "--", "-", "/* x */", "\\", "\\'")
_PLAIN = ("\n", "\n", "\n", " ", "\t", "\r", "1", "1.", "x", "é", "$1", ":", "::", ":x", ":'x'", ",", ".", "=", "e")
_WORDS = ("begin", " begin ", " end ", " case ", " atomic ", "create ", "function ", "procedure ", "or ", "replace ")
_STATEMENTS = (
    *("(", ")", ";", ";\n", "SELECT ", "SELECT 1", "select 'a'", "CREATE FUNCTION f() RETURNS int "),
    *("COPY t FROM stdin;\n", "COPY t (a) FROM stdin;\n", "\\copy t from stdin\n", "\\.\n", "\ufeff"),
)
_COMMANDS = (
    *("\\set x y\n", "\\set x 1\n", "\\pset null x\n", "\\restrict a\n", "\\unrestrict a\n", "\\g\n", "\\;"),
    *("\\if true\n", "\\endif\n", "\\r\n", "MARK", "MARK", "MARK\n", "\nMARK\n", "\nMARK\n"),
)
_PIECES = _QUOTES + _COMMENTS + _PLAIN + _WORDS + _STATEMENTS + _COMMANDS
_PRINTED = re.compile(rb"^HIT\d+X", re.MULTILINE)
_LAST = "HIT0X"  # also where nothing else is left of the file


def make_file(rng: random.Random) -> str:
    """One file; seven of ten have what looks like data of a COPY, with marks in it."""

    def pieces(least: int, most: int) -> str:
        return "".join(rng.choice(_PIECES) for _ in range(rng.randint(least, most)))

    if rng.random() < 0.7:
        end, data = rng.choice(("", ";", ";\n", "\n")), rng.choice(("", "\\.\n"))
        text = f"{pieces(1, 5)}{end}COPY t FROM stdin;\n{pieces(0, 3)} MARK\n{data}{pieces(0, 3)}MARK\n"
    else:
        text = pieces(2, 14)
    for number in range(1, text.count("MARK") + 1):
        text = text.replace("MARK", f"\\echo HIT{number}X", 1)
    return f"{text}\n\\echo {_LAST}\n"


def run_psql(psql: Path, conninfo: str, file: Path) -> set[bytes]:
    """The marks that psql prints of a file; the connection has a table t to copy to."""
    done = subprocess.run(
        [psql, "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", f"--dbname={conninfo}", "--file=-"],
        input=file.read_bytes(),
        capture_output=True,
        check=False,
    )
    return set(_PRINTED.findall(done.stdout))


def seen_in(file: Path) -> bytes:
    """What is looked at of a file: commands where they are certain, else whole lines."""
    scanner, seen = Scanner(), []
    with suppress(ScriptError):  # a COPY without an end, behind which there is nothing
        for _, line, is_certain in outside_data(file, scanner):
            seen += scanner.commands if is_certain else [line]
    return b"\n".join(seen)
