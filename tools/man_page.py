"""Print the manual page of pgtrial, pgtrial(1), from its command line.

python tools/man_page.py > pgtrial.1

SOURCE_DATE_EPOCH gives the date, so that a package can be built again to the byte.
"""

import inspect
import os
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import click

from pgtrial import __version__
from pgtrial.cli.main import COMMANDS, group

_STATUS = (
    ("0", "Done."),
    ("1", "Failed."),
    ("2", "The command line or the experiment file is wrong, or something was not allowed."),
    ("3, 4, 5", "With --assert: the claim is refuted, not decided, or the experiment is invalid."),
    ("6", "Settings could not be restored."),
    ("130", "Interrupted, after restoring."),
)
_FILES = (
    ("/var/lib/pgtrial, ~/.local/state/pgtrial", "The journal of changes to the host, of root and of other users."),
    ("results/", "Where result folders are made, unless --results says otherwise."),
)
_ENVIRONMENT = (
    ("PGTRIAL_STATE_DIRECTORY", "Another directory for the journal."),
    ("PGTRIAL_LANG", "The language of reports."),
    ("PG_CONFIG", "A pg_config, whose programs are taken first."),
    ("PGHOST, PGPORT, PGUSER, ...", "How an existing server is reached, as for psql."),
)


def render() -> str:
    """The page in the macros of man(7)."""
    day = datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())), UTC)
    root = click.Context(group, info_name="pgtrial", **group.context_settings)
    lines = [f'.TH PGTRIAL 1 "{day:%Y-%m-%d}" "pgtrial {__version__}" "User commands"']
    lines += _section("NAME", [r"pgtrial \- validate a claim about PostgreSQL performance by experiment"])
    lines += _section("SYNOPSIS", [r".B pgtrial", r"[\fIOPTIONS\fR] \fICOMMAND\fR [\fIARGUMENTS\fR]"])
    about = (
        "pgtrial prepares data, sets what the arms of an experiment set, drives the load, samples PostgreSQL and "
        "Linux, repeats in a drawn order, decides with intervals, explains the cause, and puts everything back."
    )
    lines += _section("DESCRIPTION", [_text(about)])
    lines += _section("OPTIONS", _options(group, root))
    lines += [".SH COMMANDS"]
    for name, _ in COMMANDS:
        found = group.get_command(root, name)
        assert found is not None
        lines += _command(found, click.Context(found, info_name=name, parent=root))
    for title, pairs in (("EXIT STATUS", _STATUS), ("ENVIRONMENT", _ENVIRONMENT), ("FILES", _FILES)):
        lines += _section(title, [line for head, text in pairs for line in _item(_text(head), text)])
    lines += _section("SEE ALSO", [r".BR pgbench (1),", r".BR pg_dump (1),", r".BR pg_restore (1)"])
    return "\n".join(lines) + "\n"


def _section(title: str, lines: list[str]) -> list[str]:
    return [f".SH {title}", *lines]


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    usage = " ".join(command.collect_usage_pieces(context))
    yield f".SS {_text(f'pgtrial {context.info_name} {usage}')}"
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        if paragraph.startswith("\b\n"):  # lines that stay as they are
            yield from (".PP", ".nf", *map(_text, paragraph.split("\n")[1:]), ".fi")
        else:
            yield from (".PP", _text(" ".join(paragraph.split())))
    yield from _options(command, context)


def _options(command: click.Command, context: click.Context) -> list[str]:
    records = (parameter.get_help_record(context) for parameter in command.get_params(context))
    return [line for record in records if record for line in _item(_bold(record[0]), record[1])]


def _item(head: str, text: str) -> list[str]:
    return [".TP", head, _text(text)]


def _bold(text: str) -> str:
    """Options bold, what stands for a value as it is."""
    parts = re.split(r"(?<![\w-])(--?\w[\w-]*)", text)
    return "".join(rf"\fB{_text(part)}\fR" if index % 2 else _text(part) for index, part in enumerate(parts))


def _text(text: str) -> str:
    """Text in which nothing is a request or an escape of roff."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-").replace("…", "...").replace("“", '"').replace("”", '"')
    return re.sub(r"^([.'])", r"\\&\1", escaped)


if __name__ == "__main__":
    print(render(), end="")
