"""What is refused in a model's text, and what passes."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pgtrial.narrate.check import MOST_CHARACTERS, check_text

VALUES = {
    "effect.new.tps": "+165 %",
    "effect.new.tps.direction": "faster than “old”",
    "arm.new": "“new”",
    "why": "x" * 900,
}
PASSING = (
    "Throughput changed by {{effect.new.tps}}.",
    "{{arm.new}} is {{effect.new.tps.direction}}: commits do not wait for the disk.",
    "# Result\n\n- {{effect.new.tps}}\n- *{{arm.new}}*, “{{arm.new}}”",
    "## Why\nI/O waits; ({{effect.new.tps}}), {{arm.new}}’s.",
    "In experiment_A the change is {{ effect.new.tps }}\r\nand nothing else is known.",
    r"Escaped for Markdown: \{\{effect.new.tps\}\} of table\_A.",
    "The candidate—{{arm.new}}—changed throughput.",
    "It is one of the first things to look at – {{effect.new.tps}}…",
    "Пропускная способность изменилась на {{effect.new.tps}}; вариант {{arm.new}} {{effect.new.tps.direction}}.",
    "El caudal cambió {{effect.new.tps}}: {{arm.new}} es {{effect.new.tps.direction}}, según la prueba.",
)
# What is wrong with each stands in the reason.
REFUSED = (
    # No fact at all, or none of these
    ("All is well.", "no placeholder"),
    ("", "no placeholder"),
    ("{{effect.other.tps}}", "{{effect.other.tps}}: there is no such fact"),
    ("{{EFFECT.new.tps}}", "no such fact"),
    ("{{effect.new}}", "no such fact"),
    ("{{effect.new.tps.}}", "no such fact"),
    # Numerals
    ("It rose by 165.", '"165."'),
    ("Latency p95 is {{arm.new}}.", '"p95"'),
    ("1. {{arm.new}}", '"1."'),
    ("٣ blocks", "numeral"),
    ("५ blocks", "numeral"),
    ("５ blocks", "numeral"),
    ("𝟑 blocks", "numeral"),
    ("by ½", "numeral"),
    ("x² {{arm.new}}", "numeral"),
    ("① {{arm.new}}", "numeral"),
    ("Ⅻ blocks", "numeral"),
    ("三 blocks", "another alphabet"),
    # Number words
    ("twice as fast as {{arm.new}}", '"twice"'),
    ("TWICE {{arm.new}}", '"twice"'),
    ("_Twice_ **half** {{arm.new}}", '"half"'),
    ("𝐡𝐚𝐥𝐟 of {{arm.new}}", '"half"'),
    ("half-way {{arm.new}}", '"half"'),
    ("two-thirds {{arm.new}}", '"thirds"'),
    ("it doubled {{arm.new}}", '"doubled"'),
    ("sixty-two percent {{arm.new}}", '"percent"'),
    ("five per cent {{arm.new}}", '"cent"'),
    ("several percentage points {{arm.new}}", '"percentage"'),
    ("an order of magnitude {{arm.new}}", '"magnitude"'),
    ("a dozen blocks {{arm.new}}", '"dozen"'),
    ("minus {{effect.new.tps}}", '"minus"'),
    ("вдвое, {{arm.new}}", '"вдвое"'),
    ("в трёх блоках, {{arm.new}}", '"трех"'),
    ("на пятьдесят процентов, {{arm.new}}", '"процентов"'),
    ("la mitad de {{arm.new}}", '"mitad"'),
    ("cincuenta por ciento {{arm.new}}", '"cincuenta"'),
    # Comparisons and verdicts of its own
    ("{{arm.new}} is slower.", '"slower"'),
    ("Latency increased, {{arm.new}}", '"increased"'),
    ("The claim is refuted: {{arm.new}}", '"refuted"'),
    ("{{arm.new}} медленнее.", '"медленнее"'),
    ("{{arm.new}} es más lento.", '"más"'),
    # Around a placeholder
    ("{{effect.new.tps}} %", '"%"'),
    ("{{effect.new.tps}}‰", "{{effect.new.tps}}"),
    ("-{{effect.new.tps}}", "between spaces"),
    ("changed by - {{effect.new.tps}}", "between spaces"),
    ("−{{effect.new.tps}}", "symbols"),
    ("+ {{effect.new.tps}}", "symbols"),
    ("< {{effect.new.tps}}", "symbols"),
    ("{{effect.new.tps}}k", "between spaces"),
    ("{{effect.new.tps}}-fold", "between spaces"),
    ("{{effect.new.tps}}/{{effect.new.tps}}", "between spaces"),
    ("{{effect.new.tps}}{{effect.new.tps}}", "between spaces"),
    ("not {{effect.new.tps.direction}}", "denies"),
    ("it isn’t really {{effect.new.tps.direction}}", "denies"),
    ("не {{effect.new.tps.direction}}", "denies"),
    ("no es {{effect.new.tps.direction}}", "denies"),
    # Braces
    ("{{{effect.new.tps}}}", "between spaces"),
    ("{{{{effect.new.tps}}}}", "braces"),
    ("{{ {{arm.new}} }}", "braces"),
    ("{{effect.{{arm.new}}.tps}}", "braces"),
    ("{{arm.new", "braces"),
    ("{arm.new} {{arm.new}}", "braces"),
    ("{{arm.new|upper}}", "braces"),
    ("{{}} {% if %} {{arm.new}}", "braces"),
    ("{{arm\u200b.new}}", "braces"),
    # Markup
    ("`{{arm.new}}`", "symbols"),
    ("```\n{{arm.new}}\n```", "symbols"),
    ("<b>{{arm.new}}</b>", "symbols"),
    ("<!-- {{arm.new}} -->", "symbols"),
    ('<img src="x" alt="{{arm.new}}">', "symbols"),
    ("&frac{{arm.new}}; &half;", '"&"'),
    ("[{{arm.new}}](javascript:x)", '"["'),
    ("https://evil.example/{{arm.new}}", '"://"'),
    ("| {{arm.new}} |", "symbols"),
    (r"\x {{arm.new}}", '"\\"'),
    # Hidden characters
    ("ha\u200blf {{arm.new}}", "hidden"),
    ("ha\u00adlf {{arm.new}}", "hidden"),
    ("\u202e{{arm.new}}", "hidden"),
    ("\x1b[2J {{arm.new}}", "hidden"),
    ("a\u2028b {{arm.new}}", "hidden"),
    ("a\x0cb {{arm.new}}", "hidden"),
    ("slo\u0336wer {{arm.new}}", "hidden"),
    ("✔ {{arm.new}}", "symbols"),
    # Length
    ("{{arm.new}} " + "a" * MOST_CHARACTERS, "longer than"),
    ("ﷺ " * 2000 + "{{arm.new}}", "longer than"),
    ("{{why}} " * 40, "with its values"),
)  # fmt: skip


@pytest.mark.parametrize("text", PASSING)
def test_a_text_of_placeholders_and_plain_words_passes(text: str) -> None:
    checked = check_text(text, VALUES)

    assert checked.faults == ()
    assert "{" not in checked.text
    assert all(checked.text[place.start : place.end] == VALUES[place.id] for place in checked.placed)
    assert checked.placed


@pytest.mark.parametrize(("text", "reason"), REFUSED)
def test_what_pgtrial_cannot_vouch_for_is_refused_with_the_reason(text: str, reason: str) -> None:
    checked = check_text(text, VALUES)

    assert checked.text == ""
    assert any(reason in fault for fault in checked.faults), checked.faults


def test_each_fault_is_told_once_and_not_more_than_a_few() -> None:
    faults = check_text(" ".join(map(str, [*range(100), 7, 7])), VALUES).faults

    assert len(set(faults)) == len(faults) == 21
    assert faults[-1] == "and 81 more"


def test_own_words_are_restored_and_values_are_not() -> None:
    checked = check_text(
        "Table_A {{arm.new}} a", {"arm.new": "a Table_A"}, lambda own: own.replace("Table_A", "orders")
    )

    assert checked.text == "orders a Table_A a"


@given(
    st.lists(st.one_of(st.text(max_size=9), st.sampled_from(["{{arm.new}}", "{{", "}}", "\\", "-", "not", " "]))).map(
        "".join
    )
)
@example("{{arm.new}}²")
def test_no_numeral_of_any_script_and_no_brace_is_ever_the_models(text: str) -> None:
    checked = check_text(text, {"arm.new": "new"})

    assert bool(checked.text) != bool(checked.faults)
    assert not any(unicodedata.category(character).startswith("N") for character in checked.text)
    assert not set("{}<>`|[]\\&%") & set(checked.text)
