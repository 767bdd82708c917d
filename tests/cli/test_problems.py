"""Errors of several problems, as they are printed."""

from pgtrial.cli.text import render_error
from pgtrial.errors import SpecError, SpecProblem

FIRST = SpecProblem(path="dataset.load", message='cannot load "a.sql": it is none', hint="Dump it.")
SECOND = SpecProblem(path="dataset.load", message='cannot load "b.sql": it is none', hint="Dump it, too.")


def test_a_problem_that_is_the_message_itself_is_told_once() -> None:
    told = render_error(SpecError(FIRST.message, problems=(FIRST, SECOND), hint=FIRST.hint))

    assert told.count(FIRST.message) == 1
    assert told.count("Dump it.") == 1
    assert SECOND.message in told
    assert SECOND.hint in told
