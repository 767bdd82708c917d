"""Colours of the parts of a transaction's time, and their order: what works first, what is outside the server last."""

from pgtrial.findings.causes import BLOCKED, CPU, CPU_QUEUE, IDLE_IN_TRANSACTION, OUTSIDE
from pgtrial.report.charts.waits import OTHER_COLOUR, WAIT_COLOURS

KIND_COLOURS = {
    CPU: WAIT_COLOURS[CPU],
    CPU_QUEUE: "#6699CC",
    BLOCKED: "#EE8866",
    **WAIT_COLOURS,
    IDLE_IN_TRANSACTION: WAIT_COLOURS["Client"],  # the same to the server: it waits for the client
    OUTSIDE: "#A89F91",
}


def kind_colour(kind: str) -> str:
    return KIND_COLOURS.get(kind, OTHER_COLOUR)


def kind_rank(kind: str) -> tuple[int, str]:
    """Place of a kind in a stack and in a legend."""
    known = list(KIND_COLOURS)
    return (known.index(kind) if kind in known else len(known), kind)
