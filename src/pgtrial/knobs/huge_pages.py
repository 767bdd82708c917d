"""Explicit huge pages for the server's shared memory: the kernel's pool, as large as the server needs.

PostgreSQL maps them with MAP_HUGETLB, for which a process needs neither a group (vm.hugetlb_shm_group is for System V
shared memory) nor a limit of locked memory. Source: the kernel's Documentation/admin-guide/mm/hugetlbpage.rst.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pydantic import Field

from pgtrial.errors import HostCommandError, SettingError
from pgtrial.hosts.base import Host
from pgtrial.hosts.linux.control_groups import smallest_limit
from pgtrial.hosts.operations import Operations
from pgtrial.knobs.base import HostKnob, KnobContext
from pgtrial.knobs.declaration import About, Among, EffectTiming, Lasting, OwnSettings, Rule, Shared
from pgtrial.knobs.kernel_values import require_writable
from pgtrial.knobs.memory_pressure import available_memory
from pgtrial.knobs.postgresql import HUGE_PAGES, in_psql
from pgtrial.knobs.values import Table
from pgtrial.model.change import Change, JournalEntry, Outcome, Undone
from pgtrial.units import format_bytes

_POOLS = "/sys/kernel/mm/hugepages"
_NODES = "/sys/devices/system/node"
_COMPACT = "/proc/sys/vm/compact_memory"
_SIZES = {"2MB": 2 << 20, "1GB": 1 << 30}
_MOST_AT_ONCE = 4 << 30  # bytes
_PATIENCE = 5.0  # seconds, for a server that has just been killed to give its pages back
_STEP = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pool:
    """The pages of one size. Surplus pages are those beyond the size of the pool, there until nobody uses them."""

    ops: Operations
    directory: str

    @property
    def path(self) -> str:
        return f"{self.directory}/nr_hugepages"

    @property
    def page_size(self) -> int:
        return int(self.directory.rpartition("-")[2].removesuffix("kB")) * 1024

    def count(self, kind: str) -> int:
        return int(self.ops.read(f"{self.directory}/{kind}_hugepages"))

    def by_node(self) -> dict[str, int]:
        """File to number of pages of each memory node; {} where there are not several."""
        name = self.directory.rpartition("/")[2]
        found = self.ops.read_all([f"{_NODES}/node[0-9]*/hugepages/{name}/nr_hugepages"])
        return {path: int(text) for path, text in found.items()} if len(found) > 1 else {}

    def read(self) -> tuple[int, int]:
        """All pages, and how many of them are surplus, at one moment: a server that ends gives some back in between."""
        while True:
            total, surplus = self.count("nr"), self.count("surplus")
            if self.count("nr") == total:
                return total, surplus

    def size(self) -> int:
        """What was last written, as far as the kernel could: nr_hugepages itself counts surplus pages as well."""
        total, surplus = self.read()
        return total - surplus


class HugePagesTable(Table):
    """Explicit huge pages for the server's shared memory; sets huge_pages and huge_page_size."""

    size: Literal["none", "2MB", "1GB"] = Field(
        description="Page size; the pool is made as large as the server needs, and released afterwards. none: no "
        "huge pages."
    )


class HugePages(HostKnob):
    name = "huge_pages"
    about = About(
        sets="the kernel's pool of huge pages, enlarged by what the server needs beyond the free ones; "
        "huge_pages and huge_page_size of the server",
        takes_effect="at the start of the server",
        rights="root",
        verified="the kernel's count of pages; with huge_pages = on the server does not start without them",
        undone="the pool gets its old size, on each memory node (NUMA), once the ended server has released its pages",
    )
    acts = (replace(HUGE_PAGES, patterns=("*",)),)
    about_pages = True
    # Servers start one after the other, and each pool is on top of the pages that those before it have mapped.
    among_twins = Among.OWN
    rules = (
        Rule(
            timing=EffectTiming.AT_ONCE,
            reason="is mapped as the server starts, from pages for which the kernel may drop what is cached of any arm",
            shares=(Shared.MEMORY,),
        ),
    )
    facts = ("kernel/huge pages of *", "kernel/vm.nr_hugepages")
    not_on_server = "the server would have to be started with a pool of huge pages made for it"
    needs_server = True
    own_settings = (
        OwnSettings(
            key="size",
            settings=("huge_pages", "huge_page_size"),
            hint="The table huge_pages sets it. Remove one of the two.",
            shown=("huge_pages_status",),
        ),
    )

    def make_last(self, values: Mapping[str, str]) -> Sequence[Lasting]:
        size = values["size"]
        if size == "none":
            return (in_psql({"huge_pages": "off"}),)
        count = 'PAGES: what "postgres -D DATA -C shared_memory_size_in_huge_pages" prints while the server is stopped'
        if size == "2MB":
            pool = Lasting(
                place="/etc/sysctl.d/90-pgtrial.conf",
                lines=(f"# {count}", "vm.nr_hugepages = PAGES"),
                then=("sysctl --system",),
            )
        else:
            pool = Lasting(
                place="the kernel's command line",
                lines=(f"# {count}", "hugepagesz=1G hugepages=PAGES"),
                then=("reboot",),
            )
        return (pool, in_psql({"huge_pages": "on", "huge_page_size": size}))

    async def plan(self, context: KnobContext, wanted: Mapping[str, str]) -> Sequence[Change]:
        size = wanted["size"]
        if size == "none":
            return ()
        pool = _find_pool(context.host.ops, size)
        total, surplus = pool.read()
        name, old_text = f"pool of {size} pages", f"{total - surplus} pages"
        require_writable(pool.ops, pool.path, f"the {name}")
        if context.data is None:
            new_text = "as many as the server needs"
            return (Change(knob=self.name, name=name, old={}, new={}, old_text=old_text, new_text=new_text),)
        needed = await _needed(context, size)
        _check_control_group(pool.ops, size, needed)
        short = needed - (pool.count("free") - pool.count("resv"))
        if short <= 0:
            return ()
        available = available_memory(pool.ops)
        if short * _SIZES[size] > available:
            raise SettingError(
                f"the server needs {short} more huge pages of {size}, "
                f"but only {format_bytes(available)} of memory are available",
                detail=f"That is {format_bytes(short * _SIZES[size])}. The server's shared memory is {needed} pages.",
                hint="Make shared_buffers smaller, or stop other programs that use memory.",
            )
        # A pool that grows takes surplus pages into it first, which are in use; hence on top of all there are.
        return (
            Change(
                knob=self.name,
                name=name,
                old={
                    pool.path: str(total - surplus),
                    f"{pool.directory}/surplus_hugepages": str(surplus),
                    **{path: str(count) for path, count in pool.by_node().items()},
                },
                new={pool.path: str(total + short)},
                old_text=old_text,
                new_text=f"{total + short} pages",
            ),
        )

    async def apply(self, context: KnobContext, change: Change) -> Mapping[str, str]:
        ((path, text),) = change.new.items()
        pool, wanted = _pool_at(context.host.ops, path), int(text)
        try:
            got = await _grow(pool, wanted)
            if got < wanted:
                # Enough memory may be free, but in pieces that are too small. Moving pages together has no lasting
                # effect: there is nothing to put back.
                if pool.ops.is_writable(_COMPACT):
                    pool.ops.write(_COMPACT, "1")
                got = await _grow(pool, wanted)
            if got < wanted:
                pool.ops.write(path, change.old[path])
        except PermissionError as err:
            raise SettingError(
                f'cannot change "{path}"', detail=f"{err.strerror}.", hint="Run pgtrial as root."
            ) from err
        except OSError as err:
            raise SettingError(f'cannot write {text} to "{path}"', detail=f"{err.strerror}.") from err
        if got < wanted:
            raise SettingError(
                f"{change.name}: asked for {wanted} pages, got {got}",
                detail="It found no more memory in one piece; the pool has its old size again.",
                hint="Reboot the machine and try again soon after, or reserve the pages at boot with the kernel's "
                "parameters hugepagesz= and hugepages=.",
            )
        return {path: str(got)}

    async def undo(self, host: Host, entry: JournalEntry) -> Undone:
        change = entry.change
        ((path, _),) = change.new.items()
        pool, old = _pool_at(host.ops, path), int(change.old[path])
        outcome = Outcome.ALREADY
        try:
            now = pool.size()
            if host.ops.boot_id() != entry.boot_id:
                if now == old:
                    return Undone(outcome=outcome)
                return Undone(outcome=Outcome.REBOOTED, text=f"The {change.name} has {now} since the reboot.")
            if now != old:
                if entry.got is not None and now != int(entry.got[path]):
                    return Undone(
                        outcome=Outcome.CHANGED,
                        text=f"The {change.name} had {change.old_text}, pgtrial made it {change.new_text}, "
                        f"and it has {now} now; left as it is.",
                    )
                pool.ops.write(path, str(old))
                outcome, now = Outcome.RESTORED, pool.size()
            if now != old:
                return Undone(
                    outcome=Outcome.FAILED, text=f"The {change.name} has {now}, not {change.old_text} as before."
                )
            in_use = await _wait_for_surplus(pool, int(change.old[f"{pool.directory}/surplus_hugepages"]))
        except OSError as err:
            return Undone(outcome=Outcome.FAILED, text=f'"{path}": {err.strerror}.')
        if in_use:
            return Undone(
                outcome=Outcome.FAILED,
                text=f"The {change.name} has its old size, but {in_use} pages beyond it are still in use.",
            )
        try:
            moved = _put_back_nodes(pool, change.old)
        except OSError as err:
            return Undone(outcome=Outcome.FAILED, text=f'"{err.filename or path}": {err.strerror}.')
        if moved:
            outcome = Outcome.RESTORED
        return Undone(outcome=outcome, text=_tell_nodes(pool, change) if moved else "")

    async def still_applied(self, host: Host, entry: JournalEntry) -> str:
        assert entry.got is not None  # asked of what was applied
        ((path, got),) = entry.got.items()
        now = _pool_at(host.ops, path).size()
        return "" if now == int(got) else f"The {entry.change.name} was made {got} pages and has {now} now."

    def settings(self, wanted: Mapping[str, str]) -> Mapping[str, str]:
        if wanted["size"] == "none":
            return {"huge_pages": "off"}
        return {"huge_pages": "on", "huge_page_size": wanted["size"]}


def _pool_at(ops: Operations, path: str) -> _Pool:
    """The pool whose nr_hugepages this is."""
    return _Pool(ops=ops, directory=path.rpartition("/")[0])


def _find_pool(ops: Operations, size: str) -> _Pool:
    directory = f"{_POOLS}/hugepages-{_SIZES[size] // 1024}kB"
    if not ops.is_directory(directory):
        sizes = [path.rpartition("-")[2] for path in ops.glob(f"{_POOLS}/hugepages-*")]
        raise SettingError(
            f"this machine has no huge pages of {size}",
            detail=f"Its processor and kernel offer: {', '.join(sizes) or 'none'}.",
        )
    return _Pool(ops=ops, directory=directory)


async def _needed(context: KnobContext, size: str) -> int:
    """Huge pages that the server will ask for, in its own words; it must not be running."""
    assert context.programs is not None  # known as soon as there are data
    assert context.data is not None
    try:
        completed = await context.host.run(
            [
                context.programs.path("postgres"),
                *("-D", context.data, "-C", "shared_memory_size_in_huge_pages", "-c", f"huge_page_size={size}"),
                *([] if context.conf is None else ["-c", f"config_file={context.conf}"]),
            ],
            account=context.account,
            directory=Path(context.directory),
        )
    except HostCommandError as err:
        raise SettingError(
            f"the server does not say how many huge pages of {size} it needs", detail=err.detail
        ) from err
    needed = int(completed.stdout)
    if needed < 0:
        raise SettingError(f"PostgreSQL {context.programs.version} knows no huge pages on this machine")
    return needed


def _check_control_group(ops: Operations, size: str, needed: int) -> None:
    """Raise SettingError if our control group, which the server inherits, may not use so many."""
    limit = smallest_limit(
        ops,
        "hugetlb",
        [f"hugetlb.{size}.{name}" for name in ("max", "rsvd.max", "limit_in_bytes", "rsvd.limit_in_bytes")],
    )
    if limit is not None and limit[1] < needed * _SIZES[size]:
        raise SettingError(
            f"the server needs {format_bytes(needed * _SIZES[size])} of huge pages, "
            f"and its control group allows {format_bytes(limit[1])}",
            detail=f'The limit is "{limit[0]}".',
        )


def _put_back_nodes(pool: _Pool, old: Mapping[str, str]) -> bool:
    """Give each memory node as many pages as before; whether one had others.

    The kernel adds pages where it finds memory, and takes them in turn from all nodes that have free ones
    (remove_pool_hugetlb_folio in mm/hugetlb.c), so a pool of the old size may lie on other nodes. Nodes that lack pages
    come first, and only so many are taken from the others: the pool never becomes smaller than it was. Where there are
    surplus pages nothing is done: they count, and are somebody else's.
    """
    if pool.count("surplus") or int(old[f"{pool.directory}/surplus_hugepages"]):
        return False
    wanted = {path: int(old[path]) for path in pool.by_node() if path in old}
    now = {path: count for path, count in pool.by_node().items() if path in wanted}
    if now == wanted:
        return False
    for path, count in wanted.items():
        if now[path] < count:
            pool.ops.write(path, str(count))
    now = {path: count for path, count in pool.by_node().items() if path in wanted}
    beyond = sum(now.values()) - sum(wanted.values())
    for path, count in wanted.items():
        taken = min(now[path] - count, beyond)
        if taken > 0:
            pool.ops.write(path, str(now[path] - taken))
            beyond -= taken
    return True


def _tell_nodes(pool: _Pool, change: Change) -> str:
    """Which memory nodes have other numbers of pages than before, "" if none."""
    differing = [
        f"{path.split('/')[5]} has {count}, not {change.old[path]}"
        for path, count in pool.by_node().items()
        if path in change.old and str(count) != change.old[path]
    ]
    return f"The {change.name} has its old size, but {', '.join(differing)} as before." if differing else ""


async def _grow(pool: _Pool, wanted: int) -> int:
    """Make the pool as large as ``wanted``, or as the kernel can; its size then. In steps, for each holds us up."""
    import asyncio

    size = pool.size()
    while size < wanted:
        target = min(wanted, size + max(1, _MOST_AT_ONCE // pool.page_size))
        pool.ops.write(pool.path, str(target))
        size = pool.size()
        if size < target:
            break
        await asyncio.sleep(0)
    return size


async def _wait_for_surplus(pool: _Pool, old: int) -> int:
    """How many pages beyond the pool, and beyond those of before, are still in use after a bounded wait."""
    import asyncio

    if int(pool.ops.read(f"{pool.directory}/nr_overcommit_hugepages")):
        return 0  # programs may take pages beyond the pool here: whose these are cannot be told
    for _ in range(round(_PATIENCE / _STEP)):
        if pool.count("surplus") <= old:
            return 0
        await asyncio.sleep(_STEP)
    return pool.count("surplus") - old
