"""The copy of a host's folder that the leader has, where the host's engine works on a worker's machine.

After each block it is told what is new there, and nothing else: a block's runs take as much to send whether it is the
first or the thousandth. A worker is believed only what it was asked for.
"""

import hashlib
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from pgtrial.engine.turns import STANDSTILL
from pgtrial.fleet.gather import digest_file
from pgtrial.model.run import RunRow, RunState, Slot
from pgtrial.safe_text import parse_json
from pgtrial.store.news import Mark, NewRun, News, add_news, find_mark, nothing_of
from pgtrial.store.plans import METHOD_KEYS
from pgtrial.store.state import STOPPED, State

# Keys of the record that an engine writes while it works; the others are the plan's, on which a worker has no say.
TOLD = (*METHOD_KEYS, STANDSTILL, STOPPED)


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
    return news


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

    def find_mark(self) -> None:
        """How far it has come. Raises StoreError."""
        self.mark = find_mark(self.place)

    def hear(self, answer: str) -> None:
        """Take what a worker has answered, which is not in the folder yet. Raises ValueError."""
        found = parse_json(answer)
        text = str(found["news"])
        if hashlib.sha256(text.encode()).hexdigest() != found["digest"]:
            raise ValueError("the checksum of its rows differs")
        news = _read(text)
        if news.is_other:
            if self._is_other:
                raise ValueError("its state is another one each time")
            self._is_other, self.mark = True, nothing_of(news.created)
            return
        if news.created != self.mark.created or (news.has_more and not news.runs):
            raise ValueError("its rows do not go on where they ended")
        self._news.append(news)
        self.mark, self.asks = news.mark(self.mark), news.has_more

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
        add_news(self.place, self._news, is_other=self._is_other)


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


def has_file(path: Path, digest: str) -> bool:
    """Whether a file is there already, as after a transfer that was cut off."""
    return path.is_file() and digest_file(path) == digest
