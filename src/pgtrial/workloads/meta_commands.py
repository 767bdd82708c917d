"""Where pgbench's own commands stand in a script: behind a backslash, wherever that is no part of a text or comment.

Source: the scanners of pgbench, psqlscan.l for SQL and exprscan.l for the words of a command, which end with their line
unless a backslash is the last of it.
"""

import re
from collections.abc import Iterator
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
