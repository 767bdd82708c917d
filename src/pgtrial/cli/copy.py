"""pgtrial copy: a copy of the database that an experiment file names, and the file for it."""

import os
from collections.abc import Sequence
from pathlib import Path

import click

from pgtrial.cli import options
from pgtrial.cli.terminal import echo


@click.command()
@options.file
@click.option(
    "--as", "name", default=None, metavar="NAME", help="Name of the copy on the same server. Default: DATABASE_copy."
)
@click.option(
    "--dump",
    default=None,
    metavar="PATH",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Instead, dump the database with pg_dump to this file, for a throw-away cluster.",
)
@click.option(
    "-o",
    "--output",
    default=None,
    metavar="PATH",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The experiment file for the copy. Default: FILE-copy.toml, beside FILE.",
)
def command(*, file: Path, name: str | None, dump: Path | None, output: Path | None) -> None:
    """Copy the existing database that FILE names, and write the same experiment for the copy.

    On the same server, a copy of the files is made, for which nobody may be
    connected to the database. With --dump, people may stay connected; the
    dump is loaded into a cluster that pgtrial makes and removes.

    \b
    Examples:
      pgtrial copy erp.toml
      pgtrial copy erp.toml --dump erp.dump
    """
    from pgtrial.engine.copying import copy_on_server
    from pgtrial.engine.copying import dump as dump_database
    from pgtrial.errors import PreflightError
    from pgtrial.experiment_file.copy_text import for_database, for_dump, for_folder
    from pgtrial.experiment_file.load import examine, read_text, refuse
    from pgtrial.experiment_file.reach import files_in
    from pgtrial.postgres.connect import forget_caller
    from pgtrial.safe_files import write_file
    from pgtrial.safe_text import shell_word
    from pgtrial.units import format_bytes

    text = read_text(file)
    examination = examine(text, file.absolute().parent)
    experiment = examination.experiment
    if experiment is None:
        raise refuse(str(file), examination.problems)
    # What is wrong with the file for the original, as SQL that it may not have run, may be right for the copy.
    target = experiment.target
    if target.kind != "server" or target.database is None:
        raise PreflightError(
            f'"{file}" names no existing database to copy',
            hint='It does with kind = "server" and database = "…" in [target].',
        )
    if name is not None and dump is not None:
        raise click.UsageError("--as and --dump exclude each other")
    output = output or file.with_name(f"{file.stem}-copy.toml")
    _check_places(output, dump)
    folder, named = output.absolute().parent, [one for _, one in files_in(experiment)]
    text = for_folder(text, named, file.absolute().parent, folder)
    name, caller = name or f"{target.database}_copy", forget_caller()
    if dump is None:
        new_text = for_database(text, name, original=target.database)
        copied = copy_on_server(experiment, name, caller, output)
        size, made = copied.size, f'database "{name}"'
        lacking = "The copy lacks settings of the original, which your role may not give it", copied.left_out
    else:
        for_dump(text, str(dump.absolute()), version=0)  # what is wrong with the file is told before
        dumped = dump_database(experiment, dump, caller, output)
        size, made = dumped.size, f'"{dump}"'
        new_text = for_dump(text, str(dump.absolute()), version=dumped.major)
        lacking = "Sessions of the original begin with settings that belong into [target.postgresql]", dumped.settings
    write_file(output, new_text)
    echo(f'made {made} of database "{target.database}", {format_bytes(size)}')
    what, settings = lacking
    if settings:
        echo(f"{what}: {', '.join(settings)}.")
    echo(f'wrote "{output}"')
    also = _allow_files([*named, *(() if dump is None else (str(dump.absolute()),))], file.absolute().parent, folder)
    if dump is None:
        command = f"pgtrial run {shell_word(output)} --allow-writes{also}"
        echo(f'Run it with "{command}". Nobody but you drops the copy: dropdb {shell_word(name)}')
    else:
        echo(f'Run it with "pgtrial run {shell_word(output)}{also}".')


def _check_places(output: Path, dump: Path | None) -> None:
    """Raise PreflightError where one is no text, which neither an experiment file nor the journal could hold, or where
    the experiment file is there.
    """
    from pgtrial.errors import PreflightError

    for path in filter(None, (dump, output)):
        name = os.fsencode(path.absolute())
        try:
            name.decode()
        except UnicodeDecodeError as err:
            shown = name.decode(errors="backslashreplace")
            raise PreflightError(f'the path "{shown}" is not text in UTF-8', hint="Name another one.") from err
    if os.path.lexists(output):
        raise PreflightError(f'"{output}" already exists', hint="Name another one with --output.")


def _allow_files(named: Sequence[str], here: Path, there: Path) -> str:
    """The options with which an experiment file in directory ``there`` may name what is named ``here``."""
    from pgtrial.experiment_file.places import expand_home
    from pgtrial.experiment_file.reach import OPTION, is_beneath
    from pgtrial.safe_text import shell_word

    places = [here / expand_home(Path(name)) for name in named]
    outside = dict.fromkeys(os.path.realpath(place.parent) for place in places if not is_beneath(place, there))
    return "".join(f" {OPTION} {shell_word(Path(directory))}" for directory in outside)
