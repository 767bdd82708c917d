"""Texts of templates as markup, and the words for values of enumerations."""

import gettext
from collections.abc import Callable

import pytest
from markupsafe import Markup

from pgtrial.findings.causes import Level, Resource
from pgtrial.findings.storage import DiskStanding, FileLimit
from pgtrial.language import Language, speak
from pgtrial.model.caveat import Severity
from pgtrial.model.run import PhaseName, RunState
from pgtrial.model.verdict import Decision, Verdict
from pgtrial.report import terms
from pgtrial.report.charts.base import bytes_label, duration_label, value_label
from pgtrial.report.html import template_environment
from pgtrial.report.markup import code, ntr_markup, tie_markup, tr_markup


class _Loud(gettext.NullTranslations):
    """Every text between marks that HTML would take for an element; short words in capitals."""

    def gettext(self, message: str) -> str:
        return f"<{message}>"

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        return f"<{msgid1 if n == 1 else msgid2}>"

    def pgettext(self, context: str, message: str) -> str:
        return message.upper()


LOUD = Language(code="loud", decimal=",", catalogue=_Loud())


def render(template: str, **values: object) -> str:
    return template_environment().from_string(template).render(**values)


def test_values_of_a_text_are_escaped_unless_they_are_markup() -> None:
    shown = render('{{ tr("{arm} has its table {table}", arm=arm, table="checks" | code) }}', arm="<b> & {table}")

    assert shown == "&lt;b&gt; &amp; {table} has its table <code>checks</code>"


def test_the_text_itself_is_escaped_but_for_apostrophes() -> None:
    with speak(LOUD):
        assert tr_markup("the server's") == "&lt;the server's&gt;"
        assert ntr_markup("{count} run of {arm}", "{count} runs of {arm}", 2, arm="a&b") == "&lt;2 runs of a&amp;b&gt;"


def test_hidden_characters_of_a_value_are_written_out() -> None:
    assert tr_markup("{arm}", arm="a\u202eb") == "a\\u202eb"


def test_a_text_without_values_is_no_template() -> None:
    assert tr_markup("From {from} to {to}") == "From {from} to {to}"


def test_units_are_tied_in_markup_too() -> None:
    assert tie_markup("3 ms <") == "3\u00a0ms <"
    tied = tie_markup(Markup("<b>{}</b>").format("3 ms <"))
    assert (tied, type(tied)) == ("<b>3\u00a0ms &lt;</b>", Markup)
    assert code("<") == "<code>&lt;</code>"


@pytest.mark.parametrize(
    ("word", "values"),
    [
        (terms.decision_word, Decision),
        (terms.verdict_word, Verdict),
        (terms.severity_word, Severity),
        (terms.level_word, Level),
        (terms.state_word, RunState),
        (terms.phase_word, PhaseName),
        (terms.standing_word, DiskStanding),
        (terms.file_limit_word, FileLimit),
        (terms.resource_word, Resource),
    ],
)
def test_every_value_has_a_word_that_is_its_name_in_english(word: Callable[[str], str], values: type[Resource]) -> None:
    assert [word(value).lower() for value in values] == [str(value).lower() for value in values]
    with speak(LOUD):
        assert all(word(value).isupper() for value in values)


def test_what_this_pgtrial_does_not_know_keeps_its_name() -> None:
    assert terms.phase_word("rest") == "rest"
    assert terms.goal_word("cheap") == "cheap"
    assert terms.means_word("pg_wait_sampling") == "pg_wait_sampling"
    assert terms.means_word("") == "sampled sessions"


def test_axes_have_the_units_of_the_language() -> None:
    with speak(LOUD):
        assert "' MS'" in duration_label()
        assert "' KB'" in bytes_label()
    assert value_label("B/s").endswith("+ '/s'")
    assert value_label("s") == duration_label()
    assert value_label("B") == bytes_label()
