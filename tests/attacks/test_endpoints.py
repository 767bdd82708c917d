"""A model's endpoint that is slow, huge, wrong, or never ends: narrate gives up in time, and with little memory."""

import contextlib
import itertools
import json
import socket
import threading
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgtrial.narrate.endpoint import MOST_BYTES, ChatMessage, Endpoint, EndpointError, ask

QUESTION = (ChatMessage(role="user", content="facts"),)
HEAD = b"HTTP/1.1 200 OK\r\n"


def trickle(content: bytes) -> Iterator[bytes]:
    """A little of it before any wait for the next piece is over, for ever."""
    for byte in itertools.cycle(content):
        time.sleep(0.01)
        yield bytes((byte,))


ENDLESS = {
    "status": lambda: trickle(b"H"),
    "head": lambda: itertools.chain((HEAD,), trickle(b"x")),
    "body": lambda: itertools.chain((HEAD + b"\r\n",), trickle(b" ")),
    "chunks": lambda: itertools.chain((HEAD + b"Transfer-Encoding: chunked\r\n\r\n",), trickle(b"1\r\n \r\n")),
    "length of a chunk": lambda: itertools.chain((HEAD + b"Transfer-Encoding: chunked\r\n\r\n",), trickle(b"0")),
    "error": lambda: itertools.chain((b"HTTP/1.1 400 No\r\n\r\n",), trickle(b"x")),
    "redirection": lambda: itertools.chain((b"HTTP/1.1 307 No\r\nLocation: ",), trickle(b"x")),
    "continue": lambda: itertools.cycle((b"HTTP/1.1 100 Continue\r\n\r\n",)),
}
QUICK = {
    "body": lambda: itertools.chain((HEAD + b"\r\n",), itertools.repeat(b"x" * 65536)),
    "events": lambda: itertools.chain((HEAD + b"\r\n",), itertools.repeat(b'data: {"choices": []}\n\n' * 1000)),
    "header": lambda: itertools.chain((HEAD + b"X: ",), itertools.repeat(b"x" * 65536)),
    "headers": lambda: itertools.chain((HEAD,), itertools.repeat(b"X: y\r\n" * 1000)),
    "length": lambda: (HEAD + b"Content-Length: 99999999999999\r\n\r\n" + b"x" * 100,),
    "deep": lambda: (HEAD + b"Content-Length: 1000000\r\n\r\n" + b"[" * 1_000_000,),
    "not http": lambda: (b"\0" * 100_000,),
    "nothing": lambda: (),
}


@contextlib.contextmanager
def answering(pieces) -> Iterator[str]:
    """An address at which every connection gets these pieces, until it is closed."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer(connection: socket.socket) -> None:
            with connection, contextlib.suppress(OSError):
                connection.recv(65536)
                for piece in pieces():
                    connection.sendall(piece)

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.parametrize("kind", ENDLESS)
def test_an_answer_that_never_ends_is_given_up_in_time(kind: str) -> None:
    begun = time.monotonic()
    with answering(ENDLESS[kind]) as url, pytest.raises(EndpointError):
        ask(Endpoint(url=url), QUESTION, model="m", timeout=1, pause=lambda _: None)

    assert time.monotonic() - begun < 20  # three tries of a second each, on a busy machine


@pytest.mark.parametrize("kind", QUICK)
def test_a_wrong_answer_takes_little_memory(kind: str) -> None:
    tracemalloc.start()
    try:
        with answering(QUICK[kind]) as url, pytest.raises(EndpointError):
            ask(Endpoint(url=url), QUESTION, model="m", timeout=5, pause=lambda _: None)
        assert tracemalloc.get_traced_memory()[1] < 10 * MOST_BYTES
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("status", ["301", "302", "303", "307", "308"])
@pytest.mark.parametrize(
    "place", ["{file}", "ftp://{other}/x", "http://{other}/x", "//{other}/x", "gopher://{other}/x"]
)
def test_a_redirection_leads_to_no_file_and_to_nobody_else(status: str, place: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(json.dumps({"choices": [{"message": {"content": "geheim"}}]}))
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.settimeout(0)
        to = place.format(file=secret.as_uri(), other=f"127.0.0.1:{other.getsockname()[1]}")
        head = f"HTTP/1.1 {status} Elsewhere\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n".encode()

        with answering(lambda: (head,)) as url, pytest.raises(EndpointError, match="redirects") as caught:
            ask(Endpoint(url=url, key="key-of-mine"), QUESTION, model="m", timeout=30, pause=lambda _: None)

        with pytest.raises(BlockingIOError):
            other.accept()
    assert "geheim" not in str(caught.value)


def test_an_encryption_that_is_never_agreed_on_is_given_up_in_time() -> None:
    begun = time.monotonic()
    hello = b"\x16\x03\x03\x40\x00\x02" + b"x" * 1000
    with answering(lambda: trickle(hello)) as url, pytest.raises(EndpointError):
        ask(Endpoint(url=url.replace("http://", "https://")), QUESTION, model="m", timeout=1, pause=lambda _: None)

    assert time.monotonic() - begun < 20
