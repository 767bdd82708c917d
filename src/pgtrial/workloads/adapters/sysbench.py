"""Have sysbench tell of each of its events, which it only adds up itself.

Its reports each second have one percentile and no mean, so they cannot be put together to those of a measured time.
A script of ours (sysbench.lua) stands in front of the one that is named, and takes the time of each event. Source:
sysbench 1.0.20, src/lua/internal/sysbench.lua (thread_run) and src/sysbench.c.
"""

import re
from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path

from pgtrial.experiment_file.command_checks import RATE_OF_SYSBENCH
from pgtrial.workloads.adapters.base import Adapter, Files, Translate

_OURS = "pgtrial-sysbench.lua"
_CONFIGURATION = "--config-file="
_RATE = re.compile(r"^rate=(?=[^#\n]*[1-9])", re.MULTILINE)  # of a configuration
_CONNECTION = ("--pgsql-host={host}", "--pgsql-port={port}", "--pgsql-user={user}", "--pgsql-db={database}")


def arrange(command: Sequence[str]) -> tuple[str, ...]:
    """The command with what says where the server is, and how long and with how many clients to load it.

    ``command`` is sysbench, the script, and its options; the script's own come first, as sysbench wants it.
    """
    program, _, *options = command
    return (
        program,
        f"./{_OURS}",
        *options,
        "--db-driver=pgsql",
        *_CONNECTION,
        "--threads={clients}",
        "--rand-seed={seed}",
        "--time=0",  # until it is told to end
        "--percentile=0",
        "run",
    )


def environment(command: Sequence[str]) -> dict[str, str]:
    """What tells our script which one it stands in front of."""
    return {"PGTRIAL_SYSBENCH_SCRIPT": command[1]}


def objection(name: str, text: str, words: Collection[str]) -> str:
    """What is wrong with a configuration, "" if nothing is; of those that are none of files our script says it."""
    named = {Path(word.removeprefix(_CONFIGURATION)).name for word in words if word.startswith(_CONFIGURATION)}
    return RATE_OF_SYSBENCH if Path(name).name in named and _RATE.search(text) else ""


def _scripts() -> dict[str, str]:
    return {_OURS: _text()}


@cache
def _text() -> str:
    return Path(__file__).with_suffix(".lua").read_text(encoding="utf-8")


def translate(line: str) -> str | None:
    """A line of our script; None of what sysbench itself says."""
    return line if line.startswith("{") else None


def _translator(_files: Files) -> Translate:
    return translate


ADAPTER = Adapter(
    name="sysbench",
    arrange=arrange,
    environment=environment,
    adds=_scripts,
    objection=objection,
    translator=_translator,
)
