"""pgtrial plan: what an experiment will do."""

import json
from pathlib import Path

import click

from pgtrial.cli import options


@click.command()
@options.file
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def command(*, file: Path, as_json: bool) -> None:
    """Show what the experiment in FILE will do: order, time, restarts, every setting it changes.

    Nothing is started or changed.

    \b
    Example:
      pgtrial plan experiment.toml
    """
    from pgtrial.cli.checked import check_file
    from pgtrial.cli.plan_facts import plan_data
    from pgtrial.cli.plan_text import render_plan
    from pgtrial.engine.preview import preview_experiment

    checked = check_file(file)
    previews = preview_experiment(checked.loaded.experiment, checked.plan.arms)
    click.echo(
        json.dumps(plan_data(checked, previews), indent=2) if as_json else render_plan(checked, previews), nl=as_json
    )
