"""The scheduler and the workers that pgtrial starts itself."""

import asyncio
import errno
import importlib.util
import os
import resource
import ssl
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pgtrial.errors import TargetError
from pgtrial.fleet import cluster
from pgtrial.fleet.cluster import Certificate, Cluster, make_certificate
from pgtrial.fleet.node import Node
from support.programs import skip_for_want


def test_nothing_is_made_in_the_directory_that_all_users_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """dask's own choice is a directory of a fixed name there, from which it then imports."""
    pytest.importorskip("distributed")
    shared, own = tmp_path / "shared", tmp_path / "own"
    shared.mkdir()
    own.mkdir()
    monkeypatch.setenv("TMPDIR", str(shared))

    async def start() -> list[Path]:
        async with Cluster(own / ".cluster") as made:
            await made.add_worker("a")
            return list(shared.iterdir())

    assert asyncio.run(start()) == []
    assert list(own.iterdir()) == []


@pytest.fixture
def as_the_user_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Settings in variables and in a file by which nodes and clients tell that they heed them, and workers end; the
    file in which they tell it.
    """
    dask = pytest.importorskip("dask")
    pytest.importorskip("distributed")
    told, module, file = tmp_path / "told", tmp_path / "tells.py", tmp_path / "config" / "own.yaml"
    module.write_text(f"def dask_setup(*_):\n    open({str(told)!r}, 'a').write('one\\n')\n")
    file.parent.mkdir()
    file.write_text("distributed: {worker: {lifetime: {duration: 1h}}}\n")
    monkeypatch.setenv("DASK_CONFIG", str(file.parent))
    for kind in ("WORKER", "SCHEDULER", "CLIENT"):
        monkeypatch.setenv(f"DASK_DISTRIBUTED__{kind}__PRELOAD", f"['{module}']")
    dask.config.refresh(paths=[str(file.parent)])
    yield told
    monkeypatch.undo()
    dask.config.refresh()


def test_what_the_user_has_set_for_dask_is_not_heeded(as_the_user_has_it: Path, tmp_path: Path) -> None:
    from dask import config

    async def lifetimes() -> dict[str, object]:
        async with Cluster(tmp_path / ".cluster") as made:
            assert made.client is not None
            await made.add_worker("a")
            found: dict[str, object] = await made.client.run(config.get, "distributed.worker.lifetime.duration")
            return found

    assert [*asyncio.run(lifetimes()).values()] == [None]
    assert not as_the_user_has_it.exists()


def test_hundreds_of_workers_start_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    starting, most = 0, 0

    async def start(_kind: str, node: Node, **_: object) -> tuple[str, str]:
        nonlocal starting, most
        starting += 1
        most = max(most, starting)
        for _ in range(3):  # others come by meanwhile
            await asyncio.sleep(0)
        starting -= 1
        return node.name, ""

    async def add() -> dict[str, object]:
        made = Cluster(tmp_path / ".cluster")
        made._node = Node(key="", certificate="")
        await asyncio.gather(*(made.add_worker(f"h{number}") for number in range(300)))
        return dict(made.workers)

    monkeypatch.setattr(cluster, "_start", start)

    assert asyncio.run(add()) == {f"h{number}": f"h{number}" for number in range(300)}
    assert most <= 8


def test_who_waits_to_be_started_gets_its_turn_when_another_one_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def start(_kind: str, node: Node, **_: object) -> tuple[str, str]:
        await asyncio.sleep(0)
        if node.name != "last":
            raise TargetError("the worker of the fleet does not start")
        return node.name, ""

    async def add() -> dict[str, object]:
        made = Cluster(tmp_path / ".cluster")
        made._node = Node(key="", certificate="")
        names = [*(f"h{number}" for number in range(20)), "last"]
        await asyncio.gather(*map(made.add_worker, names), return_exceptions=True)
        return dict(made.workers)

    monkeypatch.setattr(cluster, "_start", start)

    assert asyncio.run(add()) == {"last": "last"}


def test_a_machine_that_has_no_descriptor_left_starts_no_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(asyncio, "create_subprocess_exec", refuse)
    with pytest.raises(TargetError) as caught:
        asyncio.run(cluster._start("worker", Node(key="", certificate="")))

    assert caught.value.message == "the worker of the fleet does not start: Too many open files"
    assert "ulimit -n" in caught.value.hint


def test_a_fleet_may_open_as_many_files_as_it_is_let() -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, most[1]), most[1]))
        cluster.raise_descriptors()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (most[1], most[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, most)


def test_a_worker_has_the_limit_that_it_would_have_without_a_fleet(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    # One less than now, as this process may have many files open.
    own = ((before[0] if before[0] != resource.RLIM_INFINITY else 1 << 20) - 1, before[1])

    async def limits() -> list[tuple[int, int]]:
        async with Cluster(tmp_path / ".cluster") as made:
            await made.add_worker("a")
            assert made.scheduler is not None
            return [resource.prlimit(each.pid, resource.RLIMIT_NOFILE) for each in (made.workers["a"], made.scheduler)]

    resource.setrlimit(resource.RLIMIT_NOFILE, own)
    try:
        assert asyncio.run(limits()) == [own, (before[1], before[1])]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.fixture
def certificates(tmp_path) -> tuple[Certificate, Certificate]:
    if importlib.util.find_spec("cryptography") is None:
        skip_for_want("cryptography", "pip install distributed cryptography", required_by="PGTRIAL_REQUIRE_FLEET")
    made = []
    for name in ("own", "stranger"):
        (tmp_path / name).mkdir(mode=0o700)
        made.append(make_certificate(tmp_path / name, now=datetime.now(UTC)))
    return made[0], made[1]


def shake_hands(server: Certificate, client: Certificate, *, trusts: Path) -> None:
    """As dask does: both sides show a certificate. Raises ssl.SSLError where one does not trust the other."""
    contexts = []
    for purpose, own, trusted in (
        (ssl.Purpose.CLIENT_AUTH, server, server.certificate),
        (ssl.Purpose.SERVER_AUTH, client, trusts),
    ):
        context = ssl.create_default_context(purpose, cafile=trusted)
        context.check_hostname, context.verify_mode = False, ssl.CERT_REQUIRED
        context.load_cert_chain(own.certificate, own.key)
        contexts.append(context)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        contexts[0].wrap_bio(to_server, to_client, server_side=True),
        contexts[1].wrap_bio(to_client, to_server),
    ]
    for _ in range(4):
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    sides[1].write(b"hello")
    assert sides[0].read(5) == b"hello"


def test_who_has_it_takes_part(certificates):
    own, _ = certificates
    shake_hands(own, own, trusts=own.certificate)


def test_a_stranger_gets_no_word_in(certificates):
    own, stranger = certificates
    with pytest.raises(ssl.SSLError):
        shake_hands(own, stranger, trusts=own.certificate)


def test_a_stranger_who_plays_the_scheduler_is_not_talked_to(certificates):
    own, stranger = certificates
    with pytest.raises(ssl.SSLError):
        shake_hands(stranger, own, trusts=own.certificate)


def test_nobody_else_reads_the_key(certificates):
    assert stat.S_IMODE(certificates[0].key.stat().st_mode) == 0o600
