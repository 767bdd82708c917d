"""What is outside the server: a load generator that cannot do more, or a client that pauses or is far away."""

from collections.abc import Iterator

from pgtrial.analysis.causes import limit_thresholds as limits
from pgtrial.analysis.causes.limit_rules.base import Scene, accuse, find_clue
from pgtrial.analysis.causes.limit_rules.cpu import cpu_busy
from pgtrial.analysis.causes.limit_rules.parts import is_idle_in_transaction, is_outside
from pgtrial.analysis.causes.words import number, percent
from pgtrial.findings.causes import Resource, Suspect
from pgtrial.language import tr


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
        tr(
            "{share} of the latency is spent outside the server or waiting for the client's next statement",
            share=percent(share),
        ),
    )
    used, load, running = scene.median("pgbench.cpu"), _generator_load(scene), _running_share(scene)
    yield accuse(
        Resource.LOAD_GENERATOR,
        needs=(
            find_clue(
                *("pgbench.cpu", load, "share", limits.GENERATOR_BUSY),
                tr(
                    "the load generator uses {cpus} CPUs, and its threads are at work {share} of the time",
                    cpus=number(used or 0),
                    share=percent(load or 0),
                ),
            ),
            away,
            find_clue(
                *("pgbench.cpu_queue", running, "share", limits.GENERATOR_RUNS),
                tr("they have a CPU {share} of the time that they want one", share=percent(running or 0)),
            ),
        ),
    )
    busy = cpu_busy(scene)
    if load is None and busy is None:
        return
    yield accuse(
        Resource.CLIENT,
        detail=tr("pauses inside transactions") if idle > share / 2 else tr("pauses, or the way to the server"),
        needs=(
            away,
            find_clue(
                *("pgbench.cpu", load, "share", limits.GENERATOR_IDLE),
                tr("the threads of the load generator are at work only {share} of the time", share=percent(load or 0)),
            ),
            # Where it is known how little the generator wants a CPU, it does not matter what else wants one.
            None
            if running is not None
            else find_clue(
                *("vmstat.us+sy+st", busy, "share", limits.CPU_FREE),
                tr("the CPUs are only {share} busy", share=percent(busy or 0)),
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
