"""Which type the texts of a parameter look like, and which of them have to be said to a real server."""

import asyncio
from types import SimpleNamespace

import pytest

from pgtrial.postgres.connect import connect
from pgtrial.workloads.replay import types
from pgtrial.workloads.replay.log import read_log
from pgtrial.workloads.replay.types import find_types, look_of

INT4, INT8, NUMERIC, INTERVAL, TEXT = 23, 20, 1700, 1186, 25


@pytest.mark.parametrize(
    ("values", "oid"),
    [
        (("1", None, "-2"), 23),
        (("1", "2147483648"), 20),
        (("9223372036854775808",), 1700),
        (("1", "1.5"), 1700),
        (("1e-7",), 701),
        (("1e-7", "2.5"), 701),
        (("1 day",), 1186),
        (("-3 days 04:05:06.7", "00:00:01"), 1186),
        (("1 years 2 mons 3 days 4 hours 5 mins 6.7 secs",), 1186),
        (("{1,2}", "{NULL,3000000000}"), 1016),
        (('{a,"b, c"}',), 1009),
        (("{}",), 25),  # may be JSON
        (('{"a": 1}',), 25),
        (('{"2026-01-01 00:00:00"}',), 1115),
        (("2026-01-01",), 1082),
        (("2026-01-01 00:00:00.5",), 1114),
        (("2026-01-01 00:00:00+00",), 1184),
        (("6f9619ff-8b86-d011-b42d-00cf4fc964ff",), 2950),
        (("1", "one"), 25),
        (("",), 25),
        ((None,), 0),
    ],
)
def test_the_narrowest_type_that_all_texts_have(values: tuple[str | None, ...], oid: int) -> None:
    assert look_of(values) == oid


@pytest.fixture
def find(server, write_log):
    """``find(text, *rows)``: the types that are said for each row."""

    def of(text: str, *rows: tuple[str | None, ...]) -> list[tuple[int, ...]]:
        def written(row: tuple[str | None, ...]) -> str:
            values = ("NULL" if value is None else f"'{value}'" for value in row)
            return ", ".join(f"${place} = {value}" for place, value in enumerate(values, start=1))

        records = [(0.0, "a", f"execute <unnamed>: {text}", "LOG", f"parameters: {written(row)}") for row in rows]
        sessions = read_log(write_log(records)).sessions

        async def ask() -> list[tuple[int, ...]]:
            async with connect(server.cluster.conninfo("postgres"), as_user=True) as connection:
                choices, left = await find_types(connection, sessions)
            assert left == 0
            return [choices[text].of(row) if text in choices else () for row in rows]

        return asyncio.run(ask())

    return of


def test_a_row_that_is_not_of_the_inferred_types_has_its_own_and_the_others_have_none(find) -> None:
    """With another type for all of them, an index of the column would be of no use."""
    text = "SELECT FROM pg_class WHERE relnatts = $1 OR relchecks = 0 AND reltuples > $2 OR oid::int4 = $3"

    assert find(text, *[("5", "1", "5")] * 3, ("5", "1", "7.0")) == [(), (), (), (0, 0, NUMERIC)]


def test_only_what_the_server_cannot_infer_is_said(find) -> None:
    """``->>`` of a number is another statement than that of a key."""
    text = """SELECT '{"5": 1}'::jsonb ->> $1, $2 + $3 WHERE $4 = 'x'::text"""

    assert find(text, ("5", "1", "2", "3")) == [(0, INT4, 0, 0)]
    assert find("SELECT $1 + $2", ("1", "2"), ("1", "2.5"), ("1", "2")) == [(INT4, 0), (INT4, NUMERIC), (INT4, 0)]


def test_what_there_is_no_time_for_is_counted(server, write_log, monkeypatch) -> None:
    """What is used most comes first."""
    clock = SimpleNamespace(monotonic=iter([0.0, 0.0, types.MOST_SECONDS + 1]).__next__)
    monkeypatch.setattr(types, "time", clock)
    texts = ["SELECT $1 - $2", *["SELECT $1 + $2"] * 2, "SELECT $1 * $2"]
    records = [(0.0, "a", f"execute <unnamed>: {text}", "LOG", "parameters: $1 = '1', $2 = '2'") for text in texts]
    sessions = read_log(write_log(records)).sessions

    async def ask() -> tuple[dict[str, types.Choice], int]:
        async with connect(server.cluster.conninfo("postgres"), as_user=True) as connection:
            return await find_types(connection, sessions)

    choices, left = asyncio.run(ask())

    assert (list(choices), left) == (["SELECT $1 + $2"], 2)


@pytest.mark.parametrize(
    ("text", "row", "said"),
    [
        ("SELECT $1 IS NULL, oid FROM pg_class WHERE relname = $2", (None, "a"), (TEXT, 0)),
        ("SELECT now() - $1", ("1 day",), (INTERVAL,)),
        ("SELECT unnest($1)", ("{1,2}",), (1007,)),
        ("SELECT $1 IS NULL AND $2 IS NULL AND $3 + $4 > 0", ("1", "a", "2", "3"), (INT4, TEXT, INT4, 0)),
        ("SELECT FROM nowhere WHERE a = $1", ("1",), ()),
        ("SELECT FROM pg_class WHERE relname = $1", ("7",), ()),
    ],
)
def test_what_is_said(find, text: str, row: tuple[str | None, ...], said: tuple[int, ...]) -> None:
    assert find(text, row) == [said]
