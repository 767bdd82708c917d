"""A scheduler or a worker of dask.distributed: ``python -m pgtrial.fleet.node scheduler|worker``.

Its standard input is one line of JSON, and then nothing: where it ends, whoever started it has ended, and so does this.
A worker has a line on its standard output when it is ready, a scheduler its address. Both listen on loopback only, and
speak to nobody without the experiment's own certificate.
"""

import asyncio
import json
import logging
import os
import sys
import threading
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from pgtrial.safe_text import parse_json

if TYPE_CHECKING:
    from distributed import Security

# A connection that is gone is told by the leader; how the engine got to know of it is no news.
LOGGING = {
    "distributed": "error",
    "distributed.client": "critical",
    "distributed.scheduler": "critical",  # of a block whose worker has ended pgtrial speaks itself
    "distributed.utils": "critical",
    "tornado": "critical",
}
# What an idle worker does for its own sake wakes it 108 times a second and takes 3.3 % of a core; like this 5 times,
# and 0.27 %. A block is tried once: who tries again is the client, when nothing of the first attempt goes on.
SETTINGS: dict[str, object] = {
    "distributed.scheduler.allowed-failures": 0,
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.worker-ttl": None,  # one that stands still is not gone: its process tells
    "distributed.scheduler.active-memory-manager.start": False,
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    "distributed.worker.profile.enabled": False,
    "distributed.worker.daemon": False,
    "distributed.admin.tick.interval": "5s",
    "distributed.admin.tick.cycle": "30s",
    "distributed.admin.tick.limit": "1h",
    "distributed.admin.system-monitor.interval": "30s",
    "distributed.admin.system-monitor.disk": False,
    "distributed.admin.system-monitor.gil.enabled": False,
    "distributed.comm.require-encryption": True,
    "distributed.comm.timeouts.connect": "30s",
    "distributed.logging": LOGGING,
}
HEARTBEAT = "10s"
LOOPBACK = "127.0.0.1"
TOKEN = "host:"  # and the name of a host: the resource by which a worker offers it


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """What a node is told: files of its key and certificate, and for a worker the scheduler and what it is."""

    key: str
    certificate: str
    scheduler: str = ""
    name: str = ""
    directory: str = ""

    @property
    def line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"


def token(host: str) -> str:
    """The resource of which a host's worker has one: so it runs one block at a time, and nobody else runs it."""
    return f"{TOKEN}{host}"


def security(node: Node) -> "Security":
    """Both sides of every connection show the certificate, and trust no other."""
    from distributed import Security

    sides = {f"tls_{side}_{what}": path for side in ("client", "scheduler", "worker") for what, path in _files(node)}
    return Security(tls_ca_file=node.certificate, require_encryption=True, **sides)


def _files(node: Node) -> tuple[tuple[str, str], ...]:
    return (("key", node.key), ("cert", node.certificate))


def configure(*, heeds_user: bool = False) -> None:
    """Settle dask's settings. To be called before anything is made. Of what files and variables of the user say, as
    modules to load or lifetimes, nothing counts, but where pgtrial is a client of a cluster of the user's.
    """
    import dask

    if not heeds_user:
        dask.config.refresh(paths=[], env={})
    import distributed  # noqa: F401  # with the settings that it has by itself

    dask.config.set(SETTINGS)
    for name, level in LOGGING.items():  # dask itself reads them as it is imported, which it may have been before
        logging.getLogger(name).setLevel(level.upper())


async def _scheduler(node: Node) -> None:
    from distributed import Scheduler

    async with Scheduler(
        host=LOOPBACK,
        protocol="tls",
        security=security(node),
        dashboard=False,
        dashboard_address=f"{LOOPBACK}:0",
        # Its own choice is one in /tmp, of a fixed name, which anybody may have made there.
        local_directory=node.directory,
    ) as scheduler:
        print(scheduler.address, flush=True)
        await scheduler.finished()


async def _worker(node: Node) -> None:
    from distributed import Worker

    async with Worker(
        node.scheduler,
        host=LOOPBACK,
        nthreads=1,
        name=node.name,
        resources={token(node.name): 1},
        memory_limit=0,
        security=security(node),
        dashboard_address=f"{LOOPBACK}:0",
        heartbeat_interval=HEARTBEAT,
        local_directory=node.directory,
    ) as worker:
        print(worker.address, flush=True)
        await worker.finished()


def _end_with_input() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os._exit(0)  # the engine that a worker has started ends when its own input does


def main(kind: str) -> None:
    with os.fdopen(os.dup(sys.stdin.fileno()), "rb", buffering=0) as own:  # which takes no byte too many
        node = Node(**parse_json(own.readline()))
    threading.Thread(target=_end_with_input, daemon=True).start()
    configure()
    asyncio.run(_scheduler(node) if kind == "scheduler" else _worker(node))


if __name__ == "__main__":
    main(sys.argv[1])
