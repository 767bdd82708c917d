"""pgtrial check: all errors in an experiment file, and everything on its host that would disturb it."""

import asyncio
import json
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

import click

from pgtrial.cli.checked import Checked
from pgtrial.engine.disturbances.base import Disturbance, Intent, Situation
from pgtrial.engine.disturbances.find import SAMPLE, find_disturbances, look_at
from pgtrial.errors import ConnectError
from pgtrial.hosts.base import LOCAL
from pgtrial.hosts.connect import open_host
from pgtrial.knobs.postgresql import POSTGRESQL
from pgtrial.model.caveat import Severity


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option(
    "--host/--no-host",
    "host",
    default=None,
    help="Only the host, or only the file. Default: both; without FILE the host.",
)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON, including errors.")
def command(*, file: Path | None, host: bool | None, as_json: bool) -> None:
    """Check the experiment in FILE and its host; start and change nothing.

    Prints a summary of the experiment, or every error with its line, and exits
    with 2 if there is one. Then watches the host for a second and warns about
    anything that would disturb a measurement; these warnings are not errors.
    Without FILE it checks only this machine.

    \b
    Examples:
      pgtrial check experiment.toml
      pgtrial check
    """
    from pgtrial.cli.checked import check_file
    from pgtrial.errors import SpecError

    if file is None and host is False:
        raise click.UsageError("nothing to check: no file is given, and --no-host")
    try:
        checked = check_file(file) if file is not None else None
    except SpecError as error:
        if not as_json:
            raise
        problems = [asdict(problem) for problem in error.problems]
        click.echo(json.dumps({"ok": False, "file": str(file), "error": error.message, "problems": problems}, indent=2))
        sys.exit(error.exit_code)
    answer: dict[str, Any] = {"ok": True}
    if checked is not None and not host:
        from pgtrial.cli.plan_facts import describe_facts

        facts, notes = describe_facts(checked)
        answer |= {"file": str(file), **facts, "notes": notes}
        if not as_json:
            click.echo(f"ok: {file}")
            for name, text in facts.items():
                click.echo(fill(f"{name:<12} {text}", 80, initial_indent="  ", subsequent_indent=" " * 15))
            for note in notes:
                click.echo(f"note: {note}")
    if host is not False:
        report = check_host(checked)
        answer |= {"host": host_data(report)}
        if not as_json:
            click.echo(("\n" if "file" in answer else "") + render_host(report))
    if as_json:
        click.echo(json.dumps(answer, indent=2))


# What check says of the host: what would disturb a measurement there, with what the file asks for in mind.


_WIDTH = 80
_SYMBOLS = {Severity.WARNING: "!", Severity.INFO: "i"}


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReport:
    """Warnings about a host; if it could not be examined, ``situation`` is None and ``unreachable`` says why."""

    name: str
    situation: Situation | None
    remarks: tuple[Disturbance, ...] = ()
    unreachable: str = ""


def check_host(checked: Checked | None) -> HostReport:
    """Examine the experiment's host, or this machine if there is no experiment."""
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
    variants = dict.fromkeys(arm.variant for arm in plan.arms)
    is_throwaway = experiment.target.kind == "throwaway"
    is_ours = experiment.target.kind != "server"
    # What this machine lacks is among the notes about the file already.
    known = {name for server in checked.servers if server.programs for name in server.arms}
    wanted = [arm.variant.postgres for arm in plan.arms if experiment.target.host or arm.name in known]
    copies = len(variants) * (2 if is_throwaway else 1) + (len(plan.arms) if is_throwaway and plan.steps else 0)
    return Intent(
        # Only the server itself could say where the data of an existing server lie.
        places=tuple({(each.data or "/var/tmp", each.wal or each.data or "/var/tmp"): None for each in variants})
        if is_ours
        else (),
        bytes_needed=copies * plan.data_size,
        postgres=tuple(dict.fromkeys(wanted)) if is_throwaway else (),
        clients=max(level.clients for level in plan.levels),
        threads=experiment.workload.threads,
        knobs={arm.name: {POSTGRESQL: arm.settings, **arm.knobs} for arm in plan.arms},
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
    """Plain text of at most 80 columns, except for longer words and commands."""
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
    """Commands are broken only after a pipe or "&&", where a shell continues on the next line."""
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
