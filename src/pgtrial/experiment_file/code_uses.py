"""What an experiment executes beside pgtrial's own programs and plain SQL, for the user to know before it runs.

The list is of what is written in the file and its scripts. It is no proof that there is nothing else: SQL can be put
together as it runs. What holds in any case is that all of it has the rights of the server's account only.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pgtrial.experiment_file.connection import read_connection
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.knobs.workload import COMMAND, WORKLOAD, read_command
from pgtrial.model.arm import Arm

_LONGEST = 120  # characters of a line that is shown


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeUse:
    """``where`` it stands in the file or a script, and ``what`` it executes; both are one printable line."""

    where: str
    what: str


# Settings whose value is a command, a library or code, in PostgreSQL and in the languages that come with it.
_ALSO = r"archive_library|jit_provider|dynamic_library_path|extension_control_path|plperl\.on_\w+|pltclu?\.start_proc"
_SETTINGS = re.compile(rf"\w*_command|\w*_libraries|{_ALSO}", re.IGNORECASE)
# Libraries by name alone are those that root installed for the server: what they are is no choice of the file.
_PRELOADS = ("shared_preload_libraries", "session_preload_libraries", "local_preload_libraries")
_INSTALLED = re.compile(r"\w+(\s*,\s*\w+)*", re.ASCII)
_KNOWN = r"(?:archive|restore|archive_cleanup|recovery_end|ssl_passphrase)_command|\w+_preload_libraries"
_UNTRUSTED = r"\b(?:pl[a-z0-9]+u|plsh|plr)\b"
_CODE_IN_OPTIONS = re.compile(rf"{_KNOWN}|{_ALSO}".replace("_", "[_-]"), re.IGNORECASE)
_FILE = "a file of the server's machine"
_TEXT = r"(?:e?'|u&'|\$|/\*|--)"
_RELATION = r"(?:\"[^\"\n]{1,130}\"|[\w$.]){1,200}+\s*+"
_ROUTINE = r"\b(?:function|procedure|do)\b"
# Looked for in the text as it stands, comments and strings included: whoever hides a command in them is to be seen, and
# a line too many does no harm. What a pattern needs elsewhere in the text is the second one.
_PATTERNS: tuple[tuple[str, str, str], ...] = (
    (r"\\\s*+(?:set)?shell\b", "", "a shell command"),
    (r"\bprogram\b", r"\b(?:copy|foreign)\b", "a shell command of the server"),
    (r"\blanguage\b(?!\s*['\"]?(?:sql|plpgsql)\b)", _ROUTINE, "a function that is not SQL"),
    (_UNTRUSTED, "", "an untrusted language"),
    (r"\bload\b\s*(?:e?'|u&'|\$|/\*|--)", "", "a library"),
    (rf"\b(?:{_KNOWN}|{_ALSO})\b", r"\b(?:set|set_config)\b", "a setting that names code"),
    (r"\b(?:lo_export|pg_file_write)\b", "", "a file written by the server"),
    (
        rf"(?<!\\)\bcopy\s*+(?:/\*|--|{_RELATION}(?:\([^();]{{0,4000}}\)\s*+)?(?:/\*|--|(?:from|to)\s*+{_TEXT}))",
        "",
        _FILE,
    ),
    (rf"\)\s*+to\s*+{_TEXT}", r"\bcopy\b", _FILE),
    (r"\b(?:pg_read_\w*file|pg_ls_dir|lo_import|file_fdw)\b", "", _FILE),
    (
        r"\b(?:pg_proc|pg_language|allow_system_table_mods)\b",
        r"\b(?:update|insert|merge|set)\b",
        "the server's own catalogs",
    ),
    (r"\bdblink(?:_\w+)?\b|\bpostgres_fdw\b|\bcreate\s+subscription\b", "", "a connection to another server"),
    (r"\bexecute\b(?!\s+(?:function|procedure|on)\b)", _ROUTINE, "SQL put together as it runs"),
    # A statement that begins with a variable of pgbench is whatever that holds by then.
    (r"(?m)(?:^|;)\s*+:[a-z_]", "", "SQL put together as it runs"),
)
_COMPILED = tuple(
    (re.compile(pattern, re.IGNORECASE), re.compile(needs, re.IGNORECASE), what) for pattern, needs, what in _PATTERNS
)


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
    found = (
        *_programs(experiment, arms, is_known),
        *(use for arm in arms for use in _settings(arm)),
        *(
            use
            for arm in arms
            for key in ("apply", "undo")
            for use in find_in_sql(arm.origin("sql", key), arm.knobs.get("sql", {}).get(key, ""))
        ),
        *(use for name, text in scripts.items() for use in find_in_sql(name, text)),
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
    options = read_connection(experiment.target.connection).get("options", "")
    if _CODE_IN_OPTIONS.search(options):
        yield code_use("target.connection", f"a setting that names code: {options}")
    wanted = {arm.variant.postgres: arm.origin("server", "postgres") for arm in reversed(arms)}
    if experiment.target.postgres is not None:
        wanted[experiment.target.postgres] = "target.postgres"
    for directory, where in wanted.items():
        if directory is not None and not directory.isdecimal() and not is_known(directory):
            yield code_use(where, f"programs in {directory}")


def _settings(arm: Arm) -> Iterator[CodeUse]:
    for name, value in arm.settings.items():
        if _SETTINGS.fullmatch(name) and value.strip() and not (name in _PRELOADS and _INSTALLED.fullmatch(value)):
            yield code_use(arm.origin("postgresql", name), f"{name} = {value}")
    for name in arm.knobs.get("extensions", {}).get("create", "").split(", "):
        if re.fullmatch(_UNTRUSTED, name):
            yield code_use(arm.origin("extensions", "create"), f"an untrusted language: {name}")


def find_in_sql(name: str, text: str, *, numbers: Sequence[int] = ()) -> Iterator[CodeUse]:
    """What SQL executes beside itself; ``name`` says where it stands, ``numbers`` those of its lines, if not 1, 2, …"""
    lines = text.split("\n")
    for pattern, needs, what in _COMPILED:
        if needs.search(text):
            for index in _lines_with(pattern, text):
                number = numbers[index] if numbers else index + 1
                yield code_use(f"{name}, line {number}", f"{what}: {lines[index].strip()}")


def _lines_with(pattern: re.Pattern[str], text: str) -> Iterator[int]:
    """Indexes of the lines in which a match begins; one look at the text, however many they are."""
    index, looked, last = 0, 0, -1
    for match in pattern.finditer(text):
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
