"""pgtrial check: all errors in an experiment file, and everything on its host that would disturb it."""

import asyncio
import json
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pgtrial.cli import options
from pgtrial.cli.checked import Checked, host_to_ask
from pgtrial.cli.terminal import echo
from pgtrial.cli.text import WIDTH, fill, render_error
from pgtrial.engine.disturbances.base import Disturbance, Intent, Situation
from pgtrial.engine.disturbances.find import SAMPLE, find_disturbances, look_at
from pgtrial.errors import ConnectError
from pgtrial.hosts.base import LOCAL
from pgtrial.hosts.connect import open_host
from pgtrial.knobs.postgresql import POSTGRESQL
from pgtrial.model.caveat import Severity

if TYPE_CHECKING:
    from pgtrial.engine.preview import ServerLook


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@options.host
@options.allow_files
@click.option("--no-host", is_flag=True, help="Check only the file.")
@click.option(
    "--connect",
    "connects",
    is_flag=True,
    help="Connect to the existing server that the file names, and say what its role lacks; change nothing there.",
)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON, including errors.")
def command(
    *,
    file: Path | None,
    host: str | None,
    allow_files: tuple[Path, ...],
    no_host: bool,
    connects: bool,
    as_json: bool,
) -> None:
    """Check the experiment in FILE and its host; change nothing.

    Starts nothing that the file names, and asks no other machine than the one
    that --host names.

    Prints a summary of the experiment, or every error with its line, and exits
    with 2 if there is one, and with 1 if what it needs is not there. Then watches the host for a second and warns about
    anything that would disturb a measurement; these warnings are not errors.
    Without FILE it checks only this machine.

    \b
    Examples:
      pgtrial check experiment.toml
      pgtrial check experiment.toml --connect
      pgtrial check
    """
    from pgtrial.cli.checked import check_file
    from pgtrial.errors import SpecError

    if no_host and (file is None or host is not None):
        raise click.UsageError(
            "nothing to check: no file is given, and --no-host"
            if file is None
            else "--host and --no-host exclude each other"
        )
    if connects and file is None:
        raise click.UsageError("--connect needs a file, which names the server")
    try:
        checked = check_file(file, allow_files=allow_files) if file is not None else None
    except SpecError as error:
        if not as_json:
            raise
        problems = [asdict(problem) for problem in error.problems]
        echo(json.dumps({"ok": False, "file": str(file), "error": error.message, "problems": problems}, indent=2))
        sys.exit(error.exit_code)
    answer: dict[str, Any] = {"ok": True}
    is_ready = passes = True
    if checked is not None:
        from pgtrial.cli.plan_facts import describe_facts

        facts, notes = describe_facts(checked)
        if checked.loaded.experiment.target.kind == "server" and not connects:
            notes = (*notes, "the server has not been asked: --connect says what its role lacks")
        is_ready = not checked.missing
        passes = is_ready or no_host  # then only the file is asked about
        answer |= {"file": str(file), "ready": is_ready, **facts, "notes": notes}
        if not as_json:
            if passes:
                echo(f"ok: {file}{' is right, but cannot run on this machine' if checked.missing else ''}")
            else:
                echo(f"not ready: {file}: {checked.missing}")
            for name, text in facts.items():
                echo(textwrap.fill(f"{name:<12} {text}", WIDTH, initial_indent="  ", subsequent_indent=" " * 15))
            for note in notes:
                echo(textwrap.fill(f"note: {note}", WIDTH, subsequent_indent="  "))
    if not no_host:
        report = check_host(checked, host)
        answer |= {"host": host_data(report)}
        if not as_json:
            echo(("\n" if "file" in answer else "") + render_host(report))
    if connects and checked is not None:
        look = _look_at(checked)
        is_ready, passes = is_ready and look.error is None, passes and look.error is None
        answer |= {"ready": is_ready, "server": server_data(look)}
        if not as_json:
            echo(f"\n{render_server(look)}")
    if as_json:
        echo(json.dumps(answer, indent=2))
    if not passes:
        sys.exit(1)


def _look_at(checked: Checked) -> "ServerLook":
    from pgtrial.engine.preview import look_at_server
    from pgtrial.postgres.connect import forget_caller

    if checked.loaded.experiment.target.kind != "server":
        raise click.UsageError("--connect has no meaning here: the file names no existing server")
    return look_at_server(checked.plan, checked.loaded.folder, forget_caller())


def server_data(look: "ServerLook") -> dict[str, Any]:
    """For --json."""
    return {
        **look.facts,
        "session_settings": look.session,
        "server_settings": look.shared,
        "caveats": [
            {"code": found.code, "severity": found.severity, "text": found.text, "hint": found.hint}
            for found in look.caveats
        ],
        "error": look.error.message if look.error else None,
    }


def render_server(look: "ServerLook") -> str:
    """Plain text of at most 80 columns, except for longer words and statements."""
    lines = [
        textwrap.fill(f"{name:<12} {text}", WIDTH, subsequent_indent=" " * 13) for name, text in look.facts.items()
    ]
    if look.session:
        whose = (
            "every session of the load's role in its database"
            if look.by_role
            else "the load's sessions, which nobody else feels"
        )
        text = f"Settings of {whose}: {', '.join(look.session)}."
        lines.append(fill(text))
    if look.shared:
        text = f"Changed for the whole server, which every application feels: {', '.join(look.shared)}."
        lines.append(fill(text))
    for caveat in look.caveats:
        lines.append(fill(caveat.text, first=f"  {_SYMBOLS[caveat.severity]} ", indent="    "))
        if caveat.hint:
            lines.append(fill(caveat.hint, first="    → ", indent="      "))
    return "\n".join([*lines, render_error(look.error).rstrip() if look.error else "  The experiment can run there."])


# What check says of the host: what would disturb a measurement there, with what the file asks for in mind.


_SYMBOLS = {Severity.WARNING: "!", Severity.INFO: "i"}


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReport:
    """Warnings about a host; if it could not be examined, ``situation`` is None and ``unreachable`` says why."""

    name: str
    situation: Situation | None
    remarks: tuple[Disturbance, ...] = ()
    unreachable: str = ""


def check_host(checked: Checked | None, named: str | None = None) -> HostReport:
    """Examine the experiment's host, if it is this machine or ``named``; without an experiment, whichever is named."""
    address = host_to_ask(checked, named) if checked else named or LOCAL
    if checked and address is None:
        name = checked.loaded.experiment.target.host or LOCAL
        return HostReport(name=name, situation=None, unreachable=f"only --host {name} on the command line asks it")

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
        return fill(f"{name}: not looked at: {report.unreachable}", first="", indent="")
    lines = [fill(f"{name}: {_describe(report.situation)}", first="")]
    if not report.remarks:
        lines.append("  Nothing was found that would disturb a measurement.")
    for remark in report.remarks:
        lines.append(fill(remark.text, first=f"  {_SYMBOLS[remark.severity]} ", indent="    "))
        lines.append(fill(remark.why, first="    ", indent="    "))
        if remark.remedy:
            lines.append(fill(remark.remedy, first="    → ", indent="      "))
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
    if len(indent + command) <= WIDTH:
        return (indent + command,)
    pieces = command.replace(" | ", " |\0").replace(" && ", " &&\0").split("\0")
    return tuple(f"{indent}{'  ' if number else ''}{piece}" for number, piece in enumerate(pieces))
