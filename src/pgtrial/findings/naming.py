"""Messages that name things, for use inside of others."""

from pgtrial.findings.message import Message, message
from pgtrial.model.run import LoadLevel


def name_level(level: LoadLevel) -> Message:
    """ "8 clients", "500 tps, 8 clients"."""
    if level.rate is None:
        return message("level.clients", count=level.clients)
    return message("level.rate", count=level.clients, rate=level.rate)


def name_series(metric: str) -> Message:
    """What a series of timelines is: "vmstat.us"; "waits." stands for those of all types."""
    return message(f"series.{metric.removesuffix('.')}")
