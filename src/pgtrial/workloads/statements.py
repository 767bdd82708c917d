"""The statements of a pgbench script, as a server can plan them: its variables are parameters there."""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from pgtrial.experiment_file.code_patterns import COMMENT
from pgtrial.experiment_file.code_uses import ANSWER
from pgtrial.postgres.connect import split_statements

# pgbench's own commands, which end with their line unless a backslash is the last of it.
_META = re.compile(r"^[ \t]*\\(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
_PLANNED = re.compile(r"\s*(?:SELECT|INSERT|UPDATE|DELETE|MERGE|WITH|VALUES)\b", re.IGNORECASE)
# Outside of texts and names; two colons are a cast.
_VARIABLE = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|::|:(?P<name>[A-Za-z_]\w*)""")
_SETS = re.compile(r"^[ \t]*\\(?:set|setshell)[ \t]+(\w+)", re.MULTILINE)
_BOUND = re.compile(r"[\w\]]:\w+")  # of a slice of an array
_OWN = frozenset(("client_id", "default_seed", "random_seed", "scale"))


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
        yield _prepare(" ".join(COMMENT.sub(" ", statement).split()))


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


def used_variables(script: str) -> frozenset[str]:
    """Names of those that stand in SQL or in commands of pgbench, outside of texts."""
    text = _BOUND.sub(" ", COMMENT.sub(" ", script))
    return frozenset(match["name"] for match in _VARIABLE.finditer(text) if match["name"] is not None)


def unset_variables(script: str, given: Collection[str]) -> frozenset[str]:
    """Those of which pgbench has no value, besides those that are ``given``: it sends ":name" as it stands there.

    Empty where the script takes some from an answer of the server, since these may be any.
    """
    if ANSWER.search(script):
        return frozenset()
    return used_variables(script) - _OWN - set(given) - set(_SETS.findall(script))
