"""A change on a host, and the outcome of undoing it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

# Knobs that change an existing server, and nothing else of a host.
OWN_DATABASE = "server_database"  # a database of pgtrial's own
SERVER_COPY = "server_copy"  # a copy of a database while it is made; when it is whole it is its maker's
SERVER_SETTINGS = "server_settings"
SERVER_ROLE = "server_role"
SERVER_SQL = "server_sql"
SERVER_SWITCH = "server_switch"
DUMP = "dump"  # of a database while it is made, which changes no server
OF_SERVERS = frozenset((OWN_DATABASE, SERVER_COPY, SERVER_SETTINGS, SERVER_ROLE, SERVER_SQL, SERVER_SWITCH))


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change that a knob makes to a host, with everything needed to undo it in another process or after a reboot.

    ``old`` and ``new`` map items to texts. Only the knob knows what an item is; usually it is a kernel file. Items that
    must be restored together (``vm.dirty_ratio`` is 0 as soon as ``vm.dirty_bytes`` is set) are one change. An empty
    ``old`` means that nothing existed, and undoing removes what ``new`` describes.
    """

    knob: str
    name: str  # what a person reads: "vm.swappiness", "vda read_ahead_kb"
    old: Mapping[str, str]
    new: Mapping[str, str]
    old_text: str  # the two as a person reads them: "60", "none"
    new_text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """A change as recorded in the journal; ``host`` is "local" or the ssh:// address, ``folder`` the result folder.

    ``got`` holds the values read back after the change; None until it is confirmed: pgtrial may then have been killed
    before, during or after the change itself. A change of several steps has there how far it, and undoing it, has come.
    ``damage`` says what is wrong with an entry that cannot be read; then the
    rest is what could be.
    """

    id: int
    t: float  # seconds since the epoch
    host: str
    boot_id: str  # of that host, when the change was made
    folder: str
    run: int | None
    change: Change
    got: Mapping[str, str] | None
    damage: str = ""


class Outcome(StrEnum):
    RESTORED = "restored"
    ALREADY = "already as before"
    REBOOTED = "reset by a reboot"
    CHANGED = "changed by somebody else"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """The outcome of undoing. ``text`` is a full sentence with details, if any: who changed what, why it failed.

    After CHANGED and FAILED the host differs from its original state; only FAILED is retried. ``is_given_up``: not by
    the same pgtrial, which has waited as long as it may.
    """

    outcome: Outcome
    text: str = ""
    is_given_up: bool = False
