r"""SQL as the server reads it: ``U&"lo\005fexport"`` and ``E'lo\137export'`` are names that a search would not find.

Nothing is taken apart into strings and names: whoever writes text for a search to misread could make it take one for
another. So escapes are decoded wherever they stand, in copies of the text that are looked at beside it.

Source: PostgreSQL's documentation, 4.1.2 "Constants" and 4.1.1 "Identifiers and Key Words".
"""

import re

_ESCAPES = re.compile(
    r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([0-7]{1,3})|(\\))|(?<=.)\\([A-Za-z_])"
)
_BLANKS = dict.fromkeys("bftv", " ") | dict.fromkeys("nr", "\f")  # not the end of a line, which others are counted by
_BASES = (16, 16, 16, 8)
_MOST = 500_000  # escapes
_UNICODE = re.compile(r"\bu&(?=[\"'])", re.IGNORECASE)
# Of a string that goes on in another line, what is between its parts.
_GOES_ON = re.compile(r"(?:\\?')++[^\S\n\r\f]*+(?:--[^\n\r\f]*+)?[\n\r\f](?:\s++|--[^\n\r\f]*+[\n\r\f])*+(?:\\?')++")
_MOST_NESTED = 4  # strings in strings
_CHOICE = re.compile(r"\buescape(\s*)'([^'\n])'", re.IGNORECASE)


def readings(text: str) -> tuple[tuple[str, ...], bool]:
    """The text, and with the escapes of strings and of Unicode names decoded, and the parts of strings put together,
    where it has any, also in strings that are SQL again, all of as many lines; and whether this is all, of which there
    may be more than there is time for.
    """
    found = {text: None}
    for _ in range(_MOST_NESTED):
        new, is_all = _read_once(text)
        found |= dict.fromkeys(new)
        if new[-1] == text or not is_all:
            return tuple(found), is_all
        text = new[-1]
    return tuple(found), False


def _read_once(text: str) -> tuple[list[str], bool]:
    """What the text says to who takes it for SQL, the last one with all that there is decoded; ``readings``."""
    found, is_all = [text], True
    if "\\" in text:
        decoded, number = _ESCAPES.subn(_decoded, text, count=_MOST)
        found.append(decoded)
        is_all = number < _MOST
    for each in [*found]:
        if _UNICODE.search(each):
            decoded, number = _without_unicode(each)
            found.append(decoded)
            is_all = is_all and number < _MOST
    found += [_put_together(each) for each in found if _GOES_ON.search(each)]
    return found, is_all


def _put_together(text: str) -> str:
    """With the parts of a string where its first one begins; the lines that this takes follow empty."""
    parts: list[str] = []
    end = taken = 0
    for match in (*_GOES_ON.finditer(text), None):
        between = text[end:] if match is None else text[end : match.start()]
        if taken and "\n" in between:
            between, taken = between.replace("\n", "\n" * (taken + 1), 1), 0
        parts.append(between)
        if match is not None:
            taken += match[0].count("\n")
            end = match.end()
    return "".join(parts) + "\n" * taken


def _without_unicode(text: str) -> tuple[str, int]:
    """With plain names and strings in place of U&"" and U&'', and how many escapes that were.

    What one of them chose for its backslash is one in all: none of the characters can be a part of another's escape.
    """
    chosen = re.escape("".join({"\\", *(match[2] for match in _CHOICE.finditer(text))}))
    plain = _CHOICE.sub(lambda match: "\n" * match[1].count("\n"), _UNICODE.sub("", text))
    escape = re.compile(rf"[{chosen}](?:\+([0-9A-Fa-f]{{6}})|([0-9A-Fa-f]{{4}}))")
    return escape.subn(lambda match: _character(int(match[1] or match[2], 16)), plain, count=_MOST)


def _decoded(match: re.Match[str]) -> str:
    for digits, base in zip(match.groups(), _BASES, strict=False):
        if digits is not None:
            return _character(int(digits, base))
    return match[5] or _BLANKS.get(match[6], match[6])  # of a backslash or any other letter, itself


def _character(code: int) -> str:
    """The character, a blank in place of one that would end a line."""
    try:
        character = chr(code)
    except (ValueError, OverflowError):
        return "\N{REPLACEMENT CHARACTER}"
    return character if character.isprintable() else " "
