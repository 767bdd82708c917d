"""pgtrial unpack: check a bundle and turn it back into a result folder."""

from pathlib import Path

import click

from pgtrial.cli import options
from pgtrial.cli.terminal import echo


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@options.results
@click.option("--check", is_flag=True, help="Only compare the checksums; write nothing.")
def command(*, bundle: Path, results: Path, check: bool) -> None:
    """Compare the checksums of a BUNDLE, and unpack it into a new result folder.

    Every file has to be there, unchanged, and no other one. The folder can then be given to every other command.

    \b
    Example:
      pgtrial unpack first-20260120T101500Z.pgtrial.zip
    """
    from pgtrial.export.archive import unpack, verify
    from pgtrial.safe_text import make_visible, shell_word

    name, facts = verify(bundle)
    taken_out = f"; taken out: {', '.join(facts.redacted)}" if facts.redacted else ""
    about = make_visible(f"{name}, packed by pgtrial {facts.pgtrial_version}{taken_out}")
    echo(f"checksums are right: {about}")
    if not check:
        folder = unpack(bundle, results)
        echo(f"results: {folder}")
        echo(f'Analyse it again with "pgtrial report {shell_word(folder)}".')
