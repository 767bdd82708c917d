"""CPU: sessions compute or wait for a CPU, and there is none left."""

from collections.abc import Iterator

import numpy as np

from pgtrial.analysis.causes import limit_thresholds as limits
from pgtrial.analysis.causes.limit_rules.base import Clue, Scene, accuse, find_clue, strongest
from pgtrial.analysis.causes.limit_rules.parts import (
    device_sessions,
    is_cpu,
    is_cpu_queue,
    is_data,
    is_idle_in_transaction,
    is_lag,
    is_outside,
    is_parallel,
    is_pool,
    is_temporary,
    under_way,
)
from pgtrial.analysis.timelines.timeline import Array
from pgtrial.findings.causes import Resource, Suspect
from pgtrial.findings.message import Message, message
from pgtrial.model.metrics import CLIENT_BACKEND, PARALLEL_WORKER

CPU_QUEUED = "server.cpu_queue/client backend"


def busy_seconds(scene: Scene) -> Array:
    """(seconds,) share of the CPU time that is not free; what the hypervisor gave to others is not."""
    shares = []
    for timeline in scene.timelines:
        parts = [timeline.get(f"vmstat.{name}") for name in ("us", "sy", "st")]
        known = [part for part in parts if part is not None]
        if len(known) == len(parts):
            shares.append(np.sum(known, axis=0))
    together = np.concatenate(shares) if shares else np.empty(0)
    return together[~np.isnan(together)]


def cpu_busy(scene: Scene) -> float | None:
    """Median share of the CPU time of the machine that is not free."""
    seconds = busy_seconds(scene)
    return float(np.median(seconds)) if seconds.size else None


def cpu_saturation(scene: Scene) -> Clue | None:
    """How short CPU time is: on the machine, or in the server's control group; None where it was not seen.

    Where arms shared the time of a block, the machine's figures are nobody's; there the kernel's accounts of the
    sessions tell how long they waited for a CPU. They also do where the machine has free CPUs, but not for the server:
    a quota or a set of CPUs that nobody told pgtrial of, as a container has.
    """
    busy, throttled = cpu_busy(scene), scene.mean("cgroup.throttled")
    clue = strongest(
        (
            find_clue(*("vmstat.us+sy+st", busy, "share", limits.CPU_BUSY), message("cpu.busy", share=busy)),
            find_clue(
                *("cgroup.throttled", throttled, "s/s", limits.QUOTA), message("cpu.throttled", seconds=throttled)
            ),
        )
    )
    wanted, queued = scene.share(is_cpu), scene.share(is_cpu_queue)
    if not wanted or not queued:
        return clue
    waiting = queued / wanted
    kept = find_clue(
        *(CPU_QUEUED, waiting, "share", limits.CPU_WAITING if clue is None else limits.CPU_KEPT_FROM),
        message("cpu.queued", share=waiting),
    )
    return strongest((clue, kept))


def suspect_cpu(scene: Scene) -> Iterator[Suspect | None]:
    """The CPU limits when it has no time left and transactions spend theirs on it.

    A busy CPU alone proves nothing, since the waits may be elsewhere; nor does a large part of CPU time, since with few
    clients no CPU is short. Leaders of parallel queries wait while their workers compute. Reads that the page cache
    answers are waits to the server, but CPU time to the kernel; and time outside the server is CPU time as far as the
    load generator waits for a CPU of the same machine.
    """
    share, outside = scene.share(is_cpu), scene.share(is_outside, is_pool, is_idle_in_transaction, is_lag)
    if share is None or outside is None:
        return
    workers = _by_workers(scene)
    inside = share + workers + _from_page_cache(scene)
    waiting_clients = (scene.share(is_outside, is_pool, is_idle_in_transaction) or 0.0) * _client_queue(scene)
    used = min(1.0, inside + waiting_clients)
    in_server = 1 - outside + waiting_clients
    of_server = min(1.0, (inside + waiting_clients) / in_server) if used > 0 and in_server > 0 else 0.0
    queue, cpus = scene.median("vmstat.r"), scene.median("vmstat.cpus")
    per_cpu = queue / cpus if queue is not None and cpus else None
    steal = scene.median("vmstat.st") or 0.0
    saturation = cpu_saturation(scene)
    detail: str | Message = ""
    if saturation and saturation.evidence.metric == "cgroup.throttled":
        detail = message("detail.quota")
    elif saturation and saturation.evidence.metric == CPU_QUEUED and (cpu_busy(scene) or 1.0) < limits.CPU_FREE.high:
        detail = message("detail.kept-from-cpus")
    elif steal >= limits.STEAL:
        detail = message("detail.steal", share=steal)
    yield accuse(
        Resource.CPU,
        detail=detail,
        needs=(
            saturation,
            find_clue(
                *("latency.CPU", used, "share", limits.CPU_SHARE),
                _tell_share(
                    used,
                    has_clients=waiting_clients >= limits.NAMED_CLIENTS * used,
                    has_workers=workers >= limits.NAMED_CLIENTS * used,
                ),
            ),
            find_clue(
                *("latency.CPU/server", of_server, "share", limits.CPU_OF_SERVER),
                message("cpu.of-server", share=of_server),
            ),
        ),
        supports=(
            find_clue(
                *("vmstat.r", per_cpu, "per CPU", limits.RUN_QUEUE),
                message("cpu.run-queue", tasks=queue, cpus=cpus),
            ),
        ),
    )


def _tell_share(used: float, *, has_clients: bool, has_workers: bool) -> Message:
    if has_workers:
        return message("cpu.latency-with-workers", share=used)
    return message("cpu.latency-with-clients" if has_clients else "cpu.latency", share=used)


def _by_workers(scene: Scene) -> float:
    """Share of the latency in which leaders wait for parallel workers that compute or want to.

    By the kernel's accounts, and as far as there is one such worker for each leader that waits.
    """
    share, sessions = scene.share(is_parallel), scene.sessions(is_parallel)
    wanting = sum(scene.mean(f"server.{name}", PARALLEL_WORKER) or 0.0 for name in ("cpu", "cpu_queue"))
    return share * min(1.0, wanting / sessions) if share and sessions else 0.0


def _client_queue(scene: Scene) -> float:
    """Share of the time in which threads of the load generator wait for a CPU, or the one of PgBouncer does if that is
    more; 0 where neither is known.
    """
    queued, threads = scene.median("pgbench.cpu_queue"), scene.facts.threads.get(scene.level.index)
    generator = queued / threads if queued is not None and threads else 0.0
    return min(1.0, max(generator, scene.median("pgbouncer.cpu_queue") or 0.0))


def _from_page_cache(scene: Scene) -> float:
    """Share of the latency in reads and writes of data that no device was behind.

    Nor is it a limit that holds requests back before they reach the device, if the kernel's accounts know of sessions
    that want a CPU and are not among those that are known to: these are in waits.
    """
    share, sessions, requests = scene.share(is_data, is_temporary), device_sessions(scene), under_way(scene)
    if not share or not sessions or requests is None:
        return 0.0
    elsewhere = share * (1 - limits.REACHES_DEVICE.weigh(requests / sessions))
    accounts = [scene.mean(f"server.{name}", CLIENT_BACKEND) for name in ("cpu", "cpu_queue")]
    known = [cpus for cpus in accounts if cpus is not None]
    if len(known) < len(accounts):
        return elsewhere
    wanting = max(0.0, sum(known) - (scene.sessions(is_cpu) or 0.0))
    return min(elsewhere, share * wanting / sessions)
