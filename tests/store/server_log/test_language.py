import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrial.store.server_log.formats import LINES, USAGE, WHOLE
from pgtrial.store.server_log.language import PLAIN
from pgtrial.store.server_log.printf import fill
from pgtrial.store.server_log.words import LABELS, SEVERITIES

LANGUAGES = ("de", "fr", "ja", "ko", "ru", "zh_CN")
_CONVERSIONS = re.compile(r"%(?:\d+\$)?(0?)(\d*)(?:\.(\d+))?[a-zA-Z]")
# What the catalogue itself loses: a number that is printed as nothing, a blank between two words.
_LOST = {
    ("ko", "tuples: %d removed, %d remain, %d are dead but not yet removable"),
    ("zh_CN", "duration: %s ms  %s %s%s%s: %s"),
}


def values_of(english: str) -> dict[str, str]:
    """A value for each argument, all different, as C prints them."""
    values = {}
    for i, match in enumerate(_CONVERSIONS.finditer(english.replace("%%", "")), start=1):
        letter = match[0][-1]
        number = f"{i}.{'5' * int(match[3])}" if letter == "f" else str(i).zfill(int(match[2] or 0))
        values[f"v{i}"] = f"word{i}" if letter == "s" else number
    if english.startswith("duration: %s"):
        values["v1"] = "12.345"
    return values


@pytest.mark.parametrize("name", LANGUAGES)
@pytest.mark.parametrize("english", [*WHOLE, *LINES, USAGE.text])
def test_each_message_comes_back_in_english(catalogues, languages, name, english):
    if english not in catalogues[name]:
        return  # of another version, or not translated: then it is written in English
    if (name, english) in _LOST:
        return
    values = values_of(english)
    message = fill(catalogues[name][english], values)

    found = languages[name].to_english(message)

    assert " ".join(found.split()) == " ".join(fill(english, values).split())


@pytest.mark.parametrize("name", LANGUAGES)
def test_words_are_known_without_a_catalogue_too(catalogues, languages, name):
    for severity in SEVERITIES:
        word = catalogues[name].get(severity, severity)
        assert languages[name].severity(word) == severity
        assert PLAIN.severity(word) == severity
    for label in LABELS:
        word = catalogues[name].get(f"{label}  ", f"{label}  ").strip()
        assert languages[name].labels[word] == label
        assert PLAIN.labels[word] == label


def test_lines_of_a_message_are_translated_one_by_one(languages):
    message = (
        'автоматическая очистка таблицы "a.public.t": сканирований индекса: 1\n'
        "страниц удалено: 0, осталось: 45, просканировано: 45 (100.00% от общего числа)\n"
        "нагрузка системы: CPU: пользов.: 0.00 с, система: 0.01 с, прошло: 1.25 с"
    )

    assert languages["ru"].to_english(message) == (
        'automatic vacuum of table "a.public.t": index scans: 1\n'
        "pages: 0 removed, 45 remain, 45 scanned (100.00% of total)\n"
        "system usage: CPU: user: 0.00 s, system: 0.01 s, elapsed: 1.25 s"
    )


def test_the_more_specific_of_two_formats_counts(languages):
    message = "进程17在1000.123 ms后获取在事务 733上的ShareLock失败"

    assert languages["zh_CN"].to_english(message) == (
        "process 17 failed to acquire ShareLock on 事务 733 after 1000.123 ms"
    )


@given(st.text(max_size=60))
def test_other_messages_stay_as_they_are(text):
    assert PLAIN.to_english(text) == text


def test_words_of_one_meaning_never_mean_another():
    for table in (SEVERITIES, LABELS):
        words = [word for words in table.values() for word in words]
        twice = {word for word in words if words.count(word) > 1}
        assert twice <= {"გაფრთხილება"}
