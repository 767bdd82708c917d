"""What a worker of a cluster of the user's sends after each block, by the number of blocks done on its host.

    python benchmarks/fleet_bytes.py [--done 10 100 980] [--blocks 3]

So many blocks are done on a host and fetched by the leader; then a few more are done, and fetched one by one. Worker
and leader are one process: what travels is counted as the texts that the one asks and the other answers.
"""

import argparse
import asyncio
import contextlib
import os
import tempfile
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from fleet_leader import ARMS, TEXT, fill

from pgtrial.design.plan import make_plan
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.fleet.gather import digest_runs, gather_block
from pgtrial.fleet.host_folders import fleet_directory, host_folder, keep_hosts
from pgtrial.fleet.hosts_file import Fleet, FleetHost, Offer
from pgtrial.fleet.joined import Joined, OfferedHosts, There
from pgtrial.fleet.tasks import serve
from pgtrial.store import layout
from pgtrial.store.journal_file import VARIABLE
from pgtrial.store.plans import write_plan
from pgtrial.store.state import State

HOST = FleetHost(name="h0", local=True)
RUN_FILE = 100_000  # bytes, of each run: what the bench of the leader writes


@dataclass(slots=True, kw_only=True)
class Counted(Joined):
    """A connection to a worker that is in this process."""

    sent: int = field(default=0, init=False)  # bytes, both ways

    async def _serve(self, address: str, what: str, request: str) -> str:
        answer = await serve(what, request)
        self.sent += len(request) + len(answer)
        return answer


@contextlib.contextmanager
def experiment_of(blocks: int) -> Iterator[Path]:
    """A result folder in which nothing is done, with the folder of its host."""
    plan = make_plan(Experiment.model_validate(tomllib.loads(TEXT.format(blocks=blocks))))
    with tempfile.TemporaryDirectory() as name:
        os.environ[VARIABLE] = f"{name}/state"
        folder = Path(name) / "results/bytes"
        (folder / layout.FILES).mkdir(parents=True)
        (folder / layout.EXPERIMENT).write_text(TEXT.format(blocks=blocks))
        with contextlib.closing(State.create(folder, durable=False)) as state:
            write_plan(state, plan)
            state.set_meta(created="1000.0")
            for block in range(1, blocks + 1):
                state.assign_block(block, HOST.name)
        keep_hosts(folder, Fleet(host=(HOST,)))
        host_folder(folder, HOST)
        yield folder


def copy_state(source: Path, target: Path) -> None:
    """What a copy is before the first block, and what it has come to after each."""
    target.mkdir(exist_ok=True)
    with contextlib.closing(State.open(source, write=True)):
        pass  # so that all of it is in the one file
    (target / layout.STATE).write_bytes((source / layout.STATE).read_bytes())


async def measure(done: int, blocks: int) -> tuple[float, float]:
    """Bytes and seconds that a block's results take, beside the files of its runs."""
    with experiment_of(done + blocks) as folder:
        copy, there = fleet_directory(folder) / HOST.name, folder.parent / "there"
        with contextlib.closing(State.open(copy)) as state:
            slots = state.slots()
        fill(copy, [slot for slot in slots if slot.block <= done])
        copy_state(copy, there)
        cluster = Counted(folder=folder, places=copy.parent, hosts=OfferedHosts(fleet=Fleet(host=(HOST,))), longest=1.0)
        cluster._offers[HOST.name] = Offer(host=HOST, address="tls://here", resource="host:h0")
        cluster._there[HOST.name] = There(folder=str(there), worker="")
        taken = 0.0
        for block in range(done + 1, done + blocks + 1):
            cluster._there[HOST.name].block = block
            fill(there, [slot for slot in slots if slot.block == block])
            files = digest_runs(there, block)
            began = time.perf_counter()
            await cluster._fetch(HOST.name, files)
            taken += time.perf_counter() - began
            gather_block(copy, folder, block=block, host=HOST.name, digests=files)
        content = ARMS * RUN_FILE * 4 / 3  # in Base64
        return cluster.sent / blocks - content, taken / blocks


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--done", type=int, nargs="+", default=[10, 100, 980])
    parser.add_argument("--blocks", type=int, default=3, help="that are fetched one by one (3)")
    options = parser.parse_args()
    print("done  sent per block, beside files  time per block")
    for done in options.done:
        sent, seconds = asyncio.run(measure(done, options.blocks))
        print(f"{done:>4}  {sent / 1000:>25.0f} kB  {1000 * seconds:>11.0f} ms", flush=True)


if __name__ == "__main__":
    main()
