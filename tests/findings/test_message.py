"""Messages: what is written to findings.json, what is read from it, and how they are said in a language."""

import json

import pytest

from pgtrial.findings.causes import Check
from pgtrial.findings.caveat import CaveatFinding, caveat
from pgtrial.findings.findings import LevelFinding
from pgtrial.findings.message import Message, message, say, verbatim
from pgtrial.findings.rendering import render, write_value
from pgtrial.language import find_language, speak
from pgtrial.model.caveat import Severity


def steal() -> CaveatFinding:
    return caveat("cpu-steal", about=(1, 3), in_runs=message("in-runs", found=2, count=8), share=0.035)


def test_a_message_is_written_with_its_units_and_its_text_in_english() -> None:
    with speak(find_language("ru")):
        written = json.loads(message("arm-checkpoints", arm="off", number=1.25).model_dump_json())

    assert written == {
        "code": "arm-checkpoints",
        "values": {"arm": "off", "number": 1.25},
        "units": {},
        "text": "off 1.2 per run",
    }


def test_a_caveat_is_written_with_values_in_base_units_and_messages_among_them() -> None:
    written = json.loads(steal().model_dump_json())

    assert written["code"] == "cpu-steal"
    assert written["severity"] == "warning"
    assert written["values"]["share"] == 0.035
    assert written["values"]["in_runs"]["text"] == "In 2 of 8 runs"
    assert written["units"] == {"share": "ratio"}
    assert written["text"] == "In 2 of 8 runs the hypervisor gave CPU time to others, up to 3.5 %."
    assert written["hint"] == "Run on a machine with CPUs of its own, or with more blocks."
    assert written["runs"] == [1, 3]


def test_what_was_written_is_read_again() -> None:
    assert CaveatFinding.model_validate_json(steal().model_dump_json()) == steal()


def test_the_same_caveat_is_said_in_another_language() -> None:
    found = steal()
    with speak(find_language("es")):
        spanish = found.text

    assert spanish != found.text
    assert "3,5 %" in spanish


def test_a_text_of_version_1_is_a_message_of_that_text() -> None:
    level = LevelFinding.model_validate({"index": 0, "clients": 4, "rate": None, "label": "4 {clients}"})

    assert level.label == verbatim("4 {clients}")
    assert say(level.label) == "4 {clients}"


def test_a_check_of_version_1_that_is_ok_has_no_advice() -> None:
    values = {"value": 0.4, "unit": "share", "threshold": 0.8, "share": 0.0, "level": "ok", "advice": ""}
    check = Check.model_validate(
        {"id": "cpu-busy", "name": "CPU busy", "arm": "on", "load_level": 0, "object": "", **values}
    )

    assert check.advice is None


def test_a_caveat_of_version_1_keeps_its_words() -> None:
    old = {"code": "cpu-steal", "severity": "warning", "text": "In {x} runs.", "hint": "Do.", "runs": [1]}
    found = CaveatFinding.model_validate(old)

    assert (found.code, found.severity, found.text, found.hint, found.runs) == (
        "cpu-steal",
        Severity.WARNING,
        "In {x} runs.",
        "Do.",
        (1,),
    )
    assert CaveatFinding.model_validate_json(found.model_dump_json()) == found


@pytest.mark.parametrize("change", [{"code": "of-another-version"}, {"values": {}}])
def test_what_this_version_does_not_know_keeps_its_text(change: dict[str, object]) -> None:
    written = json.loads(message("in-runs", found=2, count=8).model_dump_json()) | change

    assert say(Message.model_validate(written)) == "In 2 of 8 runs"


def test_a_caveat_of_an_unknown_code_keeps_code_and_words() -> None:
    written = json.loads(steal().model_dump_json()) | {"code": "of-another-version"}
    found = CaveatFinding.model_validate(written)

    assert (found.code, found.text) == ("of-another-version", steal().text)


def test_a_code_that_is_not_in_the_catalogue_is_refused() -> None:
    with pytest.raises(ValueError, match="no code"):
        message("nothing-of-the-kind")


def test_a_message_without_its_values_is_refused() -> None:
    with pytest.raises(ValueError, match="lacks values: count, found"):
        message("in-runs")


def test_a_number_is_never_written_without_a_way() -> None:
    with pytest.raises(ValueError, match="no way to write"):
        render("{share} of it", {"share": 0.5})


def test_the_ratios_of_a_sentence_have_one_form() -> None:
    assert say(message("gain.interval", change=8.94, low=6.1, high=13.0)) == "× 8.94 (× 6.1 to × 13)"
    assert say(message("gain.interval", change=1.068, low=1.03, high=1.1)) == "+6.8 % (+3.0 % to +10.0 %)"


def test_values_are_no_templates() -> None:
    assert render("{arm} is faster", {"arm": "{arm} {0} {"}) == "{arm} {0} { is faster"


@pytest.mark.parametrize(
    ("value", "way", "text"),
    [
        (0.123, "percent", "12.3 %"),
        (None, "percent", "–"),
        (0.95, "share", "95 %"),
        (1.068, "change", "+6.8 %"),
        (200.0, "duration", "3 min 20 s"),
        (240.0, "file_duration", "4min"),
        (8192, "bytes", "8 kB"),
        (0.72, "short_percent", "72 %"),
        (0.061, "short_percent", "6.1 %"),
        (120.4, "short", "120"),
        (("a", "b", "c"), "list", "a, b, c"),
        (("a", "b", "c"), "and", "a, b and c"),
        (("a", "b"), "or", "a or b"),
        (("a",), "and", "a"),
        (("a", "b"), "items", "a; b"),
        ((0.5, 0.25), "list percent", "50.0 %, 25.0 %"),
        (tuple("abcdefg"), "first", "a, b, c, d, e and 2 more"),
    ],
)
def test_values_are_written_in_their_way(value: object, way: str, text: str) -> None:
    assert write_value(value, way) == text
