"""pgtrial resume: go on with an interrupted experiment."""

from pathlib import Path

import click

from pgtrial.cli import options


@click.command()
@options.folder
@options.work_directory
@options.gate
@options.quiet
def command(*, folder: Path, work_directory: Path | None, gate: bool, quiet: bool) -> None:
    """Finish the schedule in result FOLDER; finished runs are kept.

    \b
    Example:
      pgtrial resume results/first-20260120T101500Z
    """
    from pgtrial.cli.session import run_and_report

    run_and_report(folder, work_directory=work_directory, gate=gate, quiet=quiet)
