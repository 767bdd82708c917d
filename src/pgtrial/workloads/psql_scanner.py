r"""What psql takes for its own commands in a file, and where the data of a COPY … FROM stdin begin, for certain.

Data and strings are passed over, so whoever makes psql see a command where one of them is seen here hides it. Psql's
own scanner is followed as far as quotes, comments, parentheses and bodies of functions go. Whatever else decides what a
line is to psql (conditions, variables of more than a word, errors that are passed over, strings and encodings that are
read in another way, numbers that touch a quotation mark, a statement that goes on behind its semicolon) ends the
certainty for good: what follows is then looked at, data or not.

Source: psqlscan.l and psqlscanslash.l of PostgreSQL 12 to 18. tests/attacks/test_psql_scanner.py compares with psql.
"""

import re
from dataclasses import dataclass, field

from pgtrial.workloads.psql_commands import CLIENT_COPY

_MOST_STEPS = 1_000_000  # from one quotation mark, comment or semicolon to the next
_LONGEST = 1 << 16  # bytes of a COPY without its data
_LONGEST_HEAD = 100  # bytes of a statement that tell whether it makes a routine
_MARK = b"\xef\xbb\xbf"  # of UTF-8, which psql takes off the first line
_WORD = rb"\w$\x80-\xff"
_APART = rb"(?<![%b])" % _WORD
_OUTSIDE = re.compile(
    rb"--[^\n\r]*|/\*"
    # Where a number, a dollar or a variable touches a quotation mark, versions of psql differ in what begins there.
    # Variables with capital letters psql sets by itself.
    rb"|(?P<unclear>%(apart)b(?:\$?\d[\w.\x80-\xff]*['\"$]|\$[\w\x80-\xff]*['\"])"
    rb"|(?<!:):(?:[A-Z_]|[\w\x80-\xff]+['\"$])|:::)"
    rb"|%(apart)b[eE]'|'|\"|%(apart)b\$(?:[A-Za-z_\x80-\xff][\w\x80-\xff]*)?\$|;|\\[^\n]*" % {b"apart": _APART}
)
_IN_COMMENT = re.compile(rb"/\*|\*/")
_IN_ESCAPES = re.compile(rb"\\.|''|'", re.DOTALL)
_NOTHING_BEHIND = re.compile(rb"\s*(?:--[^\n]*)?\Z")
_COPY = re.compile(rb"copy\s+[%b.\"]+\s*(?:\([%b\s,.\"]*\)\s*)?from\s+stdin\b" % (_WORD, _WORD), re.IGNORECASE)
# Psql knows by the first words whether a statement makes a routine, whose body may have semicolons.
_ROUTINE = re.compile(rb"create\s+(?:or\s+replace\s+)?(?:function|procedure)\s", re.IGNORECASE)
_NO_ROUTINE = re.compile(
    rb"(?:(?!create)|create\s+(?!function|procedure|or)|create\s+or\s+replace\s+(?!function|procedure))"
    rb"[A-Za-z_]+(?![%b])" % _WORD,
    re.IGNORECASE,
)
_BEGIN = re.compile(rb"(?<![A-Za-z_\x80-\xff])begin(?![%b])" % _WORD, re.IGNORECASE)
_OF_BODY = re.compile(rb"[()]|(?:begin|case|end)(?![%b])" % _WORD, re.IGNORECASE)
_NOT_APART = re.compile(rb"[\d$.:](?:begin|case|end)(?![%b])" % _WORD, re.IGNORECASE)
_INSIDE_WORD = re.compile(rb"[%b]" % _WORD)
_PARENTHESES = re.compile(rb"[()]")
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
    """Of one file, with what is left of the certainty from those before it.

    ``commands`` are those of psql in the line that was taken last, up to its end, if that is certain.
    """

    is_certain: bool = True
    commands: list[bytes] = field(default_factory=list)
    _is_first_line: bool = True
    _inside: bytes = b""  # what ends it: a quotation mark, a tag; "E" for a string with escapes, "*" for a comment
    _depth: int = 0  # of comments
    _parentheses: int = 0
    _bodies: int = 0  # BEGIN and CASE without their END, in a statement that makes a routine
    _head: bytes = b""  # of the statement, without what is quoted
    _copy: list[bytes] = field(default_factory=list)  # text of a COPY, without what is quoted
    _size: int = 0
    _steps: int = 0

    def takes_data(self, line: bytes) -> bool:
        """Whether the next line is the first of the data of a COPY. ``line`` follows those given before."""
        self.commands.clear()
        if self._is_first_line:
            line = line.removeprefix(_MARK)
            self._is_first_line = False
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
        if found["unclear"]:
            self.is_certain = False
        elif token == b";":
            takes_data = self._end_statement()
        elif token.startswith(b"\\"):
            self.commands.append(token)
            copy = CLIENT_COPY.fullmatch(token.decode("utf-8", "replace"))
            takes_data = copy is not None and copy["way"].lower() == "from" and copy["stream"] == "stdin"
            if copy is None and _PLAIN.fullmatch(token) is None:
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
                if _NOTHING_BEHIND.match(line, found.end()):  # the next line may go on with it
                    self.is_certain = False
        elif found := re.compile(re.escape(self._inside)).search(line, at):
            # A word that touches the end of what stands between dollars looks like a part of its tag.
            if self._inside.startswith(b"$") and _INSIDE_WORD.match(line, found.end()):
                self.is_certain = False
            self._inside = b""
        return len(line) if found is None else found.end()

    def _end_statement(self) -> bool:
        """At a semicolon. Whether the data of a COPY follow."""
        if self._parentheses or self._bodies:
            self._add(b";")
            return False
        takes_data = _COPY.match(b"".join(self._copy)) is not None
        self._head, self._size = b"", 0
        self._copy.clear()
        return takes_data

    def _add(self, text: bytes) -> None:
        """Text of a statement, of which its beginning is kept, and the whole of a COPY."""
        if not self._head:
            text = text.lstrip()
        if not text:
            return
        if len(self._head) < _LONGEST_HEAD:
            self._head += text[:_LONGEST_HEAD]
        if self._bodies or (_BEGIN.search(text) and not _NO_ROUTINE.match(self._head)):
            self._count_bodies(text)
        else:
            self._count_parentheses(text)
        if self._head[:4].lower() == b"copy":
            self._size += len(text)
            self._copy.append(text)
            if self._size > _LONGEST:
                self.is_certain = False

    def _count_parentheses(self, text: bytes) -> None:
        if b"(" not in text and b")" not in text:
            return
        closed = text.count(b")")
        if closed <= self._parentheses:
            self._parentheses += text.count(b"(") - closed
            return
        for found in _PARENTHESES.finditer(text):
            self._parentheses = self._parentheses + 1 if found[0] == b"(" else max(self._parentheses - 1, 0)

    def _count_bodies(self, text: bytes) -> None:
        """Psql waits for the END of the body of a routine, whatever the semicolons before."""
        if not _ROUTINE.match(self._head) or _NOT_APART.search(text):
            self.is_certain = False
        for found in _OF_BODY.finditer(text):
            word = found[0].lower()
            if word == b"(":
                self._parentheses += 1
            elif word == b")":
                self._parentheses = max(self._parentheses - 1, 0)
            elif _is_apart(text, found.start()) and not self._parentheses:
                if word == b"end":
                    self._bodies = max(self._bodies - 1, 0)
                elif word == b"begin" or self._bodies:
                    self._bodies += 1


def _is_apart(text: bytes, at: int) -> bool:
    return not at or _INSIDE_WORD.match(text, at - 1) is None
