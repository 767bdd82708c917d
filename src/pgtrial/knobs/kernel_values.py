"""What knobs share whose items are files of the kernel: reading, setting with proof, and undoing by values."""

import operator
from collections.abc import Callable, Collection, Iterator, Mapping

from pgtrial.errors import SettingError
from pgtrial.hosts.base import Host
from pgtrial.hosts.operations import Operations
from pgtrial.model.change import Change, JournalEntry, Outcome, Undone

# The value that a file holds, and making it another one; both raise OSError as the system does.
Read = Callable[[Operations, str], str]
Write = Callable[[Operations, str, str], None]


def read_value(ops: Operations, path: str) -> str:
    return ops.read(path).strip()


def read_chosen(ops: Operations, path: str) -> str:
    """The value in force where the file lists all choices, with it in brackets: "[mq-deadline] none"."""
    text = ops.read(path).strip()
    return next((word[1:-1] for word in text.split() if word.startswith("[") and word.endswith("]")), text)


def read_choices(ops: Operations, path: str) -> tuple[str, ...]:
    """All that such a file lists."""
    return tuple(word.strip("[]") for word in ops.read(path).split())


def write_value(ops: Operations, path: str, value: str) -> None:
    """Write with a newline: without it an empty value would be no write at all."""
    ops.write(path, f"{value}\n")


def same_value(one: str, other: str) -> bool:
    """Whether two texts mean the same to the kernel: white space between numbers and their notation do not count."""
    ones, others = one.split(), other.split()
    return len(ones) == len(others) and all(map(_same_word, ones, others))


def _same_word(one: str, other: str) -> bool:
    if one == other:
        return True
    try:
        return int(one, 0) == int(other, 0)
    except ValueError:
        return False


def require_writable(ops: Operations, path: str, what: str) -> None:
    """Raise SettingError if the file cannot be written: for want of rights, or by anybody."""
    if not ops.mode(path) & 0o222:
        raise SettingError(f"{what} can only be read", detail=f'The kernel lets nobody write "{path}".')
    if not ops.is_writable(path):
        raise _needs_root(what) if ops.user() != 0 else _read_only(what, path)


def read_setting(ops: Operations, path: str, what: str, *, read: Read = read_value) -> str:
    """What the file holds; SettingError if that cannot be read."""
    try:
        return read(ops, path)
    except PermissionError as err:
        raise _needs_root(what) if ops.user() != 0 else _read_only(what, path) from err
    except OSError as err:
        raise SettingError(f"{what} cannot be read", detail=f'"{path}": {err.strerror}.') from err


def _needs_root(what: str) -> SettingError:
    return SettingError(f"setting {what} needs root", hint="Run pgtrial as root.")


def _read_only(what: str, path: str) -> SettingError:
    return SettingError(
        f"{what} cannot be changed here, not even by root",
        detail=f'The kernel does not let "{path}" be written, as is usual in a container.',
        hint="Run pgtrial on the machine itself.",
    )


def apply_values(
    ops: Operations,
    change: Change,
    *,
    read: Read = read_value,
    write: Write = write_value,
    same: Callable[[str, str], bool] = same_value,
    hint: Callable[[str], str] = lambda _path: "",
) -> dict[str, str]:
    """Make a change whose items are files of the kernel; what they and those of ``old`` hold then.

    Raises SettingError when the kernel refuses a value or makes another one of it. ``same`` is asked with what was
    asked for and what was got, ``hint`` with the file that makes trouble.
    """
    for path, problem in _set(ops, change.new, read=read, write=write):
        if isinstance(problem, PermissionError):
            raise _needs_root(change.name) if ops.user() != 0 else _read_only(change.name, path) from problem
        raise SettingError(
            f"{change.name} cannot be set to {change.new_text}",
            detail=f'The kernel refuses "{change.new[path]}" for "{path}": {problem.strerror}.',
            hint=hint(path),
        ) from problem
    got = {path: read_setting(ops, path, change.name, read=read) for path in {**change.old, **change.new}}
    for path, asked in change.new.items():
        if not same(asked, got[path]):
            raise SettingError(
                f"{change.name}: asked for {shown(asked)}, got {shown(got[path])}",
                detail=f'The kernel rounded or limited what was written to "{path}".',
                hint=hint(path),
            )
    return got


def find_drift(
    host: Host, entry: JournalEntry, *, read: Read = read_value, holds: Callable[[str, str], bool] = operator.eq
) -> str:
    """A sentence on what does not hold any more what was read after the change; empty when all does.

    ``holds`` is asked with what was read then and what is there now.
    """
    assert entry.got is not None  # asked of what was applied
    for path in entry.change.new:
        try:
            now = read(host.ops, path)
        except FileNotFoundError:
            return f'"{path}" is gone.'
        if not holds(entry.got[path], now):
            return f'"{path}" was made {shown(entry.got[path])} and is {shown(now)} now.'
    return ""


def undo_values(host: Host, entry: JournalEntry, *, read: Read = read_value, write: Write = write_value) -> Undone:
    """Undo a change whose items are files of the kernel, and whose values are what ``read`` gives.

    The items of ``old`` are set in their order, those that are as before already are left alone. So an item that is
    reset by setting another one has its place behind it.
    """
    change, ops = entry.change, host.ops
    rebooted = ops.boot_id() != entry.boot_id
    now: dict[str, str] = {}
    for path in change.old:
        try:
            now[path] = read(ops, path)
        except FileNotFoundError:
            continue
        except OSError as err:
            return Undone(outcome=Outcome.FAILED, text=f'"{path}" cannot be read: {err.strerror}.')
    old = {path: value for path, value in change.old.items() if path in now}
    gone = None if len(old) == len(change.old) else _gone(change, old, rebooted=rebooted)
    if now == old:
        return gone or Undone(outcome=Outcome.ALREADY)
    if rebooted:
        return Undone(outcome=Outcome.REBOOTED, text=f"{change.name} is {_values(change, now)} since the reboot.")
    changed = None if entry.got is None else _changed_by_others(old, entry.got, now)
    wanted = dict(old)
    if changed is not None and changed not in change.new:
        # What the kernel had set along with it, and sets anew by itself when memory comes or goes: not a reason to
        # leave what was asked for.
        del wanted[changed]
        changed = None
    if changed is not None:
        return Undone(
            outcome=Outcome.CHANGED,
            text=f"{change.name} was {change.old_text}, and pgtrial made it {change.new_text}; "
            f'"{changed}" is {shown(now[changed])} now; left as it is.',
        )
    problems = [
        f'The kernel refuses "{change.old[path]}" for "{path}": {problem.strerror}.'
        for path, problem in _set(ops, wanted, read=read, write=write)
    ]
    now = {path: read(ops, path) for path in wanted}
    if now == wanted:
        return gone or Undone(outcome=Outcome.RESTORED)
    problems.append(f"{change.name} is {_values(change, now)}, not {change.old_text} as before.")
    return Undone(outcome=Outcome.FAILED, text=" ".join(problems))


def _set(ops: Operations, values: Mapping[str, str], *, read: Read, write: Write) -> Iterator[tuple[str, OSError]]:
    """Set files to values in order, those that do not hold them; yields what fails, and then goes on."""
    for path, value in values.items():
        try:
            if read(ops, path) != value:
                write(ops, path, value)
        except OSError as err:
            yield path, err


def _changed_by_others(old: Mapping[str, str], got: Mapping[str, str], now: Mapping[str, str]) -> str | None:
    """The item that is neither as before nor as after the change, unless an undo that was cut short explains that.

    Such an undo has put back one item, which can make anything of those behind it.
    """
    for path, before in old.items():
        if now[path] not in (before, got.get(path)):
            return path
        if now[path] == before != got.get(path):
            return None
    return None


def _gone(change: Change, left: Collection[str], *, rebooted: bool) -> Undone:
    """A device that has been removed, a module that has been unloaded: there is nothing left to put back of it, and
    what is ``left`` is as before.
    """
    path = next(path for path in change.old if path not in left)
    more = " The rest of it is as before." if left else ""
    return Undone(
        outcome=Outcome.REBOOTED if rebooted else Outcome.CHANGED,
        text=f'{change.name} is gone: there is no "{path}" any more.{more}',
    )


def shown(value: str) -> str:
    """A value as it is shown in a message."""
    return " ".join(value.split()) or "empty"


def _values(change: Change, now: Mapping[str, str]) -> str:
    """What is there now, in the order of the change's own texts."""
    return ", ".join(shown(now[path]) for path in change.new if path in now)
