"""pgtrial predict: what a change would bring, from the ledger of an experiment."""

import json
from pathlib import Path

import click

from pgtrial.cli import options
from pgtrial.cli.terminal import echo
from pgtrial.report.words import change_text, interval_text
from pgtrial.units import format_share


def _read_changes(_context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]) -> dict[str, float]:
    changes = {}
    for text in texts:
        name, _, factor = text.partition("=")
        try:
            changes[name.strip()] = float(factor)
        except ValueError:
            raise click.BadParameter(f'"{text}" is no NAME=FACTOR') from None
        if not 0.01 <= changes[name.strip()] <= 100:
            raise click.BadParameter(f"the factor of {name} is not from 0.01 to 100")
    return changes


@click.command()
@options.folder
@click.option(
    "--change",
    "changes",
    multiple=True,
    required=True,
    metavar="NAME=FACTOR",
    callback=_read_changes,
    help="How many times as long a time would be: flush=0.5 is half as long. Repeat for more.",
)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def command(*, folder: Path, changes: dict[str, float], as_json: bool) -> None:
    """Predict throughput after a change, from a result folder of "pgtrial limits".

    The interval is for what an experiment of as many blocks would find, in 90
    of 100 cases, whether times follow or hide behind each other. Beyond the
    steps that were tried, which is told, it may hold less often.

    \b
    Example:
      pgtrial predict results/limits-on-demo-20260120T101500Z --change flush=0.8
    """
    from pgtrial.analysis.causes.ledger import CONFIDENCE, predict_change

    found = predict_change(folder, changes)
    ratio = found.ratio
    if as_json:
        values = {"arm": found.arm, "ratio": ratio.value, "low": ratio.low, "high": ratio.high}
        echo(json.dumps({**values, "confidence": CONFIDENCE, "beyond": found.beyond, "fits": found.fits}))
        return
    interval = ""
    if ratio.low is not None and ratio.high is not None:
        interval = f" ({format_share(CONFIDENCE)} interval {interval_text(ratio.low, ratio.high, ratio.value)})"
    echo(f"throughput of {found.arm}: {change_text(ratio.value, ratio.low, ratio.high)}{interval}")
    for name, step in found.beyond.items():
        echo(f"note: {name} was tried up to {step:.3g} times; what lies beyond 1/{step:.3g} or {step:.3g} is a guess")
    if not found.fits:
        echo("note: the elasticities change within the step, so that a smaller step would predict something else")
