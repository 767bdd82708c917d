"""pgtrial check: everything that is wrong with an experiment file, and what would disturb it on its host."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from textwrap import fill
from typing import Any

import click


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option(
    "--host/--no-host",
    "host",
    default=None,
    help="Only the host, or only the file. Default: both; without FILE the host.",
)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON, errors as well.")
def command(*, file: Path | None, host: bool | None, as_json: bool) -> None:
    """Check the experiment in FILE, and look at its host; nothing is started or changed.

    Prints what the file asks for, or every error with its line, and exits with
    2 if there is one. Then says what would disturb a measurement on the host,
    for which it looks at it for a second; these remarks are no errors. Without
    FILE it does so for this machine.

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
        from pgtrial.cli.host_check import check_host, host_data, render_host

        report = check_host(checked)
        answer |= {"host": host_data(report)}
        if not as_json:
            click.echo(("\n" if "file" in answer else "") + render_host(report))
    if as_json:
        click.echo(json.dumps(answer, indent=2))
