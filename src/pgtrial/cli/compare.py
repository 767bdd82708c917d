"""pgtrial compare: several experiments, or several plain pgbench logs, side by side."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from pgtrial.analysis.comparison_findings import ExperimentComparison, LogComparison


@click.command()
@click.argument("folders", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--pgbench-log",
    "logs",
    multiple=True,
    metavar="PATH",
    type=click.Path(path_type=Path),
    help='A log of "pgbench -l", or a folder of them. Given twice or more; the others are compared with the first.',
)
@click.option(
    "--skip",
    default=None,
    metavar="TIME",
    help="Leave out so much at the start of each log, as warm-up: 30s. Default: nothing.",
)
@click.option(
    "-o",
    "--output",
    default=None,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a page with charts there too, such as compare.html.",
)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def command(
    *, folders: tuple[Path, ...], logs: tuple[Path, ...], skip: str | None, output: Path | None, as_json: bool
) -> None:
    """Show the experiments of result FOLDERS side by side: what differs between them first, then their effects.

    What repeats (the same arms, metric and workload, on another day or host) is combined by meta-analysis; what only
    shares the control is compared indirectly; nothing else is put together. The folders are only read.

    With --pgbench-log it compares plain logs, without an experiment: throughput and latency, and what cannot be known
    from runs that were not made in blocks. There is no verdict then.

    \b
    Examples:
      pgtrial compare results/commit-monday results/commit-tuesday -o compare.html
      pgtrial compare --pgbench-log old/ --pgbench-log new/ --skip 30s
    """
    from pgtrial.report.words import escape_json

    _check(folders, logs, skip)
    if output is not None:
        _check_output(output)
    found = _compare_logs(logs, skip) if logs else _compare_experiments(folders)
    if output is not None:
        _write(found, output)
    if as_json:
        click.echo(escape_json(found.model_dump_json(indent=2)))
        return
    click.echo(_render(found))
    if output is not None:
        click.echo(f"\npage: {output}")


def _check(folders: tuple[Path, ...], logs: tuple[Path, ...], skip: str | None) -> None:
    """Whether there are two things of one kind, each once."""
    from pgtrial.report.words import make_visible

    if folders and logs:
        raise click.UsageError("give result folders or --pgbench-log, not both")
    if folders and skip is not None:
        raise click.UsageError("--skip is for --pgbench-log; the runs of an experiment have left out their warm-up")
    given = folders or logs
    if len(given) < 2:
        what = "two --pgbench-log options" if logs else "two result folders, or two --pgbench-log options"
        raise click.UsageError(f"a comparison needs at least {what}")
    seen: dict[Path, Path] = {}
    for path in given:
        other = seen.setdefault(path.resolve(), path)
        if other is not path:
            raise click.UsageError(f'"{make_visible(str(path))}" is given twice')


def _check_output(path: Path) -> None:
    """Tell before the long part that there is no place for the page."""
    from pgtrial.errors import StoreError
    from pgtrial.experiment_file.places import is_directory

    if not is_directory(path.parent):
        raise StoreError(f'cannot write "{path}": there is no folder "{path.parent}"')


def _compare_experiments(folders: tuple[Path, ...]) -> "ExperimentComparison":
    from pgtrial.analysis.compare.experiments import compare_experiments

    return compare_experiments(folders)


def _compare_logs(logs: tuple[Path, ...], skip: str | None) -> "LogComparison":
    from pgtrial.analysis.compare.logs import compare_logs
    from pgtrial.units import parse_duration

    try:
        seconds = 0.0 if skip is None else parse_duration(skip)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--skip") from error
    return compare_logs(logs, skip=seconds)


def _write(found: "ExperimentComparison | LogComparison", path: Path) -> None:
    from pgtrial.errors import StoreError
    from pgtrial.report.comparison.page import write_comparison

    try:
        write_comparison(found, path)
    except OSError as error:
        raise StoreError(f'cannot write "{path}": {error.strerror}') from error


def _render(found: "ExperimentComparison | LogComparison") -> str:
    from pgtrial.analysis.comparison_findings import ExperimentComparison
    from pgtrial.report.comparison.text import render_experiments, render_logs

    return render_experiments(found) if isinstance(found, ExperimentComparison) else render_logs(found)
