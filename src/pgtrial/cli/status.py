"""pgtrial status: how far an experiment is, what is known so far, and whether something was left behind."""

import json
from pathlib import Path
from textwrap import fill

import click

FEWEST_BLOCKS = 3  # before that an interval says next to nothing


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def command(*, folder: Path, as_json: bool) -> None:
    """Say how far the experiment in result FOLDER is; end what a killed pgtrial left running.

    From the third complete block on it also says the estimate so far, and the change that could be detected. Looking
    is free, but stopping because of what is seen is not: an experiment that ends when it looks good finds too much.

    \b
    Example:
      pgtrial status results/first-20260120T101500Z
    """
    from pgtrial.engine.status import read_status

    status = read_status(folder)
    estimate = _estimate(folder) if status.blocks >= FEWEST_BLOCKS else None
    if as_json:
        click.echo(json.dumps({**status.as_dict(), "estimate": estimate}))
        return
    click.echo(f"{status.name}: {status.done} of {status.slots} runs done, {status.state}")
    if status.invalid:
        click.echo(f"  {status.invalid} invalid or interrupted attempts, which do not count")
    if status.processes_ended:
        click.echo(f"  {status.processes_ended} processes of a killed pgtrial were still running and have been ended")
    if status.current:
        click.echo(f"  now: {status.current}")
    for line in status.arms:
        click.echo(f"  {line}")
    if estimate is not None:
        click.echo(fill(f"So far, after {status.blocks} blocks: {estimate}", 80, subsequent_indent="  "))
    if status.state == "interrupted":
        click.echo(f'Go on with "pgtrial resume {folder}".')


def _estimate(folder: Path) -> str:
    """The hypothesis as it stands, and what these blocks can detect."""
    from pgtrial.analysis.analyze import analyze
    from pgtrial.units import format_percent

    findings = analyze(folder)
    detectable = findings.noise.detectable
    if detectable is None:
        return findings.hypothesis.reason
    return (
        f"{findings.hypothesis.reason} A change of {format_percent(detectable)} would be found with 80 % probability."
    )
