"""A neighbour who knows the port of ``pgtrial serve`` and not its token; a browser that a page of his has led there."""

import contextlib
import os
import shutil
import socket
import threading
import tracemalloc
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgtrial.store import layout
from pgtrial.web.server import WebServer
from support import wait_until, write_result_folder

PATIENCE = 60.0  # s


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_result_folder(tmp_path_factory.mktemp("model") / "mine", runs=2)
    (folder / layout.REPORT).write_text("<!doctype html><title>mine</title>")
    return folder


@pytest.fixture
def served(folder: Path, tmp_path: Path) -> Iterator[WebServer]:
    shutil.copytree(folder, tmp_path / "results" / "mine")
    with WebServer(tmp_path / "results", port=0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join(PATIENCE)


def head(server: WebServer) -> bytes:
    return f"Host: localhost\r\nCookie: {server.access.cookie_name}={server.access.session}\r\n".encode()


def connect(server: WebServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.server_port), timeout=PATIENCE)


def answers(server: WebServer, sent: bytes) -> bytes:
    """All that comes back until the server closes the connection."""
    found = b""
    with connect(server) as connection, contextlib.suppress(ConnectionError):
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        while piece := connection.recv(65536):
            found += piece
    return found


@pytest.mark.parametrize(
    "lines",
    [
        "Content-Length: 0\r\nContent-Length: {size}\r\n",
        "Content-Length: {size}\r\nContent-Length: 0\r\n",
        "Content-Length: +{size}\r\n",
        "Content-Length: 0, {size}\r\n",
        "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: identity\r\n",
        "Content-Length : {size}\r\n",
        "no header\r\nContent-Length: {size}\r\n",
        "Content-Length:\r\n {size}\r\n",
    ],
)
def test_a_body_is_never_the_next_request(served: WebServer, lines: str) -> None:
    body = b"GET /api/experiments HTTP/1.1\r\n" + head(served) + b"\r\n"

    got = answers(served, b"GET / HTTP/1.1\r\n" + head(served) + lines.format(size=len(body)).encode() + b"\r\n" + body)

    assert got.count(b"HTTP/1.1 ") == 1
    assert b"mine" not in got


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.", "127.0.0.1@evil.example", "[::1", "2130706433", ""]
)
def test_a_name_that_was_made_to_mean_this_machine_sees_nothing(served: WebServer, host: str) -> None:
    with_cookie = head(served).replace(b"localhost", host.encode())
    token = served.access.token.encode()

    for path in (b"/api/experiments", b"/?token=" + token, b"http://localhost/api/experiments"):
        got = answers(served, b"GET " + path + b" HTTP/1.1\r\n" + with_cookie + b"\r\n")
        assert got.split()[1] == b"403"
        assert b"Set-Cookie" not in got


@pytest.mark.parametrize(
    "path",
    [
        "/static/../../../etc/passwd",
        "/static/%2e%2e/server.py",
        "/static/app.js%00.html",
        "//evil.example/",
        "/reports/../mine/state.sqlite",
        "/reports/mine",
        "/reports/%2e%2e",
        "http://evil.example/",
        "*",
        "\\\\evil\\x",
    ],
)
def test_no_path_leads_elsewhere(served: WebServer, path: str) -> None:
    got = answers(served, f"GET {path} HTTP/1.1\r\n".encode() + head(served) + b"\r\n")

    assert got.split()[1] == b"404"
    assert b"SQLite format" not in got
    assert b"root:" not in got


def test_headers_of_many_neighbours_take_little_memory(served: WebServer) -> None:
    line = b"X: " + b"x" * 60_000 + b"\r\n"
    tracemalloc.start()
    try:
        with contextlib.ExitStack() as stack:
            for _ in range(20):
                connection = stack.enter_context(connect(served))
                with contextlib.suppress(ConnectionError):
                    connection.sendall(b"GET / HTTP/1.1\r\n" + line * 90)
            assert b" 401 " in answers(served, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert tracemalloc.get_traced_memory()[1] < 20 << 20  # it was 5 MB for each
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("asked", ["Host: localhost", "Host: evil.example"])
def test_who_is_not_let_in_is_answered_once(served: WebServer, asked: str) -> None:
    """Else he asks on, takes no answer, and keeps a place for as long as an answer may wait to be taken."""
    assert answers(served, f"GET / HTTP/1.1\r\n{asked}\r\n\r\n".encode() * 100).count(b"HTTP/1.1 ") <= 1


def test_a_folder_that_becomes_a_link_while_it_is_listed_shows_nothing_else(
    served: WebServer, folder: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    shutil.copytree(folder, secret)
    (secret / layout.REPORT).write_text("geheim")
    (place,) = served.shelf.places()
    swapped = tmp_path / "results" / "mine"
    swapped.rename(tmp_path / "away")
    swapped.symlink_to(secret)

    for path in ("api/experiments", f"api/experiments/{place.id}", f"reports/{place.id}", f"events/{place.id}"):
        assert b"geheim" not in answers(served, f"GET /{path} HTTP/1.1\r\n".encode() + head(served) + b"\r\n")


def test_names_that_are_swapped_while_they_are_listed_do_no_harm(
    served: WebServer, folder: Path, tmp_path: Path
) -> None:
    """There and back as fast as one can, with a pipe, a link to another folder, and nothing at all."""
    secret = tmp_path / "secret"
    shutil.copytree(folder, secret)
    (secret / layout.REPORT).write_text("geheim")
    (place,) = served.shelf.places()
    mine, away, is_over, swaps = tmp_path / "results" / "mine", tmp_path / "away", threading.Event(), []

    def swap() -> None:
        while not is_over.is_set():
            mine.rename(away)
            if len(swaps) % 2:
                mine.symlink_to(secret)
            else:
                os.mkfifo(mine)
            mine.unlink()
            away.rename(mine)
            swaps.append(1)

    neighbour = threading.Thread(target=swap)
    neighbour.start()
    try:
        wait_until(lambda: len(swaps) > 10)
        for path in ("api/experiments", f"reports/{place.id}", f"api/experiments/{place.id}") * 10:
            request = urllib.request.Request(
                f"http://127.0.0.1:{served.server_port}/{path}",
                headers={"Cookie": f"{served.access.cookie_name}={served.access.session}"},
            )
            with (
                contextlib.suppress(urllib.request.HTTPError),
                urllib.request.urlopen(request, timeout=PATIENCE) as got,
            ):
                assert b"geheim" not in got.read()
    finally:
        is_over.set()
        neighbour.join()


def ask(server: WebServer, path: str) -> socket.socket:
    connection = connect(server)
    connection.sendall(f"GET {path} HTTP/1.1\r\n".encode() + head(server) + b"\r\n")
    return connection


@pytest.mark.parametrize("path", ["/events", "/reports/{}"])
def test_answers_that_nobody_takes_keep_nobody_out(served: WebServer, tmp_path: Path, path: str) -> None:
    (tmp_path / "results" / "mine" / layout.REPORT).write_bytes(b"x" * (8 << 20))  # more than a socket has room for
    (place,) = served.shelf.places()
    with contextlib.ExitStack() as stack:
        for _ in range(70):
            connection = stack.enter_context(ask(served, path.format(place.id)))
            with contextlib.suppress(ConnectionError):
                connection.recv(1)  # it has begun, and no more of it is taken
        assert b"HTTP/1.1 200 " in answers(served, b"GET /api/experiments HTTP/1.1\r\n" + head(served) + b"\r\n")


def test_an_answer_that_is_taken_little_by_little_ends(
    served: WebServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 64 << 20
    (tmp_path / "results" / "mine" / layout.REPORT).write_bytes(b"x" * size)
    (place,) = served.shelf.places()
    monkeypatch.setattr("pgtrial.web.server._SLOWEST", 1 << 30)
    monkeypatch.setattr(served, "_patience", 0.5)
    got = 0
    with ask(served, f"/reports/{place.id}") as connection, contextlib.suppress(ConnectionError):
        while piece := connection.recv(1 << 16):  # as slowly as not to reach the end before it is ended
            got += len(piece)
            wait_until(lambda: not served._deadlines)

    assert 0 < got < size
