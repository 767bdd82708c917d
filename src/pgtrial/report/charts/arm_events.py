"""Checkpoints, autovacuum and runs that do not count, on the time axis that the series of an arm have."""

from pgtrial.findings.findings import Findings, RunFinding
from pgtrial.language import ntr, tr
from pgtrial.report.cause_words import causes_of
from pgtrial.report.charts.base import Chart, Spec, shorten
from pgtrial.report.charts.marks import FIRST, count_text, draw_lanes, lane_word, merge_marks
from pgtrial.report.charts.schedule import NOT_COUNTED
from pgtrial.report.charts.series import mark_phases
from pgtrial.report.terms import state_word


def events_chart(findings: Findings, arm: str, times: tuple[float, float]) -> Chart | None:
    """The lanes of an arm, all of its runs together; None where no arm has anything for a lane.

    Every arm has the same lanes, so that it can be seen of which there was none.
    """
    kinds = [kind for kind in FIRST if any(mark.kind == kind for mark in causes_of(findings).marks)]
    any_lost = any(run.state in NOT_COUNTED for run in findings.runs)
    if not kinds and not any_lost:
        return None
    counted = {run.id for run in findings.runs if run.arm == arm and run.state not in NOT_COUNTED}
    lost = [run for run in findings.runs if run.arm == arm and run.state in NOT_COUNTED]
    lanes: list[tuple[str, list[Spec]]] = []
    counts = []
    for kind in kinds:
        marks = [mark for mark in causes_of(findings).marks if mark.run in counted and mark.kind == kind]
        lanes.append((lane_word(kind, len(marks)), merge_marks(marks, times)))
        counts.append(count_text(kind, len(marks)))
    if any_lost:
        lanes.append((_lost_word(lost), [bar for run in lost for bar in _bars(findings, run, times)]))
        counts.append(
            ntr("{count} run not counted", "{count} runs not counted", len(lost)) if lost else tr("every run counted")
        )
    return Chart(
        title=f"{arm}: {', '.join(counts)}",
        text=tr(
            "What happened in the runs of arm {arm}: {events}.", arm=arm, events="; ".join(word for word, _ in lanes)
        ),
        times=times,
        spec=draw_lanes(lanes, times, titled=True),
    )


def _lost_word(lost: list[RunFinding]) -> str:
    if not lost:
        return tr("not counted: none")
    runs = ", ".join(tr("run {run} of block {block}", run=run.id, block=run.block) for run in lost)
    return tr("not counted: {runs}", runs=runs)


def _bars(findings: Findings, run: RunFinding, times: tuple[float, float]) -> list[Spec]:
    """How far into its measured time the run came; nothing where it did not come so far."""
    bands = [band for band in mark_phases(findings, run, times) if band["start"] >= 0]
    if not bands:
        return []
    text = tr(
        "run {run}, block {block}, {state}: {reason}",
        run=run.id,
        block=run.block,
        state=state_word(run.state),
        reason=run.reason or tr("no reason recorded"),
    )
    return [{"start": shorten(bands[0]["start"]), "end": shorten(bands[-1]["end"]), "text": text}]
