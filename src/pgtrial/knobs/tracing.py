"""What the kernel is asked to count: pauses of writers, in an instance of tracefs that is pgtrial's own.

With histogram triggers the kernel adds the pauses up. Without them (CONFIG_HIST_TRIGGERS) it keeps the events in a ring
buffer, of which only the number of those that were ever written to it is read.
"""

import errno
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Literal

from pydantic import Field

from pgtrial.errors import SettingError
from pgtrial.hosts.base import Host
from pgtrial.hosts.linux.mounts import mount_at
from pgtrial.hosts.operations import Operations
from pgtrial.knobs.base import HostKnob, KnobContext
from pgtrial.knobs.declaration import About, EffectTiming, Rule
from pgtrial.knobs.values import Table
from pgtrial.model.change import Change, JournalEntry, Outcome, Undone
from pgtrial.model.tracing import EVENT, FILTER, INSTANCE, TRACEFS, TRIGGER

_TRIGGER_FILE = f"{INSTANCE}/{EVENT}/trigger"
# The ring buffer of each CPU, which the kernel makes as much larger as it needs: the events themselves are not wanted.
_BUFFER, _SMALL = f"{INSTANCE}/buffer_size_kb", "4"
_COUNTING = {f"{INSTANCE}/{EVENT}/filter": FILTER, f"{INSTANCE}/{EVENT}/enable": "1"}
_COUNTED, _IF_POSSIBLE, _NOT_COUNTED = "counted", "counted if possible", "not counted"
_MOUNTED, _NOT_MOUNTED = "mounted", "not mounted"
_PATIENCE = 10.0  # seconds in which an ended reader has to be gone
_STEP = 0.1


class TracingTable(Table):
    """Events that the kernel counts during a run on request, because it has no counter for them."""

    throttling: Literal["off", "if-possible", "required"] | None = Field(
        default=None,
        description="Pauses of writers (tracepoint writeback:balance_dirty_pages). It needs root and tracefs; "
        "the length of pauses is known only with histogram triggers. if-possible: count nothing if the kernel "
        "cannot.",
    )


class Tracing(HostKnob):
    """The items of a change are the instance, which comes and goes with it, and tracefs where nobody has mounted it."""

    name = "tracing"
    about = About(
        sets="a histogram trigger on the tracepoint writeback:balance_dirty_pages, or, if the kernel has no such "
        f"triggers, the event itself, in the directory {INSTANCE}, which is created for it and invisible to other "
        f"users of tracing; tracefs is mounted at {TRACEFS} if needed",
        takes_effect="at once",
        rights="root, and a kernel with tracefs (CONFIG_FTRACE)",
        verified="read back, and checked again at the end of the run. With if-possible, a kernel that refuses is "
        "not an error; nothing is counted then",
        undone="the directory is removed, and tracefs unmounted if it was not mounted before; both are gone after a "
        "reboot",
    )
    rules = (Rule(timing=EffectTiming.AT_ONCE, reason="counts what happens on the whole machine, in all arms"),)

    async def plan(self, context: KnobContext, wanted: Mapping[str, str]) -> Sequence[Change]:
        if wanted.get("throttling", "off") == "off":
            return ()
        ops = context.host.ops
        is_mounted = _is_mounted(ops)
        missing = _find_missing(ops, is_mounted=is_mounted)
        if missing and wanted["throttling"] == "if-possible":
            return ()
        if missing:
            raise SettingError(
                "writer pauses cannot be counted here",
                detail=missing,
                hint='Run pgtrial as root, on a kernel with tracefs, or write throttling = "if-possible".',
            )
        old = {} if is_mounted else {TRACEFS: _NOT_MOUNTED}
        new = {} if is_mounted else {TRACEFS: _MOUNTED}
        counted = _COUNTED if wanted["throttling"] == "required" else _IF_POSSIBLE
        return (
            Change(
                knob=self.name,
                name="pauses of writers",
                old=old,
                new={**new, INSTANCE: counted},
                old_text=_NOT_COUNTED,
                new_text=counted,
            ),
        )

    async def apply(self, context: KnobContext, change: Change) -> Mapping[str, str]:
        ops = context.host.ops
        problem = _count(ops, change)
        if not problem:
            return change.new
        if change.new[INSTANCE] != _IF_POSSIBLE:
            raise SettingError(
                "writer pauses cannot be counted here", detail=problem, hint="Leave the table tracing out."
            )
        with suppress(OSError):  # what stays is tried again when the change is undone
            _remove(ops, unmount=TRACEFS in change.new)
        return {**change.new, INSTANCE: f"{_NOT_COUNTED}: {problem}"}

    async def undo(self, host: Host, entry: JournalEntry) -> Undone:
        import asyncio

        ops = host.ops
        if ops.boot_id() != entry.boot_id:
            return Undone(outcome=Outcome.REBOOTED)
        was_mounted = TRACEFS not in entry.change.old
        if not ops.exists(INSTANCE) and (was_mounted or not _is_mounted(ops)):
            return Undone(outcome=Outcome.ALREADY)
        for attempt in range(round(_PATIENCE / _STEP), -1, -1):
            try:
                _remove(ops, unmount=not was_mounted)
                break
            except OSError as err:
                # A reader that was ended a moment ago still holds its file.
                if err.errno != errno.EBUSY or attempt == 0:
                    place = INSTANCE if ops.exists(INSTANCE) else TRACEFS
                    return Undone(outcome=Outcome.FAILED, text=f'"{place}" cannot be removed: {err.strerror}.')
            await asyncio.sleep(_STEP)
        return Undone(outcome=Outcome.RESTORED)

    async def still_applied(self, host: Host, entry: JournalEntry) -> str:
        was_counted = entry.got is None or not entry.got[INSTANCE].startswith(_NOT_COUNTED)
        return f'"{INSTANCE}" is gone.' if was_counted and not host.ops.exists(f"{INSTANCE}/{EVENT}") else ""


def _is_mounted(ops: Operations) -> bool:
    found = mount_at(ops, TRACEFS)
    return found is not None and found.kind == "tracefs"


def _wanted_files(ops: Operations) -> Mapping[str, str]:
    """What is written to which file of the instance, in this order."""
    has_histograms = ops.exists(f"{INSTANCE}/{EVENT}/hist")
    return {_TRIGGER_FILE: TRIGGER} if has_histograms else _COUNTING


def _count(ops: Operations, change: Change) -> str:
    """Have the pauses counted; why that cannot be had, in a sentence, "" if they are."""
    try:
        if TRACEFS in change.new and not _is_mounted(ops):
            ops.mount("tracefs", TRACEFS, "tracefs", 0, "")
        ops.make_directory(INSTANCE)
        ops.write(_BUFFER, f"{_SMALL}\n")
        for path, text in _wanted_files(ops).items():
            ops.write(path, f"{text}\n")
            if not _holds(ops.read(path), text):
                return f'"{path}" is "{ops.read(path).strip()}" after "{text}" was written to it.'
    except OSError as err:
        return f'The kernel refuses to count "{EVENT}": {err.strerror}.'
    return ""


def _holds(shown: str, asked: str) -> bool:
    """Whether the kernel shows what was written. Of a trigger it shows more: all that was left out, with its default.

    As "hist:keys=bdi:vals=hitcount,pause:sort=hitcount:size=2048 if pause > 0 [active]" (event_hist_trigger_print).
    """
    if asked != TRIGGER:
        return asked in shown
    keys = TRIGGER.partition("vals=")[0]
    return any(line.startswith(keys) and f" if {FILTER} " in line for line in shown.splitlines())


def _remove(ops: Operations, *, unmount: bool) -> None:
    if ops.exists(INSTANCE):
        with suppress(OSError):  # a kernel that lets nobody read or write there may still let the directory go
            _switch_off(ops)
        ops.remove_directory(INSTANCE)
    if unmount and _is_mounted(ops):
        ops.unmount(TRACEFS)


def _switch_off(ops: Operations) -> None:
    if ops.exists(_TRIGGER_FILE) and "hist:" in ops.read(_TRIGGER_FILE):
        ops.write(_TRIGGER_FILE, f"!{TRIGGER}\n")
    enable = f"{INSTANCE}/{EVENT}/enable"
    if ops.exists(enable):
        ops.write(enable, "0\n")


def _find_missing(ops: Operations, *, is_mounted: bool) -> str:
    """Why it cannot be counted, in a sentence; "" if it can, as far as one can tell before tracefs is mounted."""
    if not is_mounted:
        if "tracefs" not in ops.read("/proc/filesystems").split():
            return "The kernel has no tracefs (CONFIG_FTRACE)."
        return "" if ops.user() == 0 else f'Tracefs is not mounted at "{TRACEFS}", and mounting it takes root.'
    if not ops.exists(f"{TRACEFS}/{EVENT}"):
        return f'There is no "{TRACEFS}/{EVENT}": the kernel has no such tracepoint.'
    if not ops.is_writable(f"{TRACEFS}/instances"):
        return f'"{TRACEFS}/instances" cannot be written, which takes root.'
    if ops.exists(INSTANCE):
        return f'"{INSTANCE}" already exists; "pgtrial restore" removes what pgtrial has left.'
    return ""
