"""Inside the runs: throughput, waits, devices and memory of one block on one time axis."""

from pgtrial.findings.findings import Findings
from pgtrial.language import N_
from pgtrial.report.cause_words import causes_of
from pgtrial.report.charts.panels import main_block, run_panels
from pgtrial.report.charts.time_axis import is_long, widest_times
from pgtrial.report.sections.base import Section
from pgtrial.report.terms import means_word


def _build(findings: Findings) -> dict[str, object]:
    runs = run_panels(findings)
    main = main_block(runs)
    return {
        "times": widest_times(chart for run in runs for chart in run.charts if chart is not None),
        "runs": [run for run in runs if run.block == main],
        "others": [
            {"block": block, "runs": [run for run in runs if run.block == block]}
            for block in sorted({run.block for run in runs} - {main})
        ],
        "rows": 1 + max((len(run.charts) for run in runs), default=0),
        "has_marks": bool(causes_of(findings).marks),
        "means": means_word(causes_of(findings).tier),
    }


PANELS = Section(
    name="panels",
    title=N_("Inside the runs"),
    build=_build,
    is_shown=lambda findings: is_long(findings) and bool(causes_of(findings).panels),
)
