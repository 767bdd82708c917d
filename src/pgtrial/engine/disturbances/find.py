"""Find what would disturb a measurement on a host: the finding, why it matters, and what to type. Changes nothing.

The checks of the server's programs and settings are here; those of the host are in machine.py and resources.py.
"""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import suppress

from pgtrial.engine.disturbances import machine as disturbances_machine
from pgtrial.engine.disturbances import resources as disturbances_resources
from pgtrial.engine.disturbances.base import Check, Disturbance, Intent, Situation
from pgtrial.engine.fingerprint.machine import read_storage
from pgtrial.engine.fingerprint.read import Machine, read_machine
from pgtrial.errors import PreflightError
from pgtrial.hosts.base import Host
from pgtrial.hosts.operations import Operations
from pgtrial.model.caveat import Severity
from pgtrial.postgres.programs import Programs, UnknownProgramsError, find_programs

_OFF = {"off", "false", "no", "0", "f", "n"}
_SAFETY = {
    "fsync": "Nothing waits for the disk, and whatever waits for it elsewhere looks free here.",
    "full_page_writes": "The server writes much less WAL than one whose data have to survive a power cut.",
}

SAMPLE = 1.0  # s for which other load is looked at


def check_programs(situation: Situation) -> Iterator[Disturbance]:
    for message in situation.missing:
        yield Disturbance(
            code="no-programs",
            severity=Severity.WARNING,
            text=f"{message[:1].upper()}{message[1:]}.",
            why="Without initdb, postgres and pgbench of one installation no experiment can run here.",
            remedy="Install PostgreSQL with its pgbench, or name its directory as postgres in [target].",
        )


def check_assertions(situation: Situation) -> Iterator[Disturbance]:
    for directory in situation.with_assertions:
        yield Disturbance(
            code="assertions",
            severity=Severity.WARNING,
            text=f"The server in {directory} was built with assertions.",
            why="They make it slower, and not everywhere alike.",
            remedy="Use programs that were configured without --enable-cassert.",
        )


def check_safety(situation: Situation) -> Iterator[Disturbance]:
    """Off in all arms is a mistake or a short cut; off in some is what is measured."""
    arms = situation.intent.knobs
    for name, why in _SAFETY.items():
        unsafe = [arm for arm, knobs in arms.items() if _value(knobs.get("postgresql", {}), name) in _OFF]
        if unsafe and len(unsafe) == len(arms):
            yield Disturbance(
                code=f"{name.replace('_', '-')}-off",
                severity=Severity.WARNING,
                text=f"The file sets {name} = off in all arms.",
                why=why,
                remedy="Leave it on, unless the servers that the result is for have it off too.",
            )


def _value(settings: Mapping[str, str], name: str) -> str:
    return next((value.strip().lower() for key, value in settings.items() if key.lower() == name), "")


CHECKS: tuple[Check, ...] = (
    *disturbances_machine.CHECKS,
    *disturbances_resources.CHECKS,
    check_programs,
    check_assertions,
    check_safety,
)


async def look_at(host: Host, intent: Intent, *, sample: float = SAMPLE) -> Situation:
    """Look at a host for ``sample`` seconds. Raises ConnectError if it is lost meanwhile."""
    before = read_machine(host.ops)
    found, missing = [], []
    for wanted in intent.postgres:
        try:
            found.append(find_programs(wanted, host=host))
        except UnknownProgramsError:
            continue  # they are there, and nobody has allowed to start them
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
