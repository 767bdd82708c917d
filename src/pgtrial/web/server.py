"""The HTTP server: loopback only, read-only, a thread for each connection."""

import contextlib
import errno
import http.client
import json
import logging
import math
import re
import select
import shutil
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs

from pgtrial.engine.live.pace import next_pause
from pgtrial.errors import PgTrialError, StoreError
from pgtrial.findings.findings import Findings
from pgtrial.safe_text import make_visible
from pgtrial.store import layout
from pgtrial.store.findings_file import read_findings
from pgtrial.web.access import DATA, ENTRY, PAGE, REPORT, Access, is_own_host
from pgtrial.web.folders import ServedFolder, Shelf, file_status, find_root, open_inside
from pgtrial.web.views import describe, side_by_side
from pgtrial.web.watches import LAST_HOUR, Watches

HOST = "127.0.0.1"
PATIENCE = 30.0  # s, for a whole request to come and for an answer to be taken
_MOST_CONNECTIONS = 64  # at once; a browser opens some six
_SLOWEST = 100_000  # bytes of an answer in a second, beside the patience for it: a report by way of a slow network
_MOST_HEAD = 65536  # bytes of a request's headers, all together
_LEAVING = 1.0  # s for a thread whose connection was ended to notice that
_MOST_FIELDS = 10  # of a query
_SOON = 10.0  # s; after a change the next look is no later, however much it took to read what changed
_HEARTBEAT = 10.0  # s; a browser that has gone is noticed when something is sent to it
_HTML = "text/html; charset=utf-8"
_OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_STATIC = Path(__file__).parent / "static"
# Read once: what is not among these is not served, whatever its name.
STATIC = {
    "app.js": "text/javascript; charset=utf-8",
    "compare.js": "text/javascript; charset=utf-8",
    "dom.js": "text/javascript; charset=utf-8",
    "live.js": "text/javascript; charset=utf-8",
    "style.css": "text/css; charset=utf-8",
    "watch.js": "text/javascript; charset=utf-8",
}
_DENIED = 'This page needs the address that "pgtrial serve" printed when it was started, with its token.\n'
# What stands for PATH has a form that needs no escaping.
_ENTRY = (
    '<!doctype html><title>pgtrial</title><meta http-equiv="refresh" content="0; url=PATH"><a href="PATH">pgtrial</a>\n'
)

_log = logging.getLogger(__name__)


class WebServer(ThreadingHTTPServer):
    """Serves the result folders below ``root`` on ``port`` of loopback; 0 is any free port. OSError where it cannot.

    ``monitor`` is a token for figures alone, as in ``Access``.
    """

    daemon_threads = True  # a browser that keeps its connection does not keep the program
    block_on_close = False
    request_queue_size = 32

    def __init__(self, root: Path, *, port: int, patience: float = PATIENCE, monitor: str = "") -> None:
        self.stopping = threading.Event()  # first, as the base class closes what it cannot open
        self._free = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        self._patience = patience
        self._deadlines: dict[socket.socket, float] = {}  # of requests to come, and of answers to be taken
        self._lock = threading.Lock()
        super().__init__((HOST, port), Handler)
        self.shelf = Shelf(root=root)
        self.watches = Watches(root=root)
        self.access = Access(self.server_port, monitor=monitor)
        self.files = {name: (_STATIC / name).read_bytes() for name in ("index.html", *STATIC)}

    @property
    def address(self) -> str:
        """Where a browser finds it, with the token."""
        return f"http://{HOST}:{self.server_port}/?token={self.access.token}"

    def server_bind(self) -> None:
        """Without asking the network for the name of this machine, as the base class does."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = HOST, int(self.server_address[1])

    def server_close(self) -> None:
        """Also ends what is being told as it happens."""
        self.stopping.set()
        with self._lock:
            for connection in tuple(self._deadlines):
                self._end(connection)
        super().server_close()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Give the connection a thread, if need be that of one which is waited for."""
        if not (self._free.acquire(blocking=False) or self._make_room()):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread to be had; one that has begun gives its place back itself
            self._free.release()
            raise

    def _make_room(self) -> bool:
        """End the connection that has least time left; whether its place is free.

        A neighbour who opens many and sends little by little keeps nobody out, nor do answers that nobody takes.
        """
        with self._lock:
            if not self._deadlines:
                return False
            self._end(min(self._deadlines, key=self._deadlines.__getitem__))
        return self._free.acquire(timeout=_LEAVING)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.expect_nothing(request)
            self._free.release()

    def expect(self, connection: socket.socket, more: float = 0.0) -> None:
        """The next request is to have come as a whole, or the answer to be taken, within the patience and ``more``
        seconds, however often a little of it does.
        """
        with self._lock:
            self._deadlines[connection] = time.monotonic() + self._patience + more

    def expect_nothing(self, connection: socket.socket) -> None:
        with self._lock:
            self._deadlines.pop(connection, None)

    def _end(self, connection: socket.socket) -> None:
        del self._deadlines[connection]
        with contextlib.suppress(OSError):  # it has gone by itself
            connection.shutdown(socket.SHUT_RDWR)

    def service_actions(self) -> None:
        """Called twice a second: end the connections that are late."""
        now = time.monotonic()
        with self._lock:
            for connection in [connection for connection, deadline in self._deadlines.items() if deadline < now]:
                self._end(connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away in the middle of an answer is none; what else goes wrong is for the log."""
        _log.debug("a connection ended early", exc_info=True)


def open_server(folder: Path, *, port: int, monitor: str = "") -> WebServer:
    """A server that listens, for a result folder or a directory of them. Raises PgTrialError with what is wrong."""
    root = find_root(folder)
    try:
        return WebServer(root, port=port, monitor=monitor)
    except OSError as err:
        if err.errno == errno.EADDRINUSE:
            raise PgTrialError(
                f"port {port} on {HOST} is in use",
                hint="Another pgtrial may serve there. Choose another port with --port; --port 0 picks a free one.",
            ) from err
        raise PgTrialError(
            f"cannot listen on port {port} of {HOST}: {err.strerror}",
            hint="Choose another port with --port; --port 0 picks a free one.",
        ) from err


class _Head:
    """Headers as they come. http.server bounds their number and the length of each, which is 6 MB for a connection."""

    def __init__(self, file: BufferedIOBase) -> None:
        self._file = file
        self._left = _MOST_HEAD

    def readline(self, most: int) -> bytes:
        line = self._file.readline(most)
        self._left -= len(line)
        if self._left < 0:
            raise http.client.LineTooLong("head")
        return line


class Handler(BaseHTTPRequestHandler):
    """http.server's own part is reading the request; it opens no file."""

    protocol_version = "HTTP/1.1"
    timeout = PATIENCE

    # The names are http.server's: do_ and the method.

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def parse_request(self) -> bool:
        """Whether a request was read that is to be answered."""
        connection = self.rfile
        self.rfile = cast("BufferedIOBase", _Head(connection))
        try:
            if not super().parse_request():
                return False
        finally:
            self.rfile = connection
        self._web.expect_nothing(self.connection)  # to find the answer takes its time
        if self.headers.defects:  # what follows one may have been meant as a header or not
            self.send_error(HTTPStatus.BAD_REQUEST)
            return False
        if self.command in {"GET", "HEAD"}:
            return True
        self.close_connection = True  # a body may follow, which nobody reads
        self._send_text(HTTPStatus.METHOD_NOT_ALLOWED, "Only GET and HEAD.\n", {"Allow": "GET, HEAD"})
        return False

    def handle_one_request(self) -> None:
        self._web.expect(self.connection)
        super().handle_one_request()

    def version_string(self) -> str:
        return "pgtrial"

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: an address may have the token."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What http.server finds wrong with a request, without repeating any of it."""
        self.close_connection = True
        self.request_version = self.protocol_version  # it may not have got as far as reading that
        self._send_text(HTTPStatus(code), f"{HTTPStatus(code).phrase}\n")

    @property
    def _web(self) -> "WebServer":
        return cast("WebServer", self.server)

    def _answer(self) -> None:
        lengths = self.headers.get_all("Content-Length") or []
        if lengths not in ([], ["0"]) or "Transfer-Encoding" in self.headers:
            self.close_connection = True  # it has a body, which nobody reads
        if not is_own_host(self.headers.get_all("Host") or []):
            self.close_connection = True
            self._send_text(HTTPStatus.FORBIDDEN, "This server answers under the names of its own machine only.\n")
            return
        path, _, query = self.path.partition("?")
        access = self._web.access
        has_token = access.has_token(query)
        if has_token:
            self._let_in(path)
        elif has_token is False or not (
            access.has_cookie(self.headers.get_all("Cookie") or [])
            or (_METRICS.fullmatch(path) and access.has_bearer(self.headers.get_all("Authorization") or []))
        ):
            self.close_connection = True  # who is not let in may ask once: else he asks for ever, and takes no answer
            self._send_text(HTTPStatus.UNAUTHORIZED, _DENIED)
        else:
            self._serve(path)

    def _let_in(self, path: str) -> None:
        """Give the cookie, and lead to the same address without the token.

        By a page and not by a redirection: someone who followed a link from another site, as in a terminal that is a
        web page, would still come from there, and a strict cookie would not be sent.
        """
        page = _ENTRY.replace("PATH", path if _find_answer(path) else "/")
        cookie = {"Set-Cookie": self._web.access.cookie()}
        self._send(HTTPStatus.OK, page.encode(), _HTML, {**ENTRY, **cookie})

    def _serve(self, path: str) -> None:
        answer = _find_answer(path)
        if answer is None:
            self._send_text(HTTPStatus.NOT_FOUND, "There is nothing at this address.\n")
            return
        send, asked = answer
        try:
            send(self, *asked)
        except PgTrialError as err:  # before anything was sent
            self._send_json({"error": _in_one_line(err)}, status=HTTPStatus.NOT_FOUND)

    def _send_page(self) -> None:
        self._send(HTTPStatus.OK, self._web.files["index.html"], _HTML, PAGE)

    def _send_static(self, name: str) -> None:
        self._send(HTTPStatus.OK, self._web.files[name], STATIC[name], DATA)

    def _send_list(self) -> None:
        self._send_json(self._describe_all())

    def _send_one(self, place_id: str) -> None:
        self._send_json(self._describe_one(place_id))

    def _send_comparison(self) -> None:
        """Both experiments, under the names of their folders: repeated ones have the same name otherwise."""
        first, second = map(self._find, _compared(self.path.partition("?")[2]))
        names = [make_visible(place.name) for place in (first, second)]
        self._send_json({"names": names, **side_by_side(_read_findings(first), _read_findings(second))})

    def _send_list_events(self) -> None:
        self._tell(self._describe_all)

    def _send_one_events(self, place_id: str) -> None:
        self._find(place_id)  # what is not there is said at once
        self._tell(lambda: self._describe_one(place_id))

    def _send_report(self, place_id: str) -> None:
        with open_inside(self._find(place_id), layout.REPORT) as opened:
            if opened is None:
                raise StoreError("this experiment has no report yet", hint='"pgtrial report" makes one.')
            file, size = opened
            self._begin(HTTPStatus.OK, _HTML, REPORT, length=size)
            if self.command != "HEAD":
                shutil.copyfileobj(_Limited(file.read, size), self.wfile)

    def _send_watch_events(self, place_id: str) -> None:
        place = self._find_watch(place_id)  # what is not there is said at once
        self._tell(lambda: self._web.watches.describe(place))

    def _send_watch_alarms(self, place_id: str) -> None:
        self._send_json(self._web.watches.alarms(self._find_watch(place_id)))

    def _send_watch_metrics(self, place_id: str) -> None:
        text = self._web.watches.metrics(self._find_watch(place_id))
        self._send(HTTPStatus.OK, text.encode(errors="replace"), _OPENMETRICS, DATA)

    def _send_watch_page(self, place_id: str) -> None:
        """A window beside the time that it is best compared with, as a page in a sandbox."""
        window = _field(self.path.partition("?")[2], "window") or LAST_HOUR
        page = self._web.watches.page(self._find_watch(place_id), window)
        self._send(HTTPStatus.OK, page.encode(), _HTML, REPORT)

    def _describe_all(self) -> dict[str, Any]:
        shelf = self._web.shelf
        return {
            "name": shelf.root.name,
            "experiments": [summary.as_dict() for summary in shelf.summaries()],
            "watches": self._web.watches.listed(),
        }

    def _describe_one(self, place_id: str) -> dict[str, Any]:
        place = self._find(place_id)
        return describe(place, self._web.shelf.summary(place))

    def _find(self, place_id: str) -> ServedFolder:
        place = self._web.shelf.find(place_id)
        if place is None:
            raise StoreError("this experiment is not there, or not any more")
        return place

    def _find_watch(self, place_id: str) -> ServedFolder:
        place = self._web.watches.find(place_id)
        if place is None:
            raise StoreError("this watch is not there, or not any more")
        return place

    def _tell(self, describe: Callable[[], dict[str, Any]]) -> None:
        """Send what is to be seen whenever it changes, as server-sent events, until the browser or the server goes."""
        self.close_connection = True
        self._begin(HTTPStatus.OK, "text/event-stream; charset=utf-8", DATA, length=None)
        if self.command == "HEAD":
            return
        ended = select.poll()  # by the browser, or by who needs its place
        ended.register(self.connection, select.POLLIN)
        told, silent_since, web = "", time.monotonic(), self._web
        while not web.stopping.is_set():
            before = time.thread_time()
            try:
                text = _encode(describe())
            except StoreError as err:
                self.wfile.write(f"event: gone\ndata: {_encode({'error': err.message})}\n\n".encode())
                return
            # What has changed was read anew, once; and an experiment that ends changes several times in a row.
            most = math.inf if text == told else _SOON
            if text != told:
                self.wfile.write(f"data: {text}\n\n".encode())
                told, silent_since = text, time.monotonic()
            elif time.monotonic() - silent_since > _HEARTBEAT:
                self.wfile.write(b":\n\n")
                silent_since = time.monotonic()
            if ended.poll(1000 * next_pause(time.thread_time() - before, most=most)):
                return

    def _send_text(self, status: HTTPStatus, text: str, more: Mapping[str, str] | None = None) -> None:
        self._send(status, text.encode(), "text/plain; charset=utf-8", {**DATA, **(more or {})})

    def _send_json(self, value: Any, *, status: HTTPStatus = HTTPStatus.OK) -> None:
        self._send(status, _encode(value).encode(), "application/json", DATA)

    def _send(self, status: HTTPStatus, body: bytes, kind: str, more: Mapping[str, str]) -> None:
        self._begin(status, kind, more, length=len(body))
        if self.command != "HEAD":
            self.wfile.write(body)

    def _begin(self, status: HTTPStatus, kind: str, more: Mapping[str, str], *, length: int | None) -> None:
        """The head of an answer; without a ``length`` it ends with the connection, which goes where room is needed."""
        self._web.expect(self.connection, math.inf if length is None else length / _SLOWEST)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if length is not None:
            self.send_header("Content-Length", str(length))
        if self.close_connection:
            self.send_header("Connection", "close")
        for name, value in more.items():
            self.send_header(name, value)
        self.end_headers()


# An address names a result folder by its id only.
_ID = "([0-9a-f]{16})"
_METRICS = re.compile(f"/api/watches/{_ID}/metrics")
_ADDRESSES: tuple[tuple[re.Pattern[str], Callable[..., None]], ...] = tuple(
    (re.compile(pattern), send)
    for pattern, send in (
        ("/|/compare|/(?:experiments|watches)/[0-9a-f]{16}", Handler._send_page),
        (f"/static/({'|'.join(map(re.escape, STATIC))})", Handler._send_static),
        ("/api/experiments", Handler._send_list),
        (f"/api/experiments/{_ID}", Handler._send_one),
        ("/api/compare", Handler._send_comparison),
        ("/events", Handler._send_list_events),
        (f"/events/{_ID}", Handler._send_one_events),
        (f"/reports/{_ID}", Handler._send_report),
        (f"/events/watches/{_ID}", Handler._send_watch_events),
        (f"/api/watches/{_ID}/alarms", Handler._send_watch_alarms),
        (_METRICS.pattern, Handler._send_watch_metrics),
        (f"/reports/watches/{_ID}", Handler._send_watch_page),
    )
)


def _find_answer(path: str) -> tuple[Callable[..., None], tuple[str, ...]] | None:
    """The method that answers at a path, with what the path names; None where nothing is."""
    for pattern, send in _ADDRESSES:
        match = pattern.fullmatch(path)
        if match is not None:
            return send, match.groups()
    return None


def _field(query: str, name: str) -> str:
    """The first value of a field; "" where there is none."""
    try:
        return parse_qs(query, max_num_fields=_MOST_FIELDS).get(name, [""])[0]
    except ValueError:
        return ""


def _compared(query: str) -> tuple[str, str]:
    """The ids of a and b. Raises StoreError where one of them is missing or is none."""
    first, second = (_field(query, name) for name in ("a", "b"))
    if not (re.fullmatch(_ID, first) and re.fullmatch(_ID, second)):
        raise StoreError("two experiments are needed for a comparison")
    return first, second


class _Limited:
    """Reads no more than what was announced, though the file may have grown."""

    def __init__(self, read: Callable[[int], bytes], left: int) -> None:
        self._read = read
        self._left = left

    def read(self, size: int = 1 << 16) -> bytes:
        data = self._read(min(size, self._left))
        self._left -= len(data)
        return data


def _read_findings(place: ServedFolder) -> Findings:
    """Raises StoreError."""
    if file_status(place.path, layout.FINDINGS) is None:
        raise StoreError(
            f'"{place.name}" has not been analysed yet', hint='It is when it has run; "pgtrial report" does it now.'
        )
    return read_findings(place.path)


def _encode(value: Any) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def _in_one_line(err: PgTrialError) -> str:
    return " ".join(filter(None, [f"{err.message}.", err.hint]))
