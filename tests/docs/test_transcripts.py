"""The commands in the documentation are run, and their output is compared with what the pages show.

A transcript is a code block of the language "console". "$ pgtrial …" is run, in the order of the page, in a directory
that all blocks of the page share; what follows up to the next "$" is the expected output, standard output and error
together as on a terminal of 80 columns. It is run in this process, which has imported everything; the data of what
starts a server lie in memory where there is enough. In the output,

- "…" inside a line stands for any text, and each run of blanks in that line for one or more blanks,
- a line that is only "…" stands for any number of lines,
- "[exit status 2]" at the end is the exit status; without it the status must be 0.

In a command, "…" completes the name of a file, of which there must be one. A code block with title="NAME" is written
to that file first. After "<!-- not run: reason -->" the commands of a block are only parsed, as are those in blocks of
the language "sh". Each directory begins with the result folders FINISHED and STOPPED, which hold simulated runs.
"""

import contextlib
import io
import logging
import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click
import pytest

from pgtrial.cli.main import COMMANDS, group, main
from pgtrial.postgres.programs import Programs
from pgtrial.store.journal_file import VARIABLE
from support import write_result_folder

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
FINISHED = "results/commit-20260120T101500Z"
STOPPED = "results/commit-20260121T090000Z"
ANY = "…"
# Commands that start nothing; resume does not where the pages show it, for what it is given is finished, and restore
# does not because the journal is empty.
HARMLESS = {
    *("init", "check", "plan", "register", "status", "resume", "restore", "report", "schema"),
    *("compare", "export", "unpack", "narrate", "completion"),
}
USAGE = 2  # exit status of a command that was refused before it started anything
# Commands keep the help option of the context in which they are first used.
PARENT = click.Context(group, info_name="pgtrial", **group.context_settings)
BLOCK = re.compile(
    r"^(?P<comment><!-- not run: [^\n]+ -->\n)?"
    r'```(?P<language>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^```$',
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command of a page; ``text`` is what follows "$", ``line`` is counted from 1."""

    text: str
    line: int
    output: str = ""
    status: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file that a page shows."""

    name: str
    text: str


def read_page(text: str) -> Iterator[Command | File]:
    """What is to be run and written, in order."""
    for block in BLOCK.finditer(text):
        if block["title"]:
            yield File(name=block["title"], text=block["text"])
        elif block["language"] == "console" and not block["comment"]:
            yield from read_transcript(block["text"], text.count("\n", 0, block.start("text")) + 1)


def read_transcript(text: str, first_line: int) -> Iterator[Command]:
    """Commands of pgtrial with their output; other commands are left out."""
    for part in re.finditer(
        r"^\$ (?:\.venv/bin/)?(?P<command>(?:.*\\\n)*.*)\n(?P<output>(?:(?!\$ ).*\n)*)", text, re.MULTILINE
    ):
        output, mark, status = part["output"].rstrip().partition("[exit status ")
        if part["command"].startswith("pgtrial"):
            yield Command(
                text=join_lines(part["command"]),
                line=first_line + text.count("\n", 0, part.start()),
                output=output.rstrip(),
                status=int(status.rstrip("]")) if mark else 0,
            )


def shown_commands(text: str) -> Iterator[str]:
    """Every command of pgtrial in a page, run or not: in transcripts, in blocks for a shell, and in a sentence."""
    starts = {"console": r"\$ (?:\.venv/bin/)?(?=pgtrial)", "sh": r"(?:\.venv/bin/)?(?=pgtrial)"}
    for block in BLOCK.finditer(text):
        if start := starts.get(block["language"]):
            lines = join_lines(block["text"])
            yield from re.findall(rf"^{start}(pgtrial\b.*)", lines, re.MULTILINE)
    yield from re.findall(r"`(?:\.venv/bin/)?(pgtrial [^`]+)`", BLOCK.sub("", text))


def join_lines(text: str) -> str:
    """With lines that end in a backslash joined to the next."""
    return re.sub(r" *\\\n *", " ", text)


def arguments_of(command: str) -> list[str]:
    """What follows "pgtrial", up to a pipe or a redirection, without a comment."""
    words = shlex.split(command, comments=True)[1:]
    return words[: next((at for at, word in enumerate(words) if word in {"|", ">", "&&", ";"}), len(words))]


def complete(argument: str, directory: Path) -> str:
    """The argument, or the one file whose name it begins or ends or both."""
    if ANY not in argument:
        return argument
    found = sorted(path.relative_to(directory) for path in directory.glob(argument.replace(ANY, "*")))
    assert len(found) == 1, f"{argument} stands for {len(found)} files: {found}"
    return str(found[0])


def line_matches(expected: str | None, actual: str | None) -> bool:
    if expected is None or actual is None or ANY not in expected:
        return expected == actual
    pattern = re.sub(r"(\\ )+", " +", re.escape(expected)).replace(ANY, ".*")
    return re.fullmatch(pattern, actual) is not None


def find_difference(expected: str, actual: str) -> str:
    """The first lines that are not as expected; empty if all are."""
    want = [line.rstrip() for line in expected.splitlines()]
    got = [line.rstrip() for line in actual.rstrip().splitlines()]
    parts: list[list[str]] = [[]]
    for line in want:
        if line.strip() == ANY:
            parts.append([])
        else:
            parts[-1].append(line)
    at = 0
    for number, part in enumerate(parts):
        latest = len(got) - len(part)
        # The first place at which the lines of a part fit is as good as any later one; the ends have no choice.
        places = range(at, latest + 1) if number else [0]
        if number == len(parts) - 1:
            places = [max(latest, at)] if number else [0]
        place = next((place for place in places if fits(part, got[place : place + len(part)])), None)
        if place is None:
            return tell_difference(part, got[places[0] if places else at :])
        at = place + len(part)
    return "" if at == len(got) else f"not expected: {got[at]}"


def fits(part: Sequence[str], lines: Sequence[str]) -> bool:
    return all(line_matches(*pair) for pair in zip_longest(part, lines))


def tell_difference(part: Sequence[str], lines: Sequence[str]) -> str:
    wrong = next(pair for pair in zip_longest(part, lines) if not line_matches(*pair))
    return f"expected: {wrong[0]}\n     got: {wrong[1]}"


def run_command(
    command: Command, directory: Path, storage: Path, settled_kernel: Callable[..., AbstractContextManager[None]]
) -> str:
    """What is wrong with the command's output or exit status; empty if nothing is."""
    arguments = [complete(argument, directory) for argument in arguments_of(command.text)]
    name = next((argument for argument in arguments if not argument.startswith("-")), "")
    starts_nothing = not name or "--help" in arguments or name in HARMLESS or command.status == USAGE
    if starts_nothing:
        status, output = run_here(arguments, directory)
    else:
        with settled_kernel(changing=False):
            status, output = run_here([*arguments, "--work-directory", str(storage)], directory)
    wrong = find_difference(command.output, output)
    if status != command.status:
        wrong = f"exit status {status}, not {command.status}\n{wrong}"
    return wrong and f"line {command.line}: {command.text}\n{wrong.rstrip()}\n{output}"


def run_here(arguments: Sequence[str], directory: Path) -> tuple[int, str]:
    """Exit status and output of the command line, called as a function."""
    output = io.StringIO()
    with (
        contextlib.chdir(directory),
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(output),
        patch.dict(os.environ),  # of which a run forgets what is libpq's
        new_logging(),
    ):
        status = main(arguments)
    return status, output.getvalue()


@contextlib.contextmanager
def new_logging() -> Iterator[None]:
    """Logging as a new process finds it: options of all commands say how it is to be."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers[:] = []
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=str(page.relative_to(ROOT)))
        for page in PAGES
        if list(read_page(page.read_text(encoding="utf-8")))
    ],
)
def test_commands_do_what_the_page_shows(
    page: Path,
    *,
    programs: Programs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settled_kernel: Callable[..., AbstractContextManager[None]],
    storage: Path,
    kept: Callable[[str, Callable[[Path], Any]], Any],
) -> None:
    for name in ("FORCE_COLOR", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("PYTHONUTF8", "1")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "state"))
    shutil.copytree(kept("transcripts", write_folders), tmp_path, dirs_exist_ok=True)
    wrong = []
    for step in read_page(page.read_text(encoding="utf-8")):
        match step:
            case File():
                (tmp_path / step.name).write_text(step.text, encoding="utf-8")
            case Command():
                wrong.append(run_command(step, tmp_path, storage, settled_kernel))

    assert not any(wrong), "\n\n".join(filter(None, wrong))


def write_folders(place: Path) -> Path:
    """The result folders with which each page begins."""
    write_result_folder(place / FINISHED)
    write_result_folder(place / STOPPED, runs=10)
    return place


def check_syntax(command: str) -> None:
    """UsageError if pgtrial has no such command or option, or takes no such value."""
    words = arguments_of(command)
    name = next((word for word in words if not word.startswith("-")), None)
    if name is None or {"-h", "--help"} & set(words):
        return
    chosen = group.get_command(PARENT, name)
    if chosen is None:
        raise click.UsageError(f"no such command: {name}")
    with contextlib.suppress(click.MissingParameter):  # a sentence may name a command without its file
        chosen.make_context(name, words[words.index(name) + 1 :], parent=PARENT)


@pytest.mark.parametrize("page", [pytest.param(page, id=str(page.relative_to(ROOT))) for page in PAGES])
def test_commands_of_a_page_exist_unless_an_error_is_shown(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    errors = {step.text for step in read_page(text) if isinstance(step, Command) and step.status == 2}

    for command in shown_commands(text):
        if command not in errors:
            check_syntax(command)


@pytest.mark.parametrize("name", [name for name, _ in COMMANDS])
def test_every_command_shows_its_help_in_the_page(name: str) -> None:
    assert f"$ pgtrial {name} --help\n" in (ROOT / "docs/cli.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [name for name, _ in COMMANDS])
def test_examples_in_a_help_are_commands_on_lines_of_their_own(name: str) -> None:
    command = group.get_command(PARENT, name)
    assert command is not None
    with click.Context(command, info_name=name, parent=PARENT) as context:
        text = command.get_help(context)
    examples = re.findall(r"^    (pgtrial .*)$", text, re.MULTILINE)

    assert examples
    for example in examples:
        check_syntax(example)


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        ("a\nb", "a\nb\n"),
        ("a … c", "a      b c"),
        ("a…", "a"),
        ("took … s, …", "took 3.5 s, all of it"),
        ("…", ""),
        ("…\nb", "a\na\nb"),
        ("a\n…\nc\n…", "a\nb\nb\nc\nc"),
        ("  …\nc\n…\ne", "a\nc\nd\ne"),
    ],
)
def test_expected_output_is_found(expected: str, actual: str) -> None:
    assert find_difference(expected, actual) == ""


@pytest.mark.parametrize(
    ("expected", "actual", "told"),
    [
        ("a\nb", "a\nc", "expected: b\n     got: c"),
        ("a", "a\nb", "not expected: b"),
        ("a\nb", "a", "expected: b\n     got: None"),
        ("", "a", "not expected: a"),
        ("a  b", "a b", "expected: a  b\n     got: a b"),
        ("took … s", "took 3 ms", "expected: took … s\n     got: took 3 ms"),
        ("a\n…\nc", "a\nc\nd", "expected: c\n     got: d"),
        ("a\n…\nb\n…\nb", "a\nb", "expected: b\n     got: None"),
        ("…\nx\n…", "a\nb", "expected: x\n     got: a"),
    ],
)
def test_other_output_is_told(expected: str, actual: str, told: str) -> None:
    assert find_difference(expected, actual) == told


def test_page_is_read_in_order() -> None:
    page = (
        'text\n```toml title="e.toml"\nformat = 1\n```\n'
        "```console\n$ pgtrial check \\\n    e.toml\nok\n\n$ make demo\nnot read\n"
        "$ pgtrial check none\nerror: …\n[exit status 2]\n```\n"
        "<!-- not run: too long -->\n```console\n$ pgtrial demo\n```\n```sh\n.venv/bin/pgtrial init\nls\n```\n"
        "See `pgtrial plan FILE`, `FILE`.\n"
    )

    assert list(read_page(page)) == [
        File(name="e.toml", text="format = 1\n"),
        Command(text="pgtrial check e.toml", line=6, output="ok"),
        Command(text="pgtrial check none", line=12, output="error: …", status=2),
    ]
    assert list(shown_commands(page)) == [
        "pgtrial check e.toml",
        "pgtrial check none",
        "pgtrial demo",
        "pgtrial init",
        "pgtrial plan FILE",
    ]


@pytest.mark.parametrize("command", ["pgtrial validate e.toml", "pgtrial run --mixx olap", "pgtrial demo --blocks x"])
def test_command_that_does_not_exist_is_found(command: str) -> None:
    with pytest.raises(click.UsageError):
        check_syntax(command)
