"""A watch of a server behind a cable that is pulled: packets vanish, and nobody is told."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from pgtrial.postgres.programs import Programs
from pgtrial.postgres.throwaway import ThrowawayCluster
from pgtrial.watch.layout import SAMPLES
from support import wait_until
from support.namespaces import NamespaceHost, namespaces
from support.watching import COMMITS, POLLS, reached_at, rows, watched

pytestmark = pytest.mark.pg


@pytest.fixture(scope="module")
def host() -> Iterator[NamespaceHost]:
    with namespaces("db") as found:
        yield found.hosts[0]


@pytest.fixture(scope="module")
def shop(
    programs: Programs, run_cluster: Callable[..., AbstractContextManager[ThrowawayCluster]]
) -> Iterator[ThrowawayCluster]:
    with asyncio.Runner() as runner, run_cluster(programs, runner) as cluster:
        yield cluster


def test_a_cable_that_is_pulled_is_a_gap_and_the_watch_is_back_soon_after(
    shop: ThrowawayCluster, host: NamespaceHost, tmp_path: Path
) -> None:
    root = tmp_path / "w"
    with reached_at(host, shop) as address, watched(address, root) as (watcher, said):
        wait_until(lambda: rows(root, SAMPLES, COMMITS), lambda found: len(found) >= 6)
        with host.losing_packets():
            cut = time.time()
            wait_until(lambda: [text for text in said if "is lost" in text])
            mended = time.time()
        wait_until(lambda: rows(root, SAMPLES, COMMITS), lambda found: sum(row[0] > mended for row in found) > 6)
    assert watcher.error is None
    assert any("connected to PostgreSQL" in text for text in said)
    for statement in (COMMITS, POLLS):
        assert [t for t, _ in rows(root, SAMPLES, statement) if cut + 1 < t < mended] == []
