"""The command line: the table of commands, and the one place where errors become text and exit codes.

Importing this module must stay cheap: a command's module is imported when the command is called, so that
``pgtrial --help`` costs little more than Python and click.
"""

import contextlib
import importlib
import logging
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import ClassVar, TextIO

import click

from pgtrial import __version__
from pgtrial.cli.terminal import VisibleFormatter, echo, visible, visible_traceback
from pgtrial.cli.text import NoSuchCommandError, hint_no_room, render_error, render_no_room, render_usage
from pgtrial.errors import PgTrialError

INTERRUPTED = 130  # as a shell reports a program that SIGINT ended
PIPE_CLOSED = 141  # as a shell reports one that SIGPIPE ended
FAILED = 1
COMPLETE = "_PGTRIAL_COMPLETE"  # set by a shell with the script of "pgtrial completion"

# Name and one-line help; the module pgtrial.cli.<name>, "_" for "-", has the click command as ``command``.
COMMANDS: tuple[tuple[str, str], ...] = (
    ("demo", "Show in under 3 minutes what pgtrial does."),
    ("init", "Write a commented example of an experiment file."),
    ("check", "Find errors in a file, and sources of noise on a host."),
    ("plan", "Show what an experiment will do, without running it."),
    ("register", "Print the digest of a claim, to publish it before the run."),
    ("copy", "Copy an existing database, to try things on the copy."),
    ("workload", "Make a load like that of an existing server."),
    ("replay", "Send the statements of a log again, at their times."),
    ("calibrate", "Measure how noisy each method is on this machine."),
    ("run", "Run an experiment."),
    ("limits", "Find what limits an arm, by slowing its resources."),
    ("predict", "Say what a change would bring, before it is made."),
    ("resume", "Continue an interrupted experiment."),
    ("status", "Show the progress of an experiment."),
    ("restore", "Undo host changes that a killed pgtrial left behind."),
    ("report", "Analyse a result folder again and rebuild its report."),
    ("narrate", "Describe in plain words what an experiment found."),
    ("apply", "Print how to make the winner's settings permanent."),
    ("suggest", "Write experiment files for the next questions."),
    ("compare", "Compare experiments."),
    ("watch", "Watch a live server, read-only, and keep what is read."),
    ("compare-times", "Compare two times of a watched server."),
    ("statements", "List a watched server's statements, or show one over time."),
    ("question", "Write experiment files for what two such times point to."),
    ("alarms", "Find changes on a watched server, with few false alarms."),
    ("serve", "Show experiments in a browser, also while they run."),
    ("export", "Write results for other programs, or as one archive."),
    ("unpack", "Check a bundle you received, and unpack it."),
    ("schema", "Print the JSON Schema of the experiment file, for editors."),
    ("completion", "Print what makes a shell complete commands and options."),
)


class LazyGroup(click.Group):
    """A group that lists its commands and their help without importing them."""

    table: ClassVar[dict[str, str]] = dict(COMMANDS)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.table:
            return None
        command = importlib.import_module(f"pgtrial.cli.{cmd_name.replace('-', '_')}").command
        assert isinstance(command, click.Command), cmd_name
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.table:
            raise NoSuchCommandError(args[0], self.table, context=ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(self.table.items()))


def _print_version(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        echo(f"pgtrial {__version__}")
        context.exit()


@click.command(cls=LazyGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("-v", "--verbose", count=True, help="Log what pgtrial does on standard error; twice for more.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Show the version."
)
@click.pass_context
def group(context: click.Context, *, verbose: int, debug: bool) -> None:
    """Validate a claim about PostgreSQL performance by experiment."""
    level = {0: logging.WARNING, 1: logging.INFO}.get(verbose, logging.DEBUG)
    log = logging.StreamHandler(sys.stderr)
    log.setFormatter(VisibleFormatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level, handlers=[log])
    if context.invoked_subcommand is None:
        echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; ``arguments`` are without the program's name."""
    if arguments is None and (instruction := os.environ.get(COMPLETE)):
        return _complete(instruction)
    given = list(sys.argv[1:] if arguments is None else arguments)
    with_traceback = "--debug" in given  # an error may come before the option is parsed
    interrupts: list[int] = []
    try:
        with _noting(interrupts):
            status = _invoke(given)
        sys.stdout.flush()
    except PgTrialError as error:
        _show(render_error(error), error if with_traceback else None)
        status = error.exit_code
    except click.ClickException as error:
        _show(render_usage(error), error if with_traceback else None)
        status = error.exit_code
    except (KeyboardInterrupt, click.Abort):
        _show("interrupted\n", None)
        status = INTERRUPTED
    except BrokenPipeError:
        _discard(sys.stdout)  # the reader has gone, as with "| head"
        status = PIPE_CLOSED
    except Exception as error:
        # A library in C that is interrupted while it is imported may say so in words of its own.
        is_bug = not interrupts
        _show(_render_unexpected(error) if is_bug else "interrupted\n", error if with_traceback else None)
        status = FAILED if is_bug else INTERRUPTED
    try:
        sys.stderr.flush()
    except BrokenPipeError:
        _discard(sys.stderr)
    return status


def _complete(instruction: str) -> int:
    """Answer a shell that asks what fits at its cursor."""
    from click.shell_completion import shell_complete

    return shell_complete(group, {}, "pgtrial", COMPLETE, instruction)


def _discard(stream: TextIO) -> None:
    """What Python would still flush at its end goes nowhere; failing there, it would change the exit code to 120."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextlib.contextmanager
def _noting(interrupts: list[int]) -> Iterator[None]:
    """Interrupt as Python does, but remember it."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        interrupts.append(number)
        signal.default_int_handler(number, frame)

    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # as in a shell's background
        yield
        return
    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _invoke(arguments: list[str]) -> int:
    # Not group.main(): that one has its own way with interrupts and closed pipes.
    try:
        with group.make_context("pgtrial", arguments) as context:
            group.invoke(context)
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else FAILED
    return 0


def _render_unexpected(error: Exception) -> str:
    if isinstance(error, OSError) and (hint := hint_no_room(error)):
        _discard(sys.stdout)  # which may be what takes no more
        return render_no_room(error, hint)
    return _render_bug(error)


def _render_bug(error: Exception) -> str:
    hints = getattr(error, "__notes__", ()) or ('Run the same with "pgtrial --debug …" and report what it shows.',)
    return f"error: this is a bug in pgtrial: {type(error).__name__}: {error}\nhint: {' '.join(hints)}\n"


def _show(text: str, error: BaseException | None) -> None:
    with contextlib.suppress(BrokenPipeError):
        if error is not None:
            sys.stderr.write(visible_traceback(error))
        sys.stderr.write(visible(text))
        sys.stderr.flush()
