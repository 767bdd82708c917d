import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from pgtrial.engine.target import throwaway
from pgtrial.engine.target.throwaway import start_server
from pgtrial.errors import SettingError

TAKEN = "FATAL:  could not map anonymous shared memory: Cannot allocate memory"


class Complaining:
    """A cluster that does not start before it has complained of all these."""

    def __init__(self, *complaints: str) -> None:
        self.left = list(complaints)
        self.tries: list[Sequence[str]] = []

    async def start(self, *, groups: Sequence[str], environment: object) -> None:
        self.tries.append(groups)
        if self.left:
            raise SettingError("the server does not start", detail=self.left.pop(0))


def start(cluster: Any, *, has_pool: bool = True) -> None:
    asyncio.run(start_server(cluster, groups=("group",), has_pool=has_pool))


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch) -> None:
    monkeypatch.setattr(throwaway, "_PAUSE", 0.0)


@pytest.mark.parametrize("times", [0, 2])
def test_a_server_whose_pages_somebody_took_for_a_moment_is_started_again(times) -> None:
    cluster = Complaining(*[TAKEN] * times)
    start(cluster)

    assert cluster.tries == [("group",)] * (times + 1)


@pytest.mark.parametrize(
    ("complaints", "has_pool", "tries"),
    [([TAKEN] * 9, True, 5), ([TAKEN], False, 1), (["FATAL:  invalid value"], True, 1), ([TAKEN, "no"], True, 2)],
)
def test_any_other_complaint_is_an_error_at_once_and_this_one_in_the_end(complaints, has_pool, tries) -> None:
    cluster = Complaining(*complaints)
    with pytest.raises(SettingError, match="does not start"):
        start(cluster, has_pool=has_pool)

    assert len(cluster.tries) == tries
