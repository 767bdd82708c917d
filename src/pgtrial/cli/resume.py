"""pgtrial resume: go on with an interrupted experiment."""

from pathlib import Path

import click


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--work-directory",
    default=None,
    metavar="DIRECTORY",
    type=click.Path(path_type=Path),
    help="Where the data live while the experiment runs. Default: as the file says, else /var/tmp.",
)
@click.option("--assert", "gate", is_flag=True, help="Exit with 3 if refuted, 4 if inconclusive, 5 if invalid.")
@click.option("-q", "--quiet", is_flag=True, help="No progress on standard error.")
def command(*, folder: Path, work_directory: Path | None, gate: bool, quiet: bool) -> None:
    """Finish the schedule in result FOLDER; finished runs are kept.

    \b
    Example:
      pgtrial resume results/first-20260120T101500Z
    """
    from pgtrial.cli.session import run_and_report

    run_and_report(folder, work_directory=work_directory, gate=gate, quiet=quiet)
