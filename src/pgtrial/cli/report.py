"""pgtrial report: analyse a result folder again."""

from pathlib import Path

import click


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "-o",
    "--output",
    default=None,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where the page goes. Default: report.html in DIR.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON instead of the summary.")
def command(*, folder: Path, output: Path | None, as_json: bool) -> None:
    r"""Analyse result folder DIR again; write findings.json and report.html and print the summary.

    Needs nothing but the folder: no server, no network.

    \b
    Example:
      pgtrial report results/first-20260120T101500Z --output first.html
    """
    from pgtrial.analysis.analyze import analyze
    from pgtrial.analysis.findings import write_findings
    from pgtrial.errors import StoreError
    from pgtrial.report.html import write_html
    from pgtrial.report.text import render_text
    from pgtrial.store import layout

    findings = analyze(folder)
    path = output or folder / layout.REPORT
    try:
        write_findings(findings, folder)
        write_html(findings, path)
    except OSError as error:
        raise StoreError(f'cannot write "{error.filename or path}"', detail=f"{error.strerror}.") from error
    if as_json:
        click.echo(findings.model_dump_json(indent=2))
    else:
        click.echo(render_text(findings))
        click.echo(f"\nreport: {path}")
