"""What a gate said in earlier runs of a pipeline, as a table below the newest summary.

It is for people who wonder how a number came about. No verdict uses it: runs of different days are not compared.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

from pgtrial.findings.findings import Findings
from pgtrial.findings.history import Entry
from pgtrial.report.gate import gate_verdict
from pgtrial.report.markdown import code, escape, heading, render_summary, table
from pgtrial.report.words import change_text, interval_text, primary_effect

_SHOWN = 10


def entry_of(findings: Findings, *, commit: str) -> Entry:
    """The entry of an experiment."""
    effect = primary_effect(findings)
    return Entry(
        experiment=findings.experiment.name,
        verdict=str(gate_verdict(findings)),
        ended=findings.experiment.ended,
        commit=commit,
        ratio=None if effect is None else effect.ratio,
        low=None if effect is None else effect.low,
        high=None if effect is None else effect.high,
        blocks=findings.experiment.blocks_complete,
    )


def render_comment(findings: Findings, earlier: Sequence[Entry]) -> str:
    """The summary with what the same gate said before; its first line tells a pipeline which comment to replace."""
    own = [entry for entry in earlier if entry.experiment == findings.experiment.name][-_SHOWN:]
    marker = f"<!-- pgtrial {findings.experiment.name} -->"
    if not own:
        return f"{marker}\n{render_summary(findings)}"
    rows = [
        (
            _day(entry),
            code(entry.commit[:12]) if entry.commit else "",
            escape(entry.verdict),
            escape(change_text(entry.ratio, entry.low, entry.high)),
            escape(interval_text(entry.low, entry.high, entry.ratio)),
            str(entry.blocks),
        )
        for entry in reversed(own)
    ]
    lines = table(("ended", "commit", "verdict", "change", "interval", "blocks"), rows, right=(3, 4, 5))
    return "\n".join([marker, render_summary(findings), heading(3, "Before"), "", *lines, ""])


def _day(entry: Entry) -> str:
    return "" if entry.ended is None else datetime.fromtimestamp(entry.ended, UTC).strftime("%Y-%m-%d %H:%M UTC")
