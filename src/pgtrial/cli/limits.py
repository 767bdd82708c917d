"""pgtrial limits: what limits an arm of a file, by experiment."""

from pathlib import Path

import click

from pgtrial.cli import options
from pgtrial.cli.terminal import echo
from pgtrial.language import Language


@click.command()
@options.file
@click.option("--arm", default=None, metavar="NAME", help="The arm to look at. Default: the first, the control.")
@click.option(
    "--resource",
    "resources",
    multiple=True,
    metavar="NAME",
    help="Slow this one: cpu, flush, files, generator, or a limit that the arm declares, such as write_iops. Repeat "
    "for more. Default: all of them. Memory that it declares, as shared_buffers, is made smaller only if named, and "
    "pauses of scripts (pauses) longer.",
)
@click.option(
    "--step",
    default=1.5,
    metavar="FACTOR",
    type=options.Number(1, min_open=True),
    help="How many times as long a time is. Default: 1.5.",
)
@click.option("--blocks", default=6, metavar="N", type=click.IntRange(min=2), help="Number of blocks. Default: 6.")
@click.option(
    "--duration",
    default=None,
    metavar="TIME",
    help="Measured time per run. Default: 2s, with pauses at least 20 of the longest.",
)
@click.option(
    "--warmup",
    default=None,
    metavar="TIME",
    help="Load before the measured time. Default: 500ms, with memory 10s, with pauses at least 3 of the longest.",
)
@click.option("--method", default="auto", metavar="NAME", help="blocks, interleaved, or auto (default).")
@click.option("--plan", "only_plan", is_flag=True, help="Print what it would do, and run nothing.")
@options.results
@options.work_directory
@options.host_changes
@options.allow_code
@options.allow_files
@options.language
@options.quiet
def command(
    *,
    file: Path,
    arm: str | None,
    resources: tuple[str, ...],
    step: float,
    blocks: int,
    duration: str | None,
    warmup: str | None,
    method: str,
    only_plan: bool,
    results: Path,
    work_directory: Path | None,
    host_changes: bool,
    allow_code: bool,
    allow_files: tuple[Path, ...],
    language: Language,
    quiet: bool,
) -> None:
    """Find what limits an arm of FILE, by how much, and what would limit it next.

    Runs the arm and variants of it in which some of its times are longer: CPU
    time, flushes, waits for files, the load generator's CPU time, and limits
    of the disk that it declares. A library does it that is preloaded into a
    server of pgtrial's own. The report has the share that each has in the
    throughput; together they are 1, and what is missing has not been found.

    \b
    Examples:
      pgtrial limits experiment.toml
      pgtrial limits experiment.toml --arm off --resource cpu --resource flush
    """
    from pgtrial.cli.checked import check_file, check_text
    from pgtrial.cli.consent import get_consent
    from pgtrial.cli.plan import render_plan
    from pgtrial.cli.session import run_new
    from pgtrial.design.limits import limits_experiment
    from pgtrial.engine.consent import uses_of
    from pgtrial.engine.experiment import Permission
    from pgtrial.engine.preview import preview_experiment
    from pgtrial.experiment_file.generate import read_time
    from pgtrial.hosts.base import LOCAL
    from pgtrial.workloads.pauses import longest_sleeps

    given = check_file(file, allow_code=allow_code, allow_files=allow_files)
    text = limits_experiment(
        given.loaded.experiment,
        given.plan.arms,
        arm=arm,
        resources=resources,
        step=step,
        method=method,
        blocks=blocks,
        duration=None if duration is None else read_time(duration),
        warmup=None if warmup is None else read_time(warmup),
        sleeps=longest_sleeps(given.loaded.experiment, given.plan.arms, given.loaded.folder),
    )
    checked = check_text(
        text,
        f"limits of {file}",
        given.loaded.folder,
        on_host=True,
        allow_code=allow_code,
        allow_files=allow_files,
    )
    if only_plan:
        echo(render_plan(checked, preview_experiment(checked.plan, LOCAL)), nl=False)
        return
    uses = uses_of(checked.loaded.experiment, checked.plan.arms, checked.loaded.folder)
    permission = Permission(
        work_base=work_directory,
        host_changes=host_changes,
        code=get_consent(uses, allowed=allow_code),
        files=(given.loaded.folder, *allow_files),
    )
    run_new(checked, results, permission=permission, language=language, quiet=quiet)
