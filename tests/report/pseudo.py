"""A language whose every text stands in ⟦…⟧: what is shown outside of them went through no catalogue."""

import gettext
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser

from pgtrial.language import Language

_PLACE = re.compile(r"((?<!\{)\{[a-z]\w*\}|</?[a-z]+>)")  # of a value, or of words that a narrative cites
_WORD = re.compile(r"[^\W\d_]+")
# What stands in an encoding or a mark of a chart and is shown; values of data are shown by their fields.
_SHOWN = {"title", "text", "description", "subtitle"}
_LITERAL = re.compile(r"'((?:[^'\\]|\\.)*)'")
_UNSEEN = {"script", "style", "code", "pre"}
_INLINE = {"span", "b", "strong", "em", "i", "a", "small", "sub", "sup", "svg", "rect", "abbr", *_UNSEEN}
_VOID = {"meta", "link", "br", "hr", "input", "img", "col", "wbr"}


class _Pseudo(gettext.NullTranslations):
    def gettext(self, message: str) -> str:
        return wrap(message)

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        return wrap(msgid1 if n == 1 else msgid2)

    def pgettext(self, context: str, message: str) -> str:
        return wrap(message)


def wrap(text: str) -> str:
    """The text's own words in ⟦⟧, and the places of values outside: what is inserted there has to be wrapped itself."""
    assert text, "the translation of nothing is the header of a catalogue"
    return "".join(
        part if _PLACE.fullmatch(part) or not part.strip() else f"⟦{part}⟧" for part in _PLACE.split(text) if part
    )


PSEUDO = Language(code="pseudo", decimal=",", catalogue=_Pseudo())


def words_outside(text: str) -> list[str]:
    """The words of the text that stand in no ⟦…⟧."""
    depth, outside = 0, []
    for character in text:
        depth += {"⟦": 1, "⟧": -1}.get(character, 0)
        outside.append(" " if depth or character == "⟧" else character)
    assert depth == 0 or "…" in text, f"brackets are broken in: {text}"  # what is cut may lack the end
    return _WORD.findall("".join(outside))


class _Page(HTMLParser):
    """Texts of a page by block: what stands between two elements that begin a new line is one text."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = [""]
        self.charts: list[str] = []
        self.open: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag not in _INLINE:
            self.texts.append("")
        if tag not in _VOID:
            self.open.append((tag, found))
        self.texts[-1:-1] = [
            value for name in ("aria-label", "alt", "placeholder") if (value := found.get(name)) is not None
        ]

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop()[0] != tag:
            pass
        if tag not in _INLINE:
            self.texts.append("")

    def handle_data(self, data: str) -> None:
        if ("script", {"type": "application/json"}) in self.open:
            self.charts.append(data)
        elif not any(tag in _UNSEEN for tag, _ in self.open):
            self.texts[-1] += data


def texts_of_page(html: str) -> list[str]:
    """What is to be seen of a page, in its charts too, or is read aloud."""
    page = _Page()
    page.feed(html)
    page.close()
    found = [re.sub(r"\s+", " ", text).strip() for text in page.texts]
    for chart in page.charts:
        found += texts_of_chart(json.loads(chart))
    return [text for text in dict.fromkeys(found) if text]


def texts_of_chart(spec: object) -> Iterator[str]:
    """Titles, labels, tips and the texts of the data that they show."""
    fields = set(_fields(spec))
    yield from _texts(spec, fields)


def _fields(spec: object) -> Iterator[str]:
    """Names of the columns that are shown as text: in tips, on nominal axes and as marks."""
    if isinstance(spec, list):
        for item in spec:
            yield from _fields(item)
    elif isinstance(spec, dict):
        for key, value in spec.items():
            if key in {"tooltip", "text", "x", "y", "row", "column", "facet"}:
                for channel in value if isinstance(value, list) else [value]:
                    if isinstance(channel, dict) and "field" in channel:
                        yield channel["field"]
            yield from _fields(value)


def _texts(spec: object, fields: set[str]) -> Iterator[str]:
    if isinstance(spec, list):
        for item in spec:
            yield from _texts(item, fields)
    elif isinstance(spec, dict):
        for key, value in spec.items():
            if key == "values" and isinstance(value, list):
                for row in value:
                    if isinstance(row, dict):
                        yield from (text for field, text in row.items() if field in fields and isinstance(text, str))
            elif key == "tooltip":
                channels = value if isinstance(value, list) else [value]
                yield from (channel.get("title", channel["field"]) for channel in channels if "field" in channel)
            elif key == "labelExpr" and isinstance(value, str):
                yield from (text for text in _LITERAL.findall(value) if not re.fullmatch(r"\.?\d*~?[a-z%]", text))
            elif key in _SHOWN and isinstance(value, str):
                yield value
            elif key in _SHOWN and isinstance(value, list) and all(isinstance(line, str) for line in value):
                yield " ".join(value)
            else:
                yield from _texts(value, fields)
