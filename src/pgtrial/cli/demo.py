"""pgtrial demo: a question with a known answer, answered here."""

from pathlib import Path

import click


@click.command()
@click.option("--blocks", default=None, metavar="N", type=click.IntRange(min=2), help="Number of blocks. Default: 6.")
@click.option("--duration", default=None, metavar="TIME", help="Measured time per run. Default: 4s.")
@click.option(
    "--postgres",
    default=None,
    metavar="WHICH",
    help="Major version, such as 16, or directory with the programs. Default: the first found.",
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
    help="Where the data live while the demo runs. Default: /var/tmp.",
)
@click.option("-q", "--quiet", is_flag=True, help="No progress on standard error.")
def command(
    *,
    blocks: int | None,
    duration: str | None,
    postgres: str | None,
    results: Path,
    work_directory: Path | None,
    quiet: bool,
) -> None:
    """Show in under 3 minutes what pgtrial does, on a throw-away PostgreSQL.

    Does a simple update get faster when a commit does not wait for the disk? It must, and a second copy of the
    control (the placebo) must not differ from it.

    \b
    Example:
      pgtrial demo
    """
    from pgtrial.cli.session import run_and_report
    from pgtrial.engine.experiment import create_folder
    from pgtrial.spec.load import parse_experiment

    text = Path(__file__).with_name("demo.toml").read_text(encoding="utf-8")
    for line, value in (
        ("blocks  = 6", blocks and f"blocks  = {blocks}"),
        ('duration = "4s"', duration and f'duration = "{duration}"'),
        ("[dataset]", postgres and f'[target]\npostgres = "{postgres}"\n\n[dataset]'),
    ):
        if value:
            text = text.replace(line, str(value), 1)
    loaded = parse_experiment(text, "demo.toml", Path.cwd())
    run_and_report(create_folder(loaded, results), work_directory=work_directory, quiet=quiet)
