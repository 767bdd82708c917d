"""Waits of sessions for each other, for the flush of the WAL, and for temporary files, in one arm and by comparison."""

from collections.abc import Iterator
from dataclasses import replace

from pgtrial.analysis.causes import limit_thresholds as limits
from pgtrial.analysis.causes.limit_rules.base import Clue, PartFilter, Scene, accuse, find_clue
from pgtrial.analysis.causes.limit_rules.cpu import cpu_busy
from pgtrial.analysis.causes.limit_rules.parts import (
    is_idle_in_transaction,
    is_lock,
    is_lwlock,
    is_outside,
    is_sleep,
    is_temporary,
    is_wal,
)
from pgtrial.findings.causes import Resource, Suspect
from pgtrial.findings.message import Message, message

# What is outside the server: a load generator that cannot do more, or a client that pauses or is far away.


def suspect_client(scene: Scene) -> Iterator[Suspect | None]:
    """Most of a transaction's time passes outside the server; the CPU time of the load generator says why.

    Its threads are saturated when they always run or want to. If they mostly wait for a CPU then, it is the CPU that
    limits. Without its CPU time the client may still be named where the machine has CPU time left, which a saturated
    generator on it would take.
    """
    share = scene.share(is_outside, is_idle_in_transaction)
    if share is None:
        return
    idle = scene.share(is_idle_in_transaction) or 0.0
    away = find_clue(
        *("latency.outside the server", share, "share", limits.OUTSIDE_SHARE),
        message("client.latency", share=share),
    )
    used, load, running = scene.median("pgbench.cpu"), _generator_load(scene), _running_share(scene)
    yield accuse(
        Resource.LOAD_GENERATOR,
        needs=(
            find_clue(
                *("pgbench.cpu", load, "share", limits.GENERATOR_BUSY),
                message("client.generator-busy", cpus=used, share=load),
            ),
            away,
            find_clue(
                *("pgbench.cpu_queue", running, "share", limits.GENERATOR_RUNS),
                message("client.generator-runs", share=running),
            ),
        ),
    )
    busy = cpu_busy(scene)
    if load is None and busy is None:
        return
    yield accuse(
        Resource.CLIENT,
        detail=message("detail.pauses-inside" if idle > share / 2 else "detail.pauses"),
        needs=(
            away,
            find_clue(
                *("pgbench.cpu", load, "share", limits.GENERATOR_IDLE),
                message("client.generator-idle", share=load),
            ),
            # Where it is known how little the generator wants a CPU, it does not matter what else wants one.
            None
            if running is not None
            else find_clue(
                *("vmstat.us+sy+st", busy, "share", limits.CPU_FREE),
                message("client.cpus-free", share=busy),
            ),
        ),
    )


def _generator_load(scene: Scene) -> float | None:
    """Share of the time in which the threads of the load generator run or, where that is known, want to.

    Without the time in their queue they can show no more than the CPUs that the machine has.
    """
    used, queued, cpus = scene.median("pgbench.cpu"), scene.median("pgbench.cpu_queue"), scene.median("vmstat.cpus")
    threads = scene.facts.threads.get(scene.level.index)
    if used is None:
        return None
    if queued is not None and threads:
        return (used + queued) / threads
    usable = min((number for number in (threads, cpus) if number), default=None)
    return used / usable if usable else None


def _running_share(scene: Scene) -> float | None:
    used, queued = scene.median("pgbench.cpu"), scene.median("pgbench.cpu_queue")
    return used / (used + queued) if used is not None and queued is not None and used + queued > 0 else None


def suspect_sleep(scene: Scene) -> Iterator[Suspect | None]:
    """Statements that sleep do so for the client: it is a pause, only inside the server."""
    share = scene.share(is_sleep)
    yield accuse(
        Resource.CLIENT,
        detail=message("detail.sleeps"),
        needs=(
            find_clue(
                *("wait.Timeout", share, "share", limits.WAIT_SHARE),
                message("client.sleeps", share=share),
            ),
        ),
    )


# Connections: there are no more to be had.


_STATES = ("sessions.active", "sessions.idle_in_transaction", "sessions.idle")
_REFUSED = limits.Ramp(low=0.0, high=1.0)


def suspect_connections(scene: Scene) -> Iterator[Suspect | None]:
    """Clients were refused; or nearly all of max_connections is in use, which alone limits nothing yet."""
    spans = [(t.run, t.started, t.started + t.seconds) for t in scene.timelines]
    refused = sum(
        limits.TOO_MANY_CONNECTIONS in (event.object, event.kind.rpartition(" ")[2])
        and any(event.run == run and start <= event.start < end for run, start, end in spans)
        for event in scene.facts.events
    )
    if refused:
        yield accuse(
            Resource.CONNECTIONS,
            detail="max_connections",
            needs=(
                find_clue(
                    *("log.error 53300", float(refused), "", _REFUSED),
                    message("connections.refused", count=refused),
                ),
            ),
        )
        return
    counts = [count for state in _STATES if (count := scene.median(state)) is not None]
    used, most = sum(counts), scene.facts.max_connections.get(scene.arm)
    share = used / most if most and counts else None
    yield accuse(
        Resource.CONNECTIONS,
        detail="max_connections",
        needs=(
            find_clue(
                *("sessions", share, "share", limits.CONNECTIONS_USED),
                message("connections.used", used=used, most=most),
            ),
        ),
        at_most=limits.NEARLY_FULL,
    )


_MOST_SLEEP = 0.5  # of the rest of the latency, from which on it is said that holders of locks idle
# Codes without and with the event that most of it is.
_FOR_LOCKS = ("waiting.locks", "waiting.locks-mostly")
_FOR_LWLOCKS = ("waiting.lwlocks", "waiting.lwlocks-mostly")
_FOR_WAL = ("waiting.wal", "waiting.wal-mostly")
_FOR_TEMPORARY = ("waiting.temporary-files", "waiting.temporary-files-mostly")


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
                message("waiting.lock-chain", sessions=chain),
            ),
        ),
    )


def _describe_lock(scene: Scene) -> str | Message:
    name = scene.largest(is_lock)
    waiting, idle = scene.share(is_lock), scene.share(is_idle_in_transaction)
    if name and waiting is not None and idle and idle >= _MOST_SLEEP * (1 - waiting):
        return message("detail.idle-holders", lock=name)
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
        text = _tell_flushes(clue.evidence.text, rate=syncs, time=time / syncs if time else None)
        clue = replace(clue, evidence=clue.evidence.model_copy(update={"text": text}))
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
                message("waiting.temporary-rate", bytes=rate),
            ),
        ),
    )


def _tell_flushes(waiting: Message, *, rate: float, time: float | None) -> Message:
    if time is None:
        return message("waiting.wal-flushes", waiting=waiting, rate=rate)
    return message("waiting.wal-flushes-timed", waiting=waiting, rate=rate, time=time)


def _share(scene: Scene, belongs: PartFilter, ramp: limits.Ramp, codes: tuple[str, str], metric: str) -> Clue | None:
    """``codes``: without and with the event that most of it is."""
    share, event = scene.share(belongs), scene.largest(belongs)
    plain, mostly = codes
    text = message(mostly, share=share, event=event) if event else message(plain, share=share)
    return find_clue(metric, share, "share", ramp, text)


# What the comparison of two arms proves: a wait that is missing where a setting differs has limited the other arm.


# Waits that stand for one resource each. CPU time that is saved shows that there was work, not that it was in the way.
_WAITS: tuple[tuple[Resource, PartFilter], ...] = (
    (Resource.WAL_FLUSH, is_wal),
    (Resource.LOCKS, is_lock),
    (Resource.LWLOCKS, is_lwlock),
    (Resource.TEMPORARY_FILES, is_temporary),
)


def suspect_by_difference(scene: Scene) -> Iterator[Suspect | None]:
    """Another arm surely needs less time, and most of what it saves are waits of one kind.

    That is an intervention, where a share of the latency is only a sign: what a transaction would gain is measured.
    """
    for relief in scene.facts.reliefs.get((scene.arm, scene.level.index), ()):
        for resource, belongs in _WAITS:
            saved = sum(seconds for kind, seconds in relief.parts.items() if belongs(*kind))
            yield accuse(
                resource,
                detail=scene.largest(belongs),
                needs=(
                    find_clue(
                        *("latency.difference", saved / relief.latency, "share", limits.SAVED),
                        message("difference.saved", arm=relief.other, time=saved, share=saved / relief.latency),
                    ),
                    find_clue(
                        *("latency.difference", saved / relief.saved, "share", limits.SAVED_OF_ALL),
                        message("difference.of-all", share=min(1.0, saved / relief.saved)),
                    ),
                ),
            )
