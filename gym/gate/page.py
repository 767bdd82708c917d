"""What a series says, as a table, and its place in docs/ci.md."""

from pathlib import Path

from ground_truth.page import put_between, table

from gym.gate.trials import Migration, Series, write_series
from pgtrial.units import format_duration

RESULTS = Path(__file__).parent / "results.json"
PAGE = Path(__file__).parents[2] / "docs" / "ci.md"
BEGIN = "<!-- begin: written by python -m gym.gate -->"
END = "<!-- end: written by python -m gym.gate -->"
_VERDICTS = {0: "supported", 3: "refuted", 4: "inconclusive", 5: "invalid"}


def publish(series: Series, *, results: Path = RESULTS, page: Path = PAGE) -> None:
    """Keep the results beside the code, and write their table into the page."""
    write_series(series, results)
    text = put_between(page.read_text(encoding="utf-8"), render(series), begin=BEGIN, end=END)
    page.write_text(text, encoding="utf-8")


def render(series: Series) -> str:
    busy = sum(one.disturbed for one in series.judged) / len(series.judged) if series.judged else 0.0
    head = ["migration", "gates", "right", "said", "after against before", "blocks", "time of a gate"]
    rows = [_row(series, migration) for migration in Migration]
    machine = f"{series.machine}. The neighbour was busy in {busy:.0%} of the time. Seed {series.seed}."
    return f"{table(head, rows)}\n\n{machine}"


def _row(series: Series, migration: Migration) -> list[str]:
    judged = [one for one in series.judged if one.migration is migration]
    said = [_VERDICTS.get(one.status, f"exit status {one.status}") for one in judged]
    ratios = [one.ratio - 1 for one in judged if one.ratio is not None]
    blocks = [one.blocks for one in judged if one.blocks is not None]
    seconds = [one.seconds for one in judged]
    return [
        f"`{migration.statement}`",
        str(len(judged)),
        str(sum(one.is_right for one in judged)),
        ", ".join(f"{verdict} {said.count(verdict)}" for verdict in dict.fromkeys(said)),
        f"{min(ratios):+.1%} to {max(ratios):+.1%}" if ratios else "–",
        f"{min(blocks)} to {max(blocks)}" if blocks else "–",
        f"{format_duration(min(seconds))} to {format_duration(max(seconds))}" if seconds else "–",
    ]
