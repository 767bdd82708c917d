"""pgtrial status: how far an experiment is, and whether something was left behind."""

import json
from pathlib import Path

import click


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def command(*, folder: Path, as_json: bool) -> None:
    r"""Say how far the experiment in result FOLDER is; end what a killed pgtrial left running.

    \b
    Example:
      pgtrial status results/first-20260120T101500Z
    """
    from pgtrial.engine.status import read_status

    status = read_status(folder)
    if as_json:
        click.echo(json.dumps(status.as_dict()))
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
    if status.state == "interrupted":
        click.echo(f'Go on with "pgtrial resume {folder}".')
