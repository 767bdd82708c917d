"""Texts and numbers in the languages: what is looked up, in which plural form, and how numbers are written."""

import gettext
import io
import re
import threading
from collections.abc import Callable

import pytest
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo

from pgtrial.language import LANGUAGES, N_, Language, decimal_sign, find_language, ntr, ptr, speak, spoken, tr
from pgtrial.units import (
    format_bytes,
    format_change,
    format_count,
    format_decimal,
    format_duration,
    format_percent,
    format_share,
    format_times,
    parse_bytes,
    parse_duration,
    tie_units,
)

UNITS = {"µs": "мкс", "ms": "мс", "s": "с", "min": "мин", "h": "ч", "B": "Б", "kB": "кБ", "MB": "МБ", "GB": "ГБ"}


def make_language(code: str, fill: Callable[[Catalog], None]) -> Language:
    """A language with a catalogue of the test's own, and otherwise what the language is."""
    catalogue, file = Catalog(locale=code), io.BytesIO()
    fill(catalogue)
    write_mo(file, catalogue)
    file.seek(0)
    return Language(code=code, decimal=find_language(code).decimal, catalogue=gettext.GNUTranslations(file))


def fill_russian(catalogue: Catalog) -> None:
    catalogue.add(("{count} block", "{count} blocks"), ("{count} блок", "{count} блока", "{count} блоков"))
    catalogue.add("{arm} is faster", "быстрее {arm}")
    catalogue.add("100 % {of} it", "100 % {всего}")
    catalogue.add("more than {times} times", "более чем в {times} раз")
    catalogue.add(("{times} time", "{times} times"), ("в {times} раз", "в {times} раза", "в {times} раз"))
    for unit, name in UNITS.items():
        catalogue.add(unit, name, context="unit")


@pytest.fixture(scope="module")
def russian() -> Language:
    return make_language("ru", fill_russian)


def test_without_a_language_texts_are_as_they_are_written() -> None:
    assert tr("{arm} is faster", arm="on") == "on is faster"
    assert ntr("{count} block", "{count} blocks", 1) == "1 block"
    assert ntr("{count} block", "{count} blocks", 2) == "2 blocks"
    assert ptr("unit", "ms") == "ms"
    assert (spoken(), decimal_sign()) == ("en", ".")


def test_english_is_the_same_as_none() -> None:
    with speak(find_language("en")):
        assert tr("{arm} is faster", arm="on") == "on is faster"
        assert (spoken(), decimal_sign(), format_duration(0.00142)) == ("en", ".", "1.42 ms")


def test_a_translation_may_put_values_elsewhere(russian: Language) -> None:
    with speak(russian):
        assert tr("{arm} is faster", arm="on") == "быстрее on"


def test_values_are_no_templates(russian: Language) -> None:
    with speak(russian):
        assert tr("{arm} is faster", arm="{arm} {0} {") == "быстрее {arm} {0} {"


def test_a_text_without_values_is_no_template(russian: Language) -> None:
    with speak(russian):
        assert tr("100 % {of} it") == "100 % {всего}"
    assert tr("warmup = { cap = 5 }") == "warmup = { cap = 5 }"


def test_a_text_that_a_catalogue_has_not_stays_english(russian: Language) -> None:
    with speak(russian):
        assert tr("nobody translated {this}", this="it") == "nobody translated it"


def test_a_context_tells_texts_apart(russian: Language) -> None:
    with speak(russian):
        assert (ptr("unit", "s"), ptr("something else", "s"), tr("s")) == ("с", "s", "s")


def test_a_mark_is_the_text_itself(russian: Language) -> None:
    with speak(russian):
        assert N_("{arm} is faster") == "{arm} is faster"


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 блоков"),
        (1, "1 блок"),
        (2, "2 блока"),
        (5, "5 блоков"),
        (11, "11 блоков"),
        (21, "21 блок"),
        (22, "22 блока"),
        (25, "25 блоков"),
        (111, "111 блоков"),
    ],
)
def test_russian_has_three_plural_forms(russian: Language, count: int, text: str) -> None:
    with speak(russian):
        assert ntr("{count} block", "{count} blocks", count) == text


@pytest.mark.parametrize("count", [0, 1, 2, 5, 11, 21, 22, 25, 111, 1_000_000])
def test_the_catalogue_of_russian_chooses_as_its_grammar_does(count: int) -> None:
    """Unicode CLDR, plural rules of ru: one, few, many."""
    catalogue = find_language("ru").catalogue
    assert isinstance(catalogue, gettext.GNUTranslations)
    ones, tens = count % 10, count % 100
    few = 2 <= ones <= 4 and not 12 <= tens <= 14
    expected = 0 if ones == 1 and tens != 11 else 1 if few else 2

    assert catalogue.plural(count) == expected  # of the header Plural-Forms


def test_the_language_ends_with_its_block_even_by_an_error(russian: Language) -> None:
    with pytest.raises(ZeroDivisionError), speak(russian):
        1 / 0  # noqa: B018

    assert spoken() == "en"


def test_blocks_nest(russian: Language) -> None:
    with speak(russian):
        with speak(find_language("en")):
            assert format_duration(1.5) == "1.5 s"
        assert format_duration(1.5) == "1,5 с"


def test_another_thread_has_a_language_of_its_own(russian: Language) -> None:
    found = []
    with speak(russian):
        thread = threading.Thread(target=lambda: found.append(spoken()))
        thread.start()
        thread.join()

    assert found == ["en"]


@pytest.mark.parametrize("code", LANGUAGES)
def test_every_language_has_its_catalogue(code: str) -> None:
    with speak(find_language(code)):
        assert spoken() == code


def test_there_are_no_other_languages() -> None:
    with pytest.raises(KeyError):
        find_language("xx")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (lambda: format_duration(0.0000123), "12,3 мкс"),
        (lambda: format_duration(0.00142), "1,42 мс"),
        (lambda: format_duration(12.3), "12,3 с"),
        (lambda: format_duration(200), "3 мин 20 с"),
        (lambda: format_duration(7500), "2 ч 5 мин"),
        (lambda: format_duration(-0.00142), "−1,42 мс"),
        (lambda: format_bytes(1536), "1,5 кБ"),
        (lambda: format_bytes(12), "12 Б"),
        (lambda: format_bytes(2.5 * 1024**3), "2,5 ГБ"),
        (lambda: format_count(12_345), "12,3 k"),
        (lambda: format_count(0.00123), "0,00123"),
        (lambda: format_percent(0.068, signed=True), "+6,8 %"),
        (lambda: format_percent(-0.1), "−10,0 %"),
        (lambda: format_share(0.025), "2,5 %"),
        (lambda: format_share(0.95), "95 %"),
        (lambda: format_change(1.068), "+6,8 %"),
        (lambda: format_change(12.34), "× 12,3"),
        (lambda: format_times(2.345), "в 2,3 раза"),
        (lambda: format_times(1e6), "более чем в 10000 раз"),
        (lambda: format_times(15), "в 15 раз"),
        (lambda: format_times(12.34), "в 12,3 раза"),
        (lambda: format_decimal(-0.054, 3), "−0,054"),
        (lambda: format_duration(float("nan")), "–"),
    ],
)
def test_numbers_have_the_decimal_comma_and_units_of_the_language(
    russian: Language, text: Callable[[], str], expected: str
) -> None:
    with speak(russian):
        assert text() == expected


@pytest.mark.parametrize("code", LANGUAGES)
def test_what_is_written_in_files_is_read_in_every_language_alike(code: str) -> None:
    with speak(find_language(code)):
        assert (parse_duration("1.5min"), parse_bytes("1.5kB")) == (90, 1536)


@pytest.mark.parametrize("text", ["1,42 мс", "3 мин", "12,3 с", "2 ч", "1,5 кБ", "2,5 ГБ", "12 Б", "6,8 %", "1.42 ms"])
def test_units_are_tied_in_every_language(text: str) -> None:
    assert tie_units(f"a {text} b") == f"a {text.replace(' ', chr(160))} b"


@pytest.mark.parametrize("code", LANGUAGES)
def test_every_unit_is_tied_as_its_catalogue_names_it(code: str) -> None:
    with speak(find_language(code)):
        written = [format_duration(10.0**power) for power in range(-6, 5)]
        written += [format_bytes(1024.0**power) for power in range(5)]

    assert [text for text in written if re.search(r"\d ", tie_units(text))] == []
