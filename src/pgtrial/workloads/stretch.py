"""Pauses of a pgbench script, made longer: each by a factor, whatever it is that says how long it is."""

import re

PAUSE = re.compile(r"^([ \t]*)\\sleep[ \t]+(\S+?)[ \t]*(us|ms|s)?[ \t]*$", re.MULTILINE | re.IGNORECASE)
_MICROSECONDS = {"us": 1.0, "ms": 1e3, "s": 1e6, "": 1e6}
_VARIABLE = "pgtrial_pause"


def stretch_pauses(script: str, factor: float) -> str:
    """The script with each pause of a client that many times as long; statements that sleep stay as they are."""

    def stretch(pause: re.Match[str]) -> str:
        indent, length, unit = pause[1], pause[2], (pause[3] or "").lower()
        microseconds = f"int({length} * {_MICROSECONDS[unit] * factor})"
        return f"{indent}\\set {_VARIABLE} {microseconds}\n{indent}\\sleep :{_VARIABLE} us"

    return PAUSE.sub(stretch, script)
