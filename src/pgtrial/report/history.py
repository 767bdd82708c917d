"""What a gate said in earlier runs of a pipeline, one line of JSON each, for a table below the newest summary.

It is for people who wonder how a number came about. No verdict uses it: runs of different days are not compared.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pgtrial.findings.findings import Findings
from pgtrial.report.gate import gate_verdict
from pgtrial.report.markdown import code, escape, heading, render_summary, table
from pgtrial.report.words import change_text, interval_text, primary_effect

LARGEST = 1 << 20  # bytes of a file of them
_MOST = 200  # that are kept
_SHOWN = 10


class Entry(BaseModel):
    """One run of the pipeline; ``ended`` is in seconds since the epoch, ``commit`` "" where it is not known."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    experiment: str = Field(max_length=200)
    verdict: str = Field(max_length=20)
    ended: float | None = Field(default=None, ge=0, lt=1e11)
    commit: str = Field(default="", max_length=64)
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    blocks: int = 0


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


def parse_history(text: str) -> tuple[Entry, ...]:
    """Entries of a file, the oldest first; a line that is none is left out: a cache may have been cut."""
    found = []
    for line in text.splitlines():
        try:
            found.append(Entry.model_validate_json(line))
        except ValidationError:
            continue
    return tuple(found)


def render_history(entries: Sequence[Entry]) -> str:
    """The file of the newest entries."""
    return "".join(f"{json.dumps(entry.model_dump())}\n" for entry in entries[-_MOST:])


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
            escape(change_text(entry.ratio)),
            escape(interval_text(entry.low, entry.high)),
            str(entry.blocks),
        )
        for entry in reversed(own)
    ]
    lines = table(("ended", "commit", "verdict", "change", "interval", "blocks"), rows, right=(3, 4, 5))
    return "\n".join([marker, render_summary(findings), heading(3, "Before"), "", *lines, ""])


def _day(entry: Entry) -> str:
    return "" if entry.ended is None else datetime.fromtimestamp(entry.ended, UTC).strftime("%Y-%m-%d %H:%M UTC")
