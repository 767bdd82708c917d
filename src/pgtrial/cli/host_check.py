"""What check says of the host: what would disturb a measurement there, with what the file asks for in mind."""

import asyncio
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pgtrial.cli.checked import Checked
from pgtrial.design.arms import effective_knobs, effective_settings
from pgtrial.design.variants import variants_of
from pgtrial.engine.disturbances.base import Disturbance, Intent, Situation
from pgtrial.engine.disturbances.find import SAMPLE, find_disturbances, look_at
from pgtrial.errors import ConnectError
from pgtrial.hosts.base import LOCAL
from pgtrial.hosts.connect import open_host
from pgtrial.model.caveat import Severity
from pgtrial.spec.knob_tables import POSTGRESQL

_WIDTH = 80
_SYMBOLS = {Severity.WARNING: "!", Severity.INFO: "i"}


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReport:
    """Remarks about a host; ``situation`` is None, and ``unreachable`` says why, where it could not be looked at."""

    name: str
    situation: Situation | None
    remarks: tuple[Disturbance, ...] = ()
    unreachable: str = ""


def check_host(checked: Checked | None) -> HostReport:
    """Look at the experiment's host, or at this machine where there is no experiment."""
    address = checked.loaded.experiment.target.host if checked else None

    async def look() -> Situation:
        async with open_host(address) as host:
            return await look_at(host, intent_of(checked) if checked else Intent(), sample=SAMPLE)

    try:
        situation = asyncio.run(look())
    except ConnectError as error:
        return HostReport(name=address or LOCAL, situation=None, unreachable=error.message)
    return HostReport(name=address or LOCAL, situation=situation, remarks=find_disturbances(situation))


def intent_of(checked: Checked) -> Intent:
    """What the experiment will do on its host."""
    experiment, plan = checked.loaded.experiment, checked.plan
    variants = variants_of(experiment, plan.arms)
    is_throwaway = experiment.target.kind == "throwaway"
    is_ours = experiment.target.kind != "server"
    # What this machine lacks is among the notes about the file already.
    known = {name for server in checked.servers if server.programs for name in server.arms}
    wanted = [
        variants_of(experiment, [arm])[0].postgres for arm in plan.arms if experiment.target.host or arm.name in known
    ]
    copies = len(variants) * (2 if is_throwaway else 1) + (len(plan.arms) if is_throwaway and plan.steps else 0)
    return Intent(
        # Where the data of a server lie that is there already, only that server could say.
        places=tuple({(each.data or "/var/tmp", each.wal or each.data or "/var/tmp"): None for each in variants})
        if is_ours
        else (),
        bytes_needed=copies * plan.data_size,
        postgres=tuple(dict.fromkeys(wanted)) if is_throwaway else (),
        clients=max(level.clients for level in plan.levels),
        threads=experiment.workload.threads,
        knobs={
            arm.name: {POSTGRESQL: effective_settings(experiment, arm), **effective_knobs(experiment, arm)}
            for arm in plan.arms
        },
    )


def host_data(report: HostReport) -> dict[str, Any]:
    """For --json."""
    return {
        "name": report.name,
        "reached": report.situation is not None,
        "error": report.unreachable or None,
        "remarks": [asdict(remark) for remark in report.remarks],
    }


def render_host(report: HostReport) -> str:
    """Plain text of at most 80 columns, but for a word or a command that is longer."""
    name = "this host" if report.name == LOCAL else report.name
    if report.situation is None:
        return _fill(f"{name}: not looked at: {report.unreachable}")
    lines = [_fill(f"{name}: {_describe(report.situation)}", indent="  ")]
    if not report.remarks:
        lines.append("  Nothing was found that would disturb a measurement.")
    for remark in report.remarks:
        lines.append(_fill(remark.text, first=f"  {_SYMBOLS[remark.severity]} ", indent="    "))
        lines.append(_fill(remark.why, first="    ", indent="    "))
        if remark.remedy:
            lines.append(_fill(remark.remedy, first="    → ", indent="      "))
        lines += _command_lines(remark.command)
    return "\n".join(lines)


def _describe(situation: Situation) -> str:
    """ "2 CPUs (AMD EPYC), 23.5 GB of memory, Linux 6.1.0, data in /var/tmp on ext4 (vda)"."""
    facts = situation.facts
    cpu = f" ({facts['machine/CPU']})" if "machine/CPU" in facts else ""
    parts = [f"{facts.get('machine/CPUs', '?')} CPUs{cpu}"]
    parts += [f"{facts['machine/memory']} of memory"] if "machine/memory" in facts else []
    parts += [f"Linux {facts['kernel/release']}"] if "kernel/release" in facts else []
    for place in situation.places:
        if "storage/data directory" in place:
            device = f" ({place['storage/data device']})" if "storage/data device" in place else ""
            parts.append(f"data in {place['storage/data directory']} on {place['storage/data file system']}{device}")
    return ", ".join(parts)


def _command_lines(command: str) -> Sequence[str]:
    """A command is not broken but after a pipe or "&&", where a shell goes on with the next line."""
    if not command:
        return ()
    indent = " " * 8
    if len(indent + command) <= _WIDTH:
        return (indent + command,)
    pieces = command.replace(" | ", " |\0").replace(" && ", " &&\0").split("\0")
    return tuple(f"{indent}{'  ' if number else ''}{piece}" for number, piece in enumerate(pieces))


def _fill(text: str, *, first: str = "", indent: str = "") -> str:
    return textwrap.fill(
        text, _WIDTH, initial_indent=first, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
