"""pgtrial compare: several experiments side by side."""

from pathlib import Path

import click

from pgtrial.cli import options
from pgtrial.cli.terminal import echo


@click.command()
@click.argument("folders", nargs=-1, type=options.FolderPath())
@click.option(
    "-o",
    "--output",
    default=None,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write a page with charts to this file, such as compare.html.",
)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def command(*, folders: tuple[Path, ...], output: Path | None, as_json: bool) -> None:
    """Show the experiments of result FOLDERS side by side: what differs between them first, then their effects.

    Repeated effects (the same arms, metric and workload, on another day or host) are combined by meta-analysis; effects
    that share only the control are compared indirectly; nothing else is combined. The folders are only read.

    \b
    Example:
      pgtrial compare results/commit-monday results/commit-tuesday -o compare.html
    """
    from pgtrial.analysis.compare.experiments import compare_experiments
    from pgtrial.errors import StoreError
    from pgtrial.report.comparison.page import write_comparison
    from pgtrial.report.comparison.text import render_experiments
    from pgtrial.safe_text import escape_json

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
        echo(escape_json(comparison.model_dump_json(indent=2)))
        return
    echo(render_experiments(comparison))
    if output is not None:
        echo(f"\npage: {output}")


def _check(folders: tuple[Path, ...]) -> None:
    """Raise UsageError unless there are at least two folders, each given once, and no pgbench log."""
    from pgtrial.safe_text import make_visible

    for path in folders:
        if _is_log(path):
            raise click.UsageError(
                f'"{make_visible(str(path))}" is a pgbench log, not a result folder: two logs are one run each, which '
                "cannot separate the effect of a change from anything else that changed in the meantime. Write an "
                'experiment file with the two settings as arms ("pgtrial init") and run it ("pgtrial run").'
            )
    if len(folders) < 2:
        raise click.UsageError("a comparison needs at least two result folders")
    seen: dict[Path, Path] = {}
    for path in folders:
        other = seen.setdefault(path.resolve(), path)
        if other is not path:
            raise click.UsageError(f'"{make_visible(str(path))}" is given twice')


def _is_log(path: Path) -> bool:
    """Whether it is a file, or a folder of files that "pgbench -l" writes."""
    from pgtrial.store import layout

    return path.is_file() or (not (path / layout.STATE).exists() and any(path.glob("pgbench_log.*")))


def _check_output(path: Path) -> None:
    """Fail before the long part if the page cannot be written."""
    from pgtrial.errors import StoreError
    from pgtrial.experiment_file.places import is_directory

    if not is_directory(path.parent):
        raise StoreError(f'cannot write "{path}": folder "{path.parent}" does not exist')
