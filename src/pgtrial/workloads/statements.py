"""The statements of a pgbench script, as a server can plan them: its variables are parameters there."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pgtrial.postgres.connect import split_statements

# pgbench's own commands, which end with their line unless a backslash is the last of it.
_META = re.compile(r"^[ \t]*\\(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_PLANNED = re.compile(r"\s*(?:SELECT|INSERT|UPDATE|DELETE|MERGE|WITH|VALUES)\b", re.IGNORECASE)
# Outside of texts and names; two colons are a cast.
_VARIABLE = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|::|:(?P<name>[A-Za-z_]\w*)""")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptStatement:
    """``text`` is as in the script but for comments and blanks, ``prepared`` has ``parameters`` parameters in it."""

    text: str
    prepared: str
    parameters: int

    @property
    def is_planned(self) -> bool:
        return _PLANNED.match(self.text) is not None


def read_statements(script: str) -> Iterator[ScriptStatement]:
    """All of them, in the order of the script."""
    for _, statement in split_statements(_META.sub("", script)):
        yield _prepare(" ".join(_COMMENT.sub(" ", statement).split()))


def planned_statements(script: str) -> Iterator[ScriptStatement]:
    """Those that have a plan, in the order of the script."""
    return (statement for statement in read_statements(script) if statement.is_planned)


def _prepare(text: str) -> ScriptStatement:
    numbers: dict[str, int] = {}

    def number(match: re.Match[str]) -> str:
        name = match["name"]
        return match[0] if name is None else f"${numbers.setdefault(name, len(numbers) + 1)}"

    prepared = _VARIABLE.sub(number, text)
    return ScriptStatement(text=text, prepared=prepared, parameters=len(numbers))
