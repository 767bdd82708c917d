"""What is said of alarms: what changed and by how much, and whether the contract holds."""

from datetime import UTC, datetime

from pgtrial.stats.alarms.audit import Audit
from pgtrial.units import format_change
from pgtrial.watch.raised import ServerAlarm, Shift

_TEXT = 60  # characters of a statement
OBSERVATION = (
    "An alarm is observation, not cause: it says that something has changed, and not why, nor whether it matters. "
    "What a change does, an experiment shows (pgtrial run)."
)
_WORDS = {
    "holds": "It holds, even if each of these alarms was false.",
    "broken": "There are more than that: unless some of these alarms were true, it is broken.",
    "too-short": "The time is too short to know whether it holds, if each of these alarms was false.",
}
_DIRECTIONS = {
    ("level", True): "higher",
    ("level", False): "lower",
    ("spread", True): "less even",
    ("spread", False): "more even",
    ("share", True): "larger share",
    ("share", False): "smaller share",
}


def shift_cells(shift: Shift) -> tuple[str, str, str, str, str]:
    """What changed, in which direction, by how much with its interval, and since when."""
    name = " ".join(shift.text.split())[:_TEXT] or shift.part
    return (
        f"{shift.signal}: {name}" if shift.part else shift.signal,
        _DIRECTIONS[shift.aspect.value, shift.is_more],
        format_change(shift.size),
        f"{format_change(shift.low)} to {format_change(shift.high)}",
        moment(shift.onset),
    )


def summary(alarm: ServerAlarm) -> str:
    """The shift with the most evidence, without texts of statements."""
    first = alarm.shifts[0]
    name = f"{first.signal}: {first.part}" if first.part else first.signal
    return (
        f"{name} {_DIRECTIONS[first.aspect.value, first.is_more]} ({format_change(first.size)}) "
        f"since {moment(first.onset)}"
    )


def moment(t: int) -> str:
    """Minutes, UTC."""
    return datetime.fromtimestamp(t, UTC).strftime("%Y-%m-%dT%H:%M")


def contract_text(audit: Audit, one_in: float) -> str:
    """How many alarms there were, against one false alarm in ``one_in`` days."""
    contract = f"The contract is at most 1 false alarm in {one_in:g} days for all signals together."
    if audit.rate is None:
        return f"{contract} Nothing was read after the calm time yet."
    number = f"{audit.alarms} alarm{'' if audit.alarms == 1 else 's'}"
    return (
        f"{number} in {audit.days:.1f} days without gaps: {audit.rate:.3g} in 30 days, 95 % interval {audit.low:.3g} "
        f"to {audit.high:.3g}. {contract} {_WORDS[audit.contract.value]}"
    )
