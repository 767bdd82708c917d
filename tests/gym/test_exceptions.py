"""The list of exceptions is complete, and says what the stored results say."""

import re
from pathlib import Path

from gym import exceptions, results, tables

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_is_that_of_the_stored_results_and_of_the_calibration():
    text = exceptions.PAGE.read_text(encoding="utf-8")

    assert exceptions.render(results.read()) in text


def test_each_exception_of_the_gym_has_one_cause_and_each_cause_is_one():
    found = {(stream, method) for stream, method, _, _ in tables.exceptions(results.read())}
    caused = [pair for cause in exceptions.CAUSES for pair in cause.pairs]

    assert sorted(found - set(caused)) == []
    assert len(caused) == len(set(caused))
    assert all(found & cause.pairs for cause in exceptions.CAUSES if cause.streams)


def test_each_line_of_the_calibration_that_is_beyond_its_rate_has_a_cause():
    assert sorted(exceptions.told_by_calibration()) == sorted(
        line for cause in exceptions.CAUSES for line in cause.lines
    )


def test_what_the_page_names_is_there():
    text = exceptions.PAGE.read_text(encoding="utf-8")
    caveats = (DOCS / "caveats.md").read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.+)$", (DOCS / "statistics.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    anchors = {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    said = {code for cause in exceptions.CAUSES for code in re.findall(r"`([a-z-]+)`", cause.says)}

    assert [code for code in sorted(said) if f"| `{code}` |" not in caveats] == []
    assert set(re.findall(r"\(statistics\.md#([^)]+)\)", text)) <= anchors
