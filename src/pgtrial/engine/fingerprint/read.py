"""The world around a run: facts of machine, kernel, storage and server that can explain a difference between runs.

"group/name" to value; what is unreadable is absent. docs/fingerprint.md lists them, and says what becomes of those that
differ. Facts are only read here; what they mean is for the analysis.
"""

import math
import platform
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pgtrial import __version__
from pgtrial.engine.fingerprint import kernel as fingerprint_kernel
from pgtrial.engine.fingerprint import machine as fingerprint_machine
from pgtrial.engine.fingerprint import moment as fingerprint_moment
from pgtrial.engine.fingerprint.kernel import SYSCTLS, kernel_facts
from pgtrial.engine.fingerprint.limits import read_limits
from pgtrial.engine.fingerprint.machine import machine_facts, read_storage
from pgtrial.engine.fingerprint.moment import ProcessTime, compare_times, moment_facts
from pgtrial.hosts.operations import Operations
from pgtrial.knobs.sysctl import path_of, standard_name
from pgtrial.model.fingerprint import CLOCK_SYNCHRONIZED, CPU_ALL, CPU_OTHERS, CPU_STEAL
from pgtrial.postgres.connect import fetch
from pgtrial.postgres.programs import Programs
from pgtrial.units import read_count

VERSION_FACT = "PostgreSQL/version"
_OWN = {"pgtrial/version": __version__, "pgtrial/Python": platform.python_version()}
_FIRST_CPU = 8192  # B of /proc/cpuinfo, which has as much for every CPU
_PATTERNS = (*fingerprint_machine.PATTERNS, *fingerprint_kernel.PATTERNS, *fingerprint_moment.PATTERNS)

_VERSION = "SELECT version(), current_setting('server_version')"
_MAY_ASK = "SELECT has_function_privilege('pg_catalog.pg_config()', 'EXECUTE')"
_BUILD = "SELECT name, setting FROM pg_catalog.pg_config() WHERE name IN ('CC', 'CFLAGS', 'CONFIGURE')"
_NAMES = {"CC": "compiler", "CFLAGS": "compiler flags", "CONFIGURE": "configured with"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine at one moment; ``times`` are those of its processes."""

    facts: Mapping[str, str]
    times: tuple[ProcessTime, ...]


def read_machine(
    ops: Operations,
    *,
    directories: Sequence[str] = (),
    server: int | None = None,
    mark: str = "",
    sysctls: Iterable[str] = (),
    since: Machine | None = None,
) -> Machine:
    """Read a host in a few calls.

    ``directories`` are those of the server's data and WAL, where they are known. ``server`` is its first process, where
    that is known otherwise than by the data's lock file; the server's limits are those of that process, or of pgtrial
    where there is none. ``mark`` is on the processes of this experiment.
    ``sysctls`` are kernel settings to read beside the usual ones. With ``since``, what was read before the load, there
    is also who used how much CPU time meanwhile.
    """
    names = tuple(dict.fromkeys((*SYSCTLS, *(standard_name(name) for name in sysctls))))
    server = server or _server_pid(ops, directories)
    times = tuple(
        ProcessTime(
            pid=pid,
            parent=parent,
            start_ticks=ticks,
            # A server that was there before does not carry the mark.
            whose="own" if server in (pid, parent) else whose,
            name=name,
            seconds=seconds,
        )
        for pid, parent, ticks, whose, name, seconds in ops.cpu_times(mark)
    )
    texts = ops.read_all([*_PATTERNS, *(path_of(name) for name in names)])
    facts = machine_facts(texts, cpuinfo=_read(ops, "/proc/cpuinfo", _FIRST_CPU))
    cpus, usable = ops.cpus()
    facts |= {"machine/CPUs": str(cpus), "machine/CPUs usable by pgtrial": str(usable), **_OWN}
    facts |= kernel_facts(texts, sysctls=names)
    if libc := ops.libc():
        facts["system/C library"] = libc
    facts |= read_storage(ops, directories)
    facts |= read_limits(ops, pid=server)
    facts |= moment_facts(texts, page_size=ops.page_size())
    synchronized = ops.is_clock_synchronized()
    if synchronized is not None:
        facts[CLOCK_SYNCHRONIZED] = "yes" if synchronized else "no"
    if since is not None:
        passed = float(facts.get(CPU_ALL, "nan")) - float(since.facts.get(CPU_ALL, "nan"))
        facts |= compare_times(since.times, times, cpu_seconds=passed)
    return Machine(facts=facts, times=times)


def taken_by_others(before: Machine, after: Machine) -> float | None:
    """Share of the CPU time between two readings, the second since the first, that other programs and the hypervisor
    had; None where it is not known.
    """

    def passed(name: str) -> float:
        return float(after.facts.get(name, "nan")) - float(before.facts.get(name, "nan"))

    stolen = passed(CPU_STEAL)
    others = float(after.facts.get(CPU_OTHERS, "nan"))
    share = (others + (0.0 if math.isnan(stolen) else stolen)) / (passed(CPU_ALL) or math.nan)
    return None if math.isnan(share) else share


def read_environment(ops: Operations, *, programs: Programs | None) -> dict[str, str]:
    """Facts of the experiment as a whole. ``programs`` are those of the load generator and, if its arm says nothing
    else, of the server; None where there is no server.
    """
    if programs is None:
        return dict(_OWN)
    facts = {
        VERSION_FACT: programs.version,
        "PostgreSQL/programs": str(programs.directory),
        "PostgreSQL/found by": programs.origin,
        **_OWN,
    }
    with suppress(OSError):
        facts["PostgreSQL/pgbench"] = ops.output([str(programs.path("pgbench")), "--version"]).strip()
    return facts


def _server_pid(ops: Operations, directories: Sequence[str]) -> int | None:
    """The server's first process, as its lock file says."""
    first = _read(ops, f"{directories[0]}/postmaster.pid", 100).partition("\n")[0] if directories else ""
    return read_count(first)


def _read(ops: Operations, path: str, limit: int | None = None) -> str:
    try:
        return ops.read(path, limit)
    except OSError:
        return ""


async def read_server(conninfo: str) -> dict[str, str]:
    """Group "PostgreSQL"; settings are read elsewhere. How it was built is told to superusers only."""
    ((version, number),) = await fetch(conninfo, _VERSION)
    facts = {VERSION_FACT: number.split()[0], "PostgreSQL/build": version}
    if (await fetch(conninfo, _MAY_ASK))[0][0]:
        facts |= {f"PostgreSQL/{_NAMES[name]}": value for name, value in await fetch(conninfo, _BUILD)}
    return facts
