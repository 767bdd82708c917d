"""A soak of which no window is finished says so, and why, instead of showing an empty table."""

from pgtrial.findings.findings import Findings
from pgtrial.findings.questions import Soak
from pgtrial.model.run import RunState
from pgtrial.report.markdown import render_summary
from pgtrial.report.sections.questions import SOAK
from pgtrial.report.text import render_text


def failed(sample: Findings, *, state: RunState, reason: str) -> Findings:
    run = sample.runs[0].model_copy(update={"state": state, "reason": reason})
    soak = Soak(planned=8, window=20.0, confidence=0.95, arms=())
    return sample.model_copy(update={"soak": soak, "runs": (run,)})


def test_a_soak_whose_windows_all_failed_says_why(sample: Findings) -> None:
    findings = failed(sample, state=RunState.INVALID, reason="division by zero")
    text = " ".join(render_text(findings).split())

    assert "No window is finished with valid data" in text
    assert "The last attempt: division by zero" in text
    assert "Columns:" not in text
    assert "division by zero" in render_summary(findings)


def test_a_soak_that_was_killed_in_its_first_window_says_only_that_none_is_finished(sample: Findings) -> None:
    findings = failed(sample, state=RunState.INTERRUPTED, reason="")

    assert "No window is finished with valid data" in render_text(findings)
    assert "The last attempt" not in render_text(findings)
    built = SOAK.build(findings)
    assert built["rows"] == []
    assert built["texts"] == ["No window is finished with valid data, so nothing is known of a drift."]
