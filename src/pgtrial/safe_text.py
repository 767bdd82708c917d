"""Texts that somebody else may have written: JSON and TOML no deeper than code can follow, statements without the
values in them, without secrets, and nothing that steers a terminal.
"""

import json
import re
import shlex
import struct
import tomllib
import unicodedata
from typing import Any

_DEEPEST = 100  # our own have some ten
# Of one text: findings of 200 runs have 2,000 lists and tables, and 16,000 values. A byte of an empty table becomes
# hundreds where types are checked.
_MOST_CONTAINERS, _MOST_VALUES = 50_000, 250_000
_JSON_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"?', re.DOTALL)  # one without an end is damage, and quickly passed over
# A key of more parts than that; tomllib takes memory by the square of their number.
_LONG_KEY = re.compile(r"""(?:(?<![\w"'-])(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){100}""")


class TooDeepError(ValueError):
    """A text is nested too deeply."""

    def __init__(self) -> None:
        super().__init__("it is nested too deeply")


def parse_json(text: str | bytes) -> Any:
    """What the text says. Raises ValueError, also where it has so many values that they would fill the memory."""
    text = text.decode() if isinstance(text, bytes) else text
    check_json(text)
    try:
        found = json.loads(text)
    except RecursionError:
        raise TooDeepError from None
    # A text has no more levels than opening brackets, which are quick to count.
    if text.count("[") + text.count("{") > _DEEPEST:
        _check_depth(found)
    return found


def check_json(text: str) -> None:
    """Raise ValueError where the text has more values than anything of pgtrial's, before they are made of it."""
    if _has_many(text) and _has_many(_JSON_STRING.sub("", text)):
        raise ValueError("it has too many values")


def _has_many(text: str) -> bool:
    return text.count("[") + text.count("{") > _MOST_CONTAINERS or text.count(",") > _MOST_VALUES


def parse_toml(text: str) -> dict[str, Any]:
    """What the text says. Raises ValueError."""
    if _LONG_KEY.search(text):
        raise TooDeepError
    try:
        found = tomllib.loads(text)
    except RecursionError:
        raise TooDeepError from None
    _check_depth(found)
    return found


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(_DEEPEST + 1):
        level = [inner for outer in level if isinstance(outer, dict | list) for inner in _inside(outer)]
        if not level:
            return
    raise TooDeepError


def _inside(value: dict[str, Any] | list[Any]) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value


def shell_word(name: object) -> str:
    """A file's name in a command that is printed to be copied: as one word, whatever its giver has called it."""
    return shlex.quote(str(name))


def sql_name(name: str) -> str:
    """A name as SQL has it, such as of a role in a statement that is printed to be copied, whatever it is called."""
    return '"' + name.replace('"', '""') + '"'


# What of a statement is no code, and the names that may look like it. Source: PostgreSQL's documentation, 4.1 "Lexical
# Structure", and its scanner (scan.l), for which each character from 0x80 on is a letter. A statement may be cut
# anywhere: what is not closed goes on to the end.
_LETTER = r"[\w$\u0080-\U0010ffff]"
_NO_CODE = re.compile(
    rf"""
      (?P<comment> --[^\n]* )
    | (?P<block> /\* )
    | (?P<name> "[^"]*+(?:""[^"]*+)*+(?:"|\Z) )
    | (?<!{_LETTER}) [eE]'[^'\\]*+(?:(?:''|\\.)[^'\\]*+)*+(?:'|\\?\Z)
    | (?: (?<!{_LETTER}) (?:[bBnNxX]|[uU]&) )? '[^']*+(?:''[^']*+)*+(?:'|\Z)
    | (?<!{_LETTER}) (?P<tag>\$(?:[A-Za-z_\u0080-\U0010ffff][\w\u0080-\U0010ffff]*)?\$) .*? (?:(?P=tag)|\Z)
    | (?<!{_LETTER}) (?:\$\d+ | \.?\d(?:[eE][+-]?\d|[\w.])*)
    """,
    re.VERBOSE | re.DOTALL,
)
_BLOCK_EDGE = re.compile(r"/\*|\*/")
_VALUE = "\0"  # stands for a value in between: no statement has it
# A minus before a number that belongs to it, as the server's parser has it: after an operator or a keyword.
_SIGN = re.compile(
    rf"([+*/%(,=<>|]\s*|-\s+|\b(?:AND|BETWEEN|ELSE|IN|OR|RETURNING|SELECT|THEN|WHEN)\s+)-\s*{_VALUE}", re.IGNORECASE
)


def without_literals(statement: str, *, mark: str = "?") -> str:
    """A statement to be shown or kept, and not to be run: ``mark`` for its strings, numbers and parameters, so that it
    reads alike by whichever protocol it came; comments left out. It may be cut anywhere.
    """
    parts: list[str] = []
    at = 0
    while match := _NO_CODE.search(statement, at):
        parts.append(statement[at : match.start()])
        at = match.end()
        if match["name"]:
            parts.append(match[0])
        elif match["block"] or match["comment"]:
            at = end_of_comment(statement, at) if match["block"] else at
            if statement[match.start() - 1 : match.start()].strip() and statement[at : at + 1].strip():
                parts.append(" ")  # as which it counts between two words
        else:
            parts.append(_VALUE)
    parts.append(statement[at:])
    return _SIGN.sub(rf"\1{_VALUE}", "".join(parts)).replace(_VALUE, mark)


def end_of_comment(script: str, at: int) -> int:
    """Where a block comment of SQL ends that begins before ``at``; block comments nest."""
    depth = 1
    while depth and (match := _BLOCK_EDGE.search(script, at)):
        depth += 1 if match[0] == "/*" else -1
        at = match.end()
    return len(script) if depth else at


_HIDDEN_CATEGORIES = {"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"}
_NO_ASCII = re.compile(r"[^\n\x20-\x7e]")
_SECRET_KEY = (
    r"\b(?!password_encryption)[\w.-]*"
    r"(?:password|passwd|passphrase|secret|token|credential|api_?key|access_?key|private_?key)[\w.-]*"
)
# What gives a secret away; the group is the secret itself.
SECRETS = tuple(
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        rf"{_SECRET_KEY}[\"']?\s*[=:]\s*\"([^\"]+)\"",
        rf"{_SECRET_KEY}[\"']?\s*[=:]\s*'([^']+)'",
        rf"{_SECRET_KEY}\s*=\s*([^\s\"',;&)}}\]]+)",
        rf"{_SECRET_KEY}:\s+([^\s\"',;&)}}\]]{{3,}})",  # a header, or a line of YAML
        rf"(?<!\w)--(?!no-){_SECRET_KEY}\s+([^\s\"'-][^\s\"']*)",  # arguments of a command
        r"\bsshpass\s+-p\s*([^\s\"']+)",
        r"\b\w*pwd\s*=\s*([^\s\"',;&)}\]/][^\s\"',;&)}\]]*)",  # a path is the working directory
        r"\bPASSWORD\s+E?'((?:[^']|'')+)'",  # CREATE ROLE … PASSWORD '…'
        r"\bPASSWORD\s+\$\w*\$([^$]+)\$",
        r"://[^/@\s:'\"]*:([^/@\s'\"]+)@",
        r"\b(?:Bearer|Basic)\s+([\w.~+/=-]{8,})",
        r"\bAuthorization[\"']?\s*:\s*[\"'\[]?(?:Digest|Hawk|OAuth|Signature|AWS4-[\w-]+)\s+([^\r\n]+)",
        r"\bAuthorization[\"']?\s*:\s*[\"'\[]?(?:(?:Bearer|Basic|Digest|Negotiate|Token|ApiKey)\s+)?([^\s\"',;\])}]+)",
        r"\b((?:AKIA|ASIA)[0-9A-Z]{16})\b",
        r"\b((?:gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|sk-|hf_|npm_|pypi-)[\w-]{16,})",
        r"\b(md5[0-9a-f]{32})\b",
        r"\b(SCRAM-SHA-256\$[\w+/=:$]+)",
        r"\b(ey[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,})",  # a JSON web token
        r"(-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z))",
    )
)


def make_visible(text: str, *, keep: str = "") -> str:
    """Characters that would steer a terminal or reverse a line are written out, except those in ``keep``."""
    if text.isprintable():
        return text
    return "".join(
        c.encode("unicode_escape").decode("ascii")
        if unicodedata.category(c) in _HIDDEN_CATEGORIES and c not in keep
        else c
        for c in text
    )


def escape_json(text: str) -> str:
    """JSON for a terminal: the same characters in its strings as JSON's own escapes; the line breaks between stay."""
    return _NO_ASCII.sub(lambda found: _escape_hidden(found[0]), text)


def _escape_hidden(character: str) -> str:
    if unicodedata.category(character) not in _HIDDEN_CATEGORIES:
        return character
    return "".join(
        f"\\u{unit:04x}" for (unit,) in struct.iter_unpack(">H", character.encode("utf-16-be", "surrogatepass"))
    )


def hide_secrets(text: str) -> str:
    """Passwords and keys that a text gives away by what stands around them are left out."""
    for pattern in SECRETS:
        text = pattern.sub(_without_secret, text)
    return text


def _without_secret(match: re.Match[str]) -> str:
    start, end = (place - match.start() for place in match.span(1))
    return f"{match[0][:start]}***{match[0][end:]}"
