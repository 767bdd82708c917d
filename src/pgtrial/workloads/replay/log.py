"""The statements of a server's csvlog, by session and in order of time.

Source: PostgreSQL documentation, "Error Reporting and Logging", "Using CSV-Format Log Output", and what the server
writes for ``log_statement`` and ``log_min_duration_statement``.
"""

import csv
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import TextIO

from pgtrial.errors import SpecError
from pgtrial.experiment_file.code_patterns import WORDS
from pgtrial.experiment_file.code_uses import find_in_sql
from pgtrial.safe_text import make_visible

_TIME, _DATABASE, _SESSION, _COMMAND, _SEVERITY, _MESSAGE, _DETAIL, _QUERY = 0, 2, 5, 7, 11, 13, 14, 19
_EPOCH = datetime(1970, 1, 1)
_COLUMNS = 23  # of version 12 and older; later ones have more
_LONGEST = 16 << 20  # characters of one text, or of one line
_TEXTS_KEPT = 1000
_OF_CSVLOG = "The log of a server with log_destination = csvlog is one."
_OF_TORN = "Is the record that begins there whole? Remove what was cut off, at the end or where logs were joined."
_LOGGED = re.compile(
    r"(?:duration: (?P<ms>\d{1,12}(?:\.\d{1,9})?) ms  )?"
    r"(?:statement|execute (?P<fetch>fetch from )?(?P<name>.+?)): (?P<text>.*)",
    re.DOTALL,
)
_CANCELLED = {"canceling statement due to user request", "canceling statement due to statement timeout"}
_NOT_BEGUN = ("PARSE", "BIND")  # what a session does while it is told a statement, and its parameters
_PARAMETER = re.compile(r"\$\d+ = (?:NULL|'((?:[^']++|'')*+)')(?:, |$)")
LEAD = r"(?>\s|--[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)*+"  # blanks and comments before a statement
# Anywhere in a text of several: the replay would send no data, and the session could do nothing more.
_OWN_DATA = re.compile(rf"(?:^|;){LEAD}COPY\b[^;]*?\bFROM\s+STDIN\b", re.IGNORECASE)
NAME = r"(?P<name>\w+|\"(?:[^\"]|\"\")+\")"
_TYPES = r"\((?:[^()]|\([^()]*\))*+\)"
PREPARE = re.compile(
    rf"{LEAD}PREPARE\s+(?!TRANSACTION\b){NAME}(?:\s*(?:{_TYPES}\s*)?AS\b(?P<body>.*))?", re.IGNORECASE | re.DOTALL
)
_DEALLOCATE = re.compile(rf"{LEAD}DEALLOCATE\s+(?:PREPARE\s+)?(?!ALL\b){NAME}", re.IGNORECASE)
_DEALLOCATE_ALL = re.compile(rf"{LEAD}(?:DISCARD|DEALLOCATE(?:\s+PREPARE)?)\s+ALL\b", re.IGNORECASE)
_UNNAMED = "<unnamed>"


@dataclass(slots=True, kw_only=True)
class Statement:
    """``due`` is in seconds since the first one of the log, whose times are whole milliseconds; ``place`` tells which
    one of a millisecond came first. ``failed``: in the original, which ``ended`` well where that is known;
    ``cancelled``: after so many seconds, by its user or because its time was over. ``name``: under which it is prepared
    by the protocol, "" where it is not; ``forgets``: names of which nothing is prepared any more when it has ended.
    """

    due: float
    text: str
    parameters: tuple[str | None, ...]
    failed: bool = False
    ended: bool = False
    cancelled: float | None = None
    name: str = ""
    forgets: tuple[str, ...] = ()
    place: int = field(default=0, compare=False)


@dataclass(slots=True, kw_only=True)
class Session:
    """``statements`` in the order in which they were due, and the names of those that it ``prepared`` and has now. Of
    what it prepared by the protocol ``named`` has by name and text the first use, and its name in the replay.
    """

    name: str
    statements: list[Statement] = field(default_factory=list)
    prepared: set[str] = field(default_factory=set)
    named: dict[str, dict[str, tuple[Statement, str]]] = field(default_factory=dict)
    renamed: int = 0

    def note_name(self, name: str, statement: Statement) -> None:
        """It has the name of the log, unless another text has it: the log does not tell when that was closed. What is
        used once is not prepared: for want of such an end a server would keep thousands.
        """
        texts = self.named.setdefault(name, {})
        if statement.text in texts:
            first, own = texts[statement.text]
            first.name = statement.name = own
            return
        self.renamed += (is_taken := name in self.prepared)
        texts[statement.text] = (statement, f"pgtrial {self.renamed}" if is_taken else name)
        self.prepared.add(name)

    def forget(self, name: str) -> tuple[str, ...]:
        """Names in the replay that are free when ``name`` has been deallocated, which has to be there for that."""
        self.prepared.discard(name)
        gone = self.named.pop(name, {}).values()
        for first, own in gone:
            first.name = name if own == name else first.name
        return tuple(own for _, own in gone)

    def forget_all(self) -> tuple[str, ...]:
        """The same of all names."""
        found = tuple(own for texts in self.named.values() for _, own in texts.values())
        self.prepared.clear()
        self.named.clear()
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """``left_out``: how many statements cannot be replayed, by reason."""

    sessions: tuple[Session, ...]
    left_out: Counter[str]


def read_log(path: Path, *, database: str | None = None, allow_code: bool = False) -> Log:
    """The sessions of ``database``, which may be left out where the log has only one. Raises SpecError.

    Everybody who may connect to a server writes into its log, also what he had no right to; the replay may have it. So
    what executes code, or reaches files or hosts, is left out unless ``allow_code``.
    """
    sessions: dict[str, Session] = {}
    owners: dict[str, str] = {}
    left_out: Counter[str] = Counter()
    zone = ""
    for place, row in enumerate(_rows(path)):
        session = sessions.setdefault(row[_SESSION], Session(name=row[_SESSION]))
        owners[row[_SESSION]] = row[_DATABASE] or owners.get(row[_SESSION], "")  # not known until it is connected
        time, own_zone = _time(row[_TIME], path)
        zone = zone or own_zone
        if own_zone != zone:
            raise SpecError(
                f'"{path}" has times of two zones, {make_visible(zone)} and from {make_visible(row[_TIME])} on another',
                hint="Replay what is before that, and what is after it, as two logs. log_timezone = UTC never changes.",
            )
        # A session that is ended while it is idle has no statement; a text that cannot be parsed is met in an idle one.
        if row[_SEVERITY] in ("ERROR", "FATAL") and (row[_QUERY] or not row[_COMMAND].startswith("idle")):
            if allow_code or not _is_code(row[_QUERY]):  # else it was left out, or is
                _note_failure(session, row, time, place)
        elif row[_SEVERITY] == "LOG" and (match := _LOGGED.fullmatch(row[_MESSAGE])) is not None:
            if reason := _objection(session, match):
                left_out[reason] += 1
                continue
            if not allow_code and _is_code(match["text"]):
                left_out["code, files or other hosts, for which it takes --allow-code"] += 1
                continue
            session.statements.append(_statement(session, match, row[_DETAIL], time, place))
    named = {owners[one.name] for one in sessions.values() if one.statements}
    if database is None and len(named) > 1:
        raise SpecError(
            f'the sessions of "{path}" are of several databases: {make_visible(", ".join(sorted(named)))}',
            hint="Say which is to be replayed: --database NAME.",
        )
    kept = [one for one in sessions.values() if one.statements and database in (None, owners[one.name])]
    if not kept:
        of = f" of database {database}" if database is not None else ""
        raise SpecError(
            f'"{path}" has no statement{of}{" but those that are left out" if left_out else ""}',
            detail="\n".join(f"{count}: {reason}" for reason, count in left_out.items()),
            hint="A csvlog of a server with log_statement = all, or log_min_duration_statement = 0, has them, if its "
            "messages are English (lc_messages = C).",
        )
    first = min(one.due for session in kept for one in session.statements)
    for session in kept:
        latest = 0.0
        for statement in session.statements:
            # A session does one after the other, but its end less its duration may seem to be before the last one.
            latest = statement.due = max(latest, statement.due - first)
            _check_text(statement, path)
    return Log(sessions=tuple(kept), left_out=left_out)


def _statement(session: Session, logged: re.Match[str], detail: str, time: float, place: int) -> Statement:
    text, parameters = logged["text"], _parameters(detail)
    name = (logged["name"] or _UNNAMED).partition("/")[0]  # behind it is that of a cursor
    is_named = name != _UNNAMED and (bool(parameters) or "$" not in text)  # which may have been cut out of the log
    forgets: tuple[str, ...] = ()
    if gone := _DEALLOCATE.match(text):
        forgets = session.forget(folded(gone["name"]))
    elif _DEALLOCATE_ALL.match(text):
        forgets = session.forget_all()
    statement = Statement(
        due=time - float(logged["ms"] or 0) / 1000,
        place=place,
        text=text,
        parameters=parameters,
        ended=logged["ms"] is not None,
        forgets=forgets,
    )
    if is_named:
        session.note_name(name, statement)
    return statement


def _check_text(statement: Statement, path: Path) -> None:
    """What is in the log beside, such as the name of who could not log in, may be anything."""
    try:
        for text in (statement.text, *filter(None, statement.parameters)):
            if not text.isascii():
                text.encode()
    except UnicodeError:
        raise SpecError(
            f'the statement in record {statement.place + 1} of "{path}" is not UTF-8 text',
            hint="Convert the log, with iconv.",
        ) from None


def _objection(session: Session, logged: re.Match[str]) -> str:
    """Why a statement of the log cannot be sent again, "" where it can."""
    text = logged["text"]
    if logged["fetch"]:
        return "an earlier one had begun it, and more of its rows were asked for"
    if _OWN_DATA.search(text):
        return "COPY has data of its own"
    if made := PREPARE.match(text):
        session.prepared.add(folded(made["name"]))
    # Such as what a driver had prepared before the log begins.
    if (gone := _DEALLOCATE.match(text)) and folded(gone["name"]) not in session.prepared:
        return "it deallocates what no statement of its session had prepared"
    return ""


def folded(name: str) -> str:
    """As the server knows a name, but for doubled quotation marks."""
    return name[1:-1] if name.startswith('"') else name.lower()


@lru_cache(maxsize=_TEXTS_KEPT)
def _is_code(text: str) -> bool:
    low = text.lower()
    # In most statements nothing is to be looked for; a string that goes on in another line may hide a word.
    if ":" in low or ("'" in low and "\n" in low) or any(word in low for word in WORDS):
        return next(find_in_sql("", text), None) is not None
    return False


def _note_failure(session: Session, row: list[str], time: float, place: int) -> None:
    """What is refused before it begins, or is logged at its end, is told by its error alone: then it began about that
    time. Its parameters are not known; without them the server refuses it as well.
    """
    query, last = row[_QUERY], session.statements[-1] if session.statements else None
    is_last = last is not None and not last.failed and not last.ended and query in ("", last.text)
    if last is None or not is_last or row[_COMMAND] in _NOT_BEGUN:
        if not query or _OWN_DATA.search(query):
            return
        last = Statement(due=time, text=query, parameters=(), place=place)
        session.statements.append(last)
    last.failed = True
    if row[_MESSAGE] in _CANCELLED:
        last.cancelled = time - last.due


def _rows(path: Path) -> Iterator[list[str]]:
    if path.exists() and not path.is_file():  # a pipe would be waited for
        raise SpecError(f'"{path}" is no file', hint="Name the csvlog of a server.")
    csv.field_size_limit(_LONGEST)
    number, line = 0, 1  # of the record, and in which line it begins
    try:
        with path.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
            reader = csv.reader(_lines(file), strict=True)
            for number, row in enumerate(reader, start=1):
                if len(row) < _COLUMNS:
                    raise SpecError(
                        f'record {number} of "{path}", in line {line}, has {len(row)} columns: it is no csvlog',
                        hint=_OF_CSVLOG if number == 1 else _OF_TORN,
                    )
                yield row
                line = reader.line_num + 1
    except OSError as err:
        raise SpecError(f'cannot read "{path}": {err.strerror}', hint="Name the csvlog of a server.") from err
    except csv.Error as err:
        raise SpecError(
            f'"{path}" is no csvlog after record {number}, from line {line} on: {err}',
            hint=_OF_TORN if number else _OF_CSVLOG,
        ) from err


def _lines(file: TextIO) -> Iterator[str]:
    while line := file.readline(_LONGEST):
        if len(line) == _LONGEST:
            raise csv.Error(f"a line has more than {_LONGEST >> 20} MB")
        yield line


def _time(text: str, path: Path) -> tuple[float, str]:
    """In seconds since 1970 on the clock of the log, and its zone, whose name does not say what it is."""
    moment, _, zone = text.rpartition(" ")
    try:
        return (datetime.fromisoformat(moment).replace(tzinfo=None) - _EPOCH).total_seconds(), zone
    except ValueError:
        raise SpecError(
            f'"{make_visible(text[:80])}" in "{path}" is no time of a csvlog', hint="Name a server's csvlog."
        ) from None


def _parameters(detail: str) -> tuple[str | None, ...]:
    head, _, told = detail.partition(": ")
    if head.lower() != "parameters":
        return ()
    return tuple(None if match[1] is None else match[1].replace("''", "'") for match in _PARAMETER.finditer(told))
