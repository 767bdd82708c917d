"""What the kernel is asked to count: pauses of writers, in an instance of tracefs that is pgtrial's own."""

from collections.abc import Mapping, Sequence

from pgtrial.errors import SettingError
from pgtrial.hosts.base import Host
from pgtrial.hosts.operations import Operations
from pgtrial.knobs.base import About, HostKnob, KnobContext
from pgtrial.model.change import Change, JournalEntry, Outcome, Undone
from pgtrial.model.tracing import EVENT, INSTANCE, TRIGGER

_TRACEFS = "/sys/kernel/tracing"
_FILE = f"{INSTANCE}/{EVENT}/trigger"


class Tracing(HostKnob):
    """The item of a change is the trigger's file; its instance comes and goes with it."""

    name = "tracing"
    about = About(
        sets=f"a histogram trigger on the tracepoint writeback:balance_dirty_pages, in the directory {INSTANCE}, which "
        "is made for it and which no other user of tracing sees",
        takes_effect="at once",
        rights="root, and tracefs with histogram triggers (CONFIG_HIST_TRIGGERS)",
        verified="the trigger is read back, and at the end of the run that it is there",
        undone="the trigger is taken off and the directory removed; both are gone after a reboot",
    )

    async def plan(self, context: KnobContext, wanted: Mapping[str, str]) -> Sequence[Change]:
        if wanted.get("throttling", "off") == "off":
            return ()
        missing = _find_missing(context.host.ops)
        if missing and wanted["throttling"] == "if-possible":
            return ()
        if missing:
            raise SettingError(
                "pauses of writers cannot be counted here",
                detail=missing,
                hint='Run pgtrial as root where tracefs is mounted, or write throttling = "if-possible".',
            )
        return (
            Change(
                knob=self.name,
                name="pauses of writers",
                old={},
                new={_FILE: TRIGGER},
                old_text="not counted",
                new_text="counted",
            ),
        )

    async def apply(self, context: KnobContext, change: Change) -> Mapping[str, str]:
        ops = context.host.ops
        try:
            ops.make_directory(INSTANCE)
            ops.write(_FILE, f"{TRIGGER}\n")
            return {_FILE: ops.read(_FILE).strip()}
        except OSError as err:
            raise SettingError(
                "pauses of writers cannot be counted here",
                detail=f'The kernel refuses the trigger "{TRIGGER}": {err.strerror}.',
                hint="Leave the table tracing out.",
            ) from err

    async def undo(self, host: Host, entry: JournalEntry) -> Undone:
        ops = host.ops
        if ops.boot_id() != entry.boot_id:
            return Undone(outcome=Outcome.REBOOTED)
        if not ops.exists(INSTANCE):
            return Undone(outcome=Outcome.ALREADY)
        try:
            if "hist:" in ops.read(_FILE):
                ops.write(_FILE, f"!{TRIGGER}\n")
            ops.remove_directory(INSTANCE)
        except OSError as err:
            return Undone(outcome=Outcome.FAILED, text=f'"{INSTANCE}" cannot be removed: {err.strerror}.')
        return Undone(outcome=Outcome.RESTORED)

    async def still_applied(self, host: Host, entry: JournalEntry) -> str:
        return "" if host.ops.exists(_FILE) else f'"{INSTANCE}" is gone.'


def _find_missing(ops: Operations) -> str:
    """Why it cannot be counted, in a sentence; "" if it can."""
    event = f"{_TRACEFS}/{EVENT}"
    if not ops.exists(event):
        return f'There is no "{event}": the kernel has no such tracepoint, or tracefs is not mounted.'
    if not ops.exists(f"{event}/hist"):
        return "The kernel was built without histogram triggers (CONFIG_HIST_TRIGGERS)."
    if not ops.is_writable(f"{_TRACEFS}/instances"):
        return f'"{_TRACEFS}/instances" cannot be written, which takes root.'
    if ops.exists(INSTANCE):
        return f'"{INSTANCE}" is there already; "pgtrial restore" removes what pgtrial has left.'
    return ""
