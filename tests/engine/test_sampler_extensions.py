"""When and where extensions are read: on a clock and databases made for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from psycopg.pq.abc import PGresult

from pgtrial.engine.sampler import extensions
from pgtrial.engine.sampler.extensions import RUN, ExtensionReader, Pace
from pgtrial.engine.sampler.link import LinkError
from support.libpq import made_result

WAITS = ("pid", "object", "count", "is_there", "period")


def result_of(columns: Sequence[str], *rows: Sequence[str]) -> PGresult:
    return made_result(columns, *([value.encode() for value in row] for row in rows))


@dataclass
class Place:
    """Databases with their extensions and schemas; what fails there; and what was asked of them."""

    databases: Mapping[str, Mapping[str, str]]
    failing: Mapping[str, str] = field(default_factory=dict)
    silent: Sequence[str] = ()
    dropped: Sequence[str] = ()  # what cannot be prepared
    sessions: Sequence[str] = ()
    now: float = 100.0
    asked: list[tuple[str, str]] = field(default_factory=list)
    parameters: dict[str, Sequence[bytes]] = field(default_factory=dict)
    statements: dict[str, str] = field(default_factory=dict)
    open: set[str] = field(default_factory=set)
    connections: int = 0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return 1e9 + self.now


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Place:
    place = Place({"control": {}, "shop": {}})

    class Link:
        is_shared = False

        def __init__(self, conninfo: str) -> None:
            self.database = conninfo

        @property
        def is_connected(self) -> bool:
            return self.database in place.open

        def connect(self, statements: Mapping[str, str], *, deadline: float) -> None:
            if self.database in place.failing:
                raise LinkError(place.failing[self.database])
            place.open.add(self.database)
            place.connections += 1
            for name, statement in statements.items():
                self.prepare(name, statement, deadline=deadline)

        def settle(self, *, deadline: float) -> bool:
            return True

        def prepare(self, name: str, statement: str, *, deadline: float) -> None:
            if name in place.dropped:
                raise LinkError(f"ERROR: {name} does not exist")
            place.statements[name] = statement

        def run(self, name: str, parameters: Sequence[bytes], *, deadline: float) -> PGresult | None:
            if name == "extensions":
                return result_of(("extname", "schema"), *place.databases[self.database].items())
            if not self.is_connected:
                return None
            place.asked.append((self.database, name))
            place.parameters[name] = parameters
            if name in place.failing:
                raise LinkError(place.failing[name])
            if name in place.silent:
                return None
            return result_of(WAITS, *([pid, "IO/WALSync", "1", "t", "0.01"] for pid in place.sessions))

        def close(self) -> None:
            place.open.discard(self.database)

    monkeypatch.setattr(extensions, "ServerLink", Link)
    monkeypatch.setattr(extensions, "time", place)
    return place


ALL = {"pg_stat_statements": "public", "pg_wait_sampling": '"of DBAs"', "pg_buffercache": "public"}


@dataclass
class Reader:
    added: list[tuple[float, str]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def open(self, *databases: str, pace: Pace = RUN) -> ExtensionReader:
        return ExtensionReader(
            databases,
            version_num=150018,
            parameters={"database": b"shop", "load": b"pgtrial:0123/"},
            interval=1.0,
            add=lambda t, source, payload: self.added.append((t, source)),
            remark=self.remarks.append,
            pace=pace,
        )


def tick(place: Place, extensions: ExtensionReader, *, seconds: float) -> None:
    """Ticks once a second, each a little late, by turns more and less."""
    start = place.now
    for second in range(1, int(seconds) + 1):
        place.now = start + second + (0.3 if second % 2 else 0.01)
        extensions.tick(place.now + 1)
    place.now = start + seconds


def of(place: Place, name: str) -> list[str]:
    return [database for database, asked in place.asked if asked == name]


def test_each_is_read_as_often_as_it_wants(place: Place) -> None:
    place.databases = {"control": {}, "shop": ALL}
    reader = Reader()
    opened = reader.open("control", "shop")
    opened.start()
    tick(place, opened, seconds=25)

    assert len(of(place, "pg_wait_sampling")) == 1 + 25
    assert len(of(place, "pg_stat_statements")) == 1 + 2
    assert of(place, "pg_stat_statements_texts") == of(place, "pg_buffercache") == []
    opened.finish()
    assert len(of(place, "pg_stat_statements")) == 1 + 2 + 1
    assert of(place, "pg_stat_statements_texts") == of(place, "pg_buffercache") == ["shop"]
    times = [t - 1e9 for t, source in reader.added if source == "pg_stat_statements"]
    assert times == pytest.approx([100, 110, 120, 125], abs=0.5)
    assert reader.remarks == []
    assert place.open == set()


def test_out_of_turn_only_counters_are_read(place: Place) -> None:
    place.databases = {"control": {}, "shop": ALL}
    opened = Reader().open("control", "shop")
    opened.start()
    place.asked.clear()

    opened.read_now(place.now + 1)

    assert {name for _, name in place.asked} == {"pg_stat_statements", "pg_wait_sampling"}
    opened.close()


def test_a_pace_of_its_own_for_what_lasts(place: Place) -> None:
    place.databases = {"control": {}, "shop": ALL}
    pace = Pace(least=60.0, at_start=frozenset({"pg_stat_statements_texts"}), without=frozenset({"pg_buffercache"}))
    opened = Reader().open("control", "shop", pace=pace)
    opened.start()
    names = [name for _, name in place.asked]
    assert names.index("pg_stat_statements_texts") < names.index("pg_stat_statements")
    tick(place, opened, seconds=125)

    assert len(of(place, "pg_wait_sampling")) == 1 + 125  # it wants every tick
    assert len(of(place, "pg_stat_statements")) == 1 + 2
    opened.close()
    assert of(place, "pg_stat_statements_texts") == ["shop"]
    assert of(place, "pg_buffercache") == []
    assert place.open == set()


LASTING = Pace(least=60.0, without=frozenset({"pg_buffercache"}), rest=60.0, longest_rest=240.0)


def seconds_of(place: Place, name: str, opened: ExtensionReader, *, seconds: int) -> list[int]:
    """Those in which it was asked for, by a tick."""
    found = []
    for second in range(1, seconds + 1):
        before = len(of(place, name))
        tick(place, opened, seconds=1)
        found += [second] * (len(of(place, name)) - before)
    return found


def test_one_that_cannot_be_read_once_is_tried_again_where_reading_lasts(place: Place) -> None:
    """As where a lock or a busy disk has made it too slow for the time limit."""
    place.databases = {"control": {}, "shop": ALL}
    place.failing = {"pg_stat_statements": "ERROR: canceling statement due to statement timeout"}
    reader = Reader()
    opened = reader.open("control", "shop", pace=LASTING)
    opened.start()
    failed = seconds_of(place, "pg_stat_statements", opened, seconds=1000)
    place.failing = {}
    read = seconds_of(place, "pg_stat_statements", opened, seconds=600)

    # After 1, 2, 4 and 4 minutes: who is always too slow is not asked each minute. Then once a minute.
    assert failed == pytest.approx([60, 180, 420, 660, 900], abs=2)
    assert np.diff(read) == pytest.approx(60, abs=2)
    assert len(read) >= 7
    assert set(reader.remarks) == {
        "pg_stat_statements cannot be read: ERROR: canceling statement due to statement timeout."
    }
    opened.close()


def test_a_connection_that_is_lost_is_made_again_where_reading_lasts(place: Place) -> None:
    place.databases = {"control": {}, "shop": ALL}
    reader = Reader()
    opened = reader.open("control", "shop", pace=LASTING)
    opened.start()
    place.open.clear()  # as where somebody has ended the session
    place.statements.clear()
    place.failing = {"shop": "FATAL: the database system is in recovery mode"}
    assert seconds_of(place, "pg_stat_statements", opened, seconds=130) == []
    place.failing = {}
    assert len(seconds_of(place, "pg_stat_statements", opened, seconds=300)) >= 2

    assert {"quiet", "pg_stat_statements", "pg_wait_sampling"} <= set(place.statements)
    opened.close()
    assert place.open == set()


def test_one_that_is_dropped_takes_no_other_with_it_where_reading_lasts(place: Place) -> None:
    place.databases = {"control": {}, "shop": ALL}
    reader = Reader()
    opened = reader.open("control", "shop", pace=LASTING)
    opened.start()
    place.open.clear()  # the server was started again, without the library of one of them
    place.statements.clear()
    place.dropped = ["pg_wait_sampling"]
    read = len(of(place, "pg_stat_statements"))
    assert seconds_of(place, "pg_wait_sampling", opened, seconds=200) == []
    assert len(of(place, "pg_stat_statements")) >= read + 3
    assert reader.remarks == ["pg_wait_sampling cannot be read: ERROR: pg_wait_sampling does not exist."]

    place.dropped = []
    assert len(seconds_of(place, "pg_wait_sampling", opened, seconds=300)) >= 1
    opened.close()


def test_one_that_owes_two_answers_in_a_row_gets_another_connection_where_reading_lasts(place: Place) -> None:
    """As where what stands between has forgotten the connection, and lets nothing through that belongs to it."""
    place.databases = {"control": {}, "shop": {"pg_stat_statements": "public"}}
    place.silent = ["pg_stat_statements"]
    reader = Reader()
    opened = reader.open("control", "shop", pace=LASTING)
    opened.start()
    before = place.connections
    assert len(seconds_of(place, "pg_stat_statements", opened, seconds=65)) == 1
    assert place.connections == before + 1  # once at the start, and once a minute later: something else is read then
    place.silent = []

    assert len(seconds_of(place, "pg_stat_statements", opened, seconds=70)) == 1
    assert "pg_stat_statements" in {source for _, source in reader.added}
    assert (place.connections, reader.remarks) == (before + 1, [])
    opened.close()


def test_database_without_extensions_is_left_alone(place: Place) -> None:
    opened = Reader().open("control", "shop")
    opened.start()

    assert place.open == {"shop"}
    opened.tick(place.now + 1)
    opened.finish()
    assert {name for database, name in place.asked if database == "control"} == {"quiet"}


def test_tables_of_the_load_are_looked_at_without_an_extension_every_ten_seconds(place: Place) -> None:
    opened = Reader().open("control", "shop")
    opened.start()
    tick(place, opened, seconds=25)
    opened.finish()

    assert of(place, "relations") == ["shop"] * 4
    assert place.open == set()


def test_loads_database_is_spared_what_another_one_can_tell(place: Place) -> None:
    place.databases = {"control": ALL, "shop": {"pg_stat_statements": "public", "pg_buffercache": "public"}}
    opened = Reader().open("control", "shop")
    opened.start()
    opened.finish()

    assert set(of(place, "pg_wait_sampling")) == set(of(place, "pg_stat_statements")) == {"control"}
    assert of(place, "pg_buffercache") == ["shop"]


def test_relations_of_the_load_are_not_looked_for_elsewhere(place: Place) -> None:
    place.databases = {"control": ALL, "shop": {}}
    opened = Reader().open("control", "shop")
    opened.start()
    opened.finish()

    assert of(place, "pg_buffercache") == []


def test_extension_is_found_in_its_schema(place: Place) -> None:
    place.databases = {"control": {}, "shop": ALL}
    Reader().open("control", "shop").start()

    assert 'FROM "of DBAs".pg_wait_sampling_profile' in place.statements["pg_wait_sampling"]


def test_sessions_of_the_reading_before_are_asked_for_once_more(place: Place) -> None:
    place.databases = {"control": {}, "shop": ALL}
    place.sessions = ["7"]
    opened = Reader().open("control", "shop")
    opened.start()
    first = place.parameters["pg_wait_sampling"]
    place.sessions = []
    tick(place, opened, seconds=1)
    second = place.parameters["pg_wait_sampling"]
    tick(place, opened, seconds=1)

    last = place.parameters["pg_wait_sampling"]
    assert [sessions for sessions, _ in (first, second, last)] == [b"{}", b"{7}", b"{}"]
    assert {load for _, load in (first, second, last)} == {b"pgtrial:0123/"}


def test_extension_that_cannot_be_read_is_said_once_and_left_alone(place: Place) -> None:
    place.databases = {"control": {}, "shop": ALL}
    place.failing = {"pg_stat_statements": "ERROR: it must be loaded via shared_preload_libraries"}
    reader = Reader()
    opened = reader.open("control", "shop")
    opened.start()
    tick(place, opened, seconds=12)
    opened.finish()

    assert reader.remarks == [
        "pg_stat_statements cannot be read: ERROR: it must be loaded via shared_preload_libraries."
    ]
    assert len(of(place, "pg_stat_statements")) == 1
    assert of(place, "pg_stat_statements_texts") == []
    assert len(of(place, "pg_wait_sampling")) == 14


def test_answer_that_does_not_come_in_time_is_a_reading_less(place: Place) -> None:
    place.databases = {"control": {}, "shop": ALL}
    place.silent = ["pg_wait_sampling", "pg_buffercache"]
    reader = Reader()
    opened = reader.open("control", "shop")
    opened.start()
    tick(place, opened, seconds=3)
    opened.finish()

    assert len(of(place, "pg_wait_sampling")) == 5
    assert "pg_wait_sampling" not in {source for _, source in reader.added}
    assert reader.remarks == ["pg_buffercache cannot be read: no answer within the time limit."]


def test_database_that_cannot_be_reached_is_said(place: Place) -> None:
    place.databases = {"control": ALL, "shop": ALL}
    place.failing = {"shop": 'FATAL: database "shop" does not exist'}
    reader = Reader()
    opened = reader.open("control", "shop")
    opened.start()

    assert reader.remarks == ['Extensions of the server are not read: FATAL: database "shop" does not exist.']
    assert place.open == {"control"}


def test_server_whose_database_is_not_known_is_not_asked(place: Place) -> None:
    opened = Reader().open()
    opened.start()
    opened.tick(place.now + 1)
    opened.finish()

    assert place.asked == []
