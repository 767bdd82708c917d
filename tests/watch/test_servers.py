"""Several servers of one watch: what one of them that comes late cannot do to the others."""

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pgtrial.errors import ConnectError, PgTrialError, PreflightError, StoreError
from pgtrial.watch import servers
from pgtrial.watch.folder import Mark
from pgtrial.watch.reach import Reached
from pgtrial.watch.watcher import Options

HERE, LATE = "host=/here", "host=/late"
SHOP = Mark(server="/here", database="shop")


class Machine:
    """Another machine, that is read as long as it is not closed."""

    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


class Healthy:
    """A watcher that goes on until the late server is told of."""

    is_over = threading.Event()
    error: Exception | None = None

    def __init__(self, *_what: object, **_options: object) -> None:
        pass

    def stop(self) -> None:
        self.is_over.set()

    def run(self) -> None:
        self.is_over.wait()


def reached(mark: Mark, remote: Any = None) -> Reached:
    return Reached(
        mark=mark,
        version_num=180000,
        version="18.1",
        conninfo="",
        own_conninfo="",
        server_pid=None,
        devices=(),
        remarks=(),
        remote=remote,
    )


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Watch two servers, of which the late one ``comes`` as told; what is told, and the machine of the late one."""

    def watch(comes: PgTrialError | Mark) -> SimpleNamespace:
        told: list[str] = []
        late, is_over = Machine(), threading.Event()
        answers = iter([ConnectError("cannot connect to the server: host /late"), comes])

        def reach(dsn: str, _caller: object, *, machine: str | None) -> Reached:
            answer = SHOP if dsn == HERE else next(answers)
            if isinstance(answer, PgTrialError):
                raise answer
            return reached(answer, None if dsn == HERE else late)

        def tell(text: str) -> None:
            told.append(text)
            if "is not watched" in text:
                is_over.set()

        monkeypatch.setattr(servers, "reach", reach)
        monkeypatch.setattr(servers, "Watcher", Healthy)
        monkeypatch.setattr(servers, "FIRST_PAUSE", 0.01)
        monkeypatch.setattr(Healthy, "is_over", is_over)
        servers.watch([HERE, LATE], tmp_path / "w", {}, options=Options(keep_free=1), tell=tell)
        return SimpleNamespace(told=told, machine=late)

    return watch


def test_one_that_comes_back_too_old_ends_no_other_watch(watch: Any) -> None:
    told = watch(PreflightError("the server is PostgreSQL 11.22; the oldest that can be watched is 12")).told

    assert told[-1] == (
        "the server is PostgreSQL 11.22; the oldest that can be watched is 12: this server is not watched"
    )


def test_one_that_is_watched_already_under_another_name_is_left_and_ends_no_other_watch(watch: Any) -> None:
    done = watch(SHOP)

    assert done.told[-1].startswith("another pgtrial watches into")
    assert done.told[-1].endswith('-shop": this server is not watched')
    assert done.machine.is_closed


def test_every_error_is_told_where_several_watches_end_by_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    both = threading.Barrier(2)

    class Full(Healthy):
        def __init__(self, dsn: str, *_what: object, **_options: object) -> None:
            self.dsn = dsn

        def run(self) -> None:
            both.wait(60)
            raise StoreError(f"no room for {self.dsn}")

    monkeypatch.setattr(servers, "reach", lambda dsn, _caller, **_: reached(Mark(server=dsn[5:], database="shop")))
    monkeypatch.setattr(servers, "Watcher", Full)
    told: list[str] = []

    with pytest.raises(StoreError, match="no room for host=/here"):
        servers.watch([HERE, LATE], tmp_path / "w", {}, options=Options(keep_free=1), tell=told.append)

    assert told[-1] == "another watch has ended as well: no room for host=/late"
