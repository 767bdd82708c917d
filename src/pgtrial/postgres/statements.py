"""Split a script into its statements, where psql would: each is a transaction of its own, so VACUUM may be among them.

Source: the lexical rules of PostgreSQL's documentation, 4.1 "Lexical Structure", and psql's own scanner (psqlscan.l),
which also keeps what stands in parentheses, and a function's body in SQL (BEGIN ATOMIC … END), together.
"""

import re
from collections.abc import Iterator

_TOKEN = re.compile(
    r"""
      (?P<comment> --[^\n]* )
    | (?P<block> /\* )
    | (?P<string> [eE]'(?:[^'\\]|\\.|'')*' | '(?:[^']|'')*' | "(?:[^"]|"")*" )
    | (?P<dollar> \$(?P<tag>[A-Za-z_\u0080-\U0010ffff][\w\u0080-\U0010ffff]*)?\$ )
    | (?P<word> [A-Za-z_\u0080-\U0010ffff][\w$\u0080-\U0010ffff]* )
    | (?P<end> ; )
    | (?P<open> \( ) | (?P<close> \) )
    | (?P<number> \d[\w.$]* )
    """,
    re.VERBOSE | re.DOTALL,
)
_ROUTINES = tuple(["CREATE", *way, kind] for way in ([], ["OR", "REPLACE"]) for kind in ("FUNCTION", "PROCEDURE"))
_FIRST = 4  # words of a statement that say whether it makes a routine


def split_statements(script: str) -> Iterator[tuple[int, str]]:
    """(offset, text) of each statement that is not empty, without its semicolon; what is not closed ends with the text.

    ``offset`` is the number of characters before it in ``script``, comments and blanks before it included.
    """
    start = at = parentheses = depth = 0
    words: list[str] = []
    has_content = False
    while match := _TOKEN.search(script, at):
        has_content = has_content or bool(script[at : match.start()].strip())
        at = match.end()
        if match["block"]:
            at = _end_of_comment(script, at)
            continue
        if match["comment"]:
            continue
        if match["end"]:
            if parentheses == 0 and depth == 0:
                if has_content:
                    yield start, script[start : match.start()]
                start, words, has_content = at, [], False
            continue
        has_content = True
        if match["dollar"]:
            closing = script.find(match["dollar"], at)
            at = len(script) if closing < 0 else closing + len(match["dollar"])
        elif match["open"]:
            parentheses += 1
        elif match["close"]:
            parentheses = max(0, parentheses - 1)
        elif match["word"]:
            if len(words) < _FIRST:
                words.append(match["word"].upper())
            depth = _body_depth(words, match["word"].upper(), depth)
    if has_content or script[at:].strip():
        yield start, script[start:]


def _body_depth(words: list[str], word: str, depth: int) -> int:
    """How deep in a routine's body in SQL the text is after ``word``."""
    if not any(words[: len(beginning)] == beginning for beginning in _ROUTINES):
        return depth
    if word == "BEGIN" or (word == "CASE" and depth):
        return depth + 1
    return depth - 1 if word == "END" and depth else depth


def _end_of_comment(script: str, at: int) -> int:
    """Where a block comment ends that begins before ``at``; block comments nest."""
    depth = 1
    while depth and (match := re.compile(r"/\*|\*/").search(script, at)):
        depth += 1 if match[0] == "/*" else -1
        at = match.end()
    return len(script) if depth else at
