"""Arguments and options that several commands share. Importing this costs no more than click."""

import functools
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from pgtrial.cli.gate import Gate, check_gate_name, pipeline_commit
from pgtrial.language import ENGLISH, LANGUAGES, Language, find_language

_T = TypeVar("_T")
_DAY = 86400  # s
_LEAST_DAYS, _MOST_DAYS = 7, 365  # of a contract, of which a bootstrap of two weeks can still tell something


class FolderPath(click.Path):
    """A result folder, or a directory of them. A line break in its name would have it end a line of what is printed,
    and write the next ones itself.
    """

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if any(each in str(Path(os.fsdecode(value)).absolute()) for each in "\n\r\t"):
            self.fail("its path has a line break or a tab in a name. Rename that directory.", param, ctx)
        return super().convert(value, param, ctx)


class Number(click.FloatRange):
    """A finite number: click's own type takes NaN, which is not outside any range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not math.isfinite(click.FLOAT.convert(value, param, ctx)):
            self.fail(f'"{value}" is not a finite number', param, ctx)
        return super().convert(value, param, ctx)


file = click.argument("file", type=click.Path(path_type=Path))
folder = click.argument("folder", type=FolderPath())
host = click.option(
    "--host",
    default=None,
    metavar="NAME",
    help='Ask this host too: the "ssh://…" that the file names. Default: only this machine is asked.',
)
results = click.option(
    "--results",
    default=Path("results"),
    metavar="DIRECTORY",
    type=click.Path(path_type=Path),
    help="Directory for the result folder. Default: results.",
)
work_directory = click.option(
    "--work-directory",
    default=None,
    metavar="DIRECTORY",
    type=click.Path(path_type=Path),
    help="Directory for the data during the runs. Default: as in the file, else /var/tmp.",
)
host_changes = click.option(
    "--allow-host-changes",
    "host_changes",
    is_flag=True,
    help='Allow the experiment to change host settings and restore them; "pgtrial plan" shows them.',
)
allow_writes = click.option(
    "--allow-writes",
    is_flag=True,
    help="Allow the experiment to change the existing database that its file names; the file has to say writes = true "
    "as well. Default: ask, if there is a terminal.",
)
allow_code = click.option(
    "--allow-code",
    is_flag=True,
    help='Allow the experiment to execute the code that it brings: commands, libraries, programs; "pgtrial plan" lists '
    "it. Default: ask, if there is a terminal.",
)


allow_files = click.option(
    "--allow-files",
    multiple=True,
    metavar="DIRECTORY",
    type=click.Path(path_type=Path),
    help="Allow the experiment file to name files in this directory and below; can be repeated. Default: only those in "
    "its own.",
)


def _read_language(_context: click.Context, _parameter: click.Parameter, code: str) -> Language:
    return find_language(code)


language = click.option(
    "--lang",
    "language",
    type=click.Choice(list(LANGUAGES)),
    default=ENGLISH,
    envvar="PGTRIAL_LANG",
    callback=_read_language,
    show_envvar=True,
    help="Language of the report. Default: en.",
)
revision = click.option(
    "--revision",
    default=None,
    metavar="NAME",
    callback=lambda _context, _parameter, name: pipeline_commit() if name is None else name,
    help="What is tested, where the file does not say it, as the application's release: attempts at a claim are "
    "counted for each revision. Default: the commit of a pipeline of GitHub or GitLab, else none.",
)
_file = click.Path(dir_okay=False, path_type=Path)
_GATE = (
    click.option("--assert", "asserts", is_flag=True, help="Exit with 3 if refuted, 4 if inconclusive, 5 if invalid."),
    click.option("--junit", default=None, metavar="FILE", type=_file, help="Write the result as JUnit XML."),
    click.option(
        "--summary-markdown",
        "summary",
        default=None,
        metavar="FILE",
        type=_file,
        help="Write verdict, effects and caveats as Markdown.",
    ),
    click.option(
        "--github-summary", "github", is_flag=True, help="Append the same to the file named by $GITHUB_STEP_SUMMARY."
    ),
    click.option(
        "--history",
        default=None,
        metavar="FILE",
        type=_file,
        help="Note the result in this file, and show in the Markdown what it has of earlier runs of the pipeline.",
    ),
    click.option(
        "--gate",
        "gate_name",
        default="",
        metavar="NAME",
        callback=lambda _context, _parameter, name: check_gate_name(name),
        help="Name of this gate, where a pipeline has several: with it each has a comment and a history of its own. "
        "Default: the experiment's name.",
    ),
)


def gate(function: Callable[..., None]) -> Callable[..., None]:
    """The options for pipelines, passed to a command as one argument, ``gate``."""

    @functools.wraps(function)
    def command(
        *,
        asserts: bool,
        junit: Path | None,
        summary: Path | None,
        github: bool,
        history: Path | None,
        gate_name: str,
        **others: Any,
    ) -> None:
        gate = Gate(asserts=asserts, junit=junit, summary=summary, github=github, history=history, name=gate_name)
        function(gate=gate, **others)

    for option in reversed(_GATE):
        option(command)
    return command


@dataclass(frozen=True, slots=True, kw_only=True)
class WhichAlarm:
    """The ``number``-th of those that "alarms" lists with this calm time, and with a contract of ``one_in`` days."""

    number: int
    calm: str | None
    one_in: float | None


def parsed(parse: Callable[[str], _T]) -> Callable[[click.Context, click.Parameter, str | None], _T | None]:
    """A callback that reads an option's text by ``parse``, whose ValueError says what is wrong with it; None stays."""

    def read(_context: click.Context, _parameter: click.Parameter, text: str | None) -> _T | None:
        try:
            return None if text is None else parse(text)
        except ValueError as err:
            raise click.BadParameter(str(err)) from None

    return read


def seconds_above_zero(what: str) -> Callable[[str], float]:
    """Reads a time, with a unit or in seconds."""

    def read(text: str) -> float:
        from pgtrial.units import parse_duration

        seconds = float(text) if text.replace(".", "", 1).isdecimal() else parse_duration(text)
        if seconds <= 0:
            raise ValueError(f"{what} must be above 0")
        return seconds

    return read


@parsed
def contract_days(text: str) -> float:
    """The days of a contract."""
    from pgtrial.units import parse_duration

    days = parse_duration(text) / _DAY
    if not _LEAST_DAYS <= days <= _MOST_DAYS:
        raise ValueError(f'"{text}" is not from {_LEAST_DAYS} to {_MOST_DAYS} days')
    return days


_ALARM = (
    click.option(
        "--alarm",
        "number",
        metavar="N",
        default=None,
        type=click.IntRange(min=1),
        help='B is the time of this alarm of "alarms".',
    ),
    click.option(
        "--contract",
        "one_in",
        metavar="TIME",
        default=None,
        callback=contract_days,
        help='With --alarm: the --contract of "alarms", where it had one.',
    ),
    click.option(
        "--calm", metavar="START/END", default=None, help='With --alarm: the --calm of "alarms", where it had one.'
    ),
)


def alarm(function: Callable[..., None]) -> Callable[..., None]:
    """The options that name an alarm, passed to a command as one argument, ``alarm``; None where none is named."""

    @functools.wraps(function)
    def command(*, number: int | None, one_in: float | None, calm: str | None, **others: Any) -> None:
        if number is not None:
            others["alarm"] = WhichAlarm(number=number, calm=calm, one_in=one_in)
        elif one_in is not None or calm is not None:
            name = "--calm" if one_in is None else "--contract"
            raise click.UsageError(f'{name} goes with --alarm: it says which alarms "pgtrial alarms" finds')
        else:
            others["alarm"] = None
        function(**others)

    for option in reversed(_ALARM):
        option(command)
    return command


fleet = click.option(
    "--fleet",
    default=None,
    metavar="FILE|tls://…",
    help="Spread the blocks over the hosts that are listed in this file, or that the workers of this dask scheduler "
    "offer (docs/fleet.md). Needs the extra [fleet].",
)
quiet = click.option("-q", "--quiet", is_flag=True, help="Show no progress on standard error.")
