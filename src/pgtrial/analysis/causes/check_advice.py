"""Advice for a check that is not ok: what was seen beside it, then what follows from that.

A check alone says that something is large, not that it limits the load; so each text names the evidence that would.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pgtrial.analysis.causes.cells import pooled_mean, rank_objects
from pgtrial.analysis.causes.wait_advice import explain_event
from pgtrial.analysis.timeline import Timeline
from pgtrial.units import format_bytes, format_count, format_duration, format_percent

_MUCH_OF_LOAD = 0.2  # share of the busy CPUs that the load generator may use before it matters
_SLOW = 0.005  # s, response time of a device that keeps sessions waiting


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


def advise(check: str, facts: Facts) -> str:
    """Text for a check by its id; one that has no text of its own gets none."""
    write = _ADVICE.get(check)
    return write(facts) if write is not None else ""


def _cpu_busy(facts: Facts) -> str:
    user, kernel = facts.mean("vmstat.us") or 0.0, facts.mean("vmstat.sy") or 0.0
    text = (
        f"On average {format_percent(user)} of the CPUs' time is user time and {format_percent(kernel)} the kernel's. "
    )
    cpus, generator = facts.mean("vmstat.cpus"), facts.mean("pgbench.cpu")
    if cpus and generator is not None and generator > _MUCH_OF_LOAD * (user + kernel) * cpus:
        text += (
            f"The load generator itself uses {format_count(generator)} CPUs; on a machine of its own it would leave "
            "them to the server. "
        )
    if kernel > user:
        return text + "Most of it is spent in the kernel: see the check of that."
    return (
        text + "Throughput grows with less work per transaction (see the statements with the most time) or more CPUs."
    )


def _run_queue(facts: Facts) -> str:
    running, cpus = facts.mean("vmstat.r"), facts.mean("vmstat.cpus")
    if running is None or cpus is None:
        return ""
    return (
        f"On average {format_count(running)} tasks run or want to, on {format_count(cpus)} CPUs. What is beyond the "
        "number of CPUs waits: more clients then add latency, not throughput. A connection pool limits them."
    )


def _kernel_time(facts: Facts) -> str:
    switches, faults = facts.mean("vmstat.cs"), facts.mean("reclaim.major")
    seen = [f"{format_count(switches)} context switches per second"] if switches is not None else []
    seen += [f"{format_count(faults)} page faults from disk per second"] if faults else []
    text = f"Beside it are {' and '.join(seen)}. " if seen else ""
    return (
        text + "Many switches speak for sessions that wake each other (locks, LWLocks, a client that answers at once), "
        "much reading through the page cache for a larger shared_buffers, large shared_buffers for huge pages."
    )


def _io_wait(facts: Facts) -> str:
    events = [name for name, _ in facts.top("wait.IO")[:2]]
    text = f"Sessions wait mostly for {' and '.join(events)}. " if events else ""
    return (
        text + "This is idle time: CPUs that had nothing else to do. It shrinks as soon as the CPUs are busy, so it "
        "measures no disk; the devices' response times do."
    )


def _blocked(facts: Facts) -> str:
    blocked = facts.mean("vmstat.b")
    devices = [(name, seconds) for name, seconds in facts.top("iostat.w_await") if seconds > _SLOW][:1]
    text = f"On average {format_count(blocked)} tasks cannot run before something is done for them" if blocked else ""
    text += ", mostly by a device. " if text else "Mostly they wait for a device. "
    for name, seconds in devices:
        text += f"A write to {name} takes {format_duration(seconds)}. "
    return text + "See the devices' response times, and whether the kernel slows down writers (dirty pages)."


def _trend(facts: Facts) -> str:
    return (
        "It keeps changing while the load stays the same, so the time measured is no steady state: the tables grow, "
        "dirty pages or bloat build up, a cache fills. A longer warm-up or duration shows where it ends."
    )


def _available_memory(facts: Facts) -> str:
    available = facts.mean("vmstat.available")
    text = f"On average {format_bytes(available)} can be had without swapping. " if available is not None else ""
    return (
        text + "The page cache is counted as available, so this is memory that programs hold. Less shared_buffers, "
        "work_mem or sessions, or huge pages, which save page tables when there are many sessions."
    )


def _swap(facts: Facts) -> str:
    swapped, pressure = facts.mean("vmstat.swpd"), facts.mean("psi.memory")
    text = f"{format_bytes(swapped)} lie in swap on average. " if swapped is not None else ""
    if facts.metric == "vmstat.so":
        text += "The kernel makes room by it for programs or for the page cache; which, vm.swappiness decides. "
    else:
        text += "Somebody waits for each page that comes back from there. "
    if pressure is not None:
        text += f"Tasks waited for memory in {format_percent(pressure)} of the time. "
    return text + "It is harmless where it stays rare; if not, something needs less memory, or there has to be more."


def _memory_pressure(facts: Facts) -> str:
    refaults = facts.mean("reclaim.refault")
    text = f"{format_count(refaults)} pages per second came back that had just been thrown out. " if refaults else ""
    return (
        text
        + "What is worked on does not fit into memory: smaller shared_buffers or work_mem, fewer sessions, more of it."
    )


def _direct_reclaim(facts: Facts) -> str:
    scanned = facts.mean("reclaim.direct")
    text = (
        f"Tasks that wanted memory looked through {format_count(scanned)} pages per second for it. " if scanned else ""
    )
    return (
        text + "The kernel's own thread frees too little ahead of time; a larger vm.min_free_kbytes or "
        "vm.watermark_scale_factor lets it begin earlier, and memory that nobody has to free helps most."
    )


def _dirty(facts: Facts) -> str:
    dirty, limit = facts.mean("dirty.bytes"), facts.mean("dirty.threshold")
    text = ""
    if dirty is not None and limit is not None:
        text = f"On average {format_bytes(dirty)} wait to be written, of {format_bytes(limit)} at which writers stop. "
    return (
        text + "Data come faster than the device takes them. checkpoint_flush_after, backend_flush_after and a "
        "lower vm.dirty_background_bytes make the kernel begin earlier; a faster device or fewer writes end it."
    )


def _background_writing(facts: Facts) -> str:
    return (
        "The kernel writes in the background, as it should. That alone is no problem: it is one when writers are "
        "slowed down or the device's response time rises."
    )


def _device_busy(facts: Facts) -> str:
    return _device(facts) + (
        "Busy means that at least one request was at work. A single disk is full at 100 %; an NVMe device, an array or "
        "a network volume, which serves many at once, may be far from it: look for a plateau of requests or bytes."
    )


def _read_response(facts: Facts) -> str:
    waiting = facts.mean("wait.IO", "DataFileRead")
    text = _device(facts)
    if waiting:
        text += f"On average {format_count(waiting)} sessions wait for a read. "
    return (
        text
        + "Fewer reads (shared_buffers, page cache, indexes) or a faster device; read-ahead makes single reads longer."
    )


def _write_response(facts: Facts) -> str:
    commits = max((facts.mean("wait.IO", name) or 0.0 for name in ("WALSync", "WalSync")), default=0.0)
    text = _device(facts)
    if commits:
        return text + (
            f"On average {format_count(commits)} sessions wait for the WAL to be safe there. Put the WAL on a device "
            "of its own, or look at what else writes at these times (checkpoints)."
        )
    return (
        text
        + "Nobody waits for a commit there, so the writes are in the background; they matter if they slow down reads."
    )


def _device_queue(facts: Facts) -> str:
    return _device(facts) + (
        "More than one at a time is normal where several sessions or a checkpoint use the device; it is too much when "
        "the response time grows with it and the number of requests per second does not."
    )


def _device(facts: Facts) -> str:
    """What a device does, in one sentence."""
    requests, amount = facts.mean("iostat.iops", facts.about), facts.mean("iostat.bytes", facts.about)
    if requests is None or amount is None:
        return ""
    seen = f"{format_count(requests)} requests and {format_bytes(amount)} per second"
    slow = [
        f"{format_duration(seconds)} for a {what}"
        for what, metric in (("read", "iostat.r_await"), ("write", "iostat.w_await"))
        if (seconds := facts.mean(metric, facts.about)) is not None
    ]
    return f"{facts.about} does {seen}" + (f", with {' and '.join(slow)}" if slow else "") + ". "


def _hit_ratio(facts: Facts) -> str:
    reads, from_disk = facts.mean("db.read"), [rate for _, rate in facts.top("iostat.r")]
    text = f"{format_count(reads)} blocks per second are read into shared_buffers. " if reads is not None else ""
    if reads and from_disk and sum(from_disk) < reads / 10:
        return text + (
            f"The devices see only {format_count(sum(from_disk))} reads per second, so the page cache has them: a "
            "larger shared_buffers saves CPU time, not disk reads."
        )
    return text + (
        "A larger shared_buffers helps if what is used often would fit; reading large tables once in a while makes a "
        "low ratio that no cache mends."
    )


def _backend_writes(facts: Facts) -> str:
    return (
        "Sessions write out buffers themselves before they can use them. Bulk loads, VACUUM and growing tables do that "
        "by design; for others a larger shared_buffers or a background writer that does more (bgwriter_lru_maxpages, "
        "bgwriter_delay) takes it from them."
    )


def _requested_checkpoints(facts: Facts) -> str:
    wal = facts.mean("wal.bytes")
    text = f"{format_bytes(wal)} of WAL per second fill max_wal_size before checkpoint_timeout. " if wal else ""
    return text + (
        "Each checkpoint makes the next change of every page write it in full, so more checkpoints make more WAL. A "
        "larger max_wal_size spaces them out; recovery after a crash then takes longer."
    )


def _autovacuum_workers(facts: Facts) -> str:
    return (
        "All workers are busy, so tables wait for their turn. More speed for each (autovacuum_vacuum_cost_limit, which "
        "all workers share, or a lower cost_delay) usually does more than more workers."
    )


def _temporary_files(facts: Facts) -> str:
    waiting = sum(facts.mean("wait.IO", name) or 0.0 for name in ("BufFileRead", "BufFileWrite", "BufferFileRead"))
    text = f"On average {format_count(waiting)} sessions wait for them. " if waiting else ""
    return (
        text + "Sorts, hashes or CTEs do not fit into work_mem (times hash_mem_multiplier). The statements that write "
        "them are in the log (log_temp_files); a larger work_mem for those alone costs less memory than one for all."
    )


def _deadlocks(facts: Facts) -> str:
    return (
        "Each ends a transaction after deadlock_timeout of waiting. Take locks in the same order everywhere; the log "
        "names both statements."
    )


def _log_errors(facts: Facts) -> str:
    quoted = f"The first: {facts.entries[0]}" if facts.entries else ""
    return f"A transaction that fails has done other work than one that counts. {quoted}".strip()


def _wait(facts: Facts) -> str:
    wait_type = facts.metric.partition(".")[2]
    events, whole = facts.top(f"wait.{wait_type}"), facts.mean(facts.metric) or 0.0
    text = f"{format_count(whole)} sessions wait for it on average"
    if not events or not whole:
        return f"{text}. {explain_event(wait_type, '')}"
    event, sessions = events[0]
    return (
        f"{text}, {format_percent(min(1.0, sessions / whole))} of them for {event}. {explain_event(wait_type, event)}"
    )


_ADVICE: Mapping[str, Callable[[Facts], str]] = {
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
    "dirty-pages": _dirty,
    "background-writing": _background_writing,
    "throttled-writers": _dirty,
    "device-busy": _device_busy,
    "read-response": _read_response,
    "write-response": _write_response,
    "device-queue": _device_queue,
    "hit-ratio": _hit_ratio,
    "backend-writes": _backend_writes,
    "requested-checkpoints": _requested_checkpoints,
    "autovacuum-workers": _autovacuum_workers,
    "temporary-files": _temporary_files,
    "deadlocks": _deadlocks,
    "log-errors": _log_errors,
    "wait-bufferpin": _wait,
    "wait-extension": _wait,
    "wait-io": _wait,
    "wait-ipc": _wait,
    "wait-lock": _wait,
    "wait-lwlock": _wait,
    "wait-timeout": _wait,
}
