"""What an experiment executes beside pgtrial's own programs and plain SQL, for the user to know before it runs.

The list is of what is written in the file and its scripts. It is no proof that there is nothing else: SQL can be put
together as it runs. What holds in any case is that all of it has the rights of the server's account only.
"""

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pgtrial.experiment_file.code_patterns import (
    CODE_IN_OPTIONS,
    HARMLESS,
    INSTALLED,
    JOINED,
    OF_READERS,
    OF_SERVER,
    PATTERNS,
    PRELOADS,
    SETTINGS,
    UNKNOWN_EXTENSION,
    UNTRUSTED,
    Pattern,
)
from pgtrial.experiment_file.connection import read_connection
from pgtrial.experiment_file.escapes import readings
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.knobs.workload import COMMAND, PROTOCOL, VARIABLES, WORKLOAD, read_command
from pgtrial.model.arm import Arm

_LONGEST = 120  # characters of a line that is shown


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeUse:
    """``where`` it stands in the file or a script, and ``what`` it executes; both are one printable line."""

    where: str
    what: str


ANSWER = re.compile(r"\\[ag]set\b", re.IGNORECASE)
_SET = re.compile(r"\s*\\set\s+([A-Za-z_]\w*)\s")
_BRANCH = re.compile(r"\\(?:[ag]set|el(?:se|if)|endif)\b", re.IGNORECASE)
_VARIABLE = re.compile(r"(?<![:\w]):([A-Za-z_]\w*)")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?", re.ASCII)
# What can make lines that look like commands of pgbench a part of SQL.
_SPANS_LINES = ("/*", "$", "\\'")


def find_code_uses(
    experiment: Experiment,
    arms: Sequence[Arm],
    scripts: Mapping[str, str],
    *,
    is_known: Callable[[str], bool] = lambda _directory: False,
) -> tuple[CodeUse, ...]:
    """Everything that the experiment executes, each once, in the order of the file; ``scripts`` are its SQL by name.

    ``is_known`` says of a directory of programs whether it is one of this machine's own, which need no mention.
    """
    target = experiment.target
    more = (*OF_SERVER, *(() if target.writes else OF_READERS)) if target.kind == "server" else ()
    protocols = {arm.knobs.get(WORKLOAD, {}).get(PROTOCOL, experiment.workload.protocol) for arm in arms}
    answers = scripts if "simple" in protocols else {}
    found = (
        *_programs(experiment, arms, is_known),
        *(use for arm in arms for use in _settings(arm)),
        *(use for arm in arms for use in _variables(arm, experiment.workload.protocol)),
        *(
            use
            for arm in arms
            for key in ("apply", "undo")
            for use in find_in_sql(arm.origin("sql", key), arm.knobs.get("sql", {}).get(key, ""), more=more)
        ),
        *(use for name, text in scripts.items() for use in find_in_sql(name, text, more=more)),
        *(use for name, text in answers.items() for use in _find_answers(name, text)),
    )
    return tuple(dict.fromkeys(found))


def _programs(experiment: Experiment, arms: Sequence[Arm], is_known: Callable[[str], bool]) -> Iterator[CodeUse]:
    if experiment.workload.command:
        yield code_use("workload.command", f"the command {' '.join(experiment.workload.command)}")
    for arm in arms:
        if words := arm.knobs.get(WORKLOAD, {}).get(COMMAND):
            yield code_use(arm.origin(WORKLOAD, COMMAND), f"the command {' '.join(read_command(words))}")
    if experiment.target.restart:
        yield code_use("target.restart", f"the command {' '.join(experiment.target.restart)}")
    for moment, argv in experiment.hooks.programs().items():
        yield code_use(f"hooks.{moment}", f"a command with the rights of pgtrial: {' '.join(argv)}")
    # libpq takes a backslash out, and what follows it as it is.
    options = read_connection(experiment.target.connection).get("options", "").replace("\\", "")
    if CODE_IN_OPTIONS.search(options):
        yield code_use("target.connection", f"a setting that names code: {options}")
    wanted = {arm.variant.postgres: arm.origin("server", "postgres") for arm in reversed(arms)}
    if experiment.target.postgres is not None:
        wanted[experiment.target.postgres] = "target.postgres"
    for directory, where in wanted.items():
        if directory is not None and not directory.isdecimal() and not is_known(directory):
            yield code_use(where, f"programs in {directory}")


def _settings(arm: Arm) -> Iterator[CodeUse]:
    for name, value in arm.settings.items():
        if SETTINGS.fullmatch(name) and value.strip() and not (name in PRELOADS and INSTALLED.fullmatch(value)):
            yield code_use(arm.origin("postgresql", name), f"{name} = {value}")
    for name in filter(None, arm.knobs.get("extensions", {}).get("create", "").split(", ")):
        if re.fullmatch(UNTRUSTED, name):
            yield code_use(arm.origin("extensions", "create"), f"an untrusted language: {name}")
        elif not re.fullmatch(HARMLESS, name):
            yield code_use(arm.origin("extensions", "create"), f"{UNKNOWN_EXTENSION}: {name}")


def _variables(arm: Arm, protocol: str) -> Iterator[CodeUse]:
    """Those that are no numbers, which the simple protocol puts into the text of the arm's SQL."""
    table = arm.knobs.get(WORKLOAD, {})
    if table.get(PROTOCOL, protocol) != "simple":
        return
    for key, value in table.items():
        if key.startswith(VARIABLES) and not _NUMBER.fullmatch(value):
            yield code_use(arm.origin(WORKLOAD, key), f"{JOINED}: {key.removeprefix(VARIABLES)} = {value}")


def find_on_server(scripts: Mapping[str, str]) -> tuple[CodeUse, ...]:
    """What scripts by name execute or change beside their own data on a server that is not pgtrial's own."""
    return tuple(use for name, text in scripts.items() for use in find_in_sql(name, text, more=OF_SERVER))


def find_in_sql(
    name: str, text: str, *, numbers: Sequence[int] = (), more: Sequence[Pattern] = ()
) -> Iterator[CodeUse]:
    """What SQL executes beside itself; ``name`` says where it stands, ``numbers`` those of its lines, if not 1, 2, …

    ``more``: what is looked for beside what always is.
    """
    lines, (texts, is_all) = text.split("\n"), readings(text)
    both = tuple((each, each.lower()) for each in texts)
    for sought in (*PATTERNS, *more):
        found = (_lines_with(sought, each) for each, low in both if any(word in low for word in sought.words))
        for index in sorted(set(itertools.chain.from_iterable(found))):
            number = numbers[index] if numbers else index + 1
            yield code_use(f"{name}, line {number}", f"{sought.what}: {lines[index].strip()}")
    if not is_all:
        yield code_use(name, "more escapes than are looked at")


def _find_answers(name: str, text: str) -> Iterator[CodeUse]:
    """Where a script of pgbench may put an answer of the server into the text of its SQL, as the simple protocol does.

    Any variable may hold one, but those that are numbers, because they were set to an expression just before.
    """
    if not ANSWER.search(text):
        return
    lines = text.split("\n")
    statements = [line for line in lines if not line.lstrip().startswith("--")]
    is_plain = not any(each in text for each in _SPANS_LINES) and not any(
        line.count(quote) % 2 for line in statements for quote in "'\""
    )
    numeric: set[str] = set()
    for number, line in enumerate(lines, 1):
        if is_plain and (found := _SET.match(line)):
            numeric.add(found[1])
        elif not (is_plain and line.lstrip().startswith("\\")) and {*_VARIABLE.findall(line)} - numeric:
            yield code_use(f"{name}, line {number}", f"{JOINED}: {line.strip()}")
        if _BRANCH.search(line):
            numeric.clear()


def _lines_with(sought: Pattern, text: str) -> Iterator[int]:
    """Indexes of the lines in which a match begins; one look at the text, however many they are."""
    if not sought.needs.search(text):
        return
    index, looked, last = 0, 0, -1
    for match in sought.pattern.finditer(text):
        index += text.count("\n", looked, match.start())
        looked = match.start()
        if index != last:
            yield index
        last = index


def code_use(where: str, what: str) -> CodeUse:
    """One use, as it is shown."""
    return CodeUse(where=_printable(where), what=_printable(what))


def _printable(text: str) -> str:
    """One line that moves no terminal's cursor, and not too long."""
    beginning = text[: _LONGEST + 1]
    line = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in beginning)
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
