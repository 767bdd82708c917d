"""Kernel settings by name: a sysctl, alone or with those that change along with it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator

from pgtrial.errors import SettingError
from pgtrial.hosts.base import Host
from pgtrial.hosts.linux.control_groups import hierarchies
from pgtrial.hosts.operations import Operations
from pgtrial.knobs.base import HostKnob, KnobContext
from pgtrial.knobs.cgroup_limits import is_own_group
from pgtrial.knobs.declaration import About, Among, Exclusive, Lasting, matches
from pgtrial.knobs.kernel_values import (
    apply_values,
    find_drift,
    read_setting,
    require_writable,
    same_value,
    shown,
    undo_values,
    write_value,
)
from pgtrial.knobs.sysctl_rules import ACTS, CHANGES_ALSO, EXCLUSIVE, HINTS, RULES, TOGETHER, find_refusal
from pgtrial.knobs.values import KernelValue, refuse
from pgtrial.model.change import Change, JournalEntry, Outcome, Undone
from pgtrial.nearest import hint_name

ROOT = "/proc/sys"
SWAPPINESS = "vm.swappiness"
_OF_GROUP = "memory.swappiness"  # the file of a control group of version 1
_EXCHANGED = str.maketrans("./", "/.")
_DEEPEST = 6  # parts of a name; "net.ipv4.conf.eth0.rp_filter" has five
# A name as sysctl(8) writes it, in either of two ways: with dots, where a slash stands for a dot in the name of a
# network device, or as the path, which is for these names only, so that all others have one name.
_NAME = re.compile(r"[^\s./]+\.[^\s./]+(?:[./][^\s./]+)*")
_PATH = re.compile(r"[^\s./]+(?=/.*\.)(?:/[^\s./]+(?:\.[^\s./]+)*)+")


def _with_standard_names(table: dict[str, Any]) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for written, value in table.items():
        name = standard_name(written) if _is_name(written) else written  # what is wrong is told as it was written
        if name in named:
            refuse(f'kernel setting "{name}" is given twice')
        named[name] = value
    return named


def name_of(path: str) -> str:
    """The name of a file as "sysctl -a" shows it."""
    return path.removeprefix(f"{ROOT}/").translate(_EXCHANGED)


def standard_name(name: str) -> str:
    """ "net.ipv4.conf.eth0/100.rp_filter" of "net/ipv4/conf/eth0.100/rp_filter" too, as "sysctl -a" shows it.

    Where the first separator is a slash, slashes separate, and dots are parts of a name.
    """
    dot, slash = name.find("."), name.find("/")
    return name if slash < 0 or 0 <= dot < slash else name.translate(_EXCHANGED)


def dotted(name: str) -> str:
    """A name with dots only: the same however it is written, also with a dot in a part of it."""
    return name.replace("/", ".")


def path_of(name: str) -> str:
    """The file of a name as "sysctl -a" shows it, whether it is there or not."""
    return f"{ROOT}/{name.translate(_EXCHANGED)}"


SysctlTable = Annotated[dict[str, KernelValue], AfterValidator(_with_standard_names)]

# (ratio, absolute). The ratio may be set to 0, the absolute value mostly not: vm.dirty_bytes has a least value.
_PAIRS = tuple((path_of(ratio), path_of(absolute)) for ratio, absolute in EXCLUSIVE)
_GROUPS = tuple(tuple(f"{ROOT}/{name}" for name in names) for names in TOGETHER)
_RATIO_OF = {absolute: ratio for ratio, absolute in _PAIRS}


class Sysctl(HostKnob):
    """The items of a change are files below /proc/sys."""

    name = "sysctl"
    about = About(
        sets="a kernel setting below /proc/sys that bears on speed, as listed below. Of vm.dirty_bytes and "
        "vm.dirty_ratio, and similar pairs, one is in effect and the other is 0. All others are refused: what acts "
        "when written (vm.drop_caches), cannot be undone, or protects the machine (kernel.randomize_va_space). "
        "In control groups of version 1, where each has a swappiness of its own, vm.swappiness also sets "
        "memory.swappiness of the server's group; a server that pgtrial starts is given one",
        takes_effect="at once",
        rights="root",
        verified="read back; a value that the kernel rounds or limits is an error that names both values. Read "
        "again at the end of the run",
        undone="the old value is written back and read; for a pair, the one that was in effect",
    )
    among_twins = Among.SWITCHED
    keys_tell_all = True
    intends: ClassVar = {"swapping": (SWAPPINESS,)}
    rules = RULES
    acts = ACTS
    exclusive = tuple(
        Exclusive(
            keys=pair,
            message='"{}" and "{}" exclude each other'.format(*pair),
            hint="The kernel sets one to 0 when the other is set. Remove one.",
            unless_zero=True,
        )
        for pair in EXCLUSIVE
    )

    def standard_key(self, key: str) -> str:
        return standard_name(key) if _is_name(key) else key

    def find_refused(self, key: str, value: str) -> tuple[str, str] | None:
        refusal = find_refusal(path_of(key).removeprefix(f"{ROOT}/"), value)
        return None if refusal is None else (f"{key} cannot be varied", f"{refusal.reason} {refusal.hint}".rstrip())

    def find_wrong_key(self, key: str) -> tuple[str, str] | None:
        if _is_name(key):
            return None
        named = name_of(key.strip("/").removeprefix("proc/sys/"))
        hint = (
            f'Write it as sysctl does: "{named}".'
            if _is_name(named)
            else 'Write it as "sysctl -a" shows it: "vm.swappiness".'
        )
        return f'"{key}" is not the name of a kernel setting', hint

    def make_last(self, values: Mapping[str, str]) -> Sequence[Lasting]:
        return (
            Lasting(
                place="/etc/sysctl.d/90-pgtrial.conf",
                lines=tuple(f"{name} = {value}" for name, value in values.items()),
                then=("sysctl --system",),
            ),
        )

    def changes_fact(self, key: str, fact: str) -> bool:
        """The fact of the setting's name, or of what changes along with it."""
        name = dotted(key)
        return dotted(fact.removeprefix("kernel/")) == name or matches(fact, CHANGES_ALSO.get(name, ()))

    async def plan(self, context: KnobContext, wanted: Mapping[str, str]) -> Sequence[Change]:
        ops = context.host.ops
        asked = _ask(ops, wanted)
        of_group = list(self._plan_group(context, asked[path_of(SWAPPINESS)])) if path_of(SWAPPINESS) in asked else []
        changes = [change for pair in _PAIRS for change in self._plan_pair(ops, pair, asked)]
        for group in _GROUPS:
            named = {path: asked.pop(path) for path in group if path in asked}
            if named:
                changes += self._plan_values(ops, named, also=[path for path in group if ops.exists(path)])
        for path, value in asked.items():
            note = "" if of_group else _note(context, path)
            changes += self._plan_values(ops, {path: value}, also=[path], note=note)
        return [*changes, *of_group]

    def _plan_group(self, context: KnobContext, value: str) -> Iterator[Change]:
        """The swappiness by which the kernel reclaims the server's memory, where that is not the machine's."""
        ops, group = context.host.ops, _memory_group(context)
        if group is None:
            return
        path = f"{group}/{_OF_GROUP}"
        if ops.exists(path):
            require_writable(ops, path, path)
            old = read_setting(ops, path, path)
        else:
            old = _read(ops, path_of(SWAPPINESS))  # which a group at the top begins with
        if not same_value(value, old):
            yield Change(
                knob=self.name,
                name=f"{_OF_GROUP} of the server's control group",
                old={path: old},
                new={path: value},
                old_text=shown(old),
                new_text=shown(value),
            )

    def _plan_values(
        self, ops: Operations, asked: Mapping[str, str], *, also: Sequence[str], note: str = ""
    ) -> Iterator[Change]:
        """A change that sets what is asked, and with it puts ``also`` back; nothing if all is as asked."""
        old = {path: _read(ops, path) for path in also}
        new = {path: _fitting(path, value, old[path]) for path, value in asked.items()}
        if all(same_value(value, old[path]) for path, value in new.items()):
            return
        for path in new:
            require_writable(ops, path, name_of(path))
        yield self._change(new, old, note=note)

    def _plan_pair(self, ops: Operations, pair: tuple[str, str], asked: dict[str, str]) -> Iterator[Change]:
        if asked.keys().isdisjoint(pair) or not all(map(ops.exists, pair)):
            return  # where one of the two is missing, the other is a setting like any
        named = {path: asked.pop(path) for path in pair if path in asked}
        old = {path: _read(ops, path) for path in pair}
        given = {path: _fitting(path, value, old[path]) for path, value in named.items()}
        new = _decide(pair, given, old)
        if all(same_value(value, old[path]) for path, value in new.items()):
            return
        for path in pair:
            require_writable(ops, path, name_of(path))
        yield self._change(_in_force_first(pair, new), _in_force_first(pair, old))

    def _change(self, new: Mapping[str, str], old: Mapping[str, str], *, note: str = "") -> Change:
        return Change(
            knob=self.name,
            name=_title(new),
            old=old,
            new=new,
            old_text=", ".join(shown(old[path]) for path in new),
            new_text=", ".join(shown(value) for value in new.values()) + note,
        )

    async def apply(self, context: KnobContext, change: Change) -> Mapping[str, str]:
        return apply_values(context.host.ops, change, write=write_setting, hint=_hint)

    async def undo(self, host: Host, entry: JournalEntry) -> Undone:
        if any(_went_with_group(host.ops, path) for path in entry.change.old):
            return Undone(outcome=Outcome.ALREADY)
        return undo_values(host, entry, write=write_setting)

    async def still_applied(self, host: Host, entry: JournalEntry) -> str:
        return find_drift(host, entry)


def _title(new: Mapping[str, str]) -> str:
    return ", ".join(name_of(path) for path in new)


def _ask(ops: Operations, wanted: Mapping[str, str]) -> dict[str, str]:
    """File to value. SettingError for names that are wrong, given twice, or refused."""
    asked: dict[str, str] = {}
    for name, value in wanted.items():
        path = find_file(ops, name)
        if path in asked:
            raise SettingError(f'kernel setting "{name_of(path)}" is given twice')
        refusal = find_refusal(path.removeprefix(f"{ROOT}/"), value)
        if refusal is not None:
            raise SettingError(f"{name_of(path)} cannot be varied", detail=refusal.reason, hint=refusal.hint)
        asked[path] = value
    return asked


def _read(ops: Operations, path: str) -> str:
    if not ops.mode(path) & 0o444:
        raise SettingError(
            f"{name_of(path)} cannot be varied", detail="It can only be written, so its old value is unknown."
        )
    return read_setting(ops, path, name_of(path))


def _fitting(path: str, value: str, old: str) -> str:
    """The value as the kernel takes it. SettingError for the wrong number of numbers: it would set some of them."""
    if value in ("on", "off") and old.lstrip("-").isdigit():
        return "1" if value == "on" else "0"  # as TOML's true and false come here
    if _are_numbers(value) and _are_numbers(old) and len(value.split()) != len(old.split()):
        raise SettingError(
            f'{name_of(path)} cannot be set to "{value}"',
            detail=f"It holds {len(old.split())} numbers: {shown(old)}.",
            hint=f'Give all of them: "{shown(old)}".',
        )
    return value


def _are_numbers(value: str) -> bool:
    return bool(value.strip()) and all(word.lstrip("-").isdigit() for word in value.split())


def _is_zero(value: str) -> bool:
    return same_value(value, "0")


def _decide(pair: tuple[str, str], given: Mapping[str, str], old: Mapping[str, str]) -> dict[str, str]:
    """What both of an exclusive pair shall be; SettingError for what cannot be."""
    in_force = [path for path in pair if path in given and not _is_zero(given[path])]
    if len(in_force) == 2:
        ratio, absolute = map(name_of, pair)
        raise SettingError(
            f"{ratio} and {absolute} cannot both be set",
            detail="The kernel makes one of them 0 as soon as the other is set.",
            hint="Set one of the two, or one of them to 0.",
        )
    if in_force:
        return {path: given[path] if path in in_force else "0" for path in pair}
    if all(_is_zero(old[path]) for path in given):
        return {path: old[path] for path in pair}
    if len(given) == 1 and pair[1] in given:
        ratio, absolute = map(name_of, pair)
        raise SettingError(f"{absolute} cannot be 0 by itself", hint=f"Set {ratio}; that makes {absolute} 0.")
    return dict.fromkeys(pair, "0")


def _in_force_first(pair: tuple[str, str], values: Mapping[str, str]) -> dict[str, str]:
    """The order in which they are set: writing the one in force makes the other 0."""
    ratio, absolute = pair
    order = (absolute, ratio) if _is_zero(values[ratio]) else (ratio, absolute)
    return {path: values[path] for path in order}


def write_setting(ops: Operations, path: str, value: str) -> None:
    """Write a value; 0 for one that may not be written 0 by writing the other one of its pair, which comes next."""
    if path in _RATIO_OF and _is_zero(value):
        write_value(ops, _RATIO_OF[path], "1")
    else:
        write_value(ops, path, value)


def _hint(path: str) -> str:
    return HINTS.get(path.removeprefix(f"{ROOT}/"), "")


def _memory_group(context: KnobContext) -> str | None:
    """The one of the server's control groups that has a swappiness of its own; None where the machine's governs."""
    if not context.groups:
        return None
    for hierarchy in hierarchies(context.host.ops):
        if "memory" in hierarchy.controllers:
            inside = (group for group in context.groups if group.startswith(f"{hierarchy.mount}/"))
            return next(inside, None) if hierarchy.version == 1 else None
    return None


def _went_with_group(ops: Operations, path: str) -> bool:
    """Whether it is of a control group of pgtrial's own, which is removed when its server has stopped."""
    group, _, name = path.rpartition("/")
    return name == _OF_GROUP and is_own_group(group) and not ops.exists(group)


def _note(context: KnobContext, path: str) -> str:
    """What a person has to know before vm.swappiness is trusted: a control group of version 1 has its own."""
    if path != path_of(SWAPPINESS):
        return ""
    for line in context.host.ops.read("/proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        if "memory" in controllers.split(",") and group != "/":
            return f' (but not in "{group}")'
    return ""


def _is_name(text: str) -> bool:
    return text.isprintable() and any(form.fullmatch(text) for form in (_NAME, _PATH))


def find_file(ops: Operations, name: str) -> str:
    """The file of a setting. SettingError if there is none, with the nearest name that there is.

    As in sysctl(8), where the first separator is a dot, dots separate and slashes stand for dots, as in the name of a
    VLAN ("net.ipv4.conf.eth0/100.rp_filter"); else slashes separate. Dots in a part of a name are understood as well,
    where only one setting can be meant.
    """
    parts = path_of(standard_name(name)).removeprefix(f"{ROOT}/").split("/")
    if not parts or any(part in ("", ".", "..") or not part.isprintable() for part in parts):
        raise SettingError(f'"{name}" is not the name of a kernel setting', hint='Names are like "vm.swappiness".')
    path = "/".join((ROOT, *parts))
    if ops.is_directory(path):
        raise SettingError(f'"{name}" is a group of kernel settings, not one of them')
    if ops.exists(path):
        return path
    paths = _files(ops)
    meant = [each for each in paths if dotted(each.removeprefix(f"{ROOT}/")) == dotted(name)]
    if len(meant) == 1:
        return meant[0]
    raise SettingError(
        f'the kernel has no setting "{name}"',
        detail=f'There is no file "{path}".',
        hint=hint_name(name, [name_of(each) for each in paths]),
    )


def _files(ops: Operations) -> list[str]:
    found = {path for depth in range(1, _DEEPEST + 1) for path in ops.glob(ROOT + "/*" * depth)}
    directories = {path.rpartition("/")[0] for path in found}
    return sorted(found - directories)
