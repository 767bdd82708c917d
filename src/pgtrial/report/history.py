"""What a gate said in earlier runs of a pipeline, as a table below the newest summary.

It is for people who wonder how a number came about. No verdict uses it: runs of different days are not compared.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

from pgtrial.findings.findings import Findings
from pgtrial.findings.history import GateRun
from pgtrial.report.gate import gate_verdict
from pgtrial.report.markdown import code, escape, heading, render_summary, table
from pgtrial.report.words import change_cells, primary_effect

_SHOWN = 10


def entry_of(findings: Findings, *, gate: str, commit: str) -> GateRun:
    """The entry of an experiment."""
    effect = primary_effect(findings)
    return GateRun(
        experiment=findings.experiment.name,
        gate=gate,
        verdict=str(gate_verdict(findings)),
        ended=findings.experiment.ended,
        commit=commit,
        ratio=None if effect is None else effect.ratio,
        low=None if effect is None else effect.low,
        high=None if effect is None else effect.high,
        blocks=findings.experiment.blocks_complete,
    )


def render_comment(findings: Findings, earlier: Sequence[GateRun], *, gate: str) -> str:
    """The summary with what the same gate said before; its first line tells a pipeline which comment to replace.

    Experiments of one name, or one experiment of two databases, are told apart by the name of their ``gate``.
    """
    name = gate or findings.experiment.name
    own = _find_own(earlier, gate=gate, experiment=findings.experiment.name)[-_SHOWN:]
    marker, summary = f"<!-- pgtrial {name} -->", render_summary(findings, gate=gate)
    if not own:
        return f"{marker}\n{summary}"
    rows = [
        (
            _day(entry),
            code(entry.commit[:12]) if entry.commit else "",
            escape(entry.verdict),
            *map(escape, change_cells(entry.ratio, entry.low, entry.high)),
            str(entry.blocks),
        )
        for entry in reversed(own)
    ]
    lines = table(("ended", "commit", "verdict", "change", "interval", "blocks"), rows, right=(3, 4, 5))
    return "\n".join([marker, summary, heading(3, "Before"), "", *lines, ""])


def _find_own(earlier: Sequence[GateRun], *, gate: str, experiment: str) -> list[GateRun]:
    """What the gate has said. Before the first one of a history with a name, none had any: those of the experiment were
    this gate's.
    """
    named = next((place for place, entry in enumerate(earlier) if entry.gate), len(earlier))
    return [
        entry
        for place, entry in enumerate(earlier)
        if (entry.gate or entry.experiment) == (gate or experiment)
        or (place < named and entry.experiment == experiment)
    ]


def _day(entry: GateRun) -> str:
    return "" if entry.ended is None else datetime.fromtimestamp(entry.ended, UTC).strftime("%Y-%m-%d %H:%M UTC")
