"""A server over folders that the tests made, and a client that says exactly what a test wants to say."""

import contextlib
import http.client
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pgtrial.analysis.analyze import analyze
from pgtrial.store import layout
from pgtrial.store.findings_file import write_findings
from pgtrial.web.server import WebServer
from support import write_result_folder

PATIENCE = 30.0  # s


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Client:
    """Says Host and the cookie unless it is told otherwise; a header that is None is left out."""

    server: WebServer

    def ask(self, target: str, *, method: str = "GET", headers: Mapping[str, str | None] | None = None) -> Answer:
        access = self.server.access
        said: dict[str, str | None] = {
            "Host": f"127.0.0.1:{self.server.server_port}",
            "Cookie": f"{access.cookie_name}={access.session}",
            **(headers or {}),
        }
        connection = http.client.HTTPConnection("127.0.0.1", self.server.server_port, timeout=PATIENCE)
        with contextlib.closing(connection):
            connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
            for name, value in said.items():
                if value is not None:
                    connection.putheader(name, value)
            connection.endheaders()
            response = connection.getresponse()
            return Answer(response.status, dict(response.getheaders()), response.read())

    def id_of(self, name: str) -> str:
        return next(one["id"] for one in self.ask("/api/experiments").json["experiments"] if one["name"] == name)


@contextlib.contextmanager
def _serve(root: Path, **options: Any) -> Iterator[Client]:
    with WebServer(root, port=0, **options) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield Client(server)
        finally:
            server.shutdown()


@pytest.fixture
def serve() -> Iterator[Callable[..., Client]]:
    """``serve(directory)`` starts a server, which ends with the test."""
    with contextlib.ExitStack() as stack:
        yield lambda root, **options: stack.enter_context(_serve(root, **options))


@pytest.fixture(scope="session")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with an experiment that is complete, and one that was interrupted; not to be changed.

    What stands for the first one's report is not one: making it takes longer than all else.
    """
    root = tmp_path_factory.mktemp("shelf")
    finished = write_result_folder(root / "finished")
    write_findings(analyze(finished), finished)
    (finished / layout.REPORT).write_text("<!doctype html><title>report</title><p>as it was built", encoding="utf-8")
    write_result_folder(root / "stopped", runs=7)
    return root


@pytest.fixture
def client(shelf: Path, serve: Callable[..., Client]) -> Client:
    return serve(shelf)
