r"""Commands of psql that are understood as a whole, so that it is known what they read; all others execute something.

Psql knows more commands with each version, and takes each apart in a way of its own. So a command is in order only if
its whole line has a form that stands here.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_LETTER = r"A-Za-z_\x80-\U0010ffff"
_NAME = rf'(?:[{_LETTER}][{_LETTER}\d$]*+|"(?:[^"]|"")*+")'
_COLUMNS = rf"\(\s*{_NAME}(?:\s*,\s*{_NAME})*+\s*\)"
# Told to the server as they stand.
_OPTION = r"(?:[eE]'(?:\\[a-z0-9]|[^'\\])*+'|'[^'\\]*+'|\"[^\"]*+\"|[\w\s(),.*=<>-])"
# Of a file's name psql puts together what is quoted in parts, decodes escapes, and knows directories by "~".
_FILE = r"(?P<file>'[^'\\~\ufffd]++'|[^\s;'\"\\~()`\ufffd]++)"
CLIENT_COPY = re.compile(
    rf"\\[cC][oO][pP][yY]\s+(?:binary\s++)?+{_NAME}(?:\s*\.\s*{_NAME})?+\s*+(?:{_COLUMNS}\s*+|(?<=[\s\"]))"
    rf"(?P<way>(?i:from|to))\s++(?!(?i:program)\b)(?:(?P<stream>p?std(?:in|out))(?=[\s;]|\Z)|{_FILE})"
    rf"(?:\s++{_OPTION}*+)?+;?\s*+",
    re.ASCII,
)
INCLUDE = re.compile(
    r"\\(?P<how>i|ir|include|include_relative)\s++(?P<file>'(?:[^'\\`]|'')*+'|[^\s\\`'\"]++)\s*+", re.ASCII
)
_PLAIN_FILE = re.compile(r"[\w./+-]+|'[\w./ +-]+'", re.ASCII)
# They show something, or decide what is executed at all; whatever their arguments are.
_HARMLESS = frozenset(
    (
        *("", "?", "N", "a", "b", "conninfo", "echo", "elif", "else", "encoding", "endif", "errverbose", "f", "gdesc"),
        *(
            "gset",
            "if",
            "n",
            "p",
            "print",
            "pset",
            "q",
            "qecho",
            "quit",
            "r",
            "reset",
            "restrict",
            "set",
            "t",
            "timing",
        ),
        *("unrestrict", "unset", "v", "warn", "x"),
    )
)
_DESCRIBES = re.compile(r"(?:d[a-zA-Z]{0,3}|z|l|list)[S+x]*+")
_HARMLESS_ALONE = re.compile(r"\\(?:gx?|o|out)\s*+", re.ASCII)
_NAME_OF_COMMAND = re.compile(r"\\([^\s\\]*+)", re.ASCII)
_MAY_BE_COMMAND = re.compile(r"[A-Za-z_!?]++[S+x]*+", re.ASCII)  # with any other character in its name psql knows none
_TELLING = 200  # characters behind a command, which tell what it does; a line may have a million
_CONNECTS = frozenset(("c", "connect"))
_READS = frozenset(("i", "ir", "include", "include_relative", "copy", "lo_import", "getenv", "prompt", "cd"))
_WRITES = frozenset(("o", "out", "g", "gx", "w", "write", "lo_export", "s"))
_EDITS = frozenset(("e", "edit", "ef", "ev"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A file that a command reads: ``name`` as it is written; ``is_script``: it is read as the one that names it.

    ``is_relative``: to that one. ``is_plain``: psql finds it by no other name.
    """

    name: str
    is_script: bool = False
    is_relative: bool = False
    is_plain: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """What the commands in a text do: the ``read`` file, if they are one that reads one, and what they execute."""

    read: Read | None = None
    uses: tuple[str, ...] = ()


def connects_elsewhere(text: str) -> bool:
    """Whether it begins with the command that leads to another database."""
    found = _NAME_OF_COMMAND.match(text.lstrip())
    return found is not None and found[1] in _CONNECTS


def is_one_command(text: str) -> bool:
    """Whether nothing stands behind it that psql could see as SQL or as another command."""
    return _NAME_OF_COMMAND.match(text) is not None and "\\" not in text[1:]


def examine(text: str) -> Commands:
    """The commands in a text that begins with one, and ends with its line; or may, if it does not begin with one."""
    text = text.strip()
    if found := CLIENT_COPY.fullmatch(text):
        return _examine_copy(found, text)
    if found := INCLUDE.fullmatch(text):
        read = Read(
            name=found["file"],
            is_script=True,
            is_relative=found["how"] in ("ir", "include_relative"),
            is_plain=_PLAIN_FILE.fullmatch(found["file"]) is not None,
        )
        return Commands(read=read, uses=() if read.is_plain else ("a file that psql may find elsewhere",))
    return Commands(uses=tuple(dict.fromkeys(_uses(text))))


def _examine_copy(found: re.Match[str], text: str) -> Commands:
    # Where it is not certain that psql sees this command, what would be the first one is in its options.
    uses = tuple(dict.fromkeys(_uses(text[1:])))
    if found["file"] is None:
        return Commands(uses=uses)
    if found["way"].lower() == "to":
        return Commands(uses=("a file written", *uses))
    return Commands(read=Read(name=found["file"]), uses=uses)


def _uses(text: str) -> Iterator[str]:
    if "`" in text and "\\" in text:
        yield "a shell command"
    for found in _NAME_OF_COMMAND.finditer(text):
        name = found[1].rstrip(";")
        if _MAY_BE_COMMAND.fullmatch(name) is None or name in _HARMLESS or _DESCRIBES.fullmatch(name):
            continue
        if _HARMLESS_ALONE.fullmatch(text, found.start()) is None:
            yield _what(name.lower(), text[found.end() : found.end() + _TELLING].lstrip())


def _what(name: str, rest: str) -> str:
    """In the words of a user."""
    if name == "!" or rest.startswith("|") or (name == "copy" and re.search(r"\bprogram\b", rest, re.IGNORECASE)):
        return "a shell command"
    if name in _EDITS:
        return "a program"
    if name in _WRITES:
        return "a file written"
    if name == "setenv":
        return "a variable of the environment"
    if name == "gexec":
        return "SQL put together as it runs"
    if name in _READS or name in _CONNECTS:
        return "a file that psql reads, or another connection"
    return "a command of psql that is not known to be harmless"
