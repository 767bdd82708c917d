"""Translation of the texts that people read: English from the source, or its entry in a catalogue.

Sentences of the analysis stand in ``findings/catalogue/``; the report adds its own texts where it uses them. Both pass
through ``tr``, ``ptr`` or ``ntr``, which translate whole sentences into the language in use (``speak``). Output for
programs (findings.json, tables, exit codes) is written while English is in use.

The catalogues are gettext's: ``locale/<code>/LC_MESSAGES/pgtrial.po``, and the same compiled; ``make catalogues``
collects the texts and compiles them. Messages contain ``{name}`` placeholders, which a translation may reorder.
"""

import gettext
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path

DOMAIN = "pgtrial"
LOCALE = Path(__file__).parent / "locale"
ENGLISH = "en"
# By code (BCP 47), with the name in the language itself.
LANGUAGES = {ENGLISH: "English", "ru": "русский", "es": "español"}
_DECIMAL_COMMA = {"ru", "es"}  # Unicode CLDR, symbols-numberSystem-latn/decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """``decimal`` is the sign before the fraction of a number."""

    code: str
    decimal: str
    catalogue: gettext.NullTranslations


_PLAIN = gettext.NullTranslations()
_in_use: ContextVar[Language | None] = ContextVar("language", default=None)  # None: English, as it is written


@cache
def find_language(code: str) -> Language:
    """The language of a code in LANGUAGES. Raises KeyError for other codes, OSError if its catalogue is missing."""
    if code not in LANGUAGES:
        raise KeyError(code)
    if code == ENGLISH:
        return Language(code=ENGLISH, decimal=".", catalogue=_PLAIN)
    catalogue = gettext.translation(DOMAIN, localedir=LOCALE, languages=[code])
    return Language(code=code, decimal="," if code in _DECIMAL_COMMA else ".", catalogue=catalogue)


@contextmanager
def speak(language: Language) -> Iterator[None]:
    """Inside the block all texts are in ``language``, in this thread or task."""
    token = _in_use.set(language)
    try:
        yield
    finally:
        _in_use.reset(token)


def spoken() -> str:
    """Code of the language in use."""
    language = _in_use.get()
    return ENGLISH if language is None else language.code


def decimal_sign() -> str:
    language = _in_use.get()
    return "." if language is None else language.decimal


def find_text(text: str, /) -> str:
    """The text in the language in use, with its placeholders not filled in."""
    language = _in_use.get()
    # To gettext the empty text is the catalogue's header.
    return text if language is None or not text else language.catalogue.gettext(text)


def find_plural(one: str, many: str, count: int, /) -> str:
    """``find_text`` for a text that depends on a number, in the plural form of the language in use."""
    language = _in_use.get()
    catalogue = _PLAIN if language is None else language.catalogue
    return catalogue.ngettext(one, many, count)


def tr(text: str, /, **values: object) -> str:
    """The text in the language in use, with values filled in; without values it is not treated as a template."""
    template = find_text(text)
    return template.format(**values) if values else template


def ptr(context: str, text: str, /, **values: object) -> str:
    """``tr`` for a text whose meaning depends on a context: ("unit", "s")."""
    language = _in_use.get()
    template = text if language is None else language.catalogue.pgettext(context, text)
    return template.format(**values) if values else template


def ntr(one: str, many: str, count: int, /, **values: object) -> str:
    """A text that depends on a number, in the plural form of the language in use; ``{count}`` in it is the number."""
    return find_plural(one, many, count).format(count=count, **values)


def _as_it_is(text: str, /) -> str:
    return text


N_ = _as_it_is  # gettext's name: catalogues have this text, which stands in a table and is translated where it is shown
