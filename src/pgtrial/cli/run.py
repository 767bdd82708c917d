"""pgtrial run: do the experiment."""

from pathlib import Path

import click


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option(
    "-s",
    "--setting",
    "settings",
    multiple=True,
    metavar="NAME=A,B",
    help="Without a file: compare values of a setting; the first is the control. "
    "Repeat for every combination; a single value holds for all arms.",
)
@click.option(
    "--mix",
    default=None,
    metavar="NAME",
    help="Without a file: oltp, olap, tpcb-like, simple-update (default), select-only.",
)
@click.option("--clients", default=None, metavar="N", type=int, help="Without a file: number of clients. Default: 8.")
@click.option("--duration", default=None, metavar="TIME", help="Without a file: measured time per run. Default: 30s.")
@click.option(
    "--scale", default=None, metavar="N", type=int, help="Without a file: pgbench scale. Default: 10, about 150 MB."
)
@click.option("--blocks", default=None, metavar="N", type=int, help="Without a file: number of blocks. Default: 6.")
@click.option(
    "--budget",
    default=None,
    metavar="TIME",
    help="Without a file: time for everything, such as 45min, instead of blocks.",
)
@click.option(
    "--margin", default=None, metavar="PERCENT", help="Without a file: smallest effect that matters. Default: 3%."
)
@click.option(
    "--postgres",
    default=None,
    metavar="WHICH",
    help="Without a file: major version, such as 16, or directory with the programs. Default: the first found.",
)
@click.option(
    "--seed", default=None, metavar="N", type=int, help="Without a file: seed of the random order. Default: 1."
)
@click.option(
    "--results",
    default=Path("results"),
    metavar="DIRECTORY",
    type=click.Path(path_type=Path),
    help="Where the result folder is made. Default: results.",
)
@click.option(
    "--work-directory",
    default=None,
    metavar="DIRECTORY",
    type=click.Path(path_type=Path),
    help="Where the data live while the experiment runs. Default: as the file says, else /var/tmp.",
)
@click.option("--assert", "gate", is_flag=True, help="Exit with 3 if refuted, 4 if inconclusive, 5 if invalid.")
@click.option("-q", "--quiet", is_flag=True, help="No progress on standard error.")
def command(
    *,
    file: Path | None,
    settings: tuple[str, ...],
    results: Path,
    work_directory: Path | None,
    gate: bool,
    quiet: bool,
    **quick: "str | int | None",
) -> None:
    """Run the experiment in FILE, or a quick one given by options.

    \b
    Examples:
      pgtrial run experiment.toml
      pgtrial run -s shared_buffers=128MB,1GB --mix select-only --budget 10min
    """
    from pgtrial.cli.options import load_file_or_quick
    from pgtrial.cli.session import run_and_report
    from pgtrial.engine.experiment import create_folder

    loaded = load_file_or_quick(file, settings, quick)
    folder = create_folder(loaded, results)
    run_and_report(folder, work_directory=work_directory, gate=gate, quiet=quiet)
