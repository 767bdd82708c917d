"""pgtrial schema: the JSON Schema of the experiment file."""

import click

from pgtrial.cli.terminal import echo


@click.command()
def command() -> None:
    """Print the JSON Schema of the experiment file; editors complete and check TOML with it.

    \b
    Example:
      pgtrial schema > experiment.schema.json
    """
    from pgtrial.experiment_file.fields import render_schema

    echo(render_schema(), nl=False)
