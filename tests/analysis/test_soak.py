"""What is said of an arm's drifts: sentence and table of one size agree."""

import pytest

from pgtrial.analysis.soak import find_growth, tell_drifts
from pgtrial.findings.message import say
from pgtrial.findings.questions import Drift, Soak, SoakArm
from pgtrial.findings.record import Estimate
from pgtrial.report.question_words import drift_cells, too_short_text


@pytest.mark.parametrize(
    ("values", "grown"),
    [
        ([652, 900, 1500, 2000, 3000, 4000, 5000, 5910], 1),
        ([5910, 5000, 4000, 3000, 2000, 1500, 900, 652], -1),
        ([587, 1200, 300, 900, 450, 1100, 380, 718], 0),  # dead rows between two vacuums
        ([100, 101, 102, 103, 104, 105, 106, 107], 0),  # too little to matter
        ([100, 200, 100, 100, 100, 100, 100, 200], 0),
        ([100], 0),
        ([0, 5, 6, 7], 0),  # of nothing there is no share
    ],
)
def test_a_size_has_grown_where_all_that_is_late_is_beyond_all_that_is_early(values: list[float], grown: int) -> None:
    assert find_growth(values) == grown


def size(*values: float, grown: int, share: float) -> Drift:
    unknown = Estimate(value=1.0, low=None, high=None)
    return Drift(metric="tables.bytes", unit="B", values=values, per_hour=unknown, share=share, grown=grown)


def test_sentence_and_table_say_the_same_of_a_size() -> None:
    grown = size(652_000, 5_910_000, grown=1, share=8.06)

    assert "grew by 806 %" in say(tell_drifts("neglected", [grown]))
    assert drift_cells(grown)[2] == "+806 %"
    assert drift_cells(grown)[4] == "has grown"


def test_a_size_that_comes_and_goes_is_no_drift() -> None:
    saws = size(587, 718, grown=0, share=0.22)

    assert say(tell_drifts("vacuumed", [saws])) == "Of vacuumed no drift was shown."
    assert drift_cells(saws)[4] == "too short to tell"


def test_what_is_too_short_to_tell_says_what_it_would_take() -> None:
    saws, grown = size(587, 718, grown=0, share=0.22), size(652_000, 5_910_000, grown=1, share=8.06)

    assert "It takes 24 windows" in too_short_text(soak(saws, grown))
    assert too_short_text(soak(grown)) == ""


def soak(*drifts: Drift) -> Soak:
    said = tell_drifts("usual", drifts)
    arm = SoakArm(arm="usual", windows=(1, 2), done=2, stretches=1, hours=(0.5, 1.5), drifts=drifts, text=said)
    return Soak(planned=8, window=20.0, confidence=0.95, arms=(arm,))
