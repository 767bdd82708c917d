"""Messages that name things, for use inside of others."""

from collections.abc import Mapping

from pgtrial.findings.message import Message, message, verbatim
from pgtrial.model.run import LoadLevel

# By the kinds of events in a server's log (store/server_log/facts.py).
_EVENT_KINDS: Mapping[str, str] = {
    "checkpoint": "log-kind.checkpoint",
    "autovacuum": "log-kind.autovacuum",
    "autoanalyze": "log-kind.autoanalyze",
    "temporary file": "log-kind.temporary-file",
    "lock wait": "log-kind.lock-wait",
    "deadlock": "log-kind.deadlock",
    "slow statement": "log-kind.slow-statement",
    "error": "log-kind.error",
    "not English": "log-kind.other-language",
}


def name_level(level: LoadLevel) -> Message:
    """ "8 clients", "500 tps, 8 clients"."""
    if level.rate is None:
        return message("level.clients", count=level.clients)
    return message("level.rate", count=level.clients, rate=level.rate)


def name_series(metric: str) -> Message:
    """What a series of timelines is: "vmstat.us"; "waits." stands for those of all types."""
    return message(f"series.{metric.removesuffix('.')}")


def name_event_kind(kind: str) -> Message:
    """What a kind of event in a server's log is called, also "error 40001"; one that is not known is its own name."""
    if kind in _EVENT_KINDS:
        return message(_EVENT_KINDS[kind])
    first, _, state = kind.partition(" ")
    return message("log-kind.error-of-state", state=state) if first == "error" else verbatim(kind)
