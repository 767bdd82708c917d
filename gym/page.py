"""docs/gym.md and its picture, from stored results."""

from pathlib import Path

from ground_truth.page import put_between

from gym import tables
from gym.chart import draw_alarms
from gym.contenders.pgtrial import MARGIN
from gym.recording import LOADS, read
from gym.results import Results
from gym.scores import EFFECTS, SHARES

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "gym.md"
CHART = ROOT / "docs" / "assets" / "gym-alarms.svg"
BEGIN = "<!-- begin: written by python -m gym -->"
END = "<!-- end: written by python -m gym -->"


def write_page(results: Results, page: Path = PAGE, chart: Path = CHART) -> Path:
    """Put the tables between their marks, and draw the picture; returns the page's path."""
    names = tables.stream_names(results)
    chart.write_text(draw_alarms(results, tables.SHOWN, names), encoding="utf-8")
    page.write_text(put_between(page.read_text(encoding="utf-8"), render(results), BEGIN, END), encoding="utf-8")
    return page


_READ = (
    "In brackets: from where to where simulation leaves a figure (Wilson's 95 % interval). Bold: more than simulation "
    "explains (one in 10 000) where 5 % are allowed."
)
_ALARMS = (
    "Per cent of experiments in which something is said of two arms that are equal. Behind each name, the runs of each "
    "arm, or the blocks."
)
_VERDICTS = (
    "Shown is the worst rate over all claims, effects and numbers of blocks, and the rate that is allowed: 2.5 % on "
    "each side, 5 % of claims that are about both. The worst of so many lies above the allowed rate by chance; bold is "
    "what chance does not explain."
)
_MINUTES = (
    "Minutes of testing, warm-up included, until so many of the experiments say that the arm with the change is "
    "slower, by how much it is. A dash: not with the most runs that were tried. Bold names raise false alarms above "
    "5 % on the same stream, so that their alarms prove little."
)
_LOSSES = (
    "Others that keep to 5 % of false alarms on the same stream, and are right in 80 % of experiments sooner than each "
    "method of pgtrial that keeps to it, by more than simulation explains:"
)


def render(results: Results) -> str:
    """All that is between the marks."""
    names = tables.stream_names(results)
    effects = ", ".join(tables.percent(effect) for effect in EFFECTS)
    claims = (
        f"The claims *better, worse, not-worse, equivalent* and *different* with a margin of {tables.percent(MARGIN)}"
    )
    made = [
        f"*recorded-{load}*: {read(load).made.replace(chr(10), ' ')}" for load in LOADS if f"recorded-{load}" in names
    ]
    parts = [
        f"{len(results.cells)} cells, each of {tables.experiments_told(results)}. {_READ}",
        f"## Machines\n\n{tables.stream_table(results)}",
        *made,
        f"## False alarms\n\n{_ALARMS}",
        f"![False alarms by stream and contender](assets/{CHART.name})",
        tables.alarm_table(results),
        f"## Verdicts of pgtrial\n\n{claims}, of arms that are slower by {effects}. {_VERDICTS}",
        tables.verdict_table(results),
        _exceptions(results),
        "## Coverage\n\nPer cent of 95 % intervals that have the truth in them, after so many blocks or runs.",
        tables.coverage_table(results),
        "## Wrong sign\n\nPer cent of experiments in which an arm that is 2 % slower is called faster.",
        tables.sign_table(results, 0.02),
        f"## Minutes to a true verdict\n\n{_MINUTES}",
        *_minutes(results),
        _losses(results),
    ]
    if results.histories:
        parts += [
            "## Points of change in noise\n\nApache Otava's defaults on histories in which nothing changes.",
            tables.history_table(results),
        ]
    return "\n\n".join(part for part in parts if part)


def _exceptions(results: Results) -> str:
    found = tables.exceptions(results)
    if not found:
        return "There is no exception."
    count = len({(stream, method) for stream, method, _, _ in found})
    return (
        f"There are exceptions with {count} of these streams and methods. They are listed with their figures and "
        "reasons, beside those of the calibration and with what pgtrial says there, in [exceptions](exceptions.md)."
    )


def _losses(results: Results) -> str:
    found = list(tables.losses(results))
    if not found:
        return ""
    return "\n".join([f"### Where pgtrial loses\n\n{_LOSSES}", "", *(f"- {sentence}" for sentence in found)])


def _minutes(results: Results) -> list[str]:
    return [
        part
        for stream in tables.stream_names(results)
        for share in SHARES
        for part in (
            f"**{stream}**, in {tables.percent(share)} of experiments:",
            tables.minutes_table(results, stream, share),
        )
    ]
