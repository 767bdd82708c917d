"""The statements of a pgbench script, as a server can plan them: its variables are parameters there."""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from pgtrial.experiment_file.code_patterns import COMMENT
from pgtrial.postgres.connect import split_statements
from pgtrial.workloads.meta_commands import find_commands

_PLANNED = re.compile(r"\s*(?:SELECT|INSERT|UPDATE|DELETE|MERGE|WITH|VALUES)\b", re.IGNORECASE)
# Outside of texts and names; two colons are a cast.
_VARIABLE = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|::|:(?P<name>[A-Za-z_]\w*)""")
SETTING_COMMANDS, _ANSWERED = ("set", "setshell"), ("gset", "aset")
_BOUND = re.compile(r"[\w\]]:\w+")  # of a slice of an array
OWN_VARIABLES = frozenset(("client_id", "default_seed", "random_seed", "scale"))  # that pgbench sets, unless given


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
    for _, statement in split_statements(_without_commands(script)):
        yield _prepare(" ".join(COMMENT.sub(" ", statement).split()))


def _without_commands(script: str) -> str:
    """The SQL of a script: a command of pgbench ends what stands before it."""
    pieces, at = [], 0
    for command in find_commands(script):
        pieces.append(script[at : command.begin])
        at = command.end
    return ";".join((*pieces, script[at:]))


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
    own = set_variables(script)
    return frozenset() if own is None else used_variables(script) - OWN_VARIABLES - set(given) - own


def set_variables(script: str) -> frozenset[str] | None:
    """Those of which the script sets a value; None where an answer of the server sets some, which may be any."""
    found: set[str] = set()
    for command in find_commands(script):
        name, *words = (*command.words, "")
        if name.lower() in _ANSWERED:
            return None
        if name.lower() in SETTING_COMMANDS:
            found.add(words[0])
    return frozenset(found)
