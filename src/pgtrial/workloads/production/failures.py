"""Statements that fail when a drawn load is sent: which of them, and why, without the values of rows."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pgtrial.workloads.production.texts import read_text

_ABORTED = re.compile(
    r"client \d+ (?:script (?P<script>s\d+) (?:aborted in )?command (?P<command>\d+) query \d+: "
    r"|aborted in command (?P<command_of>\d+) \([^)]*\) of script (?P<of_script>s\d+); )"
)
# Messages in other languages quote in their own ways, and have words that tell a name from a value.
_OTHER = "the server says why in its language, perhaps with values; lc_messages = 'C' lets it say that in English"
_SEVERITY = re.compile(r"(?:^|(?<=\s))([^\s:]+):  ")
_ENGLISH = frozenset(("ERROR", "FATAL", "PANIC"))
_NAME = re.compile(r'"([^"]*)"')
_BEFORE_NAME = re.compile(r"\b(?:column|constraint|policy|relation|table) $")
_AFTER_VALUE = re.compile(
    r'" (?:does not exist|is out of range for type (?:bigint|double precision|integer|numeric|oid|real|smallint)'
    r"|not recognized)$"
)
_VALUE = re.compile(r': ".*')  # malformed variable "n" value: "…"
_NUMBER = re.compile(r"(?<=\bvalue )-?[0-9]+")


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


def without_values(error: str, names: Collection[str] = ()) -> str:
    """The first line, as DETAIL and CONTEXT have rows in them, without what the server quotes and is no name.

    Names are those of ``names``, and, where it says that a row violates something, that of it. What stands before the
    severity is in the words of pgbench or libpq.
    """
    first = error.partition("\n")[0].strip()
    severity = _SEVERITY.search(first)
    if severity is None:
        return _VALUE.sub(": …", first)
    head, said = first[: severity.start()], first[severity.start() :]
    outside = _NAME.sub("", said)
    if severity[1] not in _ENGLISH or not outside.isascii():
        return _VALUE.sub(": …", head) + _OTHER
    is_violated = " violates " in outside and "does not exist" not in outside
    return _VALUE.sub(": …", head) + _only_names(said, names, is_violated=is_violated)


def _only_names(said: str, names: Collection[str], *, is_violated: bool) -> str:
    at, kept = 0, ""
    while (start := said.find('"', at)) >= 0:
        kept += _NUMBER.sub("…", said[at:start])
        name = _NAME.match(said, start)
        is_name = name is not None and (name[1] in names or (is_violated and _BEFORE_NAME.search(said, 0, start)))
        if name is None or not is_name:
            rest = _AFTER_VALUE.search(said, start + 1)
            return f"{kept}…{rest[0][1:] if rest is not None else ''}"
        kept, at = kept + name[0], name.end()
    return kept + _NUMBER.sub("…", said[at:])


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
            error=without_values(error[found.end() :], {each.name for each in read_text(scripts[name])[1].tokens}),
        )


def _statement(script: str, command: int) -> str:
    """A line is a command, but where a string in one goes on in the next."""
    lines = script.splitlines()
    if command >= len(lines) or not all(
        line.startswith("\\set ") or line.endswith((";", "\\gset")) or "\\gset " in line for line in lines
    ):
        return ""
    return lines[command].removesuffix(";")
