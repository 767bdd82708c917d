"""pgtrial init: an experiment file to start from."""

import os
from pathlib import Path

import click

from pgtrial.cli.terminal import echo

EXAMPLE = Path(__file__).with_name("example.toml")


@click.command()
@click.argument("path", default="experiment.toml", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def command(*, path: Path, force: bool) -> None:
    """Write a commented example of an experiment file to PATH.

    \b
    Examples:
      pgtrial init
      pgtrial init checkpoints.toml
    """
    from pgtrial.errors import SpecError
    from pgtrial.safe_files import write_file
    from pgtrial.safe_text import shell_word

    try:
        if not force and os.path.lexists(path):
            raise SpecError(f'"{path}" already exists', hint="Choose another name, or replace it with --force.")
        write_file(path, EXAMPLE.read_bytes())
    except OSError as error:
        raise SpecError(f'cannot write "{path}": {error.strerror}') from error
    echo(f"wrote {path}")
    word = shell_word(path)
    echo(f"next: pgtrial check {word}, pgtrial plan {word}, pgtrial run {word}")
