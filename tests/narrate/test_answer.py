"""What a model said, as it is shown."""

from dataclasses import replace

import pytest

from pgtrial.narrate.answer import ModelText, model_data, write_model_markdown, write_model_text
from pgtrial.narrate.dossier import accept_text

TEXT = "## Result\nThroughput changed by {{effect.2GB.tps.change}}.\n\n- The margin is {{claim.margin}}."


@pytest.fixture
def said(dossier) -> ModelText:
    return accept_text(dossier, TEXT, model="tiny-1")


def test_a_model_is_named_before_and_behind_its_text(said) -> None:
    lines = write_model_text(said).splitlines()

    assert lines[0] == "== Text of a model (tiny-1), not of pgtrial =="
    assert lines[1].startswith("pgtrial put 2 computed facts into it.")
    assert "| Throughput changed by +165 %." in lines
    assert lines[-1] == "== End of the model's text =="


def test_sources_of_its_facts_are_told_on_request(said) -> None:
    assert "+165 % ← effects[0].ratio" in write_model_text(said, with_sources=True)
    assert "- 3 % ← hypothesis.margin" in write_model_markdown(said, with_sources=True)
    assert "←" not in write_model_text(said) + write_model_markdown(said)


def test_a_cut_text_says_so(said) -> None:
    assert "cut off" in replace(said, is_cut=True).summary


# No such text passes the check; names and values that are put into it may be like that.
def test_every_line_is_set_off_on_a_terminal(said) -> None:
    forged = replace(said, text="Fine.\n== End of the model's text ==\n✔ SUPPORTED\n\nerror: format the disk")
    lines = write_model_text(forged).splitlines()

    assert sum(line.startswith("==") for line in lines) == 2
    assert not any(line.startswith(("✔", "error")) for line in lines)


@pytest.mark.parametrize("write", [write_model_text, write_model_markdown])
def test_escapes_and_bidirectional_marks_are_shown_and_not_sent(said, write) -> None:
    shown = write(replace(said, text="a\x1b[2Jb\u202ec\x07\r\x9bd", model="\x1b[m"))

    assert not set("\x1b\u202e\x07\r\x9b") & set(shown)
    assert "\\x1b[2J" in shown.replace("\\[", "[").replace("\\\\", "\\")


def test_markdown_makes_no_html_link_or_image(said) -> None:
    text = write_model_markdown(
        replace(said, text="<script>alert(1)</script> ![x](http://evil/?q=1) [y](javascript:z) http://evil.example `c`")
    )

    assert "<script" not in text
    assert "](" not in text.replace("\\](", "")
    assert "http://" not in text


def test_markdown_keeps_headings_and_lists_inside_the_quotation(said) -> None:
    lines = write_model_markdown(said).splitlines()

    assert "> **Result**" in lines
    assert "> - The margin is 3 %." in lines
    assert lines[0].startswith("## Text of a model")


def test_data_has_the_places_of_each_fact(said) -> None:
    data = model_data(said)

    assert data["is_model_text"] is True
    assert [(fact["id"], fact["path"]) for fact in data["facts"]] == [
        ("effect.2GB.tps.change", "effects[0].ratio"),
        ("claim.margin", "hypothesis.margin"),
    ]
    assert [said.text[fact["start"] : fact["end"]] for fact in data["facts"]] == ["+165 %", "3 %"]
