"""pgtrial suggest: experiment files for the questions that a finished experiment leaves open."""

from pathlib import Path

import click

from pgtrial.cli import options
from pgtrial.cli.terminal import echo


@click.command()
@options.folder
@click.option(
    "-o",
    "--output",
    default=Path(),
    metavar="DIRECTORY",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the files are written. Default: the current directory.",
)
def command(*, folder: Path, output: Path) -> None:
    """Write experiment files for the next questions after result FOLDER.

    Each follows from a finding: a claim that needs more blocks, a setting that
    had nothing to act on, settings that were changed together, two values where
    the best may lie between. No file is overwritten, and nothing is run.

    \b
    Example:
      pgtrial suggest results/first-20260120T101500Z
    """
    from pgtrial.cli.checked import check_file
    from pgtrial.cli.findings import find_findings
    from pgtrial.errors import PgTrialError, PreflightError, StoreError
    from pgtrial.experiment_file.load import LARGEST_FILE
    from pgtrial.experiment_file.reach import OPTION
    from pgtrial.export.follow_ups import follow_ups
    from pgtrial.language import ENGLISH, find_language
    from pgtrial.report.words import goes_on
    from pgtrial.safe_files import make_directories, read_file, write_file
    from pgtrial.safe_text import shell_word
    from pgtrial.store import layout
    from pgtrial.units import format_duration

    findings = find_findings(folder, find_language(ENGLISH))
    path = folder / layout.EXPERIMENT
    try:
        found = follow_ups(findings, read_file(path, limit=LARGEST_FILE).decode(), folder)
    except OSError as err:
        raise StoreError(f'cannot read "{path}": {err.strerror}') from err
    except ValueError as err:
        raise StoreError(f'"{path}" is damaged: {err}') from err
    if findings.hypothesis.provisional:
        is_left = f'"pgtrial resume {shell_word(folder)}" goes on' if goes_on(findings) else "a guardrail has ended it"
        echo(f"The experiment is not finished, and its verdict is provisional: {is_left}.")
    if not found:
        echo("No question follows from this experiment.")
        return
    paths = {each.name: output / f"{each.name}.toml" for each in found}
    there = [str(path) for path in paths.values() if path.exists()]
    if there:
        raise PreflightError(f"already exists: {', '.join(there)}", hint="Name another directory with --output.")
    try:
        make_directories(output)
    except OSError as err:
        raise StoreError(f'cannot make the directory "{output}": {err.strerror}') from err
    for each in found:
        write_file(paths[each.name], each.text)
        try:
            time = f"about {format_duration(check_file(paths[each.name], allow_files=[folder]).plan.estimate.total)}"
        except PgTrialError as err:
            time = f"its time is not known: {err}"
        echo(f"{paths[each.name]}: {each.reason} ({time})")
    if (folder / layout.FILES).is_dir() and any((folder / layout.FILES).iterdir()):
        echo(f'Their scripts are those of the folder: run them with "{OPTION} {folder}".')
