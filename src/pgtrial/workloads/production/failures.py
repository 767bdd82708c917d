"""Statements that fail when a drawn load is sent: which of them, and why, without the values of rows."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

_ABORTED = re.compile(
    r"client \d+ (?:script (?P<script>s\d+) aborted in command (?P<command>\d+) query \d+: "
    r"|aborted in command (?P<command_of>\d+) \([^)]*\) of script (?P<of_script>s\d+); )"
)
_VALUE = re.compile(r': ".*')  # invalid input syntax for type integer: "…"
_VALUE_FIRST = re.compile(r'(\bvalue )".*"(?= is out of range)')


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """``statement`` of a script, "" if it cannot be told which it is, and the ``error`` that ended it."""

    script: str
    statement: str
    error: str

    def __str__(self) -> str:
        return f"{self.statement}: {self.error}" if self.statement else self.error


def name_scripts(error: str, names: Sequence[str]) -> str:
    """``error`` of pgbench with the name of a script for its number."""

    def name(match: re.Match[str]) -> str:
        number = int(match[1])
        return f"script {names[number]}" if number < len(names) else match[0]

    return re.sub(r"\bscript (\d{1,4})\b", name, error, count=1)


def without_values(error: str) -> str:
    """The first line, as DETAIL and CONTEXT have rows in them, without the values that it quotes."""
    first = error.partition("\n")[0].strip()
    return _VALUE.sub(": …", _VALUE_FIRST.sub(r"\1…", first))


def find_failures(errors: Sequence[str], scripts: Mapping[str, str]) -> Iterator[Failure]:
    """The first failure of each of ``scripts`` (texts by name) that ended a client, of errors with their names."""
    seen: set[str] = set()
    for error in errors:
        found = _ABORTED.match(error)
        name = (found["script"] or found["of_script"]) if found is not None else ""
        if found is None or name not in scripts or name in seen:
            continue
        seen.add(name)
        command = int(found["command"] or found["command_of"])
        yield Failure(
            script=name,
            statement=_statement(scripts[name], command),
            error=without_values(error[found.end() :]),
        )


def _statement(script: str, command: int) -> str:
    """A line is a command, but where a string in one goes on in the next."""
    lines = script.splitlines()
    if command >= len(lines) or not all(
        line.startswith("\\set ") or line.endswith((";", "\\gset")) or "\\gset " in line for line in lines
    ):
        return ""
    return lines[command].removesuffix(";")
