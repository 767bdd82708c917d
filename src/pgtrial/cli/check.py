"""pgtrial check: everything that is wrong with an experiment file."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from textwrap import fill

import click

from pgtrial.cli import options


@click.command()
@options.file
@click.option("--json", "as_json", is_flag=True, help="Print as JSON, errors as well.")
def command(*, file: Path, as_json: bool) -> None:
    """Check the experiment in FILE; nothing is started or changed.

    Prints what the file asks for, or every error with its line, and exits with 2 if there is one.

    \b
    Example:
      pgtrial check experiment.toml
    """
    from pgtrial.cli.checked import check_file
    from pgtrial.cli.plan_facts import describe_facts
    from pgtrial.errors import SpecError

    try:
        checked = check_file(file)
    except SpecError as error:
        if not as_json:
            raise
        problems = [asdict(problem) for problem in error.problems]
        click.echo(json.dumps({"ok": False, "file": str(file), "error": error.message, "problems": problems}, indent=2))
        sys.exit(error.exit_code)
    facts, notes = describe_facts(checked)
    if as_json:
        click.echo(json.dumps({"ok": True, "file": str(file), **facts, "notes": notes}, indent=2))
        return
    click.echo(f"ok: {file}")
    for name, text in facts.items():
        click.echo(fill(f"{name:<12} {text}", 80, initial_indent="  ", subsequent_indent=" " * 15))
    for note in notes:
        click.echo(f"note: {note}")
