"""Ask the user whether an experiment may execute the code that it brings."""

import sys
from collections.abc import Sequence

import click

from pgtrial.cli.terminal import echo
from pgtrial.engine.consent import refuse_code
from pgtrial.experiment_file.code_uses import CodeUse


def get_consent(uses: Sequence[CodeUse], *, allowed: bool) -> bool:
    """Whether the code may be executed: allowed by an option, or by an answer at the terminal.

    Raises ConsentError if it may not, or if there is nobody to ask. Without any code nothing is asked or allowed.
    """
    if not uses or allowed:
        return allowed
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise refuse_code(uses)
    echo("The experiment executes code of its own, with the rights of the server's account:", err=True)
    for use in uses:
        echo(f"  {use.where}: {use.what}", err=True)
    if not click.confirm("Execute it?", default=False, err=True):
        raise refuse_code(uses)
    return True
