import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from pgtrial.engine.target import throwaway
from pgtrial.engine.target.throwaway import start_server
from pgtrial.errors import SettingError

TAKEN = "FATAL:  could not map anonymous shared memory: Cannot allocate memory"


@pytest.fixture
def start(monkeypatch) -> Callable[..., int]:
    """How often a server was started that complains so often."""
    monkeypatch.setattr(throwaway, "_PAUSE", 0.0)

    def run(*complaints: str, has_pool: bool = True) -> int:
        left, started = list(complaints), []

        async def start(*, groups: Sequence[str]) -> None:
            started.append(groups)
            if left:
                raise SettingError("the server does not start", detail=left.pop(0))

        cluster: Any = SimpleNamespace(start=start)
        try:
            asyncio.run(start_server(cluster, groups=("group",), has_pool=has_pool))
        finally:
            run.tries = len(started)  # type: ignore[attr-defined]
        assert set(started) == {("group",)}
        return len(started)

    return run


def test_a_server_whose_pages_somebody_took_for_a_moment_is_started_again(start) -> None:
    assert start() == 1
    assert start(TAKEN, TAKEN) == 3


@pytest.mark.parametrize(
    ("complaints", "has_pool", "tries"),
    [([TAKEN] * 9, True, 5), ([TAKEN], False, 1), (["FATAL:  invalid value"], True, 1), ([TAKEN, "no"], True, 2)],
)
def test_any_other_complaint_is_an_error_at_once_and_this_one_in_the_end(start, complaints, has_pool, tries) -> None:
    with pytest.raises(SettingError, match="does not start"):
        start(*complaints, has_pool=has_pool)

    assert start.tries == tries
