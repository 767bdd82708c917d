"""pgtrial plan: what an experiment will do."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgtrial.cli import options

if TYPE_CHECKING:
    from pgtrial.cli.checked import Checked
    from pgtrial.design.host_facts import HostFacts


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
    from pgtrial.analysis.calibration import find_calibration
    from pgtrial.cli.checked import check_file
    from pgtrial.cli.plan_facts import plan_data
    from pgtrial.cli.plan_text import render_plan
    from pgtrial.engine.preview import preview_experiment

    checked = check_file(file)
    previews, facts = preview_experiment(checked.loaded.experiment, checked.plan.arms)
    checked = _plan_on_host(checked, facts)
    calibration = find_calibration(checked.loaded)
    duration = checked.loaded.experiment.workload.duration
    noise = calibration.noise(checked.plan.method, duration) if calibration else None
    if as_json:
        click.echo(json.dumps(plan_data(checked, previews, noise=noise), indent=2))
    else:
        click.echo(render_plan(checked, previews, noise=noise), nl=False)


def _plan_on_host(checked: "Checked", facts: "HostFacts") -> "Checked":
    """With the method that is valid on the host, which reading the file alone cannot tell. SpecError with its line."""
    from pgtrial.design.plan import make_plan
    from pgtrial.errors import SpecError
    from pgtrial.spec.load import locate_problems, refuse

    loaded = checked.loaded
    try:
        return replace(checked, plan=make_plan(loaded.experiment, facts))
    except SpecError as error:
        raise refuse(loaded.source_name, locate_problems(loaded.text, list(error.problems))) from None
