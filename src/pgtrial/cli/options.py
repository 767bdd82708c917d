"""Arguments and options that several commands share. Importing this costs no more than click."""

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from pgtrial.cli.gate import Gate, pipeline_commit
from pgtrial.language import ENGLISH, LANGUAGES, Language, find_language


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
        **others: Any,
    ) -> None:
        gate = Gate(asserts=asserts, junit=junit, summary=summary, github=github, history=history)
        function(gate=gate, **others)

    for option in reversed(_GATE):
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
