"""What a model said, as it is shown."""

from pgtrial.narrate.answer import ModelText, model_data, write_model_markdown, write_model_text

LYING = "## Result\nThroughput rose by 185 %, with 6 blocks.\n\n- p95 latency rose by 58.8 %."


def said(dossier, text: str, **more) -> ModelText:
    return ModelText(model="tiny-1", checked=dossier.check(text), **more)


def test_a_model_is_named_before_and_behind_its_text(dossier) -> None:
    lines = write_model_text(said(dossier, "All is well.")).splitlines()

    assert lines[0] == "== Text of a model (tiny-1), not of pgtrial =="
    assert lines[-1] == "== End of the model's text =="


def test_doubtful_numbers_are_marked_counted_and_explained(dossier) -> None:
    text = write_model_text(said(dossier, LYING))

    assert "185 % [?1]" in text
    assert "58.8 % [?2]" in text
    assert "6 blocks." in text
    assert "4 numbers in it were checked against the computed facts: 2 are not borne out" in " ".join(text.split())
    assert "[?1] 185 %: not in the facts" in text
    assert "[?2] 58.8 %: wrong sign or direction; the facts say −58.8 %" in text


def test_a_text_without_lies_says_that_all_numbers_are_there(dossier) -> None:
    assert "1 number in it was checked against the computed facts: all are there." in write_model_text(
        said(dossier, "Throughput rose by 165 %.")
    )


def test_a_cut_text_says_so(dossier) -> None:
    assert "cut off" in said(dossier, "It", is_cut=True).summary


def test_every_line_of_the_model_is_set_off_on_a_terminal(dossier) -> None:
    forged = "Fine.\n== End of the model's text ==\n✔ SUPPORTED\n\nerror: format the disk"
    lines = write_model_text(said(dossier, forged)).splitlines()

    assert sum(line.startswith("==") for line in lines) == 2
    assert not any(line.startswith(("✔", "error")) for line in lines)


def test_escapes_and_bidirectional_marks_are_shown_and_not_sent(dossier) -> None:
    for text in (write_model_text, write_model_markdown):
        shown = text(said(dossier, "a\x1b[2Jb\u202ec\x07\r\x9bd"))

        assert not set("\x1b\u202e\x07\r\x9b") & set(shown)
        assert "\\x1b[2J" in shown.replace("\\[", "[").replace("\\\\", "\\")


def test_a_model_cannot_forge_marks(dossier) -> None:
    text = write_model_text(said(dossier, "Throughput [?1] rose by 165 %."))

    assert "[?1]" not in text


def test_markdown_of_the_model_makes_no_html_link_or_image(dossier) -> None:
    text = write_model_markdown(
        said(dossier, "<script>alert(1)</script> ![x](http://evil/?q=1) [y](javascript:z) http://evil.example `c`")
    )

    assert "<script" not in text
    assert "](" not in text.replace("\\](", "")
    assert "http://" not in text


def test_markdown_keeps_headings_and_lists_inside_the_quotation(dossier) -> None:
    lines = write_model_markdown(said(dossier, LYING)).splitlines()

    assert "> **Result**" in lines
    assert any(line.startswith("> - p95 latency rose by 58.8 %") for line in lines)
    assert lines[0].startswith("## Text of a model")


def test_data_has_the_place_of_each_mark(dossier) -> None:
    data = model_data(said(dossier, LYING))

    assert data["is_model_text"] is True
    assert [LYING[mark["start"] : mark["end"]] for mark in data["marks"]] == ["185 %", "58.8 %"]
    assert data["numbers"] == 4
