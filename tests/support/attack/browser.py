"""Somebody who looks at a folder by "pgtrial serve": asks for all that it shows, then ends it."""

import contextlib
import http.client
import json
import os
import re
import signal
import time
import traceback
from collections.abc import Iterator
from urllib.parse import urlsplit

FAULT = "the browser: "  # begins a line that says what serve did wrong
_ADDRESS = re.compile(rb"http://127\.0\.0\.1:\d+/\?token=\S+")
_PATIENCE = 120  # s for an answer, however busy the machine is
_MOST_READ = 1 << 20  # bytes of what serve has said
_MOST_EXPERIMENTS = 3


@contextlib.contextmanager
def browsing(said: int) -> Iterator[None]:
    """While this process serves: find the address in the file ``said``, ask, and interrupt this process."""
    server = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            _browse(_find_address(said))
        except BaseException:
            print(FAULT + traceback.format_exc(), flush=True)
        with contextlib.suppress(OSError):  # as Ctrl-C
            os.kill(server, signal.SIGINT)
        os._exit(0)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _find_address(said: int) -> str:
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        if found := _ADDRESS.search(os.pread(said, _MOST_READ, 0)):
            return found[0].decode()
        time.sleep(0.02)
    raise TimeoutError("serve has told no address")


def _browse(address: str) -> None:
    where = urlsplit(address)
    place, token = where.netloc, f"/?{where.query}"
    _, cookie = _ask(place, token, {})
    head = {"Cookie": cookie.partition(";")[0]}
    told, _ = _ask(place, "/api/experiments", head)
    found = [str(each["id"]) for each in json.loads(told).get("experiments", [])][:_MOST_EXPERIMENTS]
    for one in found:
        for path in (f"/experiments/{one}", f"/api/experiments/{one}", f"/reports/{one}", f"/events/{one}"):
            _ask(place, path, head)
        _ask(place, f"/api/compare?a={one}&b={found[0]}", head)
    _ask(place, "/events", head)


def _ask(place: str, path: str, head: dict[str, str]) -> tuple[bytes, str]:
    """The answer and its cookie; of what is told as it happens, the beginning. Says so where there is none."""
    connection = http.client.HTTPConnection(place, timeout=_PATIENCE)
    with contextlib.closing(connection):
        try:
            connection.request("GET", path, headers=head)
            answer = connection.getresponse()
            body = answer.readline() if path.startswith("/events") else answer.read()
        except (OSError, http.client.HTTPException) as err:
            print(f"{FAULT}GET {path}: {err!r}", flush=True)
            return b"{}", ""
        if answer.status >= http.HTTPStatus.INTERNAL_SERVER_ERROR or not body:
            print(f"{FAULT}GET {path}: {answer.status}, {len(body)} bytes", flush=True)
        return body, answer.getheader("Set-Cookie", "")
