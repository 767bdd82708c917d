"""Findings as Markdown for a wiki or a pull request: the short summary, then settings, remarks and facts.

Tables are those of GitHub's dialect, which GitLab and most wikis read too.
"""

from datetime import UTC, datetime

from pgtrial.findings.findings import Findings
from pgtrial.findings.message import say
from pgtrial.model.caveat import Severity
from pgtrial.report.markdown import bullets, code, escape, heading, render_summary, table
from pgtrial.report.summary_words import single_runs_text
from pgtrial.report.words import (
    arm_label,
    metric_label,
    plural,
    sort_caveats,
    tested_text,
    workload_facts,
)
from pgtrial.units import format_duration

_MOST_SETTINGS = 40  # rows; all are in the report


def render_markdown(findings: Findings) -> str:
    """One page that begins with the verdict; its headings begin at the second level."""
    parts = (_settings(findings), _remarks(findings), _method(findings))
    return "\n\n".join([render_summary(findings).rstrip(), *("\n".join(part) for part in parts if part)]) + "\n"


def _settings(findings: Findings) -> list[str]:
    """PostgreSQL settings that the file declares or that are not the same in all arms."""
    arms = findings.experiment.arms
    shown = [setting for setting in findings.settings if setting.differs or setting.declared]
    if not shown:
        return []
    rows = [
        (code(one.name), *(code(one.values[arm.name]) if arm.name in one.values else "–" for arm in arms))
        for one in shown[:_MOST_SETTINGS]
    ]
    left = len(shown) - _MOST_SETTINGS
    more = ["", f"{plural(left, 'further setting')} in the report."] if left > 0 else []
    heads = ("setting", *(escape(arm_label(findings, arm.name)) for arm in arms))
    return [heading(3, "Settings"), "", *table(heads, rows), *more]


def _remarks(findings: Findings) -> list[str]:
    """What the summary leaves out: single runs, the rule for stopping, and caveats that take nothing away."""
    remarks = [caveat for caveat in sort_caveats(findings.caveats) if caveat.severity is Severity.INFO]
    items = [
        *([escape(single_runs_text(findings))] if single_runs_text(findings) else []),
        *([escape(say(findings.stopping.text))] if findings.stopping is not None else []),
        *(escape(f"{caveat.text} {caveat.hint}".strip()) for caveat in remarks),
    ]
    return [heading(3, "Remarks"), "", *bullets(items)] if items else []


def _method(findings: Findings) -> list[str]:
    experiment = findings.experiment
    complete = f"{experiment.blocks_complete} of {plural(experiment.blocks_planned, 'block')} complete"
    facts = {
        "experiment": experiment.name,
        "description": experiment.description,
        "tested": f"{tested_text(findings)} in {metric_label(findings.hypothesis.metric)}",
        "method": f"{experiment.method}, {complete}, seed {experiment.seed}",
        **workload_facts(findings),
        **experiment.target,
    }
    if experiment.started is not None:
        facts["started"] = f"{datetime.fromtimestamp(experiment.started, UTC):%Y-%m-%d %H:%M} UTC"
    if experiment.started is not None and experiment.ended is not None:
        facts["took"] = format_duration(experiment.ended - experiment.started)
    facts["pgtrial"] = findings.pgtrial_version
    rows = [(escape(name), escape(value)) for name, value in facts.items() if value]
    return [heading(3, "How it was measured"), "", *table(("fact", "value"), rows)]
