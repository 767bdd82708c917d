"""Message catalogues of gettext: which file has a server's messages, and what stands in it.

Python's own reader leaves out the strings that depend on the platform ("%" PRId64), of which PostgreSQL has many since
18, so the format is read here. Source: GNU gettext manual, "The Format of GNU MO Files", and gmo.h for those strings.
"""

import re
import struct
from collections.abc import Iterator

from pgtrial.store.server_log.printf import without_lengths

_MAGIC = 0x950412DE
_END = 0xFFFFFFFF  # of the segments of a string
_ENGLISH = ("c", "posix", "en")


class CatalogueError(ValueError):
    """Not a message catalogue, or a damaged one."""


def is_english(lc_messages: str) -> bool:
    """Whether a server with this setting writes its messages as they stand in its source."""
    language = re.split(r"[_.@]", lc_messages, maxsplit=1)[0].lower()
    return language in _ENGLISH or not language


def catalogue_paths(lc_messages: str, major: int) -> tuple[str, ...]:
    """Where below share/locale a server of a ``major`` version looks for its messages, the first that is there counts.

    "de_AT.UTF-8@euro" is looked for as de_AT@euro, de@euro, de_AT, de, as gettext does.
    """
    match = re.fullmatch(r"(?P<language>[A-Za-z]+)(?P<territory>_[A-Za-z0-9]+)?(?:\.[^@]*)?(?P<form>@.+)?", lc_messages)
    if match is None or "/" in lc_messages:
        return ()
    language, territory, form = match["language"], match["territory"] or "", match["form"] or ""
    names = (f"{language}{territory}{form}", f"{language}{form}", f"{language}{territory}", language)
    return tuple(f"{name}/LC_MESSAGES/postgres-{major}.mo" for name in dict.fromkeys(names))


def read_catalogue(content: bytes) -> dict[str, str]:
    """Translations by their English text, both without length modifiers (see printf.py). Raises CatalogueError."""
    try:
        pairs = list(_pairs(content))
    except (struct.error, IndexError, ValueError) as err:
        raise CatalogueError(f"not a message catalogue: {err}") from err
    head = next((text for english, text in pairs if not english), b"").decode("latin-1")
    charset = re.search(r"charset=([\w-]+)", head)
    try:
        return {
            without_lengths(english.decode(charset[1] if charset else "utf-8")): without_lengths(
                text.decode(charset[1] if charset else "utf-8")
            )
            for english, text in pairs
            if english and text
        }
    except (LookupError, UnicodeDecodeError) as err:
        raise CatalogueError(f"not a message catalogue: {err}") from err


def _pairs(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """English texts and translations, of messages that depend on a number the singular."""
    order = next((each for each in "<>" if struct.unpack_from(f"{each}I", content)[0] == _MAGIC), None)
    if order is None:
        raise CatalogueError("no magic number")
    revision, count, originals, translations = struct.unpack_from(f"{order}4I", content, 4)
    if revision >> 16 > 1:
        raise CatalogueError(f"revision {revision >> 16}")
    for i in range(count):
        yield _text(content, order, originals + 8 * i), _text(content, order, translations + 8 * i)
    if revision & 0xFFFF:
        yield from _platform_pairs(content, order)


def _text(content: bytes, order: str, place: int) -> bytes:
    length, offset = struct.unpack_from(f"{order}2I", content, place)
    return content[offset : offset + length].partition(b"\0")[0]


def _platform_pairs(content: bytes, order: str) -> Iterator[tuple[bytes, bytes]]:
    """Pairs whose texts have segments in place of which the platform's own are put, such as "ld" for PRId64.

    Which ones does not matter, since length modifiers are left out: a segment's name ends in the conversion's letter.
    """
    number, segments, count, originals, translations = struct.unpack_from(f"{order}5I", content, 28)
    names = [_text(content, order, segments + 8 * i) for i in range(number)]
    letters = [re.sub(rb"^PRI([diouxX]).*", rb"\1", name) for name in names]
    for i in range(count):
        yield (
            _assembled(content, order, struct.unpack_from(f"{order}I", content, originals + 4 * i)[0], letters),
            _assembled(content, order, struct.unpack_from(f"{order}I", content, translations + 4 * i)[0], letters),
        )


def _assembled(content: bytes, order: str, place: int, letters: list[bytes]) -> bytes:
    """A text made of segments: of the file and of the platform in turns."""
    (offset,) = struct.unpack_from(f"{order}I", content, place)
    text, reference = b"", 0
    while reference != _END:
        place += 8
        size, reference = struct.unpack_from(f"{order}2I", content, place - 4)
        text += content[offset : offset + size]
        offset += size
        if reference != _END:
            text += letters[reference]
    return text.partition(b"\0")[0]
