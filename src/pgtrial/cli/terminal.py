"""What is printed: nothing in it steers the terminal, whoever wrote it.

Importing this must stay as cheap as importing click.
"""

import logging
import traceback

import click

KEPT = "\n\t"


def echo(text: str = "", *, nl: bool = True, err: bool = False) -> None:
    """Print a text, with what would steer a terminal written out."""
    click.echo(visible(text), nl=nl, err=err)


def visible(text: str) -> str:
    """The text with all but line breaks and tabs written out."""
    from pgtrial.safe_text import make_visible

    return make_visible(text, keep=KEPT)


def visible_traceback(error: BaseException) -> str:
    """As Python prints it."""
    return visible("".join(traceback.format_exception(error)))


class VisibleFormatter(logging.Formatter):
    """Of a log that goes to the terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))
