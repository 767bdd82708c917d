"""pgtrial export: results in the formats of other programs, or as one archive for a colleague."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgtrial.cli import options
from pgtrial.cli.terminal import echo

if TYPE_CHECKING:
    from pgtrial.export.bundle import Bundled

_FORMATS = ("xlsx", "csv", "parquet", "markdown", "jsonl", "prometheus")
_OF_TABLES = ("csv", "parquet", "jsonl")
_KINDS = ("secrets", "hosts", "queries")


@click.command()
@options.folder
@click.option("--format", "form", type=click.Choice(_FORMATS), help="Format of the exported findings.")
@click.option("--bundle", is_flag=True, help="Pack the folder with checksums, for a colleague to analyse again.")
@click.option(
    "--redact",
    multiple=True,
    type=click.Choice([*_KINDS, "all"]),
    help="Remove this from everything in the bundle. Can be repeated.",
)
@click.option(
    "--table",
    "tables",
    multiple=True,
    metavar="NAME",
    help="Export only this table, with csv, parquet or jsonl. Can be repeated.",
)
@click.option(
    "-o",
    "--output",
    default=None,
    metavar="PATH",
    type=click.Path(path_type=Path),
    help="Output file, or directory for csv and parquet. Default: standard output for markdown, jsonl, "
    "prometheus and a single table as csv, otherwise a name like the folder's in the current directory.",
)
def command(
    *, folder: Path, form: str | None, bundle: bool, redact: Sequence[str], tables: Sequence[str], output: Path | None
) -> None:
    """Write the results in FOLDER in another format.

    The folder is analysed again and only read. Numbers are in base units (s, B, 1/s, ratios), times in UTC. Names that
    a spreadsheet would take for formulas, or a terminal for commands, are written so that they are neither.

    \b
    Examples:
      pgtrial export results/first-20260120T101500Z --format xlsx
      pgtrial export results/first-20260120T101500Z --format csv --table effects
      pgtrial export results/first-20260120T101500Z --bundle --redact all
    """
    _check(form, bundle=bundle, redact=redact, tables=tables)
    if bundle:
        _bundle(folder, output, _KINDS if "all" in redact else redact)
    else:
        assert form is not None  # one of the two was checked to be there
        _export(folder, form, output, tables)


def _check(form: str | None, *, bundle: bool, redact: Sequence[str], tables: Sequence[str]) -> None:
    """Reject combinations of options that make no sense."""
    if bundle == (form is not None):
        raise click.UsageError("give either --format or --bundle", click.get_current_context())
    if redact and not bundle:
        raise click.UsageError("--redact works only with --bundle", click.get_current_context())
    if tables and form not in _OF_TABLES:
        raise click.UsageError(f"--table works only with --format {', '.join(_OF_TABLES)}", click.get_current_context())


def _export(folder: Path, form: str, output: Path | None, tables: Sequence[str]) -> None:
    from pgtrial.analysis.analyze import analyze
    from pgtrial.export import formats

    findings = analyze(folder)
    name = folder.resolve().name
    is_one_table = form == "csv" and len(set(tables)) == 1 and (output is None or not output.is_dir())
    if form in formats.TEXTS or is_one_table:
        text = formats.render_text(findings, form, tables)
        if output is None:
            click.echo(text.encode(), nl=False)
            return
        written = formats.write_text(text, output)
    elif form in formats.PER_TABLE:
        written = formats.write_tables(findings, form, output or Path(f"{name}-{form}"), tables)
    else:
        written = formats.write_spreadsheet(findings, output or Path(f"{name}.xlsx"))
    _say_where(written.path, written.files)


def _say_where(path: Path, files: int) -> None:
    echo(f"wrote {path}" if files == 1 else f"wrote {files} files in {path}", err=True)


def _bundle(folder: Path, output: Path | None, redact: Sequence[str]) -> None:
    from pgtrial.engine.folder import is_locked
    from pgtrial.errors import StoreError
    from pgtrial.export.bundle import write_bundle
    from pgtrial.export.redaction import Redaction
    from pgtrial.safe_text import shell_word

    if is_locked(folder):
        raise StoreError(
            f'result folder "{folder}" is in use by another pgtrial',
            hint=f'Wait until it ends; check its progress with "pgtrial status {shell_word(folder)}".',
        )
    _say_bundle(write_bundle(folder, output, [Redaction(kind) for kind in redact]))


def _say_bundle(made: "Bundled") -> None:
    from pgtrial.report.text import wrap_lines
    from pgtrial.report.words import plural
    from pgtrial.units import format_bytes

    packed, copied = made.packed, made.copied
    echo(f"bundle: {packed.path} ({plural(packed.files, 'file')}, {format_bytes(packed.size)})")
    echo(f"SHA-256: {packed.sha256}")
    notes = []
    if made.redacted:
        notes.append(f"Taken out: {', '.join(made.redacted)}. Look at the report in it before you send it.")
    if copied.left_out:
        notes.append(f"Left out, for pgtrial does not know what is in them: {', '.join(copied.left_out)}.")
    if copied.still_in:
        notes.append(f"Names that you gave stay, and tell what was taken out elsewhere: {', '.join(copied.still_in)}.")
    for note in notes:
        echo("\n".join(wrap_lines(note, 80, indent="  ", first="")), err=True)
