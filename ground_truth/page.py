"""The tables of a whole run, as Markdown, and their place in docs/ground-truth.md."""

from collections.abc import Sequence
from pathlib import Path

from ground_truth.scoring import Outcome, State, confusion
from pgtrial.findings.causes import Resource

PAGE = Path(__file__).parents[1] / "docs" / "ground-truth.md"
BEGIN = "<!-- begin: written by python -m ground_truth -->"
END = "<!-- end: written by python -m ground_truth -->"
_MISSING = "–"


def render(outcomes: Sequence[Outcome], *, machine: str) -> str:
    """All that is to be known of a run of the suite."""
    made = [outcome for outcome in outcomes if outcome.found is not None]
    right = sum(outcome.state is State.RIGHT for outcome in outcomes)
    parts = [f"{right} of {len(outcomes)} cases are right. {machine}", confusion_table(made), case_table(outcomes)]
    remarks = [f"- {o.case.name}: {o.state}, {o.reason}" for o in outcomes if o.reason]
    if remarks:
        parts.append("\n".join(remarks))
    return "\n\n".join(part for part in parts if part)


def confusion_table(outcomes: Sequence[Outcome]) -> str:
    """Truths down, what was found across; an empty cell is none."""
    counts = confusion(outcomes)
    truths = [resource for resource in Resource if any(truth is resource for truth, _ in counts)]
    found = [resource for resource in Resource if any(resource in pair for pair in counts)]
    if not truths:
        return ""
    rows = [[str(truth), *(str(counts.get((truth, name), "")) for name in found)] for truth in truths]
    return table(["truth ↓ found →", *(str(name) for name in found)], rows)


def case_table(outcomes: Sequence[Outcome]) -> str:
    rows = [
        [
            outcome.case.name,
            str(outcome.case.expected[0]),
            str(outcome.found or _MISSING),
            outcome.detail or _MISSING,
            _number(outcome.relief, "{:.1f}"),
            str(outcome.without or _MISSING),
            _number(outcome.excess, "{:+z.2%}"),
            _number(outcome.closure, "{:.3f}"),
            _number(outcome.sampled, "{:.3f}"),
            str(outcome.state),
        ]
        for outcome in outcomes
    ]
    head = [
        *("case", "truth", "found", "which", "throughput without it", "then limited by"),
        *("sum of the parts", "sampled / latency", "sampled / clients", "result"),
    ]
    return table(head, rows)


def _number(value: float | None, form: str) -> str:
    return _MISSING if value is None else form.format(value)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)


def put_between(page: str, text: str, begin: str = BEGIN, end: str = END) -> str:
    """The page with ``text`` between its markers, instead of what was there. Raises ValueError without markers."""
    before, begun, rest = page.partition(begin)
    _, ended, after = rest.partition(end)
    if not begun or not ended:
        raise ValueError(f'the page lacks "{begin}" or "{end}"')
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"
