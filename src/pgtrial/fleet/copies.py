"""The copy of a host's folder that the leader has, where the host's engine works on a worker's machine.

After each block it is told what is new there, and nothing else: a block's runs take as much to send whether it is the
first or the thousandth. A worker is believed only what it was asked for, and only rows that a folder can have.
"""

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import pairwise
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from pgtrial.engine.turns import STANDSTILL
from pgtrial.errors import StoreError
from pgtrial.fleet.gather import Digests, digest_file
from pgtrial.model.run import RunRow, RunState, Slot
from pgtrial.safe_files import make_directories, remove_file, write_file
from pgtrial.safe_text import parse_json
from pgtrial.store import layout
from pgtrial.store.news import Mark, NewRows, NewRun, News, add_news, find_mark, nothing_of
from pgtrial.store.plans import METHOD_KEYS, plan_of
from pgtrial.store.rows import NEWER, OF_WHOLE, RUN_TABLES, AttemptRow, EventRow, OldCaveatRow, check_rows, columns_of
from pgtrial.store.sqlite import LARGEST
from pgtrial.store.state import STOPPED, State
from pgtrial.store.transfer import FROM_HOST

# Keys of the record that an engine writes while it works; the others are the plan's, on which a worker has no say.
TOLD = (*METHOD_KEYS, STANDSTILL, STOPPED)
_LONGEST = 64 << 20  # bytes of an answer with rows; of all of them no more than a folder may have
_MOST_ATTEMPTS = 100  # at each slot of the plan, on the average


@cache
def _adapter() -> TypeAdapter[News]:
    return TypeAdapter(News)


def _read(text: str) -> News:
    try:
        news = _adapter().validate_json(text)
    except ValidationError as err:
        raise ValueError(f"its rows are no such ones: {err.errors()[0]['msg']}") from err
    if unasked := news.told.keys() - set(TOLD):
        raise ValueError(f'it tells of "{min(unasked)}", which is not its own')
    check_rows(AttemptRow, news.runs)
    new = {run.id for run in news.runs}
    for table, found in news.rows.items():
        _check_table(table, found, new)
    return news


def _check_table(table: str, found: NewRows, new: Set[int]) -> None:
    """Raise ValueError where the rows of a table are none that a folder can have, of ``new`` runs or of the whole."""
    if table not in RUN_TABLES:
        raise ValueError(f'there is no table "{table}"')
    every, kind = ("run", *columns_of(table)), RUN_TABLES[table]
    if found.columns != every:
        if found.columns != tuple(name for name in every if name != NEWER.get(table)):
            raise ValueError(f"table {table} has no such columns")
        kind = OldCaveatRow
    if any(len(row) != len(found.columns) for row in found.rows):
        raise ValueError(f"table {table} has a row of other columns")
    places = [found.columns.index(name) for name in kind.__annotations__]
    rows = check_rows(kind, [tuple(row[place] for place in places) for row in found.rows])
    if {row[0] for row in found.rows} - new - ({None} if table in OF_WHOLE else set()):
        raise ValueError(f"table {table} has a row of a run that is not new")
    if any(isinstance(row, EventRow) and row.kind == FROM_HOST for row in rows):
        raise ValueError("one of its runs has a mark, which is not its own")


@dataclass(slots=True, kw_only=True)
class Copy:
    """What is fetched for a ``block`` into the folder ``place``, None where the host's last block may be another's by
    now; ``done`` are blocks that the main folder has from this host.
    """

    place: Path
    block: int | None
    done: Callable[[], frozenset[int]]
    mark: Mark = field(default_factory=lambda: nothing_of(""), init=False)  # how far it will have come
    asks: bool = field(default=True, init=False)  # for more
    _is_other: bool = field(default=False, init=False)  # what is there goes: it is of another state
    _news: list[News] = field(default_factory=list, init=False)
    _length: int = field(default=0, init=False)  # of all answers, in bytes

    def find_mark(self) -> None:
        """How far it has come. Raises StoreError."""
        self.mark = find_mark(self.place)

    def hear(self, answer: str) -> None:
        """Take what a worker has answered, which is not in the folder yet. Raises ValueError."""
        self._length += len(answer)
        if len(answer) > _LONGEST or self._length > LARGEST:
            raise ValueError(f"its rows are more than {min(_LONGEST, LARGEST)} bytes")
        match parse_json(answer):
            case {"news": str(text), "digest": str(digest)}:
                pass
            case _:
                raise ValueError("there are no rows in it")
        if hashlib.sha256(text.encode()).hexdigest() != digest:
            raise ValueError("the checksum of its rows differs")
        news = _read(text)
        if news.is_other:
            if self._is_other:
                raise ValueError("its state is another one each time")
            self._is_other, self.mark = True, nothing_of(news.created)
            return
        numbers = [self.mark.last[0] if self.mark.last else 0, *(run.id for run in news.runs)]
        is_next = all(before < after for before, after in pairwise(numbers))
        if news.created != self.mark.created or not is_next or (news.has_more and not news.runs):
            raise ValueError("its rows do not go on where they ended")
        self._news.append(news)
        if news.has_more and sum(len(each.runs) for each in self._news) > self._most_runs():
            raise ValueError("it has more runs than the plan has a place for")
        self.mark, self.asks = news.mark(self.mark), news.has_more

    def _most_runs(self) -> int:
        with closing(State.open(self.place)) as state:
            return len(state.slots()) * _MOST_ATTEMPTS

    def check(self) -> frozenset[str]:
        """Names of the folders of the block's runs that are done. ValueError where runs are done that nobody asked for:
        their blocks may be another host's by now.
        """
        new = [run for news in self._news for run in news.runs]
        with closing(State.open(self.place)) as state:
            own, known = dict[int, Slot](), tuple[RunRow, ...]()
            if self.block is not None:
                own = {slot.number: slot for slot in state.slots(block=self.block)}
                known = () if self._is_other else state.runs(block=self.block)
            strangers = {run.slot for run in new if run.state == RunState.DONE} - own.keys()
            blocks = {slot.number: slot.block for slot in state.slots()} if strangers else {}
        of = {blocks.get(slot, 0) for slot in strangers}
        if of and (unasked := of - self.done()):
            raise ValueError(f"it says that runs of block {min(unasked)} are done, which it was not asked for")
        found = [*known, *(_row(run, own) for run in new if run.slot in own)]
        return frozenset(run.folder for run in found if run.state is RunState.DONE)

    def add(self) -> None:
        """Have in the folder all that was heard. Raises ValueError and StoreError."""
        with closing(State.open(self.place)) as state:
            before = state.meta()
        is_told = any(before.get(key) != value for news in self._news for key, value in news.told.items())
        check = partial(self._refuse_unreadable, with_plan=is_told)
        add_news(self.place, self._news, is_other=self._is_other, check=check)

    def _refuse_unreadable(self, db: sqlite3.Connection, *, with_plan: bool) -> None:
        """Raise ValueError where the folder could not be read any more."""
        path = self.place / layout.STATE
        state = State(db, path)
        new = {run.slot for news in self._news for run in news.runs}
        try:
            for block in sorted({slot.block for slot in state.slots() if slot.number in new} if new else ()):
                state.runs(block=block)
            if with_plan:
                plan_of(state, self.place)
        except StoreError as err:
            raise ValueError(err.message.removeprefix(f'"{path}" is damaged: ')) from err

    def has_file(self, run: str, name: str, digest: str) -> bool:
        """Whether a file is there already, as after a transfer that was cut off. Raises StoreError."""
        path = layout.run_folder(self.place, run) / name
        try:
            return path.is_file() and digest_file(path) == digest
        except OSError as err:
            raise StoreError(f'cannot read "{path}": {err.strerror}') from err

    def keep_file(self, run: str, name: str, content: bytes) -> None:
        """Have a file of a run. Raises StoreError."""
        path = layout.run_folder(self.place, run) / name
        try:
            make_directories(path.parent)
            write_file(path, content)
        except OSError as err:
            raise StoreError(f'cannot write "{path}": {err.strerror}') from err

    def remove_others(self, runs: Iterable[str], digests: Digests) -> None:
        """Remove from the folders of ``runs`` what is not promised: of another state, or of a transfer that was cut
        off. Raises StoreError.
        """
        for run in runs:
            place = layout.run_folder(self.place, run)
            for name in [path.name for path in place.iterdir()] if place.is_dir() else ():
                if f"{run}/{name}" not in digests:
                    try:
                        remove_file(self.place, layout.RUNS, run, name)
                    except OSError as err:
                        raise StoreError(f'cannot remove "{place / name}": {err.strerror}') from err


def _row(run: NewRun, slots: Mapping[int, Slot]) -> RunRow:
    """Raises ValueError."""
    return RunRow(
        id=run.id,
        slot=slots[run.slot],
        attempt=run.attempt,
        state=RunState(run.state),
        started=run.started,
        ended=run.ended,
        reason=run.reason,
    )
