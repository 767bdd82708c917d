r"""Where in a file for psql the data of a COPY … FROM stdin begin, for certain.

Data are passed over, so whoever makes psql see a statement where data are seen here hides it. psql's own scanner is
followed as far as quotes and comments go. Whatever else decides what a line is to psql (conditions, variables of more
than a word, errors that are passed over, strings and encodings that are read in another way, a statement that goes on
behind its semicolon) ends the certainty for good: what follows is then looked at, data or not.
"""

import re
from dataclasses import dataclass, field

_MOST_STEPS = 1_000_000  # from one quotation mark, comment or semicolon to the next
_LONGEST = 1 << 16  # bytes of a COPY without its data
_WORD = rb"\w$\x80-\xff"
_OUTSIDE = re.compile(
    rb"--[^\n]*|/\*|(?<![%b])[eE]'|'|\"|(?<![%b])\$(?:[A-Za-z_\x80-\xff][\w\x80-\xff]*)?\$|;|\\[^\n]*" % (_WORD, _WORD)
)
_IN_COMMENT = re.compile(rb"/\*|\*/")
_IN_ESCAPES = re.compile(rb"\\.|'", re.DOTALL)
_FROM_STDIN = rb"copy\s+[%b.\"]+\s*(?:\([%b\s,.\"]*\)\s*)?from\s+stdin\b" % (_WORD, _WORD)
_COPY = re.compile(_FROM_STDIN, re.IGNORECASE)
_CLIENT_COPY = re.compile(rb"\\%b[^\\`]*" % _FROM_STDIN, re.IGNORECASE)
_FIRST_WORD = re.compile(rb"[A-Za-z_]*")
_BEGIN = re.compile(rb"\bbegin\b(?!\s+atomic\b)", re.IGNORECASE)
# Commands that change nothing of how the next line is read.
_PLAIN = re.compile(
    rb"\\(?:(?:restrict|unrestrict|echo|pset|i|ir|include|include_relative)\b[^\\`]*"
    rb"|set\s+[a-z_][a-z0-9_]*\s+(?!(?:begin|atomic|case|end)\b)[\w./-]+\s*)"
)
_AS_USUAL = re.compile(
    rb"standard_conforming_strings\s*=\s*on;"
    rb"|client_encoding\s*=\s*'(?:UTF8|SQL_ASCII|LATIN1)';"
    rb"|set_config\('search_path',\s*'[\w, ]*',\s*false\);",
    re.IGNORECASE,
)
_READ_OTHERWISE = re.compile(
    rb"standard_conforming_strings|client_encoding|set\s+names|set_config|pg_settings|\0", re.IGNORECASE
)


@dataclass(slots=True)
class Scanner:
    """Of one file, with what is left of the certainty from those before it."""

    is_certain: bool = True
    _inside: bytes = b""  # what ends it: a quotation mark, a tag; "E" for a string with escapes, "*" for a comment
    _depth: int = 0  # of comments
    _first: bytes = b""  # word of the statement
    _copy: list[bytes] = field(default_factory=list)  # text of a COPY, without what is quoted
    _size: int = 0
    _steps: int = 0

    def takes_data(self, line: bytes) -> bool:
        """Whether the next line is the first of the data of a COPY. ``line`` follows those given before."""
        if not line.endswith(b"\n") or line.strip() == b"\\.":  # cut, or the end of data that were not seen
            self.is_certain = False
        if _READ_OTHERWISE.search(_AS_USUAL.sub(b"", line)):
            self.is_certain = False
        at, takes_data = 0, False
        while self.is_certain and at < len(line):
            self._steps += 1
            if self._steps > _MOST_STEPS:
                self.is_certain = False
            if self._inside:
                at = self._leave(line, at)
            else:
                at, takes_data = self._enter(line, at, takes_data=takes_data)
        return takes_data and self.is_certain

    def _enter(self, line: bytes, at: int, *, takes_data: bool) -> tuple[int, bool]:
        """Go on to the next place where something begins or ends."""
        found = _OUTSIDE.search(line, at)
        end = len(line) if found is None else found.start()
        if takes_data and (line[at:end].strip() or (found is not None and not found[0].startswith(b"--"))):
            self.is_certain = False  # there is more behind it on the same line
        self._add(line[at:end])
        if found is None:
            return end, takes_data
        token = found[0]
        if token == b";":
            takes_data = _COPY.match(b"".join(self._copy)) is not None
            self._first, self._size = b"", 0
            self._copy.clear()
        elif token.startswith(b"\\"):
            takes_data = not self._first and _CLIENT_COPY.fullmatch(token.rstrip()) is not None
            if not takes_data and _PLAIN.fullmatch(token) is None:
                self.is_certain = False
        elif token == b"/*":
            self._inside, self._depth = b"*", 1
            self._add(b" ")
        elif token.startswith(b"--"):
            self._add(b" ")
        else:
            self._inside = b"E" if token in (b"e'", b"E'") else token
            self._add(b'""')
        return found.end(), takes_data

    def _leave(self, line: bytes, at: int) -> int:
        """Where what is quoted ends, or else the end of the line."""
        if self._inside == b"*":
            if found := _IN_COMMENT.search(line, at):
                self._depth += 1 if found[0] == b"/*" else -1
                self._inside = b"*" if self._depth else b""
        elif self._inside == b"E":
            found = _IN_ESCAPES.search(line, at)
            if found and found[0] == b"'":
                self._inside = b""
                if not line[found.end() :].strip():  # the next line may go on with it
                    self.is_certain = False
        elif found := re.compile(re.escape(self._inside)).search(line, at):
            self._inside = b""
        return len(line) if found is None else found.end()

    def _add(self, text: bytes) -> None:
        """Text of a statement, which is kept of a COPY only."""
        if not self._first:
            text = text.lstrip()
            if not text:
                return
            found = _FIRST_WORD.match(text)
            self._first = (found[0].lower() if found else b"") or b"?"
        if self._first == b"create" and _BEGIN.search(text):
            self.is_certain = False  # psql waits for its end, whatever the semicolons
        if self._first == b"copy":
            self._size += len(text)
            self._copy.append(text)
            if self._size > _LONGEST:
                self.is_certain = False
