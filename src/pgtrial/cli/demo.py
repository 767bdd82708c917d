"""pgtrial demo: a question with a known answer, answered here."""

import json
from pathlib import Path

import click

from pgtrial.cli import options
from pgtrial.language import Language


@click.command()
@click.option("--blocks", default=None, metavar="N", type=click.IntRange(min=2), help="Number of blocks. Default: 6.")
@click.option("--duration", default=None, metavar="TIME", help="Measured time per run. Default: 3s.")
@click.option("--warmup", default=None, metavar="TIME", help="Load before the measured time. Default: 2s.")
@click.option(
    "--postgres",
    default=None,
    metavar="WHICH",
    help="Major version, such as 16, or directory with the programs. Default: the first found.",
)
@options.results
@options.work_directory
@options.language
@options.quiet
def command(
    *,
    blocks: int | None,
    duration: str | None,
    warmup: str | None,
    postgres: str | None,
    results: Path,
    work_directory: Path | None,
    language: Language,
    quiet: bool,
) -> None:
    """Show in under 3 minutes what pgtrial does, on a throw-away PostgreSQL.

    Does a simple update get faster when a commit does not wait for the disk? It must, and a second copy of the
    control (the placebo) must not differ from it.

    \b
    Example:
      pgtrial demo
    """
    from pgtrial.cli.checked import check_options
    from pgtrial.cli.session import run_new
    from pgtrial.engine.experiment import Permission
    from pgtrial.experiment_file.generate import read_time

    text = Path(__file__).with_name("demo.toml").read_text(encoding="utf-8")
    for line, value in (
        ("blocks  = 6", blocks and f"blocks  = {blocks}"),
        ('duration = "3s"', duration and f"duration = {json.dumps(read_time(duration))}"),
        ('warmup   = "2s"', warmup and f"warmup   = {json.dumps(read_time(warmup))}"),
        ("[dataset]", postgres and f"[target]\npostgres = {json.dumps(postgres)}\n\n[dataset]"),
    ):
        if value:
            text = text.replace(line, str(value), 1)
    permission = Permission(work_base=work_directory, code=True)  # the demonstration is pgtrial's own
    run_new(check_options(text), results, permission=permission, language=language, quiet=quiet)
