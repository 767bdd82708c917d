"""Ask the user whether an experiment may execute the code that it brings, or change a database that is there."""

import sys
from collections.abc import Sequence

import click

from pgtrial.cli.terminal import echo
from pgtrial.engine.consent import refuse_code, refuse_writes
from pgtrial.errors import ConsentError
from pgtrial.experiment_file.code_uses import CodeUse


def get_consent(uses: Sequence[CodeUse], *, allowed: bool) -> bool:
    """Whether the code may be executed: allowed by an option, or by an answer at the terminal.

    Raises ConsentError if it may not, or if there is nobody to ask. Without any code nothing is asked or allowed.
    """
    return _ask(
        uses,
        allowed=allowed,
        refusal=refuse_code(uses),
        told="The experiment executes code of its own, with the rights of the server's account where no others are "
        "named:",
        question="Execute it?",
    )


def get_write_consent(writes: Sequence[CodeUse], *, copy_of: str | None, allowed: bool) -> bool:
    """The same for what it changes on a server that is not its own."""
    return _ask(
        writes,
        allowed=allowed,
        refusal=refuse_writes(writes, copy_of=copy_of),
        told="The experiment changes a server that is not its own:",
        question="Change it?",
    )


def _ask(uses: Sequence[CodeUse], *, allowed: bool, refusal: ConsentError, told: str, question: str) -> bool:
    if not uses or allowed:
        return allowed
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise refusal
    echo(told, err=True)
    for use in uses:
        echo(f"  {use.where}: {use.what}", err=True)
    if not click.confirm(question, default=False, err=True):
        raise refusal
    return True
