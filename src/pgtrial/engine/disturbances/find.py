"""What would disturb a measurement on a host: what was found, why it matters, and what to type. Nothing is changed."""

import asyncio
from contextlib import suppress

from pgtrial.engine.disturbances import machine as disturbances_machine
from pgtrial.engine.disturbances import memory as disturbances_memory
from pgtrial.engine.disturbances import server as disturbances_server
from pgtrial.engine.disturbances import storage as disturbances_storage
from pgtrial.engine.disturbances.base import Check, Disturbance, Intent, Situation
from pgtrial.engine.fingerprint.read import Machine, read_machine
from pgtrial.engine.fingerprint.storage import read_storage
from pgtrial.errors import PreflightError
from pgtrial.hosts.base import Host
from pgtrial.hosts.operations import Operations
from pgtrial.model.caveat import Severity
from pgtrial.postgres.programs import Programs, find_programs

__all__ = ["CHECKS", "SAMPLE", "Disturbance", "Intent", "Situation", "find_disturbances", "look_at"]

SAMPLE = 1.0  # s for which other load is looked at
CHECKS: tuple[Check, ...] = (
    *disturbances_machine.CHECKS,
    *disturbances_memory.CHECKS,
    *disturbances_storage.CHECKS,
    *disturbances_server.CHECKS,
)


async def look_at(host: Host, intent: Intent, *, sample: float = SAMPLE) -> Situation:
    """Look at a host for ``sample`` seconds. Raises ConnectError if it is lost meanwhile."""
    before = read_machine(host.ops)
    found, missing = [], []
    for wanted in intent.postgres:
        try:
            found.append(find_programs(wanted, host=host))
        except PreflightError as error:
            missing.append(error.message)
    with_assertions = [str(programs.directory) for programs in found if has_assertions(host.ops, programs)]
    places = tuple(read_storage(host.ops, place) for place in intent.places)
    await asyncio.sleep(sample)
    after = read_machine(host.ops, since=before)
    return Situation(
        intent=intent,
        before=before.facts,
        facts=after.facts,
        places=places,
        with_assertions=tuple(dict.fromkeys(with_assertions)),
        missing=tuple(dict.fromkeys(missing)),
        other_servers=_count_servers(after),
    )


def find_disturbances(situation: Situation) -> tuple[Disturbance, ...]:
    """Remarks of all checks, warnings first."""
    found = [remark for check in CHECKS for remark in check(situation)]
    return tuple(sorted(found, key=lambda remark: remark.severity is not Severity.WARNING))


def has_assertions(ops: Operations, programs: Programs) -> bool:
    """Whether the server was built with --enable-cassert; False where it does not say.

    It tells what it was built with without a cluster, given any directory and an empty configuration.
    """
    argv = [str(programs.path("postgres")), "-C", "debug_assertions", "-D", "/", "-c", "config_file=/dev/null"]
    with suppress(OSError):
        return ops.output(argv).strip() == "on"
    return False


def _count_servers(machine: Machine) -> int:
    """Servers of others: processes of this name whose parent has another."""
    servers = {process.pid for process in machine.times if process.name == "postgres" and process.whose == "other"}
    return sum(process.pid in servers and process.parent not in servers for process in machine.times)
