"""The list of exceptions is complete, and says what the stored results say."""

import importlib
import re
import tomllib
from pathlib import Path

import numpy as np
from gym.scores import exceeds
from scipy.stats import nbinom, t

from gym import exceptions, results, tables
from pgtrial.design.plan import plan_schedule
from pgtrial.model.arm import Arm, Role

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


def test_what_the_page_says_of_costs_and_chances_is_so():
    """Of attempts that die, of the draw of the order, and of variances of which nothing is known."""
    why = " ".join(cause.why for cause in exceptions.CAUSES)

    assert f"{(2 / 3) ** 6:.1%}" == "8.8%"
    assert f"{(2 / 3) ** 12:.1%}" == "0.8%"
    assert "8.8 % of six blocks and 0.8 % of twelve" in why
    # Attempts of each arm, until all blocks are done, that fail by chance.
    failed = {blocks: nbinom(blocks, 0.98).pmf(np.arange(50)) for blocks in (6, 12)}
    unequal = {blocks: round(100 * (1 - each @ each)) for blocks, each in failed.items()}
    lone = {blocks: round(100 * 2 * each[0] * each[2:].sum()) for blocks, each in failed.items()}
    assert unequal == {6: 20, 12: 35}
    assert lone == {6: 1, 12: 4}
    assert "20 and 35 % of the experiments of 6 and 12 blocks" in why
    assert "two beside none take it from 1 and 4 %" in why
    arms = [Arm(name=name, role=role) for name, role in (("a", Role.CONTROL), ("b", Role.CANDIDATE))]
    orders = {tuple(slot.arm for slot in plan_schedule(arms, blocks=6, seed=seed)) for seed in range(2000)}
    assert len(orders) == 42
    assert f"{2 / len(orders):.1%}" == "4.8%"
    widths = [float(t.ppf(0.975, n // 2 - 1) / t.ppf(0.975, n - 2)) for n in (6, 8, 12)]
    assert [f"{width:.2f}" for width in widths] == ["1.55", "1.30", "1.15"]
    assert "1.55, 1.30 and 1.15 times as wide with 6, 8 and 12 blocks" in why
