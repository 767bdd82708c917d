"""Advice for the checks of the machine: its CPUs, its memory and its devices."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pgtrial.analysis.causes.sessions import pooled_mean, rank_objects
from pgtrial.analysis.causes.words import join
from pgtrial.analysis.timeline import Timeline
from pgtrial.language import tr
from pgtrial.units import format_bytes, format_count, format_duration, format_percent

# What a check looked at, for the advice that follows from it.


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a check looked at: ``metric`` is its first series, ``about`` the device or error it is of."""

    timelines: tuple[Timeline, ...]
    metric: str
    about: str
    entries: tuple[str, ...] = ()  # of the log, in full

    def mean(self, metric: str, about: str = "") -> float | None:
        return pooled_mean(self.timelines, metric, about)

    def top(self, metric: str) -> tuple[tuple[str, float], ...]:
        return rank_objects(self.timelines, metric)


def say(*sentences: str) -> str:
    """One after the other; those that are "" are left out."""
    return " ".join(sentence for sentence in sentences if sentence)


_MUCH_OF_LOAD = 0.2  # share of the busy CPUs that the load generator may use before it matters
_WAL_WAITS = ("WALSync", "WALWrite", "WalSync", "WalWrite")  # by version, only two of them
_SLOW = 0.005  # s, response time of a device that keeps sessions waiting


def _cpu_busy(facts: Facts) -> str:
    user, kernel = facts.mean("vmstat.us") or 0.0, facts.mean("vmstat.sy") or 0.0
    seen = tr(
        "On average {user} of the CPUs' time is user time and {kernel} the kernel's.",
        user=format_percent(user),
        kernel=format_percent(kernel),
    )
    generator = ""
    cpus, used = facts.mean("vmstat.cpus"), facts.mean("pgbench.cpu")
    if cpus and used is not None and used > _MUCH_OF_LOAD * (user + kernel) * cpus:
        generator = tr(
            "The load generator itself uses {cpus} CPUs; on a machine of its own it would leave them to the server.",
            cpus=format_count(used),
        )
    if kernel > user:
        return say(seen, generator, tr("Most of it is spent in the kernel: see the check of that."))
    more = tr("Throughput grows with less work per transaction (see the statements with the most time) or more CPUs.")
    return say(seen, generator, more)


def _run_queue(facts: Facts) -> str:
    running, cpus = facts.mean("vmstat.r"), facts.mean("vmstat.cpus")
    if running is None or cpus is None:
        return ""
    return tr(
        "On average {tasks} tasks run or want to, on {cpus} CPUs. What is beyond the number of CPUs waits: more "
        "clients then add latency, not throughput. A connection pool limits them.",
        tasks=format_count(running),
        cpus=format_count(cpus),
    )


def _kernel_time(facts: Facts) -> str:
    switches, faults = facts.mean("vmstat.cs"), facts.mean("reclaim.major")
    seen = []
    if switches is not None:
        seen.append(tr("{number} context switches per second", number=format_count(switches)))
    if faults:
        seen.append(tr("{number} page faults from disk per second", number=format_count(faults)))
    return say(
        tr("Beside it are {seen}.", seen=join(seen)) if seen else "",
        tr(
            "Many switches speak for sessions that wake each other (locks, LWLocks, a client that answers at once), "
            "much reading through the page cache for a larger shared_buffers, large shared_buffers for huge pages."
        ),
    )


def _io_wait(facts: Facts) -> str:
    events = [name for name, _ in facts.top("wait.IO")[:2]]
    return say(
        tr("Sessions wait mostly for {events}.", events=join(events)) if events else "",
        tr(
            "This is idle time: CPUs that had nothing else to do. It shrinks as soon as the CPUs are busy, so it "
            "measures no disk; the devices' response times do."
        ),
    )


def _blocked(facts: Facts) -> str:
    blocked = facts.mean("vmstat.b")
    devices = [(name, seconds) for name, seconds in facts.top("iostat.w_await") if seconds > _SLOW][:1]
    if blocked:
        seen = tr(
            "On average {tasks} tasks cannot run before something is done for them, mostly by a device.",
            tasks=format_count(blocked),
        )
    else:
        seen = tr("Mostly they wait for a device.")
    return say(
        seen,
        *(
            tr("A write to {device} takes {time}.", device=name, time=format_duration(seconds))
            for name, seconds in devices
        ),
        tr("See the devices' response times, and whether the kernel slows down writers (dirty pages)."),
    )


def _trend(_: Facts) -> str:
    return tr(
        "It keeps changing while the load stays the same, so the time measured is no steady state: the tables grow, "
        "dirty pages or bloat build up, a cache fills. A longer warm-up or duration shows where it ends."
    )


def _available_memory(facts: Facts) -> str:
    available = facts.mean("vmstat.available")
    seen = ""
    if available is not None:
        seen = tr("On average {bytes} can be had without swapping.", bytes=format_bytes(available))
    return say(
        seen,
        tr(
            "The page cache is counted as available, so this is memory that programs hold. Less shared_buffers, "
            "work_mem or sessions, or huge pages, which save page tables when there are many sessions."
        ),
    )


def _swap(facts: Facts) -> str:
    swapped, pressure = facts.mean("vmstat.swpd"), facts.mean("psi.memory")
    if facts.metric == "vmstat.so":
        meaning = tr("The kernel makes room by it for programs or for the page cache; which, vm.swappiness decides.")
    else:
        meaning = tr("Somebody waits for each page that comes back from there.")
    waited = ""
    if pressure is not None:
        waited = tr("Tasks waited for memory in {share} of the time.", share=format_percent(pressure))
    return say(
        tr("{bytes} lie in swap on average.", bytes=format_bytes(swapped)) if swapped is not None else "",
        meaning,
        waited,
        tr("It is harmless where it stays rare; if not, something needs less memory, or there has to be more."),
    )


def _memory_pressure(facts: Facts) -> str:
    refaults = facts.mean("reclaim.refault")
    seen = ""
    if refaults:
        seen = tr(
            "{pages} pages per second came back that had just been thrown out.",
            pages=format_count(refaults),
        )
    return say(
        seen,
        tr(
            "What is worked on does not fit into memory: smaller shared_buffers or work_mem, fewer sessions, more of "
            "it."
        ),
    )


def _direct_reclaim(facts: Facts) -> str:
    scanned = facts.mean("reclaim.direct")
    seen = ""
    if scanned:
        seen = tr(
            "Tasks that wanted memory looked through {pages} pages per second for it.",
            pages=format_count(scanned),
        )
    return say(
        seen,
        tr(
            "The kernel's own thread frees too little ahead of time; a larger vm.min_free_kbytes or "
            "vm.watermark_scale_factor lets it begin earlier, and memory that nobody has to free helps most."
        ),
    )


def _reclaim_writing(facts: Facts) -> str:
    dirty = facts.mean("dirty.bytes")
    seen = ""
    if dirty is not None:
        seen = tr("On average {bytes} of dirty pages are in memory.", bytes=format_bytes(dirty))
    return say(
        seen,
        tr(
            "Memory is short, and what could be freed has to be written first: tasks that want memory sleep until the "
            "device has done that. A lower vm.dirty_background_bytes has pages written before; less memory in use, or "
            "more of it, ends it."
        ),
    )


def _dirty(facts: Facts) -> str:
    dirty, limit = facts.mean("dirty.bytes"), facts.mean("dirty.threshold")
    seen = ""
    if dirty is not None and limit is not None:
        seen = tr(
            "On average {dirty} wait to be written, of {limit} at which writers stop.",
            dirty=format_bytes(dirty),
            limit=format_bytes(limit),
        )
    return say(
        seen,
        tr(
            "Data come faster than the device takes them. checkpoint_flush_after, backend_flush_after and a lower "
            "vm.dirty_background_bytes make the kernel begin earlier; a faster device or fewer writes end it."
        ),
    )


def _background_writing(_: Facts) -> str:
    return tr(
        "The kernel writes in the background, as it should. That alone is no problem: it is one when writers are "
        "slowed down or the device's response time rises."
    )


def _device_busy(facts: Facts) -> str:
    return say(
        _device(facts),
        tr(
            "Busy means that at least one request was at work. A single disk is full at 100 %; an NVMe device, an "
            "array or a network volume, which serves many at once, may be far from it: look for a plateau of requests "
            "or bytes."
        ),
    )


def _read_response(facts: Facts) -> str:
    waiting = facts.mean("wait.IO", "DataFileRead")
    return say(
        _device(facts),
        tr("On average {sessions} sessions wait for a read.", sessions=format_count(waiting)) if waiting else "",
        tr(
            "Fewer reads (shared_buffers, page cache, indexes) or a faster device; read-ahead makes single reads "
            "longer."
        ),
    )


def _write_response(facts: Facts) -> str:
    # With wal_sync_method = open_datasync the write itself is the flush; most sessions wait for the one that does it.
    waits = [("wait.IO", name) for name in _WAL_WAITS] + [("wait.LWLock", "WALWrite")]
    commits = sum(facts.mean(metric, name) or 0.0 for metric, name in waits)
    if commits:
        meaning = tr(
            "On average {sessions} sessions wait for the WAL to be safe there. Put the WAL on a device of its own, or "
            "look at what else writes at these times (checkpoints).",
            sessions=format_count(commits),
        )
    else:
        meaning = tr(
            "Nobody waits for a commit there, so the writes are in the background; they matter if they slow down reads."
        )
    return say(_device(facts), meaning)


def _device_queue(facts: Facts) -> str:
    return say(
        _device(facts),
        tr(
            "More than one at a time is normal where several sessions or a checkpoint use the device; it is too much "
            "when the response time grows with it and the number of requests per second does not."
        ),
    )


def _device(facts: Facts) -> str:
    """What a device does, in one sentence."""
    requests, amount = facts.mean("iostat.iops", facts.about), facts.mean("iostat.bytes", facts.about)
    if requests is None or amount is None:
        return ""
    seen = {"device": facts.about, "requests": format_count(requests), "bytes": format_bytes(amount)}
    slow = []
    if (seconds := facts.mean("iostat.r_await", facts.about)) is not None:
        slow.append(tr("{time} for a read", time=format_duration(seconds)))
    if (seconds := facts.mean("iostat.w_await", facts.about)) is not None:
        slow.append(tr("{time} for a write", time=format_duration(seconds)))
    if not slow:
        return tr("{device} does {requests} requests and {bytes} per second.", **seen)
    return tr("{device} does {requests} requests and {bytes} per second, with {times}.", **seen, times=join(slow))


MACHINE_ADVICE: Mapping[str, Callable[[Facts], str]] = {
    "cpu-busy": _cpu_busy,
    "run-queue": _run_queue,
    "kernel-time": _kernel_time,
    "io-wait": _io_wait,
    "blocked": _blocked,
    "run-queue-trend": _trend,
    "blocked-trend": _trend,
    "io-wait-trend": _trend,
    "idle-trend": _trend,
    "available-memory": _available_memory,
    "swap-in": _swap,
    "swap-out": _swap,
    "memory-pressure": _memory_pressure,
    "direct-reclaim": _direct_reclaim,
    "reclaim-writing": _reclaim_writing,
    "dirty-pages": _dirty,
    "background-writing": _background_writing,
    "throttled-writers": _dirty,
    "device-busy": _device_busy,
    "read-response": _read_response,
    "write-response": _write_response,
    "device-queue": _device_queue,
}
