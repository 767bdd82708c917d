"""Where each key of a TOML text stands: tomllib gives values without lines, and an error needs its line.

The text is known to be valid TOML (tomllib has read it), so this reader only follows the structure and skips what
does not matter to it.
"""

import re
import tomllib
from bisect import bisect_right

Path = tuple[str | int, ...]
Found = tuple[Path, str, str]  # a problem before its line is looked up: path, message, hint

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"""(?!")|\'\'\'.*?\'\'\'(?!\')|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'',
    re.DOTALL,
)
_SCALAR = re.compile(r"[^,\]}#\n]*")


def locate_keys(text: str) -> dict[Path, int]:
    """Line (1-based) of every table, key and array element: ("workload", "clients", 2) -> 14.

    A table that is only named as part of a longer name has the line of its first mention.
    """
    return _Reader(text).read()


def format_path(path: Path) -> str:
    """Dotted form as in the file: ``workload.scenario[0].name``, ``arms.a.postgresql."auto_explain.log_analyze"``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            shown = part if _BARE_KEY.fullmatch(part) else '"' + part.replace("\\", "\\\\").replace('"', '\\"') + '"'
            text += f".{shown}" if text else shown
    return text


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._newlines = [match.start() for match in re.finditer("\n", text)]
        self._lines: dict[Path, int] = {}
        self._elements: dict[Path, int] = {}  # how many [[tables]] a name has so far

    def read(self) -> dict[Path, int]:
        table: Path = ()
        while not self._at_end():
            if self._text.startswith("[", self._at):
                table = self._header()
            else:
                self._pair(table)
        return self._lines

    def _at_end(self) -> bool:
        self._skip(_BLANK)
        return self._at >= len(self._text)

    def _skip(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        if match is None:
            raise AssertionError(f"not TOML at offset {self._at}")
        self._at = match.end()
        return match[0]

    def _blank_then(self, text: str) -> bool:
        """Skip blanks, then ``text`` if it is next."""
        self._skip(_BLANK)
        found = self._text.startswith(text, self._at)
        if found:
            self._at += len(text)
        return found

    def _record(self, path: Path) -> None:
        self._lines.setdefault(path, bisect_right(self._newlines, self._at - 1) + 1)

    def _header(self) -> Path:
        is_array = self._text.startswith("[[", self._at)
        self._at += 2 if is_array else 1
        *parents, last = self._key_parts()
        path: Path = ()
        for part in parents:
            path = self._in_last_element((*path, part))
            self._record(path)
        path = (*path, last)
        if is_array:
            self._record(path)
            self._elements[path] = self._elements.get(path, 0) + 1
        path = self._in_last_element(path)
        self._record(path)
        self._at = self._text.index("]", self._at) + (2 if is_array else 1)
        return path

    def _in_last_element(self, path: Path) -> Path:
        count = self._elements.get(path, 0)
        return (*path, count - 1) if count else path

    def _pair(self, table: Path) -> None:
        start = self._at
        parts = self._key_parts()
        end, self._at = self._at, start
        for length in range(1, len(parts) + 1):
            self._record((*table, *parts[:length]))
        self._at = self._text.index("=", end) + 1
        self._value((*table, *parts))

    def _key_parts(self) -> list[str]:
        parts = []
        while True:
            self._skip(_BLANK)
            if self._text[self._at] in "\"'":
                quoted = self._skip(_STRING)
                parts.append(str(tomllib.loads(f"key = {quoted}")["key"]))
            else:
                parts.append(self._skip(_BARE_KEY))
            if not self._blank_then("."):
                return parts

    def _value(self, path: Path) -> None:
        self._skip(_BLANK)
        match self._text[self._at]:
            case "[":
                self._array(path)
            case "{":
                self._inline_table(path)
            case '"' | "'":
                self._skip(_STRING)
            case _:
                self._skip(_SCALAR)

    def _array(self, path: Path) -> None:
        self._at += 1
        element = 0
        while not self._blank_then("]"):
            self._record((*path, element))
            self._value((*path, element))
            self._blank_then(",")
            element += 1

    def _inline_table(self, path: Path) -> None:
        self._at += 1
        while not self._blank_then("}"):
            self._pair(path)
            self._blank_then(",")
