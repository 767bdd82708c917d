"""Rules that choose the advice for a check that is not ok; its words stand in findings/catalogue/advice.py."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from pgtrial.analysis.causes.sessions import pooled_mean, rank_objects
from pgtrial.analysis.timelines.timeline import Timeline
from pgtrial.findings.message import Message, is_known, message

_MUCH_OF_LOAD = 0.2  # share of the busy CPUs that the load generator may use before it matters
_SLOW = 0.005  # s, response time of a device that keeps sessions waiting
_FROM_DISK = 0.1  # of the blocks that are read; below it the page cache has them
_SPILLS = ("BufFileRead", "BufFileWrite", "BufferFileRead")
# By version, only two of the first four. With wal_sync_method = open_datasync the write itself is the flush; most
# sessions wait for the one that does it.
_WAL_WAITS = (
    ("wait.IO", "WALSync"),
    ("wait.IO", "WALWrite"),
    ("wait.IO", "WalSync"),
    ("wait.IO", "WalWrite"),
    ("wait.LWLock", "WALWrite"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckContext:
    """What a check looked at: ``metric`` is its first series, ``about`` the device or error it is of."""

    timelines: tuple[Timeline, ...]
    metric: str
    about: str
    entries: tuple[str, ...] = ()  # of the log, in full

    def mean(self, metric: str, about: str = "") -> float | None:
        return pooled_mean(self.timelines, metric, about)

    def top(self, metric: str) -> tuple[tuple[str, float], ...]:
        return rank_objects(self.timelines, metric)


_Rule = Callable[[CheckContext], Iterator[Message]]


def advise(check: str, facts: CheckContext) -> Message | None:
    """What was seen beside a check, by its id, and what follows; None where nothing is known that would help."""
    rule = _RULES.get(check)
    parts = tuple(rule(facts)) if rule is not None else ()
    return message("sentences", parts=parts) if parts else None


def explain_event(wait_type: str, event: str) -> Message | None:
    """What is known of an event, or else of its type; None of an unknown type."""
    code = f"wait-event.{wait_type.lower()}"
    known = f"{code}.{event.lower().replace('-', '').replace('_', '')}"
    return next((message(name) for name in (known, code) if is_known(name, {})), None)


def _always(code: str) -> _Rule:
    """Advice that depends on nothing."""
    return lambda _: iter((message(code),))


def _beside(code: str, metric: str, value: str, advice: str, *, is_of_zero: bool = False) -> _Rule:
    """The mean of a metric, where it is known and not zero, before the advice; ``value`` is its name in the words."""

    def tell(facts: CheckContext) -> Iterator[Message]:
        mean = facts.mean(metric)
        if mean or (is_of_zero and mean is not None):
            yield message(code, **{value: mean})
        yield message(advice)

    return tell


def _cpu_busy(facts: CheckContext) -> Iterator[Message]:
    user, kernel = facts.mean("vmstat.us") or 0.0, facts.mean("vmstat.sy") or 0.0
    yield message("seen.cpu-time", user=user, kernel=kernel)
    cpus, used = facts.mean("vmstat.cpus"), facts.mean("pgbench.cpu")
    if cpus and used is not None and used > _MUCH_OF_LOAD * (user + kernel) * cpus:
        yield message("seen.load-generator", cpus=used)
    yield message("advice.cpu-busy.kernel" if kernel > user else "advice.cpu-busy")


def _run_queue(facts: CheckContext) -> Iterator[Message]:
    running, cpus = facts.mean("vmstat.r"), facts.mean("vmstat.cpus")
    if running is not None and cpus is not None:
        yield message("advice.run-queue", tasks=running, cpus=cpus)


def _kernel_time(facts: CheckContext) -> Iterator[Message]:
    switches, faults = facts.mean("vmstat.cs"), facts.mean("reclaim.major")
    seen = []
    if switches is not None:
        seen.append(message("seen.context-switches", number=switches))
    if faults:
        seen.append(message("seen.page-faults", number=faults))
    if seen:
        yield message("seen.beside", seen=tuple(seen))
    yield message("advice.kernel-time")


def _io_wait(facts: CheckContext) -> Iterator[Message]:
    events = tuple(name for name, _ in facts.top("wait.IO")[:2])
    if events:
        yield message("seen.waits-for", events=events)
    yield message("advice.io-wait")


def _blocked(facts: CheckContext) -> Iterator[Message]:
    blocked = facts.mean("vmstat.b")
    yield message("seen.blocked-tasks", tasks=blocked) if blocked else message("seen.blocked-by-device")
    for device, seconds in facts.top("iostat.w_await")[:1]:
        if seconds > _SLOW:
            yield message("seen.write-takes", device=device, time=seconds)
    yield message("advice.blocked")


def _swap(facts: CheckContext) -> Iterator[Message]:
    swapped, pressure = facts.mean("vmstat.swpd"), facts.mean("psi.memory")
    if swapped is not None:
        yield message("seen.in-swap", bytes=swapped)
    yield message("advice.swap-out" if facts.metric == "vmstat.so" else "advice.swap-in")
    if pressure is not None:
        yield message("seen.memory-pressure", share=pressure)
    yield message("advice.swapping")


def _dirty(facts: CheckContext) -> Iterator[Message]:
    dirty, limit = facts.mean("dirty.bytes"), facts.mean("dirty.threshold")
    if dirty is not None and limit is not None:
        yield message("seen.dirty-limit", dirty=dirty, limit=limit)
    yield message("advice.dirty-pages")


def _device_busy(facts: CheckContext) -> Iterator[Message]:
    yield from _device(facts)
    yield message("advice.device-busy")


def _read_response(facts: CheckContext) -> Iterator[Message]:
    yield from _device(facts)
    waiting = facts.mean("wait.IO", "DataFileRead")
    if waiting:
        yield message("seen.readers", sessions=waiting)
    yield message("advice.read-response")


def _write_response(facts: CheckContext) -> Iterator[Message]:
    yield from _device(facts)
    commits = sum(facts.mean(metric, name) or 0.0 for metric, name in _WAL_WAITS)
    if commits:
        yield message("advice.write-response.commits", sessions=commits)
    else:
        yield message("advice.write-response.background")


def _device_queue(facts: CheckContext) -> Iterator[Message]:
    yield from _device(facts)
    yield message("advice.device-queue")


def _device(facts: CheckContext) -> Iterator[Message]:
    """What a device does, in one sentence."""
    requests, volume = facts.mean("iostat.iops", facts.about), facts.mean("iostat.bytes", facts.about)
    if requests is None or volume is None:
        return
    times = []
    if (seconds := facts.mean("iostat.r_await", facts.about)) is not None:
        times.append(message("seen.read-time", time=seconds))
    if (seconds := facts.mean("iostat.w_await", facts.about)) is not None:
        times.append(message("seen.write-time", time=seconds))
    if times:
        yield message("seen.device-times", device=facts.about, requests=requests, bytes=volume, times=tuple(times))
    else:
        yield message("seen.device", device=facts.about, requests=requests, bytes=volume)


def _hit_ratio(facts: CheckContext) -> Iterator[Message]:
    reads, from_disk = facts.mean("db.read"), [rate for _, rate in facts.top("iostat.r")]
    if reads is not None:
        yield message("seen.blocks-read", blocks=reads)
    if reads and from_disk and sum(from_disk) < _FROM_DISK * reads:
        yield message("advice.hit-ratio.page-cache", reads=sum(from_disk))
    else:
        yield message("advice.hit-ratio")


def _temporary_files(facts: CheckContext) -> Iterator[Message]:
    waiting = sum(facts.mean("wait.IO", name) or 0.0 for name in _SPILLS)
    if waiting:
        yield message("seen.temporary-files", sessions=waiting)
    yield message("advice.temporary-files")


def _log_errors(facts: CheckContext) -> Iterator[Message]:
    yield message("advice.log-errors")
    if facts.entries:
        yield message("seen.first-entry", entry=facts.entries[0].strip())


def _wait(facts: CheckContext) -> Iterator[Message]:
    wait_type = facts.metric.partition(".")[2]
    events, sessions = facts.top(f"wait.{wait_type}"), facts.mean(facts.metric) or 0.0
    event = ""
    if events and sessions:
        event, waiting = events[0]
        share = min(1.0, waiting / sessions)
        yield message("seen.waiting-for-event", sessions=sessions, share=share, event=event)
    else:
        yield message("seen.waiting", sessions=sessions)
    if (explained := explain_event(wait_type, event)) is not None:
        yield explained


_RULES: Mapping[str, _Rule] = {
    "cpu-busy": _cpu_busy,
    "run-queue": _run_queue,
    "kernel-time": _kernel_time,
    "io-wait": _io_wait,
    "blocked": _blocked,
    "run-queue-trend": _always("advice.trend"),
    "blocked-trend": _always("advice.trend"),
    "io-wait-trend": _always("advice.trend"),
    "idle-trend": _always("advice.trend"),
    "available-memory": _beside(
        "seen.available-memory", "vmstat.available", "bytes", "advice.available-memory", is_of_zero=True
    ),
    "swap-in": _swap,
    "swap-out": _swap,
    "memory-pressure": _beside("seen.refaults", "reclaim.refault", "pages", "advice.memory-pressure"),
    "direct-reclaim": _beside("seen.scanned-pages", "reclaim.direct", "pages", "advice.direct-reclaim"),
    "reclaim-writing": _beside("seen.dirty-pages", "dirty.bytes", "bytes", "advice.reclaim-writing", is_of_zero=True),
    "dirty-pages": _dirty,
    "background-writing": _always("advice.background-writing"),
    "throttled-writers": _dirty,
    "device-busy": _device_busy,
    "read-response": _read_response,
    "write-response": _write_response,
    "device-queue": _device_queue,
    "hit-ratio": _hit_ratio,
    "backend-writes": _always("advice.backend-writes"),
    "requested-checkpoints": _beside("seen.wal", "wal.bytes", "bytes", "advice.requested-checkpoints"),
    "autovacuum-workers": _always("advice.autovacuum-workers"),
    "temporary-files": _temporary_files,
    "deadlocks": _always("advice.deadlocks"),
    "log-errors": _log_errors,
    "wait-bufferpin": _wait,
    "wait-extension": _wait,
    "wait-io": _wait,
    "wait-ipc": _wait,
    "wait-lock": _wait,
    "wait-lwlock": _wait,
    "wait-timeout": _wait,
}
