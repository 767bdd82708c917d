"""Complain of every call that writes, makes or renames a file in another way than ``pgtrial.safe_files``.

A folder may be a stranger's, and a neighbour may swap names while one is written, so there is one way to write. Who
cannot take it stands in OTHERS, with the number of such calls and why they are safe; one more call is an error.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "src" / "pgtrial"

# File to how many calls, and why.
OTHERS: dict[str, tuple[int, str]] = {
    "cli/export.py": (1, "a function of that name, which goes the one way"),
    "cli/gate.py": (1, "writes to a device such as /dev/stdout"),
    "cli/main.py": (3, "/dev/null; the module of a command; a log that is standard error"),
    "engine/calibration.py": (2, "makes a new result folder and gives it its name, where nobody else writes"),
    "engine/folder.py": (
        10,
        "the lock, never through a link and never written; directories of a result folder of its own",
    ),
    "engine/live/view.py": (1, "a new file of its own, which is written anew each second"),
    "engine/sampler/spool.py": (1, "a new file of its own, which grows all the time"),
    "engine/slicer/__main__.py": (1, "the kernel's files of control groups"),
    "export/archive.py": (6, "archives that are read, or written into a file of safe_files"),
    "export/bundle.py": (4, "a directory of its own, which nobody else enters"),
    "export/redacted_files.py": (3, "SQLite in a directory of its own, which nobody else enters"),
    "export/tables/causes.py": (1, "bytes that were written, which is no call"),
    "export/xlsx.py": (1, "a workbook in memory"),
    "fleet/host_folders.py": (4, "folders in the state directory, which nobody else enters"),
    "fleet/remote.py": (3, "folders in the state directory, which nobody else enters"),
    "hosts/local.py": (1, "the logs of programs, never through a link"),
    "hosts/operations.py": (
        8,
        "the files and directories of hosts: the kernel's, and by a new name in an opened directory",
    ),
    "hosts/ssh/host.py": (2, "sockets in a directory of its own, which nobody else enters"),
    "hosts/ssh/agent_programs.py": (2, "the logs of programs on another host; control groups"),
    "narrate/endpoint.py": (1, "a request, which is no file"),
    "postgres/existing/dumps.py": (1, "in a directory of its own, which nobody else enters"),
    "postgres/existing/settings_undo.py": (1, "a file of the server gets back its name, which the journal knows"),
    "report/sections/storage.py": (1, "bytes that were written, which is no call"),
    "safe_files.py": (9, "the one way"),
    "store/attempts.py": (1, "appends in the state directory, which nobody else enters; never through a link"),
    "store/belongings.py": (1, "appends in the state directory, which nobody else enters; never through a link"),
    "store/cache.py": (1, "a directory of its own, which is used only where nobody else may change it"),
    "store/journal_file.py": (5, "the state directory, which nobody else enters"),
    "store/log_reduction.py": (1, "a new file on another machine, on which nothing of pgtrial is installed"),
    "store/parquet.py": (2, "DuckDB in memory, which writes to a path of safe_files"),
    "watch/folder.py": (1, "the lock, never through a link and never written"),
    "watch/webhook.py": (1, "a request, which is no file"),
    "store/sqlite.py": (1, "refuses links beforehand, and opens what is there"),
}

_METHODS = frozenset(
    {
        *("write_text", "write_bytes", "touch", "symlink_to", "hardlink_to", "link_to", "rename"),
        *("tofile", "savetxt", "savez", "to_csv", "to_parquet", "to_excel", "to_pickle", "to_feather", "to_hdf"),
        *("write_parquet", "write_csv", "write_excel", "write_ipc", "write_ndjson", "write_database", "sink_parquet"),
        *("extract", "extractall", "copy_into", "move_into", "backup"),
        *("dump_stats", "urlretrieve", "creat", "save_html", "save_svg", "save_text", "write_image", "write_html"),
        *("dump", "mkdir", "makedirs", "writestr"),
    }
)
_FUNCTIONS = {
    "os": frozenset(
        {
            "system",
            *("mkdir", "makedirs", "removedirs"),
            *("rename", "renames", "replace", "link", "symlink", "mknod", "mkfifo", "truncate", "popen"),
            *("copy_file_range", "sendfile", "splice"),
        }
    ),
    "shutil": frozenset({"copy", "copy2", "copyfile", "copytree", "move", "make_archive", "unpack_archive"}),
    "io": frozenset({"open", "open_code", "FileIO"}),
    "codecs": frozenset({"open"}),
    "gzip": frozenset({"open", "GzipFile"}),
    "bz2": frozenset({"open", "BZ2File"}),
    "lzma": frozenset({"open", "LZMAFile"}),
    "tarfile": frozenset({"open", "TarFile"}),
    "shelve": frozenset({"open"}),
    "dbm": frozenset({"open"}),
    "mmap": frozenset({"mmap"}),
    "sqlite3": frozenset({"connect", "Connection"}),
    "dbapi2": frozenset({"connect", "Connection"}),
    "duckdb": frozenset({"connect", "sql", "execute", "query", "cursor", "default_connection"}),
    "fileinput": frozenset({"input", "FileInput"}),
    "importlib": frozenset({"import_module"}),
    "builtins": frozenset({"open", "exec", "eval"}),
    "posix": frozenset({"open", "rename", "replace", "link", "symlink", "mknod", "mkfifo", "truncate", "system"}),
    "tempfile": frozenset({"mkstemp", "mktemp", "NamedTemporaryFile", "SpooledTemporaryFile"}),
    "logging": frozenset({"FileHandler", "basicConfig"}),
    "handlers": frozenset({"RotatingFileHandler", "TimedRotatingFileHandler", "WatchedFileHandler"}),
    "np": frozenset({"save", "savez", "savez_compressed", "savetxt", "memmap"}),
    "xlsxwriter": frozenset({"Workbook"}),
    "zipfile": frozenset({"ZipFile"}),
}
# The modules whose functions may only be called by their full names, so that this sees them.
_PLAIN = frozenset(_FUNCTIONS) - {"np"}
# Of these no name is handed on: who has one may call it by any other.
_BARE = frozenset({"open", "exec", "eval", "__import__"})
_ARCHIVES = frozenset({"archive", "bundle", "tar", "tarball", "zip", "zipped", "packed"})  # as they are called here
_HANDED_ON = frozenset({"write_text", "write_bytes", "symlink_to", "hardlink_to", "extractall", "urlretrieve"})
_READING = frozenset(
    {"O_RDONLY", "O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "O_DIRECTORY", "O_PATH", "_DIRECTORY", "O_NOATIME"}
)
_STATEMENT = re.compile(
    r"\bCOPY\b.*\bTO\s+['{?]|\bEXPORT\s+DATABASE\b|\bATTACH\s+['{?]|\bVACUUM\b.*\bINTO\b", re.DOTALL
)


def writes_of(source: str) -> Iterator[tuple[int, str]]:
    """Line and words of everything that may write a file, or that would hide from this that it does."""
    tree = ast.parse(source)
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _writes(node):
            yield node.lineno, ast.unparse(node.func)
        elif (
            isinstance(node, ast.Attribute)
            and id(node) not in called
            and node.attr.islower()
            and (_is_function(node) or node.attr in _HANDED_ON or (node.attr == "__dict__" and _owner(node) in _PLAIN))
        ):
            yield node.lineno, f"{ast.unparse(node)}, which is called elsewhere"
        elif (
            isinstance(node, ast.Name)
            and id(node) not in called
            and node.id in _BARE
            and not isinstance(node.ctx, ast.Store)
        ):
            yield node.lineno, f"{node.id}, which is called elsewhere"
        elif isinstance(node, ast.ImportFrom) and node.module in _PLAIN:
            hidden = {alias.name for alias in node.names} & (_FUNCTIONS[node.module] | _PLAIN | {"open", "*"})
            yield from ((node.lineno, f"from {node.module} import {name}") for name in sorted(hidden))
        elif isinstance(node, ast.Import):
            renamed = [alias for alias in node.names if alias.name in _PLAIN and alias.asname is not None]
            yield from ((node.lineno, f"import {alias.name} as {alias.asname}") for alias in renamed)
        elif (
            isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in parts and _STATEMENT.search(_text(node))
        ):
            yield node.lineno, "an SQL statement that writes a file"


def _writes(call: ast.Call) -> bool:
    function = call.func
    if isinstance(function, ast.Name):
        if function.id == "open":
            return not _only_reads(call, position=1)
        if function.id in ("getattr", "vars"):
            module = call.args[0] if call.args else None
            return isinstance(module, ast.Name) and module.id in _PLAIN
        return function.id in _BARE or function.id == "globals"
    if not isinstance(function, ast.Attribute):
        return False
    if _is_function(function):
        return True
    owner = _owner(function)
    if function.attr == "save" and owner != "self":
        return True
    if function.attr in ("run", "Popen", "create_subprocess_shell"):  # a shell writes wherever its text says
        return function.attr == "create_subprocess_shell" or any(word.arg == "shell" for word in call.keywords)
    if function.attr == "replace":  # that of a text has two arguments, that of a time only names
        return len(call.args) == 1 and not call.keywords
    if owner == "os" and function.attr == "open":
        return not (len(call.args) > 1 and _flags(call.args[1]) <= _READING)
    if function.attr == "open":
        if owner in ("State", "Journal", "Image", "SshHost", "webbrowser"):  # no files, as long as they get no mode
            return not _only_reads(call, position=1)
        return not _only_reads(call, position=0)
    if function.attr == "write" and owner in _ARCHIVES:
        return True
    return function.attr in _METHODS


def _owner(function: ast.Attribute) -> str:
    """The last name before the function's."""
    owner = function.value
    return owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""


def _is_function(function: ast.Attribute) -> bool:
    return function.attr in _FUNCTIONS.get(_owner(function), ())


def _only_reads(call: ast.Call, *, position: int) -> bool:
    """Whether the mode of an ``open`` is one to read; one that is computed may be any."""
    given = [word.value for word in call.keywords if word.arg == "mode"] or call.args[position : position + 1]
    if any(word.arg is None for word in call.keywords):
        return False
    mode = given[0].value if given and isinstance(given[0], ast.Constant) else None
    return not given or (isinstance(mode, str) and not set(mode) & set("wax+"))


def _flags(flags: ast.expr) -> set[str]:
    named = {node.attr for node in ast.walk(flags) if isinstance(node, ast.Attribute)}
    return named | {node.id for node in ast.walk(flags) if isinstance(node, ast.Name) and node.id != "os"}


def _text(node: ast.Constant | ast.JoinedStr) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)


def complaints(sources: Path = SOURCES) -> list[str]:
    """One line for each file that has more or fewer of such calls than OTHERS says."""
    found = {
        str(path.relative_to(sources)): [*writes_of(path.read_text(encoding="utf-8"))]
        for path in sorted(sources.rglob("*.py"))
    }
    return [
        f"{name}: {len(lines)} calls write a file beside safe_files, {OTHERS.get(name, (0, ''))[0]} are known: "
        + ", ".join(f"{words} in line {number}" for number, words in lines)
        for name, lines in found.items()
        if len(lines) != OTHERS.get(name, (0, ""))[0]
    ] + [f"{name}: it is not there" for name in OTHERS.keys() - found.keys()]


if __name__ == "__main__":
    lines = complaints()
    print("\n".join(lines))
    sys.exit(bool(lines))
