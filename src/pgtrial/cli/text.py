"""Errors as text: PostgreSQL's three parts, and every problem of an experiment file with its place."""

import errno
import os
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence

import click

from pgtrial.errors import PgTrialError, SpecError, SpecProblem

_HINT_WIDTH = 100  # a message stays on its line, so that it can be searched for


class NoSuchCommandError(click.UsageError):
    """The group has no command of this name; ``nearest`` is the one the user probably meant, or None."""

    def __init__(self, name: str, commands: Iterable[str], *, context: click.Context) -> None:
        from pgtrial.nearest import nearest_name

        super().__init__(f'no such command "{name}"', context)
        self.nearest = nearest_name(name, commands)


def render_error(error: PgTrialError) -> str:
    """The message, the problems, the detail and the hint, each on its own lines."""
    lines = [f"error: {error.message}"]
    if isinstance(error, SpecError):
        # The first of several may be the message itself.
        for problem in (each for each in error.problems if (each.message, each.hint) != (error.message, error.hint)):
            lines += _render_problem(problem, error.source)
    hint = hint_no_room(error)
    if "space" in error.hint or not hint:
        hint = error.hint
    for label, text in (("detail", error.detail), ("hint", hint)):
        if text:
            lines += [
                f"{label}: {line}" if not number else f"  {line}" for number, line in enumerate(text.splitlines())
            ]
    return "\n".join(lines) + "\n"


def render_no_room(error: OSError, hint: str) -> str:
    """An error of the system that nobody caught, as standard output has it on a full disk."""
    place = f'"{error.filename}"' if error.filename else "the output"
    return f"error: cannot write {place}: {error.strerror}\nhint: {hint}\n"


def render_usage(error: click.ClickException) -> str:
    """A usage error in the same form."""
    message, nearest = error.format_message(), None
    if isinstance(error, click.NoSuchOption):
        # Without click's own proposals, which would follow in the message.
        message, nearest = f'no such option "{error.option_name}"', next(iter(error.possibilities or ()), None)
    elif isinstance(error, NoSuchCommandError):
        nearest = error.nearest
    message = re.sub(r"(?<!\w)'([^']*)'(?!\w)", r'"\1"', message).rstrip(".")
    message = message[:1].lower() + message[1:] if not message[:2].isupper() else message
    hints = [f'Perhaps you meant "{nearest}".'] if nearest else []
    if isinstance(error, click.UsageError) and error.ctx is not None:
        hints.append(f'Try "{error.ctx.command_path} --help".')
    return f"error: {message}\n" + (f"hint: {' '.join(hints)}\n" if hints else "")


def _render_problem(problem: SpecProblem, source: str) -> list[str]:
    place = ":".join(str(part) for part in (source, problem.line) if part)
    lines = ["  " + ": ".join(part for part in (place, problem.path, problem.message) if part)]
    if problem.hint:
        lines += textwrap.wrap(
            f"hint: {problem.hint}",
            _HINT_WIDTH,
            initial_indent=" " * 4,
            subsequent_indent=" " * 10,
            break_on_hyphens=False,
        )
    return lines


# Where nothing more can be written: the disk or a quota is full, or a file may be no larger.

# Libraries and servers pass on what the system says: all of them are known by its words.
_FULL = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT), "database or disk is full")
_TOO_LARGE = os.strerror(errno.EFBIG)
_MAYBE_FULL = "disk I/O error"  # SQLite, of a file beside the database that could not be made larger


def hint_no_room(error: BaseException) -> str:
    """What to do where an error or what caused it says that there is no room; "" where none does."""
    said = "\n".join(str(each) for each in _causes(error))
    if any(words in said for words in _FULL):
        return "Free some space on that disk, or use another one."
    if _TOO_LARGE in said:
        return 'Files may be no larger here: raise the limit that "ulimit -f" shows, or use another disk.'
    if _MAYBE_FULL in said:
        return 'See with "df" whether its disk is full, and with "ulimit -f" whether files may be no larger.'
    return ""


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


# Plain text for standard output: paragraphs, and tables that are aligned, without frames, ready for a pipe.


WIDTH = 80


def fill(text: str, *, first: str = "  ", indent: str = "  ") -> str:
    """The text in lines of at most WIDTH characters, longer words whole; ``first`` begins the first line."""
    return textwrap.fill(
        text, WIDTH, initial_indent=first, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def render_table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, width: int = WIDTH) -> list[str]:
    """Lines with two blanks before each column; the last column is wrapped, so that lines fit into ``width``."""
    table = [heads, *rows] if any(heads) else list(rows)
    widths = [max(len(row[column]) for row in table) for column in range(len(heads))]
    lines: list[str] = []
    for row in table:
        start = "".join(f"  {cell:<{size}}" for cell, size in zip(row[:-1], widths, strict=False)) + "  "
        wrapped = textwrap.wrap(row[-1], max(width - len(start), 20), break_long_words=False, break_on_hyphens=False)
        lines += [(start if not number else " " * len(start)) + part for number, part in enumerate(wrapped or [""])]
    return [line.rstrip() for line in lines]
