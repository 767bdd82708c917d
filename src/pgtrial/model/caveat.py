"""Caveat: a finding that limits how far a number can be trusted; it accompanies the number."""

from dataclasses import dataclass
from enum import StrEnum

STOPPED_FOR_HARM = "stopped-for-harm"  # by a guardrail: it is not gone on with
NO_ALL_SETTINGS = "no-all-settings"  # the role of an existing server may not see them: those that lack are not known


class Severity(StrEnum):
    """The cost of a caveat: ``info`` nothing, ``warning`` some trust, ``invalid`` the verdict."""

    INFO = "info"
    WARNING = "warning"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caveat:
    """``code`` is stable and listed in docs/result-folder.md; ``text`` states facts, ``hint`` what to do."""

    code: str
    severity: Severity
    text: str
    hint: str = ""


def info(code: str, text: str, hint: str) -> Caveat:
    return Caveat(code=code, severity=Severity.INFO, text=text, hint=hint)
