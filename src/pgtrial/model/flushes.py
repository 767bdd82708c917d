"""Flushes (fsync) that do not reach a disk: what becomes of them, and the facts of the fingerprint that say so."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Lost(StrEnum):
    """``MEMORY``: there is no disk; ``LEFT_OUT``: the file system does not pass them on; ``CACHE``: it passes on the
    data, and leaves them in the cache of the device.
    """

    MEMORY = "end in memory"
    LEFT_OUT = "are left out"
    CACHE = "end in the device's cache"


@dataclass(frozen=True, slots=True, kw_only=True)
class LostFlushes:
    """``by`` names what decides it: "tmpfs", "zram0", "overlay, fsync=volatile"."""

    lost: Lost
    by: str


def flush_facts(role: str, found: LostFlushes | None) -> dict[str, str]:
    """As the fingerprint has it for a role ("data" or "WAL"). Nothing where flushes are not known to be lost."""
    if found is None:
        return {}
    return {f"storage/{role} flushes": str(found.lost), f"storage/{role} flushes decided by": found.by}


def read_flushes(facts: Mapping[str, str], role: str) -> LostFlushes | None:
    """What ``flush_facts`` wrote; None also for what this pgtrial does not know."""
    text = facts.get(f"storage/{role} flushes")
    if text not in list(Lost):
        return None
    return LostFlushes(lost=Lost(text), by=facts.get(f"storage/{role} flushes decided by", ""))
