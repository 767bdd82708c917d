"""Waits of sessions for each other, for the flush of the WAL, and for temporary files."""

from collections.abc import Iterator

from pgtrial.analysis.causes import limit_thresholds as limits
from pgtrial.analysis.causes.limit_rules.base import Clue, PartFilter, Scene, accuse, find_clue
from pgtrial.analysis.causes.limit_rules.parts import is_idle_in_transaction, is_lock, is_lwlock, is_temporary, is_wal
from pgtrial.analysis.causes.words import number, percent
from pgtrial.findings.causes import Resource, Suspect
from pgtrial.language import N_, tr
from pgtrial.units import format_bytes, format_decimal, format_duration

_MOST_SLEEP = 0.5  # of the rest of the latency, from which on it is said that holders of locks idle
_FOR_LOCKS = (
    N_("{share} of the latency is waiting for locks"),
    N_("{share} of the latency is waiting for locks, most of it {event}"),
)
_FOR_LWLOCKS = (
    N_("{share} of the latency is waiting for LWLocks"),
    N_("{share} of the latency is waiting for LWLocks, most of it {event}"),
)
_FOR_WAL = (
    N_("{share} of the latency is waiting for the WAL to be written and flushed"),
    N_("{share} of the latency is waiting for the WAL to be written and flushed, most of it {event}"),
)
_FOR_TEMPORARY = (
    N_("{share} of the latency is reading and writing temporary files"),
    N_("{share} of the latency is reading and writing temporary files, most of it {event}"),
)


def suspect_locks(scene: Scene) -> Iterator[Suspect | None]:
    """Heavyweight locks: rows, transactions, relations. The longest chain shows whether they queue up."""
    chain = scene.median("locks.chain")
    yield accuse(
        Resource.LOCKS,
        detail=_describe_lock(scene),
        needs=(_share(scene, is_lock, limits.WAIT_SHARE, _FOR_LOCKS, "wait.Lock"),),
        supports=(
            find_clue(
                *("locks.chain", chain, "", limits.Ramp(low=0.0, high=1.0)),
                tr("up to {sessions} sessions wait in a chain", sessions=number(chain or 0)),
            ),
        ),
    )


def _describe_lock(scene: Scene) -> str:
    name = scene.largest(is_lock)
    waiting, idle = scene.share(is_lock), scene.share(is_idle_in_transaction)
    if name and waiting is not None and idle and idle >= _MOST_SLEEP * (1 - waiting):
        return tr("{lock}, held by sessions that idle in a transaction", lock=name)
    return name


def suspect_lwlocks(scene: Scene) -> Iterator[Suspect | None]:
    """Locks that protect shared memory, without that of the WAL's writer, which waits for its flush."""
    yield accuse(
        Resource.LWLOCKS,
        detail=scene.largest(is_lwlock),
        needs=(_share(scene, is_lwlock, limits.LWLOCK_SHARE, _FOR_LWLOCKS, "wait.LWLock"),),
    )


def suspect_wal_flush(scene: Scene) -> Iterator[Suspect | None]:
    """The flush itself, and the lock of the one session that does it for several (group commit)."""
    syncs, time = scene.mean("wal.syncs"), scene.mean("wal.sync_time")
    clue = _share(scene, is_wal, limits.WAIT_SHARE, _FOR_WAL, "wait.IO")
    if clue is not None and syncs:
        text = _tell_flushes(clue.evidence.text, rate=syncs, each=time / syncs if time else None)
        said = clue.evidence.model_copy(update={"text": text})
        clue = Clue(weight=clue.weight, evidence=said)
    yield accuse(Resource.WAL_FLUSH, detail=scene.largest(is_wal), needs=(clue,))


def suspect_temporary_files(scene: Scene) -> Iterator[Suspect | None]:
    """Sorts and hash tables that do not fit into work_mem."""
    rate = scene.mean("db.temp_bytes")
    yield accuse(
        Resource.TEMPORARY_FILES,
        needs=(
            _share(scene, is_temporary, limits.TEMPORARY_SHARE, _FOR_TEMPORARY, "wait.IO"),
            find_clue(
                *("db.temp_bytes", rate, "B/s", limits.TEMPORARY_RATE),
                tr("{bytes} per second are written to temporary files", bytes=format_bytes(rate or 0)),
            ),
        ),
    )


def _tell_flushes(text: str, *, rate: float, each: float | None) -> str:
    shown = format_decimal(rate, 0)
    if each is None:
        return tr("{text} ({rate} flushes per second)", text=text, rate=shown)
    return tr(
        "{text} ({rate} flushes per second, each takes {time})", text=text, rate=shown, time=format_duration(each)
    )


def _share(scene: Scene, belongs: PartFilter, ramp: limits.Ramp, texts: tuple[str, str], metric: str) -> Clue | None:
    """``texts``: without and with the event that most of it is."""
    share, name = scene.share(belongs), scene.largest(belongs)
    return find_clue(metric, share, "share", ramp, tr(texts[bool(name)], share=percent(share or 0), event=name))
