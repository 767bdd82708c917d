"""The tables of a series, as Markdown, and their place in docs/gym-live.md."""

import math
from collections.abc import Sequence
from pathlib import Path

from ground_truth.page import put_between, table

from gym.contenders.otava import is_installed
from gym.live.experiment import PLANTED
from gym.live.graders import METHOD, Grade, grade
from gym.live.plan import METHODS, PGBENCH, Kind
from gym.live.record import Series, write_series
from gym.live.scoring import Count, Score, Truth, find_truths, score
from gym.scores import wilson

FOLDER = Path(__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "gym-live.md"
_MISSING = "–"
NOT_GRADED = (
    "Other graders are not graded on live servers yet; `python -m gym.live --method blocks --results "
    "results/gym-live-blocks` does it, and goes on where it was interrupted."
)


def results_of(load: str, method: str = "") -> Path:
    return FOLDER / ("-".join(["results", *_options(load, method).values()]) + ".json")


def marks_of(load: str, method: str = "") -> tuple[str, str]:
    """Between which the page has the tables of a load, and of a method if it is by that alone."""
    command = " ".join(["python -m gym.live", *(f"{name} {value}" for name, value in _options(load, method).items())])
    return f"<!-- begin: written by {command} -->", f"<!-- end: written by {command} -->"


def _options(load: str, method: str) -> dict[str, str]:
    return {**({"--load": load} if load != PGBENCH else {}), **({"--method": method} if method else {})}


def publish(series: Series, *, results: Path | None = None, page: Path = PAGE) -> None:
    """Keep the results beside the code, and write their tables into the page."""
    write_series(series, results or results_of(series.load, series.method))
    begin, end = marks_of(series.load, series.method)
    text = put_between(page.read_text(encoding="utf-8"), render(series), begin=begin, end=end)
    page.write_text(text, encoding="utf-8")


def render(series: Series) -> str:
    truths = find_truths(series.records, series.load)
    scores = [found for method in (*METHODS, "all") if (found := score(series.records, truths, method)) is not None]
    parts = [
        _summary(series),
        _verdict_table(scores),
        _coverage_table(scores),
        _truth_table(list(truths.values()), PLANTED[series.load]),
        _grader_table(grade(series.records, truths)) or (NOT_GRADED if series.method == METHOD else ""),
    ]
    return "\n\n".join(part for part in parts if part)


def _summary(series: Series) -> str:
    done = [record for record in series.records if record.is_judged]
    of_kind = {kind: sum(record.kind is kind for record in done) for kind in Kind}
    lost = len(series.records) - len(done)
    hours = time_at_work([(record.started, record.ended) for record in series.records]) / 3600
    busy = sum(record.disturbed for record in done) / len(done) if done else 0.0
    return (
        f"{of_kind[Kind.NULL]} of {series.null} planned experiments of equal arms and {of_kind[Kind.PLANTED]} of "
        f"{series.planted} with planted work, in {hours:.1f} h, {series.jobs} at a time; {lost} had no effect to tell. "
        f"Seed {series.seed}; {series.machine}. The neighbour was busy in {busy:.0%} of the time."
    )


def time_at_work(spans: Sequence[tuple[float, float]]) -> float:
    """Seconds in which at least one was at work, each from its start to its end: a series may have paused for days."""
    total, until = 0.0, -math.inf
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total


def _verdict_table(scores: list[Score]) -> str:
    head = [
        *("method", "equal arms", "false alarms", "called different", "planted", "found", "expected"),
        *("wrong sign", "called different", "called equal", "half-width", "minutes"),
    ]
    rows = [
        [
            found.method,
            str(found.null),
            _share(found.alarms),
            _plain(found.supported_null),
            str(found.planted),
            _share(found.found),
            _MISSING if math.isnan(found.expected) else f"{found.expected:.0%}",
            _plain(found.wrong_sign),
            _plain(found.supported),
            _plain(found.refuted),
            f"±{found.half_width:.1%}",
            f"{found.minutes:.1f}",
        ]
        for found in scores
    ]
    return table(head, rows) if rows else ""


def _coverage_table(scores: list[Score]) -> str:
    rows = [
        [
            found.method,
            str(found.null + found.planted),
            *(_share(each) for each in found.covered),
            f"{found.uniform:.2f}",
        ]
        for found in scores
    ]
    head = ["method", "experiments", "50 % interval", "80 % interval", "95 % interval", "p (Kolmogorov)"]
    return table(head, rows) if rows else ""


def _truth_table(truths: list[Truth], planted: float) -> str:
    rows = [
        [
            truth.method,
            f"{truth.fixed:.1%}",
            f"{math.expm1(truth.planted):.2%} ± {1.96 * truth.error:.2%}",
            f"{math.expm1(truth.double):.1%}",
            _measured(truth),
        ]
        for truth in truths
    ]
    head = [
        "method",
        "time that does not grow",
        f"{planted:.0%} more work".replace("%", " %"),
        "twice the work, if linear",
        "measured",
    ]
    return table(head, rows) if rows else ""


def _measured(truth: Truth) -> str:
    if truth.measured is None:
        return _MISSING
    ratio, low, high = (math.expm1(value) for value in truth.measured)
    return f"{ratio:.1%} ({low:.1%} to {high:.1%})"


def _grader_table(grades: list[Grade]) -> str:
    rows = [
        [
            found.name,
            str(found.runs),
            *(_share(count, is_exact=False) for count in (found.alarms, found.found, found.wrong_sign)),
            _MISSING if found.covered is None else _share(found.covered, is_exact=False),
        ]
        for found in grades
    ]
    if not rows:
        return ""
    text = table(
        ["grader", "runs of each arm", "false alarms", "found", "wrong sign", "95 % intervals that hold"], rows
    )
    return text if is_installed() else f"{text}\n\nApache Otava was not installed, and is not graded."


def _share(count: Count, *, is_exact: bool = True) -> str:
    if not count.of:
        return _MISSING
    low, high = count.interval if is_exact else wilson(count.count, count.of)
    return f"{count.count} of {count.of}: {count.share:.0%} ({low:.0%} to {high:.0%})"


def _plain(count: Count) -> str:
    return f"{count.count} of {count.of}" if count.of else _MISSING
