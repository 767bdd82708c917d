"""Severities of caveats, which limit how far a number can be trusted, and codes that decide something else."""

from enum import StrEnum

STOPPED_FOR_HARM = "stopped-for-harm"  # by a guardrail: it is not gone on with
NO_ALL_SETTINGS = "no-all-settings"  # the role of an existing server may not see them: those that lack are not known


class Severity(StrEnum):
    """The cost of a caveat: ``info`` nothing, ``warning`` some trust, ``invalid`` the verdict."""

    INFO = "info"
    WARNING = "warning"
    INVALID = "invalid"
