"""Texts without what users have put into them: statements without their values, messages without quoted texts."""

import re

# What a statement is made of. The first kind is the most frequent by far, and makes this quick; the last one is a
# character that begins none of the others after all. A text that was cut may end inside any of them.
_STATEMENT = re.compile(
    r"""
    [^"'$/\-0-9]+
    | (?P<name>"(?:[^"]|"")*(?:"|\Z))
    | (?P<value>
        (?<=\b[eE])'(?:[^'\\]|''|\\.)*(?:'|\Z)
        | '(?:[^']|'')*(?:'|\Z)
        | (?P<tag>\$(?:[^\W\d]\w*)?\$).*?(?:(?P=tag)|\Z)
        | (?<![$\w])\d[\d.]*(?:[eE][+-]?\d+)?
    )
    | (?P<comment>/\*.*?(?:\*/|\Z) | --[^\n]*)
    | .
    """,
    re.VERBOSE | re.DOTALL,
)
_QUOTED = re.compile(r'["»«„“”「『].*?["«»“”」』]', re.DOTALL)


def replace_literals(statement: str) -> str:
    """The statement on one line, with "?" for strings and numbers and without comments; names stay."""

    def put(match: re.Match[str]) -> str:
        match match.lastgroup:
            case "value" | "tag":
                return "?"
            case "comment":
                return " "
        return match[0]

    return " ".join(_STATEMENT.sub(put, statement).split())


def replace_quoted(message: str) -> str:
    """The first line of a message with "?" for what stands in quotation marks of any kind, and for numbers."""
    first = message.partition("\n")[0]
    return re.sub(r"(?<!\w)\d[\d.]*", "?", _QUOTED.sub('"?"', first))
