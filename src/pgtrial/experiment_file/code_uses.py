"""What an experiment executes beside pgtrial's own programs and plain SQL, for the user to know before it runs.

The list is of what is written in the file and its scripts. It is no proof that there is nothing else: SQL can be put
together as it runs. What holds in any case is that all of it has the rights of the server's account only.
"""

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pgtrial.experiment_file.connection import read_connection
from pgtrial.experiment_file.escapes import readings
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.knobs.workload import COMMAND, PROTOCOL, WORKLOAD, read_command
from pgtrial.model.arm import Arm

_LONGEST = 120  # characters of a line that is shown


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeUse:
    """``where`` it stands in the file or a script, and ``what`` it executes; both are one printable line."""

    where: str
    what: str


# Settings whose value is a command, a library or code, in PostgreSQL and in the languages that come with it.
_FILES = r"primary_conninfo|promote_trigger_file|krb_server_keyfile|ssl_\w+_file"  # and other servers
_LIBRARIES = r"archive_library|jit_provider|dynamic_library_path|extension_control_path"
_OF_LANGUAGES = (
    r"plperl\.on_\w+|(?:pltclu?|plv8)\.(?:start|boot)_proc|pljava\.(?:vmoptions|libjvm_location|module_path)"
)
_ALSO = rf"{_FILES}|{_LIBRARIES}|{_OF_LANGUAGES}"
_SETTINGS = re.compile(rf"[\w.]*_command|[\w.]*_libraries|{_ALSO}", re.IGNORECASE)
# Libraries by name alone are those that root installed for the server: what they are is no choice of the file.
_PRELOADS = ("shared_preload_libraries", "session_preload_libraries", "local_preload_libraries")
_INSTALLED = re.compile(r"\w+(\s*,\s*\w+)*", re.ASCII)
_KNOWN = r"(?:archive|restore|archive_cleanup|recovery_end|ssl_passphrase)_command|\w+_preload_libraries"
_UNTRUSTED = r"\b(?:pl[a-z0-9]+u|plsh|plr)\b"
_CODE_IN_OPTIONS = re.compile(rf"{_KNOWN}|{_ALSO}".replace("_", "[_-]"), re.IGNORECASE)
_FILE = "a file of the server's machine"
_CATALOG = "the server's own catalogs"
_JOINED = "SQL put together as it runs"
_TEXT = r"(?:e?'|u&'|\$|/\*|--|:)"
# What begins a relation's name, and may be longer than is looked at, is taken for one.
_OF_NAME = r"\w$\x80-\U0010ffff"  # to PostgreSQL any byte that is not ASCII is a letter
_LONG = rf"(?:\"[^\"\n]{{0,129}}\n|\"[^\"\n]{{130}}|[{_OF_NAME}.]{{130}})"
_RELATION = rf"(?:\"[^\"\n]{{1,130}}\"|[{_OF_NAME}]|\s*+\.\s*+){{1,200}}+\s*+"
_SQL = rf"(?:'(?:sql|plpgsql)'|\"(?:sql|plpgsql)\"|(?:sql|plpgsql)(?![{_OF_NAME}]))"
_COLUMNS = r"\((?:[^();\"]{1,4000}+|\"[^\"\n]{0,130}\"){0,200}+\)\s*+"
_ROUTINE = r"\b(?:function|procedure|do)\b"
_ROUTINE_OF_TRIGGER = r"(?:function|procedure)\s+(?!using\b|into\b)(?:[\w$.]|\"[^\"\n]{1,130}\"){1,130}\s*\("
_CATALOGS = (
    r"\bpg_(?:aggregate|am|amop|amproc|attrdef|authid|cast|constraint|conversion|db_role_setting|event_trigger"
    r"|extension|foreign_\w+|index|language|opclass|operator|policy|proc|rewrite|settings|transform|trigger|ts_\w+"
    r"|type)\b"
)
_EXECUTED = (
    r"(?:query|cursor|table|schema|database)_to_xml\w*|ts_stat|ts_rewrite|xpath_table|crosstab\w*|connectby"
    r"|pg_background_launch|cron\"?\s*\.\s*\"?schedule\w*"
)
_READ_OR_WRITTEN = r"pg_(?:read_\w*|stat_)file|pg_ls_\w*dir|pg_file_(?:read|rename|unlink|sync)|lo_import|file_fdw"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pattern:
    """What is looked for; one of ``words`` is in each line in which a match begins, ``needs`` in the text."""

    what: str
    words: tuple[str, ...]
    pattern: re.Pattern[str]
    needs: re.Pattern[str]


def _pattern(what: str, words: str, pattern: str, needs: str = "") -> _Pattern:
    compiled = re.compile(pattern, re.IGNORECASE)
    return _Pattern(what=what, words=tuple(words.split()), pattern=compiled, needs=re.compile(needs, re.IGNORECASE))


# Looked for in the text as it stands, comments and strings included: whoever hides a command in them is to be seen, and
# a line too many does no harm.
_PATTERNS = (
    _pattern("a shell command", "shell", r"\\\s*+(?:set)?shell\b"),
    _pattern("a shell command of the server", "program", r"\bprogram\b", r"\b(?:copy|foreign)\b"),
    _pattern("a function that is not SQL", "language", rf"\blanguage\b(?!\s*{_SQL})", rf"{_ROUTINE}"),
    _pattern(
        "a language",
        "language alter create",
        r"\b(?:alter|create)\s*+(?:/\*|--|(?:or\s+replace\s+)?+(?:trusted\s+)?+(?:procedural\s+)?+language\b)",
        r"\blanguage\b",
    ),
    _pattern("an untrusted language", "pl", _UNTRUSTED),
    _pattern("a library", "load", rf"\bload\b\s*{_TEXT}"),
    _pattern("a library", "logical_replication_slot", r"\bpg_(?:create|copy)_logical_replication_slot\b"),
    _pattern(
        "a setting that names code",
        "_command _libraries _library jit_provider _path plperl pltcl plv8 pljava _conninfo _trigger_file krb_server "
        "ssl_",
        rf"\b(?:{_KNOWN}|{_ALSO})\b",
        r"\b(?:set|set_config|pg_settings)\b",
    ),
    _pattern(
        "a setting of the whole server",
        "system",
        r"\bsystem\s*+(?:/\*|--|:|set\b|reset\b)",
        r"\balter\b",
    ),
    _pattern(
        "a setting whose name is put together as it runs",
        "set_config",
        r"\bset_config\"?\s*+(?!\(\s*+(?:e|u&)?'[\w.]*'\s*(?:::\s*text\s*)?,)",
    ),
    _pattern("a name that is not written out", "uescape", r"\buescape\b(?!\s*'[^'\n]')", r"\bu&[\"']"),
    _pattern("a file written by the server", "lo_export pg_file_write", r"\b(?:lo_export|pg_file_write)\b"),
    _pattern(
        _FILE,
        "copy",
        rf"(?<!\\)\bcopy\s*+(?:binary\b\s*+)?(?:/\*|--|{_LONG}"
        rf"|{_RELATION}(?:{_COLUMNS})?(?:/\*|--|(?:from|to)\s*+{_TEXT}))",
    ),
    _pattern(_FILE, ")", rf"\)\s*+(?:from|to)\s*+{_TEXT}", r"\bcopy\b"),
    _pattern(_FILE, ")", r"\)\s*+(?:/\*|--)", r"\bcopy\s*+\("),
    _pattern(_FILE, "location", rf"\blocation\s*+{_TEXT}", r"\btablespace\b"),
    _pattern(_FILE, "pg_read_ pg_stat_file pg_ls_ pg_file_ lo_import file_fdw", rf"\b(?:{_READ_OR_WRITTEN})\b"),
    _pattern(
        _CATALOG,
        "pg_proc pg_language allow_system",
        r"\b(?:pg_proc|pg_language|allow_system_table_mods)\b",
        r"\b(?:update|insert|merge|set)\b",
    ),
    _pattern(
        _CATALOG,
        "pg_",
        r"\b(?:update|into)\s*+(?:only\b\s*+)?(?:\"?pg_catalog\"?\s*+\.\s*+)?\"?pg_(?!temp)\w",
    ),
    _pattern(_CATALOG, "/* --", r"\b(?:update|into|copy)\s*+(?:/\*|--)", _CATALOGS),
    _pattern(_CATALOG, "pg_", rf"\bcopy\s*+(?:binary\b\s*+)?(?:\"?pg_catalog\"?\s*+\.\s*+)?\"?{_CATALOGS}"),
    _pattern(
        "a connection to another server",
        "dblink _fdw subscription wrapper",
        r"\bdblink(?:_\w+)?\b|\bpostgres_fdw\b|\bcreate\s+subscription\b|\bforeign\s+data\s+wrapper\b",
    ),
    _pattern(_JOINED, "execute", rf"\bexecute\b(?!\s+on\b|\s+{_ROUTINE_OF_TRIGGER})", rf"{_ROUTINE}"),
    _pattern(_JOINED, "_to_xml ts_ xpath_ crosstab connectby launch schedule", rf"\b(?:{_EXECUTED})\b"),
    # A statement that begins with a variable of pgbench is whatever that holds by then.
    _pattern(_JOINED, ":", r"(?m)(?:^|;)\s*+:[a-z_]"),
    # Pgbench puts them into strings, too, where they may be the rest of an escape.
    _pattern(_JOINED, ":", r"\\[0-9a-fxu+]*+:[a-z_]"),
    _pattern(_JOINED, ":", r"(?<!:):[a-z_]", r"\bu&[\"']"),
    # So is a name that is one, or ends in one, where the server's answer was put into a variable.
    _pattern(_JOINED, ":", r"[a-z_]:[a-z_]|(?<![:\w]):[a-z_]\w*\s*+\(", r"\\[ag]set\b"),
)
# On a server that is not pgtrial's own, also where its transactions may only read.
_OF_SERVER = (
    _pattern(
        "what concerns the whole server",
        "pg_ lo_unlink alter drop create reassign checkpoint prepare prewarm set",
        r"\bpg_(?:(?:terminate|cancel)_backend|\w*replication_(?:slot|origin)\w*|(?:logical|sync_replication)_slot\w*"
        r"|buffercache_evict\w*|logical_emit_message|prewarm|import_system_collations|reload_conf|rotate_logfile"
        r"|promote|switch_wal|(?:backup_)?(?:start|stop)(?:_backup)?|create_restore_point"
        r"|wal_replay_\w+|log_\w+|stat\w*_reset\w*)\b|\blo_unlink\b"
        r"|\balter\s+(?:role|user|group|database|tablespace|publication|event\s+trigger)\b"
        r"|\b(?:drop|create)\s+(?:database|role|user|group|tablespace|publication|event\s+trigger)\b"
        r"|\b(?:alter|drop|create|reassign)\s*+(?:/\*|--)|\breassign\s+owned\b|\bdrop\s+owned\b"
        r"|\bcheckpoint\b|\bautoprewarm_\w+|\bprepare\s+transaction\b|\b(?:commit|rollback)\s+prepared\b"
        r"|\bset\s+(?:(?:local|session)\s+)?(?:role|session\s+authorization)\b",
    ),
)
# Where its file lets nothing be written: these are carried out in read-only transactions, too.
_OF_READERS = (
    _pattern(
        "a change that read-only transactions allow",
        "vacuum analy reindex cluster lock lo",
        r"(?m)(?:^|;)[^\S\n]*+(?:vacuum|analy[sz]e|cluster|lock)\b|\breindex\b|\block\s+(?:table\b|/\*|--)"
        r"|\blo_(?:creat\w*|from_bytea|put|import\w*|truncate\w*)\b|\blowrite\b",
    ),
)
_ANSWER = re.compile(r"\\[ag]set\b", re.IGNORECASE)
_SET = re.compile(r"\s*\\set\s+([A-Za-z_]\w*)\s")
_BRANCH = re.compile(r"\\(?:[ag]set|el(?:se|if)|endif)\b", re.IGNORECASE)
_VARIABLE = re.compile(r"(?<![:\w]):([A-Za-z_]\w*)")
# What can make lines that look like commands of pgbench a part of SQL.
_SPANS_LINES = ("/*", "$", "\\'")
# One is in every line of SQL in which a match begins, in small letters, unless it is there by an escape, which has a
# backslash, or by a variable, which has a colon, or is the end of a COPY.
WORDS = ("\\", "uescape", *{word for each in _PATTERNS for word in each.words if len(word) > 1})


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
    more = (*_OF_SERVER, *(() if target.writes else _OF_READERS)) if target.kind == "server" else ()
    protocols = {arm.knobs.get(WORKLOAD, {}).get(PROTOCOL, experiment.workload.protocol) for arm in arms}
    answers = scripts if "simple" in protocols else {}
    found = (
        *_programs(experiment, arms, is_known),
        *(use for arm in arms for use in _settings(arm)),
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


def find_on_server(scripts: Mapping[str, str]) -> tuple[CodeUse, ...]:
    """What scripts by name execute or change beside their own data on a server that is not pgtrial's own."""
    return tuple(use for name, text in scripts.items() for use in find_in_sql(name, text, more=_OF_SERVER))


def find_in_sql(
    name: str, text: str, *, numbers: Sequence[int] = (), more: Sequence[_Pattern] = ()
) -> Iterator[CodeUse]:
    """What SQL executes beside itself; ``name`` says where it stands, ``numbers`` those of its lines, if not 1, 2, …

    ``more``: what is looked for beside what always is.
    """
    lines, (texts, is_all) = text.split("\n"), readings(text)
    both = tuple((each, each.lower()) for each in texts)
    for sought in (*_PATTERNS, *more):
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
    if not _ANSWER.search(text):
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
            yield code_use(f"{name}, line {number}", f"{_JOINED}: {line.strip()}")
        if _BRANCH.search(line):
            numeric.clear()


def _lines_with(sought: _Pattern, text: str) -> Iterator[int]:
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
