"""What knobs share whose items are files of the kernel: undoing by values."""

from collections.abc import Mapping

from pgtrial.hosts.base import Host
from pgtrial.model.change import JournalEntry, Outcome, Undone


def undo_values(host: Host, entry: JournalEntry) -> Undone:
    """Undo a change whose items are files of the kernel and whose values are what reading them gives."""
    change = entry.change
    try:
        now = {path: host.ops.read(path).strip() for path in change.old}
        if now == dict(change.old):
            return Undone(outcome=Outcome.ALREADY)
        if host.ops.boot_id() != entry.boot_id:
            return Undone(outcome=Outcome.REBOOTED, text=f"{change.name} is {_values(now)} since the reboot.")
        if entry.got is not None and now != {path: entry.got.get(path) for path in change.old}:
            return Undone(
                outcome=Outcome.CHANGED,
                text=f"{change.name} was {change.old_text}, pgtrial made it {change.new_text}, "
                f"and it is {_values(now)} now; left as it is.",
            )
        for path, value in change.old.items():
            host.ops.write(path, value)
        now = {path: host.ops.read(path).strip() for path in change.old}
    except OSError as err:
        return Undone(outcome=Outcome.FAILED, text=f'"{err.filename}": {err.strerror}.')
    if now != dict(change.old):
        return Undone(outcome=Outcome.FAILED, text=f"{change.name} is {_values(now)}, not {change.old_text} as before.")
    return Undone(outcome=Outcome.RESTORED)


def _values(values: Mapping[str, str]) -> str:
    return ", ".join(values.values())
