"""pgtrial compare: several experiments side by side."""

from pathlib import Path

import click


@click.command()
@click.argument("folders", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    default=None,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a page with charts there too, such as compare.html.",
)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def command(*, folders: tuple[Path, ...], output: Path | None, as_json: bool) -> None:
    """Show the experiments of result FOLDERS side by side: what differs between them first, then their effects.

    What repeats (the same arms, metric and workload, on another day or host) is combined by meta-analysis; what only
    shares the control is compared indirectly; nothing else is put together. The folders are only read.

    \b
    Example:
      pgtrial compare results/commit-monday results/commit-tuesday -o compare.html
    """
    from pgtrial.analysis.compare.experiments import compare_experiments
    from pgtrial.errors import StoreError
    from pgtrial.report.comparison.page import write_comparison
    from pgtrial.report.comparison.text import render_experiments
    from pgtrial.report.words import escape_json

    _check(folders)
    if output is not None:
        _check_output(output)
    comparison = compare_experiments(folders)
    if output is not None:
        try:
            write_comparison(comparison, output)
        except OSError as error:
            raise StoreError(f'cannot write "{output}": {error.strerror}') from error
    if as_json:
        click.echo(escape_json(comparison.model_dump_json(indent=2)))
        return
    click.echo(render_experiments(comparison))
    if output is not None:
        click.echo(f"\npage: {output}")


def _check(folders: tuple[Path, ...]) -> None:
    """Whether there are two folders, each once, and no log."""
    from pgtrial.report.words import make_visible

    for path in folders:
        if _is_log(path):
            raise click.UsageError(
                f'"{make_visible(str(path))}" is no result folder but a log of pgbench: compare compares result '
                "folders, for one run each cannot tell what was changed from what else changed meanwhile. Make an "
                'experiment file with the two settings as arms ("pgtrial init"), and "pgtrial run" it.'
            )
    if len(folders) < 2:
        raise click.UsageError("a comparison needs at least two result folders")
    seen: dict[Path, Path] = {}
    for path in folders:
        other = seen.setdefault(path.resolve(), path)
        if other is not path:
            raise click.UsageError(f'"{make_visible(str(path))}" is given twice')


def _is_log(path: Path) -> bool:
    """Whether it is a file, or a folder of what "pgbench -l" writes."""
    from pgtrial.store import layout

    return path.is_file() or (not (path / layout.STATE).exists() and any(path.glob("pgbench_log.*")))


def _check_output(path: Path) -> None:
    """Tell before the long part that there is no place for the page."""
    from pgtrial.errors import StoreError
    from pgtrial.experiment_file.places import is_directory

    if not is_directory(path.parent):
        raise StoreError(f'cannot write "{path}": there is no folder "{path.parent}"')
