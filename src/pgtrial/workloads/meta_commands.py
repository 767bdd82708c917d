"""Where pgbench's own commands stand in a script: behind a backslash, wherever that is no part of a text or comment.
Its pauses are such commands, and are made longer: each by a factor, whatever it is that says how long it is.

Source: the scanners of pgbench, psqlscan.l for SQL and exprscan.l for the words of a command, which end with their line
unless a backslash is the last of it.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pgtrial.safe_text import end_of_comment

# What is not closed goes on to the end of the script.
_TOKEN = re.compile(
    r"""
      --[^\n]*
    | (?P<block> /\* )
    | [eE]'(?:[^'\\]|\\.|'')*+'? | '[^']*+'? | "[^"]*+"?
    | (?P<dollar> \$(?:[A-Za-z_\u0080-\U0010ffff][\w\u0080-\U0010ffff]*)?\$ )
    | [A-Za-z_\u0080-\U0010ffff][\w$\u0080-\U0010ffff]*
    | \d[\w.$]*
    | \\[;:]
    | (?P<command> \\(?:[^\n]*\\\r?\n)*[^\n]* )
    """,
    re.VERBOSE | re.DOTALL,
)
_BETWEEN = re.compile(r"(?:\\\r?\n|[ \t\r\f\v])+")
_MICROSECONDS = {"us": 1.0, "ms": 1e3, "s": 1e6}
_SLEEP, _DEFAULT = "sleep", "s"
_NUMBER = re.compile(r"([+-]?\d+)(\D.*)?", re.ASCII)
_INTEGER_PART = re.compile(r"\s*([+-]?\d+)(?:\.\d*)?\s*", re.ASCII)
_VARIABLE = "pgtrial_pause"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaCommand:
    """A command, and where it stands: ``begin`` is the backslash, ``end`` is behind its last line."""

    begin: int
    end: int
    words: tuple[str, ...]


def find_commands(script: str) -> Iterator[MetaCommand]:
    """All of them, in the order of the script."""
    at = 0 if "\\" in script else len(script)
    while match := _TOKEN.search(script, at):
        at = match.end()
        if match["block"]:
            at = end_of_comment(script, at)
        elif match["dollar"]:
            closing = script.find(match["dollar"], at)
            at = len(script) if closing < 0 else closing + len(match["dollar"])
        elif match["command"]:
            words = tuple(filter(None, _BETWEEN.split(match["command"][1:])))
            yield MetaCommand(begin=match.start(), end=at, words=words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    r"""A \sleep, and where it stands: ``length`` is a whole number, or a variable with its colon, of ``microseconds``
    each.
    """

    begin: int
    end: int
    length: str
    microseconds: float

    def seconds(self, variables: Mapping[str, str]) -> float | None:
        """How long it is, with these variables; None where it takes another one, or one that is no number."""
        length = self.length
        if length.startswith(":"):
            number = _INTEGER_PART.fullmatch(variables.get(length[1:], ""))
            if number is None:
                return None
            length = number[1]
        return max(0, int(length)) * self.microseconds / 1e6


def find_client_pauses(script: str) -> Iterator[Pause]:
    """Those of clients, as pgbench reads them. What it would refuse is none."""
    for command in find_commands(script):
        name, *words = command.words or ("",)
        if name.lower() != _SLEEP or len(words) not in (1, 2):
            continue
        length, unit = words[0], words[1] if words[1:] else _DEFAULT
        if not length.startswith(":"):
            number = _NUMBER.fullmatch(length)
            if number is None or (number[2] and words[1:]):
                continue
            length, unit = number[1].removeprefix("+"), number[2] or unit
        if unit.lower() in _MICROSECONDS:
            microseconds = _MICROSECONDS[unit.lower()]
            yield Pause(begin=command.begin, end=command.end, length=length, microseconds=microseconds)


def stretch_pauses(script: str, factor: float) -> str:
    """The script with each pause of a client that many times as long; statements that sleep stay as they are."""
    pieces, at = [], 0
    for pause in find_client_pauses(script):
        number = _whole(pause.length) if pause.length.startswith(":") else pause.length
        pieces += [
            script[at : pause.begin],
            f"\\set {_VARIABLE} int({number} * {pause.microseconds * factor})\n\\sleep :{_VARIABLE} us",
        ]
        at = pause.end
    return "".join((*pieces, script[at:]))


def _whole(variable: str) -> str:
    r"""The whole number that \sleep takes of a variable, which int() would round."""
    return f"(int({variable}) - CASE WHEN int({variable}) > {variable} THEN 1 ELSE 0 END)"
