"""Which transactions of a log a statement has to wait for: those that had written its rows before it began.

A log has no rows. Two statements are taken to be about the same row where they name the same table and have a value in
common, or one of them has no value. New rows get keys that no statement tells, so whoever reads or changes a table
waits for all that had inserted into it. Waiting for too much costs nothing while the replay keeps its times.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field
from functools import lru_cache

from pgtrial.postgres.connect import split_statements
from pgtrial.workloads.replay.log import LEAD, NAME, PREPARE, Session, Statement, folded
from pgtrial.workloads.replay.relations import Relations, Table, Uses
from pgtrial.workloads.table_uses import possible_uses

_VALUE = re.compile(r"""(?<![\w$"])(?:'((?:[^']++|'')*+)'|(\d+(?:\.\d+)?)\b)""")
_MANY = re.compile(r"(0|'')(?:\s*+,\s*+(?:0|'')(?!\w))++")  # values in a row, of which the first says what all do …
_MANY_ROWS = re.compile(r"(\([^()]{0,4000}+\))(?:\s*+,\s*+\1)++")
_LONGEST = 100_000  # characters of what is left: the parser takes 5 µs and 200 bytes for each
_MOST_VALUES = 1000  # of a statement; one with more is taken to be about every row
_BEGIN = re.compile(rf"{LEAD}(?:BEGIN|START\s+TRANSACTION)\b", re.IGNORECASE)
_END = re.compile(
    rf"{LEAD}(?:(?:COMMIT|END|ABORT|ROLLBACK)\b(?!\s+(?:(?:(?:WORK|TRANSACTION)\s+)?TO|PREPARED)\b)"
    r"(?P<chain>(?:\s+(?:WORK|TRANSACTION))?\s+AND\s+CHAIN\b)?|PREPARE\s+TRANSACTION\b)",
    re.IGNORECASE,
)
_SEVERAL = re.compile(rf";{LEAD}(?:BEGIN|START|COMMIT|END|ABORT|ROLLBACK|PREPARE)\b", re.IGNORECASE)
_EXECUTE = re.compile(rf"{LEAD}EXECUTE\s+{NAME}", re.IGNORECASE)
_TEXTS_KEPT = 10_000


@dataclass(slots=True, eq=False)
class Transaction:
    """``begun`` as ``Statement.due``. ``writes``: values by table; ``inserts``: tables."""

    session: str
    begun: float
    is_block: bool
    has_ended: bool = False
    writes: dict[Table, set[str]] = field(default_factory=dict)
    inserts: frozenset[Table] = frozenset()


@dataclass(slots=True, eq=False)
class Line:
    """Transactions in the order in which they ended in the log."""

    transactions: list[Transaction] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A statement of a session: before it begins, the transactions that it ``needs`` have to have ended, and the first
    so many of each line that it is ``behind``; the steps ``after`` which it gets its row have to be with the server.
    ``ends`` its transaction.
    """

    statement: Statement
    transaction: Transaction
    ends: bool
    needs: tuple[Transaction, ...]
    behind: tuple[tuple[Line, int], ...]
    after: "tuple[Step, ...]"


@dataclass(slots=True)
class _Written:
    """Of a table: which step ``writes`` a value last, and by transactions that have ended who wrote a value last, who
    wrote without any, and all of them.
    """

    writes: dict[str, Step] = field(default_factory=dict)
    by_value: dict[str, Transaction] = field(default_factory=dict)
    without: Transaction | None = None
    inserted: Line = field(default_factory=Line)
    changed: Line = field(default_factory=Line)


def put_in_order(sessions: Sequence[Session], relations: Relations) -> dict[str, list[Step]]:
    """The steps of each session, by its name."""
    found = [each for session in sessions for each in _transactions(session)]
    belongs = {id(one): transaction for one, transaction, _ in found}
    ends = {id(one) for one, _, is_end in found if is_end}
    begun = sorted(((one, session.name) for session in sessions for one in session.statements), key=_by_time)
    last = {id(transaction): id(one) for one, transaction, _ in found}
    written: dict[Table, _Written] = defaultdict(_Written)
    steps: dict[str, list[Step]] = defaultdict(list)
    texts = list(_find_texts(begun))
    named = [_uses(_without_values(text)) for text in texts]
    all_uses = _with_relations(set(named), relations)
    for (statement, name), text, own in zip(begun, texts, named, strict=True):
        transaction = belongs[id(statement)]
        values, uses = _values(statement, text), all_uses[own]
        needs, behind = _find_needs(written, values, uses, transaction)
        step = Step(
            statement=statement,
            transaction=transaction,
            ends=id(statement) in ends,
            needs=needs,
            behind=behind,
            after=_find_earlier(written, values, uses, transaction),
        )
        _note_step(written, step, values, uses)
        steps[name].append(step)
        # In the order of the log, and not by times, of which many are alike: else two transactions of the same
        # millisecond would each wait for the other.
        if last[id(transaction)] == id(statement):
            _note_end(written, transaction)
    return steps


def can_wait(own: Transaction, other: Transaction) -> bool:
    """Whether a statement of one may wait for the end of the other. What is a single statement, and began later, may
    itself wait for a lock that this transaction holds.
    """
    return other.session != own.session and (other.is_block or other.begun < own.begun)


def _by_time(begun: tuple[Statement, str]) -> tuple[float, int]:
    return begun[0].due, begun[0].place


def _transactions(session: Session) -> Iterable[tuple[Statement, Transaction, bool]]:
    """Each statement with its own, and whether it ends that."""
    current: Transaction | None = None
    is_open = False
    for one in session.statements:
        was_open, (has_end, is_open) = is_open, _block(one.text, is_open=is_open)
        if current is None:
            current = Transaction(session.name, one.due, is_block=was_open or is_open)
        is_end = not is_open or (was_open and has_end)
        yield one, current, is_end
        if is_end:
            current = None


def _block(text: str, *, is_open: bool) -> tuple[bool, bool]:
    """Whether a text has the end of a block, and whether one is open behind it, as before it."""
    has_end = False
    texts = [each for _, each in split_statements(text)] if _SEVERAL.search(text) else [text]
    for each in texts:
        if end := _END.match(each):
            has_end, is_open = True, is_open and end["chain"] is not None
        elif _BEGIN.match(each):
            is_open = True
    return has_end, is_open


def _find_texts(begun: Iterable[tuple[Statement, str]]) -> Iterable[str]:
    """What each statement does: its text, or of an EXECUTE the one that its session had prepared by that name."""
    prepared: dict[tuple[str, str], str] = {}
    for statement, session in begun:
        if made := PREPARE.match(statement.text):
            prepared[session, folded(made["name"])] = made["body"] or ""
        run = _EXECUTE.match(statement.text)
        yield prepared.get((session, folded(run["name"])), "") if run else statement.text


def _values(statement: Statement, text: str) -> set[str]:
    """None of a statement that has too many. ``text`` is what it does."""
    found = {value for value in statement.parameters if value}
    for match in _VALUE.finditer(text if text is statement.text else f"{text} {statement.text}"):
        if value := match[2] or match[1].replace("''", "'"):
            found.add(value)
        if len(found) > _MOST_VALUES:
            return set()
    return found


def _without_values(text: str) -> str:
    """The same text for all statements that differ by values, and by their number, alone."""
    text = _VALUE.sub(lambda match: "0" if match[1] is None else "''", text)
    return _MANY_ROWS.sub(r"\1", _MANY.sub(r"\1", text))


@lru_cache(maxsize=_TEXTS_KEPT)
def _uses(text: str) -> Uses:
    if len(text) > _LONGEST:
        return ()  # as of one that is not understood
    return tuple(((use.schema, use.name), use.right) for use in sorted(possible_uses(text)))


def _with_relations(named: Set[Uses], relations: Relations) -> dict[Uses, Uses]:
    """By what statements name, all the tables that they are about. A name that somebody writes without a schema is one
    table, whatever its schema: which one is meant a search path says, which a session may change.
    """
    bare = {name for uses in named for (_, name), _ in relations.reach(use for use in uses if not use[0][0])}
    return {
        uses: tuple(
            dict.fromkeys(
                (("", table[1]) if table[1] in bare else table, right) for table, right in relations.reach(uses)
            )
        )
        for uses in named
    }


def _find_earlier(written: dict[Table, _Written], values: set[str], uses: Uses, own: Transaction) -> tuple[Step, ...]:
    """Of other transactions that go on, who asked last for what a statement changes: the server let them in first."""
    found = (written[table].writes.get(each) for table, right in uses if right != "SELECT" for each in values)
    others = (one for one in found if one is not None and one.transaction.session != own.session)
    return tuple({id(one): one for one in others if not one.transaction.has_ended}.values())


def _note_step(written: dict[Table, _Written], step: Step, values: set[str], uses: Uses) -> None:
    for table, right in uses:
        if right != "SELECT":
            written[table].writes.update(dict.fromkeys(values, step))
            step.transaction.writes.setdefault(table, set()).update(values or {""})
        if right == "INSERT":
            step.transaction.inserts |= {table}


def _note_end(written: dict[Table, _Written], transaction: Transaction) -> None:
    transaction.has_ended = True
    for table, values in transaction.writes.items():
        of_table = written[table]
        of_table.changed.transactions.append(transaction)
        if table in transaction.inserts:
            of_table.inserted.transactions.append(transaction)
        if "" in values:
            of_table.without = transaction
        of_table.by_value.update(dict.fromkeys(values - {""}, transaction))


def _find_needs(
    written: dict[Table, _Written], values: set[str], uses: Uses, own: Transaction
) -> tuple[tuple[Transaction, ...], tuple[tuple[Line, int], ...]]:
    needs: dict[int, Transaction] = {}
    lines: dict[int, Line] = {}
    for table, right in uses:
        if (of_table := written.get(table)) is None:
            continue
        if not values:
            lines[id(of_table.changed)] = of_table.changed
            continue
        if right != "INSERT":
            lines[id(of_table.inserted)] = of_table.inserted
        for one in (of_table.without, *(of_table.by_value.get(value) for value in values)):
            if one is not None and can_wait(own, one):
                needs[id(one)] = one
    return tuple(needs.values()), tuple((line, len(line.transactions)) for line in lines.values() if line.transactions)
