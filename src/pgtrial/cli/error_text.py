"""Errors as text: PostgreSQL's three parts, and every problem of an experiment file with its place."""

import textwrap

import click

from pgtrial.errors import PgTrialError, SpecError, SpecProblem

_WIDTH = 100  # of hints; a message stays on its line, so that it can be searched for


def render_error(error: PgTrialError) -> str:
    """The message, the problems, the detail and the hint, each on lines of its own."""
    lines = [f"error: {error.message}"]
    if isinstance(error, SpecError):
        for problem in error.problems:
            lines += _render_problem(problem, error.source)
    for label, text in (("detail", error.detail), ("hint", error.hint)):
        if text:
            lines += [
                f"{label}: {line}" if not number else f"  {line}" for number, line in enumerate(text.splitlines())
            ]
    return "\n".join(lines) + "\n"


def render_usage(error: click.ClickException) -> str:
    """A wrong option or argument in the same form."""
    message = error.format_message().rstrip(".")
    message = message[:1].lower() + message[1:] if not message[:2].isupper() else message
    text = f"error: {message}\n"
    if isinstance(error, click.UsageError) and error.ctx is not None:
        text += f'hint: Try "{error.ctx.command_path} --help".\n'
    return text


def _render_problem(problem: SpecProblem, source: str) -> list[str]:
    place = ":".join(str(part) for part in (source, problem.line) if part)
    lines = ["  " + ": ".join(part for part in (place, problem.path, problem.message) if part)]
    if problem.hint:
        lines += textwrap.wrap(
            f"hint: {problem.hint}", _WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 10, break_on_hyphens=False
        )
    return lines
