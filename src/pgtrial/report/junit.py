"""Findings to JUnit XML, as Jenkins, GitLab, Azure and the actions of GitHub read it.

One test suite for the experiment, one test case for the claim and for each thing of the gate (see gate.py). Figures
are properties of the suite, as "KEY ratio": the schema of Jenkins allows them nowhere else. What a person reads of
a case is its output. Source: junit-10.xsd of Jenkins' xUnit plugin; "Unit test reports" of GitLab's documentation.
"""

from datetime import UTC, datetime
from xml.etree import ElementTree as ET

from pgtrial.findings.findings import Findings
from pgtrial.report.gate import Case, Outcome, list_cases
from pgtrial.report.words import make_visible

# GitLab shows an element's content, Jenkins its attribute "message"; both get the same.
_ELEMENTS = {Outcome.FAILED: "failure", Outcome.BROKEN: "error", Outcome.SKIPPED: "skipped"}


def render_junit(findings: Findings) -> str:
    """The whole document. Characters that XML cannot hold, and those that steer a terminal, are written out."""
    cases = list_cases(findings)
    counted = {outcome: sum(case.outcome is outcome for case in cases) for outcome in Outcome}
    experiment = findings.experiment
    took = 0.0
    if experiment.started is not None and experiment.ended is not None:
        took = max(0.0, experiment.ended - experiment.started)
    totals = {
        "tests": str(len(cases)),
        "failures": str(counted[Outcome.FAILED]),
        "errors": str(counted[Outcome.BROKEN]),
        "time": f"{took:.3f}",
    }
    root = ET.Element("testsuites", {"name": "pgtrial", **totals})
    name = _line(experiment.name)
    suite = ET.SubElement(root, "testsuite", {"name": name, **totals, "skipped": str(counted[Outcome.SKIPPED])})
    if experiment.started is not None:  # of UTC; the schemas allow no time zone
        suite.set("timestamp", datetime.fromtimestamp(experiment.started, UTC).strftime("%Y-%m-%dT%H:%M:%S"))
    properties = ET.SubElement(suite, "properties")
    for key, value in _properties(findings, cases):
        ET.SubElement(properties, "property", {"name": _line(key), "value": _line(value)})
    for number, case in enumerate(cases):
        # The claim stands for all the time that was spent; whoever adds up the cases gets it once.
        _add_case(suite, case, classname=f"pgtrial.{name}", seconds=took if number == 0 else 0.0)
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _properties(findings: Findings, cases: tuple[Case, ...]) -> list[tuple[str, str]]:
    asked, experiment = findings.hypothesis, findings.experiment
    return [
        ("pgtrial version", findings.pgtrial_version),
        ("arm", asked.arm),
        ("control", asked.control),
        ("metric", asked.metric),
        ("expect", asked.expect),
        ("method", experiment.method),
        *((f"target {name}", value) for name, value in experiment.target.items() if name == "postgres version"),
        *((f"{case.key} {name}", value) for case in cases for name, value in case.figures.items()),
    ]


def _add_case(suite: ET.Element, case: Case, *, classname: str, seconds: float) -> None:
    element = ET.SubElement(
        suite, "testcase", {"name": _line(case.name), "classname": classname, "time": f"{seconds:.3f}"}
    )
    if case.outcome in _ELEMENTS:
        message = _line(case.message)
        found = ET.SubElement(element, _ELEMENTS[case.outcome], {"message": message, "type": case.kind})
        found.text = message
    if case.text:
        ET.SubElement(element, "system-out").text = make_visible(case.text, keep="\n")


def _line(text: str) -> str:
    """On one line, as an attribute holds it."""
    return make_visible(" ".join(text.split()))
