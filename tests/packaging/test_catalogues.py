"""The catalogues: they have all texts and no others, each of them translated whole, and are what is shipped."""

import gettext
import io
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog, Message
from babel.messages.mofile import read_mo
from tools import catalogues as tool

from pgtrial.language import ENGLISH, LANGUAGES

ROOT = Path(__file__).parents[2]
COUNT = Counter({"count": 1})
CODES = [code for code in LANGUAGES if code != ENGLISH]


@pytest.fixture(scope="module")
def texts() -> Catalog:
    return tool.collect()


@pytest.fixture(scope="module", params=CODES)
def catalogue(request: pytest.FixtureRequest) -> Catalog:
    """As it is in the repository; not to be changed."""
    return tool.read_catalogue(request.param)


def messages(catalogue: Catalog) -> Iterator[Message]:
    return (message for message in catalogue if message.id)


def key(message: Message) -> tuple[str | None, object]:
    return message.context, forms(message.id)


def forms(text: str | tuple[str, ...] | list[str]) -> tuple[str, ...]:
    return (text,) if isinstance(text, str) else tuple(text)


def fields(text: str) -> Counter[str]:
    """Which places of values a template has, with the ways to write them, how often."""
    return Counter(re.findall(r"(?<!\{)\{([a-z]\w*(?::[\w ]+)?)\}", text))


def marked(text: str) -> list[str]:
    """What stands in <words> of a narrative's template."""
    return sorted(re.findall(r"</?[a-z]+>", text))


def test_one_with_a_text_twice_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "pgtrial.po"
    path.write_bytes(tool.catalogue_path("ru").read_bytes() + b'\nmsgid "supported"\nmsgstr "twice"\n' * 2)
    monkeypatch.setattr(tool, "catalogue_path", lambda _: path)

    with pytest.raises(SystemExit, match="twice"):
        tool.read_catalogue("ru")


def test_they_have_exactly_the_texts_of_the_package(catalogue: Catalog, texts: Catalog) -> None:
    mine, found = {key(message) for message in messages(catalogue)}, {key(message) for message in messages(texts)}

    assert sorted(map(str, found - mine)) == [], "make catalogues adds them"
    assert sorted(map(str, mine - found)) == [], "make catalogues removes them"


def test_a_translation_is_there_in_every_plural_form(catalogue: Catalog) -> None:
    """A text without any stays English, of which make catalogues warns: who adds one need not know the language."""
    translated = (message for message in messages(catalogue) if any(forms(message.string)))

    assert [
        message.id
        for message in translated
        if len(forms(message.string)) != (catalogue.num_plurals if message.pluralizable else 1)
        or not all(forms(message.string))
    ] == []


def test_none_is_a_guess(catalogue: Catalog) -> None:
    assert [message.id for message in messages(catalogue) if message.fuzzy] == []
    assert list(catalogue.obsolete) == []


def test_a_translation_has_the_places_of_its_text(catalogue: Catalog) -> None:
    """In each plural form. "The effect" needs no number, but the form of one is in Russian also that of 21."""
    plural = gettext.c2py(catalogue.plural_expr)
    wrong = []
    for message in messages(catalogue):
        one, many = forms(message.id)[0], forms(message.id)[-1]
        for index, text in enumerate(forms(message.string)):
            is_of_one = [count for count in range(1000) if plural(count) == index] == [1]
            wanted = [fields(many), fields(one)] if is_of_one else [fields(many)]
            if text and (fields(text) not in wanted or marked(text) != marked(many)):
                wrong.append((message.id, text))

    assert wrong == []


def test_both_forms_of_a_counted_text_have_the_same_places(texts: Catalog) -> None:
    counted = [message.id for message in messages(texts) if message.pluralizable]

    assert [(one, many) for one, many in counted if fields(many) not in (fields(one), fields(one) + COUNT)] == []


def test_a_translation_has_no_blanks_at_its_ends_that_the_text_has_not(catalogue: Catalog) -> None:
    def ends(text: str) -> tuple[bool, bool]:
        return text[:1].isspace(), text[-1:].isspace()

    wrong = [
        (message.id, text)
        for message in messages(catalogue)
        for text in filter(None, forms(message.string))
        if ends(text) != ends(forms(message.id)[0])
    ]

    assert wrong == []


def test_no_translation_hides_a_control_character(catalogue: Catalog) -> None:
    wrong = [
        (message.id, text)
        for message in messages(catalogue)
        for text in forms(message.string)
        if not text.replace("\n", "").replace("\u00a0", " ").isprintable()
    ]

    assert wrong == []


@pytest.mark.parametrize("code", CODES)
def test_what_is_shipped_is_compiled_from_what_is_edited(code: str) -> None:
    path = tool.catalogue_path(code)
    compiled = read_mo(io.BytesIO(tool.compile_catalogue(tool.read_catalogue(code))))
    shipped = read_mo(io.BytesIO(path.with_suffix(".mo").read_bytes()))

    def contents(catalogue: Catalog) -> dict[tuple[str | None, object], object]:
        return {key(message): message.string for message in messages(catalogue)}

    assert contents(shipped) == contents(compiled), "make catalogues compiles it"


@pytest.mark.parametrize("code", CODES)
def test_a_catalogue_is_written_as_the_tool_writes_it(code: str, texts: Catalog) -> None:
    """So that an edit changes the lines of its text, and no others."""
    catalogue = tool.read_catalogue(code)
    tool.update(catalogue, texts)

    def without_version(text: bytes) -> bytes:
        return re.sub(rb'"Generated-By: .*"\n', b"", text)

    assert without_version(tool.render(catalogue)) == without_version(tool.catalogue_path(code).read_bytes())


def test_the_tool_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], texts: Catalog
) -> None:
    monkeypatch.setattr(tool, "collect", lambda: texts)
    monkeypatch.setattr(tool, "LOCALE", tmp_path)
    monkeypatch.setattr(tool, "LANGUAGES", {"en": "English", "es": "español"})

    assert tool.main() == 0

    found = re.fullmatch(r"es: (\d+) texts, (\d+) without a translation\n", capsys.readouterr().out)
    assert found is not None
    assert found[1] == found[2]
    assert sorted(path.name for path in tmp_path.rglob("pgtrial.*")) == ["pgtrial.mo", "pgtrial.po"]
