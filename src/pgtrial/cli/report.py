"""pgtrial report: analyse a result folder again."""

from pathlib import Path

import click

from pgtrial.cli import options
from pgtrial.cli.gate import Gate
from pgtrial.cli.terminal import echo
from pgtrial.language import Language
from pgtrial.model.rules import RULES


@click.command()
@options.folder
@click.option(
    "-o",
    "--output",
    default=None,
    type=click.Path(dir_okay=False, path_type=Path),
    help="File for the page. Default: report.html in FOLDER.",
)
@click.option(
    "--rules",
    default=None,
    type=click.Choice([str(version) for version in RULES]),
    metavar="VERSION",
    help=f"Version of the rules to judge by, 1 to {max(RULES)}. Default: that of the experiment's time.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON instead of the summary.")
@options.language
@options.gate
def command(
    *, folder: Path, output: Path | None, rules: str | None, as_json: bool, language: Language, gate: Gate
) -> None:
    """Analyse result FOLDER again; write findings.json and report.html and print the summary.

    Needs nothing but the folder: no server, no network.

    \b
    Examples:
      pgtrial report results/first-20260120T101500Z --output first.html
      pgtrial report results/first-20260120T101500Z --assert --junit first.xml
    """
    from pgtrial.cli.session import print_report, write_report
    from pgtrial.safe_text import escape_json

    gate.prepare()
    reported = write_report(folder, output=output, language=language, rules=None if rules is None else int(rules))
    if as_json:
        echo(escape_json(reported.findings.model_dump_json(indent=2)))
    else:
        print_report(reported)
    gate.write(reported.findings)
    gate.leave(reported.findings)
