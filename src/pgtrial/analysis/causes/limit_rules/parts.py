"""Which parts of a latency budget belong together. Names of waits differ between versions only in their capitals.

Source: src/backend/utils/activity/wait_event_names.txt of PostgreSQL 17, and the lists in the manuals of 15 to 18.
"""

from pgtrial.analysis.causes.limit_rules.base import Scene
from pgtrial.findings.session_time import BLOCKED, CPU, CPU_QUEUE, IDLE_IN_TRANSACTION, OUTSIDE, POOL, SCHEDULE_LAG

_BUFFER_IO = "bufferio"  # waits for a block that another session reads or writes: LWLock until 13, IPC since
_WAL_LWLOCKS = ("walwrite", "walwritelock")
# What leaders of parallel queries wait for: that their workers start, send rows, or are as far as they are.
_PARALLEL = ("executegather", "parallel", "bgworker", "messagequeue", "hash", "btreepage", "appendready")
_READS = ("datafileread", "datafileprefetch", "buffileread", "slruread", "aioiocompletion", "aioiouringexecution")
_DATA_WRITES = (
    *("datafilewrite", "datafileextend", "datafileflush", "datafilesync", "datafileimmediatesync"),
    *("walwrite", "walinitwrite", "slruwrite", "buffilewrite"),
)


def is_cpu(kind: str, _event: str) -> bool:
    return kind in (CPU, CPU_QUEUE)


def is_cpu_queue(kind: str, _event: str) -> bool:
    return kind == CPU_QUEUE


def is_blocked(kind: str, _event: str) -> bool:
    return kind == BLOCKED


def is_wal(kind: str, event: str) -> bool:
    """Writing and flushing the WAL, and waiting for another session that does it."""
    name = event.lower()
    return (kind == "IO" and name.startswith("wal")) or (kind == "LWLock" and name in _WAL_LWLOCKS)


def is_temporary(kind: str, event: str) -> bool:
    return kind == "IO" and event.lower().startswith("buffile")


def is_data(kind: str, event: str) -> bool:
    """Reading and writing tables, indexes and the server's smaller files, also when another session does it."""
    if event.lower() == _BUFFER_IO:
        return kind in ("IPC", "LWLock")
    return kind == "IO" and not is_wal(kind, event) and not is_temporary(kind, event)


def is_write(kind: str, event: str) -> bool:
    """What writes to the page cache: there the kernel slows down writers."""
    return kind == "IO" and event.lower() in _DATA_WRITES


def is_parallel(kind: str, event: str) -> bool:
    """Waiting for the workers of a parallel query."""
    return kind == "IPC" and event.lower().startswith(_PARALLEL)


def is_lock(kind: str, _event: str) -> bool:
    return kind == "Lock"


def is_lwlock(kind: str, event: str) -> bool:
    """LWLocks that protect memory, and spinlocks."""
    if kind == "LWLock":
        return not is_wal(kind, event) and not is_data(kind, event)
    return kind == "Timeout" and event.lower() == "spindelay"


def is_sleep(kind: str, event: str) -> bool:
    """pg_sleep: a statement that does nothing, because it was told to."""
    return kind == "Timeout" and event.lower() == "pgsleep"


def is_idle_in_transaction(kind: str, _event: str) -> bool:
    return kind == IDLE_IN_TRANSACTION


def is_outside(kind: str, event: str) -> bool:
    """The client and the way to it; not the time for which a transaction waited for a client or a pooled session."""
    return (kind == OUTSIDE and event not in (SCHEDULE_LAG, POOL)) or kind == "Client"


def is_pool(kind: str, event: str) -> bool:
    return kind == OUTSIDE and event == POOL


def is_lag(kind: str, event: str) -> bool:
    return kind == OUTSIDE and event == SCHEDULE_LAG


def device_sessions(scene: Scene) -> float | None:
    """Average number of sessions in waits that a device may be behind."""
    return scene.sessions(is_data, is_temporary)


def under_way(scene: Scene) -> float | None:
    """Average number of requests under way, on all devices together: those of an array, or of a volume that spans
    several, share the requests of the sessions.
    """
    queues = [scene.mean("iostat.aqu", device) for device in scene.objects("iostat.aqu")]
    known = [queue for queue in queues if queue is not None]
    return sum(known) if known else None


def busiest_device(scene: Scene) -> str:
    """The device with the most requests under way, "" where none was seen.

    Where sessions mostly wait for reads, those are what counts: a device of the WAL has a queue of its own.
    """
    is_read = scene.largest(is_data, is_temporary).lower() in _READS
    ranked = [
        (
            _reads_under_way(scene, device) if is_read else 0.0,
            scene.mean("iostat.aqu", device) or 0.0,
            scene.mean("iostat.iops", device) or 0.0,
            device,
        )
        for device in scene.objects("iostat.iops")
    ]
    return max(ranked)[-1] if ranked else ""


def _reads_under_way(scene: Scene, device: str) -> float:
    """On average: reads per second, each for the time that it takes."""
    rate, time = scene.mean("iostat.r", device), scene.mean("iostat.r_await", device)
    return rate * time if rate and time else 0.0
