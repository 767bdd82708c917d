"""Huge pages that the kernel uses by itself: for ordinary memory, for shared memory, and how hard it tries."""

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field

from pgtrial.errors import SettingError
from pgtrial.hosts.base import Host
from pgtrial.knobs.base import HostKnob, KnobContext
from pgtrial.knobs.declaration import About, Acts, Among, EffectTiming, Lasting, Rule
from pgtrial.knobs.kernel_values import (
    apply_values,
    find_drift,
    read_choices,
    read_chosen,
    require_writable,
    undo_values,
)
from pgtrial.knobs.values import Table
from pgtrial.model.change import Change, JournalEntry, Undone
from pgtrial.nearest import hint_name

_TITLE = "transparent_hugepage"
_DIRECTORY = "/sys/kernel/mm/transparent_hugepage"
_FILES = {
    "enabled": f"{_DIRECTORY}/enabled",
    "defrag": f"{_DIRECTORY}/defrag",
    "shmem": f"{_DIRECTORY}/shmem_enabled",
}
# As soon as huge pages are used for anything, the kernel raises this reserve, and when they no longer are it computes
# it anew, but never below what somebody has once set (set_recommended_min_free_kbytes in mm/khugepaged.c). So it can be
# another one after all is as before, and is put back last.
_RESERVE = "/proc/sys/vm/min_free_kbytes"


class TransparentHugePagesTable(Table):
    """Huge pages that the kernel uses automatically."""

    enabled: Literal["always", "madvise", "never"] | None = Field(default=None, description="For ordinary memory.")
    defrag: Literal["always", "defer", "defer+madvise", "madvise", "never"] | None = Field(
        default=None, description="How hard the kernel tries to get them."
    )
    shmem: Literal["always", "within_size", "advise", "never", "deny", "force"] | None = Field(
        default=None, description="For shared memory (shmem_enabled)."
    )


class TransparentHugePages(HostKnob):
    """The items of a change are of _FILES and, where it matters, the kernel's reserve of free memory."""

    name = "transparent_huge_pages"
    about = About(
        sets="the files enabled, defrag and shmem_enabled of /sys/kernel/mm/transparent_hugepage. With enabled "
        "and shmem the kernel also adjusts vm.min_free_kbytes, which is part of their effect",
        takes_effect="at once, for memory touched afterwards",
        rights="root",
        verified="read back, and again at the end of the run",
        undone="the old choice is written back and read, and then the old vm.min_free_kbytes if it differs",
    )
    among_twins = Among.SWITCHED
    acts = (Acts(code="transparent-pages", metrics=("huge.transparent",), least=2.0 * 1024**2),)
    about_pages = True
    rules = (
        Rule(
            timing=EffectTiming.SECONDS,
            reason="holds for memory that is touched first after it; a server keeps the pages that it has",
            seconds=0.4,
        ),
    )
    # The kernel keeps more memory free where it may need huge pages (set_recommended_min_free_kbytes).
    facts = ("kernel/transparent_hugepage.*", "kernel/vm.min_free_kbytes")

    def make_last(self, values: Mapping[str, str]) -> Sequence[Lasting]:
        place = "/etc/tmpfiles.d/90-pgtrial.conf"
        lines = tuple(f"w {_FILES[name]} - - - - {value}" for name, value in values.items())
        return (Lasting(place=place, lines=lines, then=(f"systemd-tmpfiles --create {place}",)),)

    async def plan(self, context: KnobContext, wanted: Mapping[str, str]) -> Sequence[Change]:
        ops = context.host.ops
        if not ops.is_directory(_DIRECTORY):
            raise SettingError(
                "the kernel has no transparent huge pages", detail=f'There is no directory "{_DIRECTORY}".'
            )
        new = {_FILES[name]: value for name, value in wanted.items()}
        old = {}
        for name, value in wanted.items():
            path, title = _FILES[name], f"{_TITLE} {name}"
            choices = read_choices(ops, path) if ops.exists(path) else ()
            if value not in choices:
                raise SettingError(
                    f'the kernel does not know "{value}" for {title}', hint=hint_name(value, choices, what="It knows")
                )
            old[path] = read_chosen(ops, path)
            if old[path] != value:
                require_writable(ops, path, title)
        if new == old:
            return []
        change = Change(
            knob=self.name,
            name=f"{_TITLE} {', '.join(wanted)}",
            old=old if wanted.keys() == {"defrag"} else {**old, _RESERVE: read_chosen(ops, _RESERVE)},
            new=new,
            old_text=", ".join(old.values()),
            new_text=", ".join(new.values()),
        )
        return [change]

    async def apply(self, context: KnobContext, change: Change) -> Mapping[str, str]:
        return apply_values(context.host.ops, change, read=read_chosen)

    async def undo(self, host: Host, entry: JournalEntry) -> Undone:
        return undo_values(host, entry, read=read_chosen)

    async def still_applied(self, host: Host, entry: JournalEntry) -> str:
        return find_drift(host, entry, read=read_chosen)
