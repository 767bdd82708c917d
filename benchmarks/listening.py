"""What listening to a load of kind = "command" costs pgtrial: CPU time by how many requests it is told of in a second.

sysbench's read-write transactions as they are, and a script that only waits, for events at several rates, all with the
adapter of pgtrial. Only the time in which the load is at work counts; what the server and sysbench use does not.

    PYTHONPATH=tests python benchmarks/listening.py [--seconds 20] [--clients 4]
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from pgtrial.engine.loads.generators import run_generators
from pgtrial.experiment_file.workload_table import WorkloadTable
from pgtrial.hosts.base import HostProcess
from pgtrial.hosts.local import LocalHost
from pgtrial.model.run import LoadLevel
from pgtrial.postgres.connect import execute_script
from pgtrial.store.command_line import parse_line
from pgtrial.workloads.command import OUTPUT, plan_command
from support.cluster import running_cluster

SETUP = Path(__file__).parents[1] / "examples" / "commands" / "sysbench" / "setup.sql"
DATABASE = "postgres"
RATES = (100, 1000, 2000, 5000, 10000)  # per second, and somewhat less for what an event takes beside its wait
WAIT = """
local ffi = require("ffi")
ffi.cdef("int usleep(unsigned int microseconds);")
sysbench.cmdline.options = {wait = {"microseconds of an event", 1000}}
function event() ffi.C.usleep(sysbench.opt.wait) end
"""


async def listen(
    words: Sequence[str], environment: Mapping[str, str], options: argparse.Namespace
) -> tuple[float, float]:
    """Requests per second, and CPU seconds of this process per second."""
    workload = WorkloadTable.model_validate({"kind": "command", "results": "sysbench", "command": list(words)})
    spent: list[tuple[float, float]] = []

    async def look(_processes: Sequence[HostProcess]) -> None:
        await asyncio.sleep(1)
        for seconds in (options.seconds, 0):
            spent.append((time.time(), time.process_time()))
            await asyncio.sleep(seconds)

    with tempfile.TemporaryDirectory(prefix="pgtrial-bench-") as place:
        record = Path(place) / "record"
        generator = plan_command(
            workload,
            LoadLevel(index=0, clients=options.clients),
            files={"wait.lua": WAIT},
            environment=environment,
            seconds=options.seconds + 1,
            directory=place,
            record=record,
            seed="1",
        )
        host = LocalHost(mark=place)
        outcome = await run_generators(host, [generator], environment=environment, output=OUTPUT, conduct=look)
        assert not outcome.errors, outcome.errors
        (begun, before), (ended, after) = spent
        told = [parse_line(line) for line in record.read_text().splitlines()]
    requests = sum(len(each.latencies) for each in told if begun <= each.t < ended)
    return requests / (ended - begun), (after - before) / (ended - begun)


async def measure(options: argparse.Namespace) -> None:
    async with running_cluster("listening", {"fsync": "off", "deadlock_timeout": "10ms"}) as cluster:
        environment = cluster.environment(DATABASE)
        await execute_script(cluster.conninfo(DATABASE), SETUP.read_text(), name=SETUP.name)
        loads = [["sysbench", "oltp_read_write", "--tables=2", "--table-size=10000"]]
        loads += [["sysbench", "./wait.lua", f"--wait={options.clients * 1_000_000 // rate}"] for rate in RATES]
        for words in loads:
            rate, share = await listen(words, environment, options)
            name = " ".join(words[1:3])
            print(f"{name:<24} {rate:8.0f}/s   {share:7.2%} of a core   {share / rate * 1000:7.3%} per 1,000/s")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what listening to a command costs.")
    parser.add_argument("--seconds", type=int, default=20, help="of each load (20)")
    parser.add_argument("--clients", type=int, default=4, help="its sessions (4)")
    asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
