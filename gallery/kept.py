"""What the repository keeps of the newest result of an experiment: as much of its findings as a page is made of.

A page is made of what is kept, and of nothing else. So its words, its template, its charts and what it holds against
the article can be changed without a run, when the result folder has long been removed.
"""

from pathlib import Path

from gallery.entries import FOLDER
from pgtrial.findings.causes import Causes
from pgtrial.findings.caveat import CaveatFinding, caveat_in_words
from pgtrial.findings.findings import Findings
from pgtrial.model.caveat import Severity
from pgtrial.report.charts.panels import main_block, run_panels
from pgtrial.report.words import throughput_of
from pgtrial.safe_files import share_file
from pgtrial.store import layout
from pgtrial.store.findings_file import read_findings

KEPT = FOLDER / "findings"
TOPICS = frozenset({"waits", "disk", "memory", "write-back"})  # of panels that charts.py draws
# Of the machine that measured as much as a page tells; the rest is nobody's business.
TARGET = frozenset({"kind", "postgres version"})
FACTS = frozenset({("machine", "CPUs"), ("machine", "memory"), ("kernel", "release")})


def keep(name: str, findings: Findings, folder: Path = KEPT) -> Findings:
    """Put the extract of a result in the place of the one that was there; the extract."""
    extract = extract_findings(findings)
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    share_file(place / layout.FINDINGS, f"{extract.model_dump_json()}\n")  # no indents: they are a third of it
    return extract


def read_kept(name: str, folder: Path = KEPT) -> Findings | None:
    """What is kept of the newest result of an experiment; None where there is nothing."""
    place = folder / name
    return read_findings(place) if (place / layout.FINDINGS).exists() else None


def extract_findings(findings: Findings) -> Findings:
    """The findings without what no page shows: each run's observations, latencies one by one, settings, other runs, and
    where on the machine that measured things lay.
    """
    block = main_block(run_panels(findings))
    last = findings.experiment.levels[-1].index if findings.experiment.levels else None
    facts = tuple(fact for fact in findings.fingerprint.facts if (fact.group, fact.name) in FACTS)
    target = {name: text for name, text in findings.experiment.target.items() if name in TARGET}
    return findings.model_copy(
        update={
            "experiment": findings.experiment.model_copy(update={"target": target}),
            "hosts": None,
            "noise": findings.noise.model_copy(update={"calibration": None}),
            "runs": tuple(run.model_copy(update={"reason": ""}) for run in findings.runs),
            "caveats": tuple(map(_without_words_of_remarks, findings.caveats)),
            "observations": (),
            "distributions": (),
            "latency_maps": (),
            "settings": (),
            "metrics": tuple(metric for metric in findings.metrics if metric.scenario is None),
            "series": tuple(
                series
                for series in findings.series
                if series.metric == throughput_of(findings) and series.block == block
            ),
            "fingerprint": findings.fingerprint.model_copy(update={"facts": facts, "differences": ()}),
            "causes": findings.causes and _extract_causes(findings.causes, block, last),
        }
    )


def _without_words_of_remarks(caveat: CaveatFinding) -> CaveatFinding:
    """A page counts remarks, and no more."""
    if caveat.severity is not Severity.INFO:
        return caveat
    return caveat_in_words(caveat.code, caveat.severity, caveat.code)


def _extract_causes(causes: Causes, block: int | None, last: int | None) -> Causes:
    panels = tuple(panel for panel in causes.panels if panel.topic in TOPICS and panel.block == block)
    runs = {panel.run for panel in panels}
    return causes.model_copy(
        update={
            "panels": panels,
            "marks": tuple(mark for mark in causes.marks if mark.run in runs),
            "checks": tuple(check for check in causes.checks if check.load_level == last),
            "limits": tuple(limit.model_copy(update={"suspects": ()}) for limit in causes.limits),
            "courses": (),
            "associations": (),
            "paretos": (),
            "wait_types": (),
            "background": (),
            "statements": (),
            "plans": (),
            "legacy": (),
            "log": (),
        }
    )
