"""What the parts of a transaction's time are called, and how causes are put into sentences."""

from collections.abc import Sequence

from pgtrial.analysis.waits import CPU

__all__ = ["CPU"]

CPU_QUEUE = "CPU queue"  # wants a CPU and waits for one
BLOCKED = "blocked in the kernel"  # active, in no wait that the server knows of, yet neither on a CPU nor in its queue
IDLE_IN_TRANSACTION = "idle in transaction"
OUTSIDE = "outside the server"
SCHEDULE_LAG = "schedule lag"  # event of OUTSIDE, open loop: due, but no client was free

_MOST_NAMED = 3


def part_name(kind: str, event: str) -> str:
    """ "IO WALSync", "CPU"."""
    return f"{kind} {event}" if event else kind


def percent(share: float) -> str:
    """ "72 %", for a sentence; below 10 % with one digit."""
    return f"{share * 100:.{0 if abs(share) >= 0.0995 else 1}f} %"


def number(value: float) -> str:
    """Two significant digits from 0.1 on: "0.35", "6.1", "120"."""
    return f"{value:.0f}" if abs(value) >= 10 else f"{value:.2g}"


def join(words: Sequence[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    return "".join(words) if len(words) < 2 else f"{', '.join(words[:-1])} and {words[-1]}"


def join_clauses(clauses: Sequence[str]) -> str:
    """The first few of several clauses, in one sentence."""
    return "; ".join(clauses[:_MOST_NAMED])
