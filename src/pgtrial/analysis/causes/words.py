"""What the parts of a transaction's time are called, and how causes are put into sentences."""

from collections.abc import Sequence

from pgtrial.analysis.waits import CPU
from pgtrial.language import N_, decimal_sign, tr
from pgtrial.units import format_bytes, format_count, format_significant

__all__ = ["CPU"]

# As findings have them; part_name puts them into the language in use.
CPU_QUEUE = "CPU queue"  # wants a CPU and waits for one
BLOCKED = "blocked in the kernel"  # active, in no wait that the server knows of, yet neither on a CPU nor in its queue
IDLE_IN_TRANSACTION = "idle in transaction"
OUTSIDE = "outside the server"
SCHEDULE_LAG = "schedule lag"  # event of OUTSIDE, open loop: due, but no client was free

# Parts that PostgreSQL has no name for; its own names are the same in all languages.
_SHOWN = frozenset(
    {
        N_("CPU"),
        N_("CPU queue"),
        N_("blocked in the kernel"),
        N_("idle in transaction"),
        N_("outside the server"),
        N_("outside the server schedule lag"),
    }
)
_MOST_NAMED = 3


def part_name(kind: str, event: str) -> str:
    """ "IO WALSync", "CPU", in the language in use."""
    return show_part(part_id(kind, event))


def part_id(kind: str, event: str) -> str:
    """The same in English, for what has to be the same in all languages."""
    return f"{kind} {event}" if event else kind


def show_part(name: str) -> str:
    """What a part is called in the language in use, by its English name."""
    return tr(name) if name in _SHOWN else name


def percent(share: float) -> str:
    """ "72 %", for a sentence; below 10 % with one digit."""
    return _local(f"{share * 100:.{0 if abs(share) >= 0.0995 else 1}f} %")


def number(value: float) -> str:
    """Two significant digits from 0.1 on: "0.35", "6.1", "120"."""
    return _local(f"{value:.0f}") if abs(value) >= 10 else format_significant(value, 2)


def join(words: Sequence[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    if len(words) < 2:
        return "".join(words)
    return tr("{words} and {last}", words=", ".join(words[:-1]), last=words[-1])


# A rate of a device by what it counts: requests, or bytes.
_RATES = {
    "reads": N_("{rate} reads per second"),
    "writes": N_("{rate} writes per second"),
    "requests": N_("{rate} requests per second"),
    "read": N_("{rate} read per second"),
    "written": N_("{rate} written per second"),
    "read and written": N_("{rate} read and written per second"),
}
READ_TAKES = N_("a read takes {time}")
WRITE_TAKES = N_("a write takes {time}")


def rate_of(rate: float, of: str, *, is_bytes: bool) -> str:
    """ "3 k reads per second", "23.4 MB read per second"."""
    return tr(_RATES[of], rate=format_bytes(rate) if is_bytes else format_count(rate))


def join_clauses(clauses: Sequence[str]) -> str:
    """The first few of several clauses, in one sentence."""
    return "; ".join(clauses[:_MOST_NAMED])


def _local(number: str) -> str:
    return number.replace(".", decimal_sign())
