"""How often the check is right: true sentences in other words are left alone, lies are marked."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from pgtrial.narrate.dossier import Dossier


def _load(name: str) -> ModuleType:
    found = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


sentences = _load("sentences")


def test_there_are_enough_sentences_to_measure_rates() -> None:
    assert len(set(sentences.HONEST)) >= 30
    assert len({text for _, text in sentences.LIES}) >= 40
    assert {kind for kind, _ in sentences.LIES} == {
        *("value", "sign", "arms", "unit", "metric", "label", "range", "words")
    }


@pytest.mark.parametrize("text", sentences.HONEST)
def test_a_true_sentence_is_not_marked(dossier: Dossier, text: str) -> None:
    marks = dossier.check(text).marks

    assert [(mark.mention.text, mark.reason) for mark in marks] == []


@pytest.mark.parametrize(("kind", "text"), sentences.LIES)
def test_a_lie_is_marked(dossier: Dossier, kind: str, text: str) -> None:
    assert dossier.check(text).marks, kind


def test_rates_over_all_sentences(dossier: Dossier) -> None:
    numbers = sum(dossier.check(text).count for text in sentences.HONEST)
    false_marks = sum(len(dossier.check(text).marks) for text in sentences.HONEST)
    caught = sum(bool(dossier.check(text).marks) for _, text in sentences.LIES)

    assert numbers >= 80
    assert false_marks / numbers <= 0.02
    assert caught / len(sentences.LIES) >= 0.95


def test_rates_over_sentences_that_were_written_after_the_first_rules(dossier: Dossier) -> None:
    checked = [dossier.check(text) for text in sentences.HELD_OUT_HONEST]
    caught = sum(bool(dossier.check(text).marks) for text in sentences.HELD_OUT_LIES)

    assert sum(len(each.marks) for each in checked) / sum(each.count for each in checked) <= 0.03
    assert caught / len(sentences.HELD_OUT_LIES) >= 0.9


def test_a_whole_report_of_true_sentences_is_not_marked(dossier: Dossier) -> None:
    checked = dossier.check("\n\n".join(sentences.HONEST))

    assert [(mark.mention.text, mark.reason) for mark in checked.marks] == []


def test_each_lie_is_caught_among_true_sentences(dossier: Dossier) -> None:
    missed = [
        text
        for _, text in sentences.LIES
        if not dossier.check(f"{sentences.HONEST[0]} {text} {sentences.HONEST[8]}").marks
    ]

    assert missed == []
