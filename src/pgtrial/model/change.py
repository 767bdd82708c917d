"""A change on a host, and how undoing it went."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One thing a knob does to a host, with all that is needed to undo it, in another process or after a reboot.

    ``old`` and ``new`` map items to texts; what an item is, only the knob knows: mostly a file of the kernel. Items
    that must go back together (``vm.dirty_ratio`` is 0 as soon as ``vm.dirty_bytes`` is set) are one change. An empty
    ``old`` means that there was nothing, and undoing removes what ``new`` describes.
    """

    knob: str
    name: str  # what a person reads: "vm.swappiness", "vda read_ahead_kb"
    old: Mapping[str, str]
    new: Mapping[str, str]
    old_text: str  # the two as a person reads them: "60", "none"
    new_text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """A change as the journal has it; ``host`` is "local" or the ssh:// address, ``folder`` the result folder.

    ``got`` is what the items read after the change, None as long as it was not confirmed: then pgtrial may have been
    killed before, in, or after the change itself.
    """

    id: int
    t: float  # seconds since the epoch
    host: str
    boot_id: str  # of that host, when the change was made
    folder: str
    run: int | None
    change: Change
    got: Mapping[str, str] | None


class Outcome(StrEnum):
    RESTORED = "restored"
    ALREADY = "already as before"
    REBOOTED = "reset by a reboot"
    CHANGED = "changed by somebody else"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """How undoing ended. ``text`` is a full sentence where there is more to say: who changed what, why it failed.

    After CHANGED and FAILED the host is not as it was before; only FAILED is tried again.
    """

    outcome: Outcome
    text: str = ""
