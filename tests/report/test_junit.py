"""The document is held against the rules of Jenkins' schema (junit-10.xsd of the xUnit plugin), written out below."""

import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrial.findings.findings import Findings
from pgtrial.model.verdict import Verdict
from pgtrial.report.gate import list_cases, render_junit

# Element to its children, its required and its optional attributes.
RULES: dict[str, tuple[set[str], set[str], set[str]]] = {
    "testsuites": ({"testsuite"}, set(), {"name", "time", "tests", "failures", "errors"}),
    "testsuite": (
        {"properties", "testcase", "system-out", "system-err"},
        {"name", "tests", "failures", "errors"},
        {"time", "skipped", "timestamp", "hostname", "id", "package"},
    ),
    "properties": ({"property"}, set(), set()),
    "property": (set(), {"name", "value"}, set()),
    "testcase": (
        {"skipped", "error", "failure", "system-out", "system-err"},
        {"name"},
        {"time", "classname"},
    ),
    **dict.fromkeys(("failure", "error", "skipped"), (set(), set(), {"type", "message"})),
    **dict.fromkeys(("system-out", "system-err"), (set(), set(), set())),
}
TIME = re.compile(r"[0-9]+(\.[0-9]*)?")  # SUREFIRE_TIME, without groups of thousands
TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
HAS_TEXT = {"failure", "error", "skipped", "system-out"}


def read(findings: Findings) -> ET.Element:
    """The suite of a document that keeps to the rules."""
    text = render_junit(findings)
    root = ET.fromstring(text.encode("utf-8"))
    assert text.startswith('<?xml version="1.0" encoding="UTF-8"?>\n<testsuites ')
    assert text.endswith("</testsuites>\n")
    assert root.tag == "testsuites"
    for element in root.iter():
        children, required, optional = RULES[element.tag]
        assert {child.tag for child in element} <= children, element.tag
        assert required <= set(element.keys()) <= required | optional, element.tag
        assert element.tag in HAS_TEXT or not (element.text or "").strip(), element.tag
        assert TIME.fullmatch(element.get("time", "0"))
        assert TIMESTAMP.fullmatch(element.get("timestamp", "2026-01-20T10:15:00"))
    (suite,) = root
    cases = suite.findall("testcase")
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert int(suite.get(name, "")) == sum(case.find(tag) is not None for case in cases)
        if name != "skipped":
            assert root.get(name) == suite.get(name)
    assert int(suite.get("tests", "")) == len(cases) == int(root.get("tests", ""))
    # In the order of schemas that ask for one: properties first, in a case the outcome before the output.
    assert [child.tag for child in suite] == ["properties", *["testcase"] * len(cases)]
    for case in cases:
        tags = [child.tag for child in case]
        assert tags == sorted(tags, key="system-out".__eq__)
        assert len(tags) == len(set(tags))
        assert len({"failure", "error", "skipped"} & set(tags)) <= 1
    # GitLab leaves out all but the first of the same name.
    assert len({(case.get("classname"), case.get("name")) for case in cases}) == len(cases)
    return suite


def with_verdict(findings: Findings, verdict: Verdict) -> Findings:
    return findings.model_copy(
        update={"hypothesis": findings.hypothesis.model_copy(update={"verdict": verdict, "reason": "It is <so> & so."})}
    )


@pytest.mark.parametrize(
    ("verdict", "tag"),
    [
        (Verdict.SUPPORTED, None),
        (Verdict.REFUTED, "failure"),
        (Verdict.INCONCLUSIVE, "failure"),
        (Verdict.INVALID, "error"),
    ],
)
def test_the_first_case_is_the_claim(sample, verdict, tag):
    claim = read(with_verdict(sample, verdict)).findall("testcase")[0]
    outcome = claim.find(tag or "failure")

    assert claim.get("classname") == "pgtrial.synchronous-commit"
    assert claim.get("name") == "claim: synchronous_commit = off is faster for small updates"
    assert (outcome is not None) == (tag is not None)
    if outcome is not None:
        assert (outcome.get("type"), outcome.get("message")) == (verdict, "It is <so> & so.")
        assert outcome.text == "It is <so> & so."


def test_the_suite_is_the_experiment(sample):
    suite = read(sample)

    assert suite.get("name") == "synchronous-commit"
    assert suite.get("timestamp") == "2026-01-20T09:06:40"  # 1,768,900,000 s after 1970
    took = sample.experiment.ended - sample.experiment.started
    assert float(suite.get("time")) == pytest.approx(took, abs=0.001)
    assert sum(float(case.get("time")) for case in suite.findall("testcase")) == pytest.approx(took, abs=0.001)


def test_ratio_and_interval_are_properties(sample):
    properties = {each.get("name"): each.get("value") for each in read(sample).iter("property")}
    claimed = next(e for e in sample.effects if (e.metric, e.scenario, e.load_level) == ("pgbench.tps", None, "all"))

    for name, value in (("ratio", claimed.ratio), ("low", claimed.low), ("high", claimed.high)):
        assert float(properties[f"claim {name}"]) == pytest.approx(value, rel=1e-5)
    assert properties["claim margin"] == "0.03"
    assert properties["target postgres version"] == "15.14"
    assert "effect.placebo.pgbench.tps.all ratio" in properties


def test_every_case_of_the_gate_is_there(sample):
    names = [case.get("name") for case in read(sample).findall("testcase")]

    assert names == [case.name for case in list_cases(sample)]


def test_nothing_measured_makes_a_document(minimal):
    suite = read(minimal)

    assert suite.get("errors") == "2"
    assert suite.get("timestamp") is None
    assert suite.get("time") == "0.000"


def test_hostile_names_stay_text(hostile):
    text = render_junit(hostile)
    read(hostile)

    assert "<script" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert r"a\x1b[31m\u202eb" in text


@given(text=st.text(st.characters(), min_size=1))
def test_any_claim_and_reason_make_a_document(minimal: Findings, text: str) -> None:
    changed = minimal.model_copy(
        update={
            "experiment": minimal.experiment.model_copy(update={"name": text}),
            "hypothesis": minimal.hypothesis.model_copy(
                update={"claim": text, "reason": text, "verdict": Verdict.REFUTED}
            ),
        }
    )

    suite = read(changed)
    assert suite.get("failures") == "1"
