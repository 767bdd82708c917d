"""The list of exceptions is complete, and says what the stored results say."""

import importlib
import re
import tomllib
from pathlib import Path

from gym.scores import exceeds

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


def test_a_line_of_the_calibration_above_what_one_verdict_may_err_says_so():
    """Line 13 was held against what all attempts together may err, and so was on no list."""
    above, kept = set(), set()
    for path in exceptions.ROWS.glob("[0-9]*.toml"):
        row = tomllib.loads(path.read_text(encoding="utf-8"))
        nominal = re.search(r"nominal ([\d.]+) %(?! where)", row["defect"])
        if nominal is None:
            continue
        (module,) = (path.parents[1]).glob(f"test_{path.stem}_*.py")
        experiments = importlib.import_module(f"calibration.{module.stem}").EXPERIMENTS
        if isinstance(experiments, dict):
            experiments = max(experiments.values())
        # Behind these words other things are counted, and in brackets what was before.
        told = re.split(r"\. Where|\. One|; nowhere", re.sub(r"\([^)]*\)", "", row["after"]))[0]
        worst = max(float(rate) for rate in re.findall(r"(\d+\.\d) %", told)) / 100
        is_above = exceeds(round(worst * experiments), experiments, float(nominal[1]) / 100)
        (above if is_above else kept).add(int(path.stem))

    assert {4, 13, 20} <= above
    assert {7, 14, 21, 23} <= kept
    assert sorted(above - set(exceptions.told_by_calibration())) == []


def test_what_the_page_names_is_there():
    text = exceptions.PAGE.read_text(encoding="utf-8")
    caveats = (DOCS / "caveats.md").read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.+)$", (DOCS / "statistics.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    anchors = {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    said = {code for cause in exceptions.CAUSES for code in re.findall(r"`([a-z-]+)`", cause.says)}

    assert [code for code in sorted(said) if f"| `{code}` |" not in caveats] == []
    assert set(re.findall(r"\(statistics\.md#([^)]+)\)", text)) <= anchors
