"""How causes are put into sentences."""

from collections.abc import Sequence

from pgtrial.language import N_, decimal_sign, tr
from pgtrial.units import format_bytes, format_count, format_significant


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


def _local(number: str) -> str:
    return number.replace(".", decimal_sign())
