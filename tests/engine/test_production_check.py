"""A load of production that is sent to a copy: what was counted counts, whatever fails beside it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest

from pgtrial.engine import production_check
from pgtrial.engine.production import SETUP
from pgtrial.errors import TargetError
from pgtrial.postgres.existing.server import ExistingServer
from pgtrial.postgres.throwaway import ThrowawayCluster
from pgtrial.workloads.production.record import Truth


@pytest.fixture
def send_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Truth, list[str]]]:
    """``send_load(send, counts)``: the truth about a load that ``send`` sends, while what is counted comes from
    ``counts``, one after the other; and what is told.
    """
    (tmp_path / "draw").mkdir()
    (tmp_path / "draw" / SETUP).write_text("SELECT 1;")
    server = SimpleNamespace(conninfo=lambda database: f"dbname={database}", environment=lambda _database: {})

    def send_load(
        send: Callable[[], Awaitable[None]], counts: Sequence[Callable[[], Awaitable[None]]]
    ) -> tuple[Truth, list[str]]:
        left, told = iter(counts), list[str]()

        async def count(_conninfo: str) -> tuple[Any, ...]:
            await next(left)()
            return ()

        async def send_all(*_args: object, **_options: object) -> tuple[str, ...]:
            await send()
            return ()

        async def execute(*_args: object, **_options: object) -> None:
            pass

        monkeypatch.setattr(production_check, "count_statements", count)
        monkeypatch.setattr(production_check, "_send", send_all)
        monkeypatch.setattr(production_check, "execute_script", execute)
        trying = production_check._try(
            cast("ExistingServer", server),
            "shop",
            folder=tmp_path,
            draw="draw",
            record={"scripts": []},
            clients=1,
            seconds=0,
            tell=told.append,
        )
        return asyncio.run(trying), told

    return send_load


async def at_once() -> None:
    pass


def test_a_count_halfway_that_fails_costs_the_drifts_alone(send_load: Callable[..., tuple[Truth, list[str]]]) -> None:
    """The load has been sent for all of its time when that is told."""
    failed = asyncio.Event()

    async def fail() -> None:
        failed.set()
        raise TargetError("the server closed the connection")

    truth, told = send_load(failed.wait, [at_once, fail, at_once])

    assert (truth.draw, truth.drifts) == ("draw", ())
    assert told[-1] == (
        "draw: what was counted halfway cannot be read, so it is not known whether blocks of a call change while it is "
        "sent: the server closed the connection"
    )


def test_a_load_that_ends_while_it_is_counted_halfway_is_no_interruption(
    send_load: Callable[..., tuple[Truth, list[str]]],
) -> None:
    """All sessions have failed, and the connection of the count takes a while to be closed."""
    counting = asyncio.Event()

    async def count_long() -> None:
        counting.set()
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(5):
                await asyncio.sleep(0)

    truth, told = send_load(counting.wait, [at_once, count_long, at_once])

    assert (truth.draw, truth.drifts) == ("draw", ())
    assert len(told) == 1


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """``check(send)``: a whole check, each load of which is ``send(draw)``; what is told."""
    record = {
        "scripts": [],
        "triggers": [],
        "left_out": [],
        "seconds": 1.0,
        "counted_for": None,
        "hidden": 0,
        "transactions": {"explained": 0, "commits": 0, "levels": {}},
    }
    server = SimpleNamespace(conninfo=str, control=SimpleNamespace(address=SimpleNamespace(database="shop")))

    async def open_server(*_args: object, **_options: object) -> object:
        return server

    async def fit_dials(*_args: object) -> tuple[()]:
        return ()

    def check(send: Callable[[str], Truth]) -> list[str]:
        async def attempt(*_args: object, draw: str, **_options: object) -> Truth:
            return send(draw)

        monkeypatch.setattr(production_check, "read_record", lambda _folder: record)
        monkeypatch.setattr(production_check, "refuse_changeable", lambda _folder, *, hint: hint)
        monkeypatch.setattr(production_check, "_refuse_code", lambda *_args: None)
        monkeypatch.setattr(production_check, "open_server", open_server)
        monkeypatch.setattr(production_check, "refuse_shared", fit_dials)
        monkeypatch.setattr(production_check, "fit_dials", fit_dials)
        monkeypatch.setattr(production_check, "nearest", lambda *_args: {"read": "rows"})
        monkeypatch.setattr(production_check, "_write_nearest", lambda *_args: None)
        monkeypatch.setattr(production_check, "_try", attempt)
        told = list[str]()
        production_check.check_workload(
            "dbname=shop", tmp_path, {}, clients=1, seconds=20, in_place=True, tell=told.append
        )
        return told

    return check


def truth_of(draw: str) -> Truth:
    return Truth(draw=draw, matches=(), drawing=0.0)


def test_what_was_measured_is_kept_before_the_next_load_is_sent(
    check: Callable[..., list[str]], tmp_path: Path
) -> None:
    """A check may be killed after minutes; its loads are as true as they were."""
    before: dict[str, str] = {}

    def send(draw: str) -> Truth:
        path = tmp_path / production_check.TRUTH
        before[draw] = path.read_text() if path.exists() else ""
        return truth_of(draw)

    check(send)

    assert [*before] == ["rows", "keys", "hot", "nearest"]
    assert before["rows"] == ""
    assert "## rows\n" in before["keys"]
    assert all(f"## {draw}\n" in before["nearest"] for draw in ("rows", "keys", "hot"))
    assert all("The check has not ended" in before[draw] for draw in ("keys", "hot", "nearest"))
    whole = (tmp_path / production_check.TRUTH).read_text()
    assert "## nearest\n" in whole
    assert "The check has not ended" not in whole


def test_it_is_told_how_many_loads_are_sent_for_how_long_and_which_it_is(check: Callable[..., list[str]]) -> None:
    told = check(truth_of)

    assert told[0] == "4 to 8 loads are sent, each for 20 s; in between the dials are turned"
    assert [text for text in told if text.startswith("load ")] == [
        "load 1 of at most 8: rows",
        "load 2 of at most 8: keys",
        "load 3 of at most 8: hot",
        "load 4 of at most 8: nearest",
    ]


def test_names_beyond_ascii_are_found_in_a_database_of_another_encoding(
    served: ThrowawayCluster, tmp_path: Path
) -> None:
    with psycopg.connect(served.conninfo(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE latin ENCODING LATIN1 LOCALE 'C' TEMPLATE template0")
    with psycopg.connect(served.conninfo("latin"), client_encoding="utf8") as connection:
        connection.execute('CREATE TABLE ware (id int, "größe" int)')
    (tmp_path / "s001.sql").write_text('INSERT INTO ware ("größe") VALUES (1);')

    errors = asyncio.run(
        production_check._send(served.environment("latin"), tmp_path, {"s001": 1.0}, clients=1, seconds=1)
    )

    assert errors == ()
    with psycopg.connect(served.conninfo("latin")) as connection:
        assert connection.execute("SELECT count(*) > 0 FROM ware").fetchone() == (True,)
