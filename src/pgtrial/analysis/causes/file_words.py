"""How fast a load on files is, and where its speed ends, in a sentence."""

from pgtrial.findings.files import FileLimit, FileUse
from pgtrial.language import N_, ptr, tr
from pgtrial.units import format_bytes, format_duration

_ENDS = {
    FileLimit.MEMORY: N_("{name} reaches {speed} and ends in memory"),
    FileLimit.BACKGROUND: N_("{name} reaches {speed} and is written in the background, and does not wait for it"),
    FileLimit.THROTTLE: N_(
        "{name} reaches {speed} and is held back by the throttle of writers to what the device writes"
    ),
    FileLimit.DEVICE: N_("{name} reaches {speed} and waits for the device"),
    FileLimit.UNDETERMINED: N_("{name} reaches {speed} and has no limit that could be determined"),
}


def tell_use(use: FileUse, *, name: str) -> str:
    """``name`` is that of the arm, with its load level where there are several."""
    sentence = tr(_ENDS[use.limit], name=name, speed=_speed(use))
    why = "; ".join(fact.text for fact in use.facts)
    return f"{sentence}: {why}." if why else f"{sentence}."


def _speed(use: FileUse) -> str:
    """ "102 MB/s, 1.42 ms per request"."""
    speed = tr("an unknown speed")
    if use.bandwidth:
        speed = ptr("unit", "{size}/s", size=format_bytes(use.bandwidth.value))
    if not use.latency:
        return speed
    return tr("{speed}, {time} per request", speed=speed, time=format_duration(use.latency.value))
