"""One connection: check who asks, find what is asked for, answer. Nothing is ever written."""

import json
import shutil
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any, cast

from pgtrial.engine.live.watch import next_pause
from pgtrial.errors import PgTrialError, StoreError
from pgtrial.findings.findings import Findings
from pgtrial.report.words import make_visible
from pgtrial.store import layout
from pgtrial.store.findings_file import read_findings
from pgtrial.web import headers
from pgtrial.web.access import is_own_host
from pgtrial.web.inside import Place, file_status, open_inside
from pgtrial.web.live import describe
from pgtrial.web.routes import STATIC, Kind, Route, find_route
from pgtrial.web.side import side_by_side

if TYPE_CHECKING:
    from pgtrial.web.server import WebServer

_PATIENCE = 30  # s, for a request to come and for an answer to be taken
_HEARTBEAT = 10.0  # s; a browser that has gone is noticed when something is sent to it
_MOST_FINDINGS = 64 << 20  # bytes
_DENIED = 'This page needs the address that "pgtrial serve" printed when it was started, with its token.\n'
# What stands for PATH has a form that needs no escaping.
_ENTRY = (
    '<!doctype html><title>pgtrial</title><meta http-equiv="refresh" content="0; url=PATH"><a href="PATH">pgtrial</a>\n'
)


class Handler(BaseHTTPRequestHandler):
    """http.server's own part is reading the request; it opens no file."""

    protocol_version = "HTTP/1.1"
    timeout = _PATIENCE

    # The names are http.server's: do_ and the method.

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def parse_request(self) -> bool:
        """Whether a request was read that is to be answered."""
        if not super().parse_request():
            return False
        if self.command in {"GET", "HEAD"}:
            return True
        self.close_connection = True  # a body may follow, which nobody reads
        self._send_text(HTTPStatus.METHOD_NOT_ALLOWED, "Only GET and HEAD.\n", {"Allow": "GET, HEAD"})
        return False

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
        if self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers:
            self.close_connection = True  # it has a body, which nobody reads
        if not is_own_host(self.headers.get_all("Host") or []):
            self._send_text(HTTPStatus.FORBIDDEN, "This server answers under the names of its own machine only.\n")
            return
        path, _, query = self.path.partition("?")
        access = self._web.access
        has_token = access.has_token(query)
        if has_token:
            self._let_in(find_route(path))
            return
        if has_token is False or not access.has_cookie(self.headers.get_all("Cookie") or []):
            self._send_text(HTTPStatus.UNAUTHORIZED, _DENIED)
            return
        route = find_route(self.path)
        if route is None:
            self._send_text(HTTPStatus.NOT_FOUND, "There is nothing at this address.\n")
            return
        try:
            self._serve(route)
        except StoreError as err:
            self._send_json({"error": _in_one_line(err)}, status=HTTPStatus.NOT_FOUND)

    def _let_in(self, route: Route | None) -> None:
        """Give the cookie, and lead to the same address without the token.

        By a page and not by a redirection: whoever followed a link from another site, as in a terminal that is itself a
        web page, would still come from there, and a strict cookie would not be sent.
        """
        page = _ENTRY.replace("PATH", route.path if route else "/")
        cookie = {"Set-Cookie": self._web.access.cookie()}
        self._send(HTTPStatus.OK, page.encode(), "text/html; charset=utf-8", {**headers.ENTRY, **cookie})

    def _serve(self, route: Route) -> None:
        """Answer what is asked for. StoreError before anything was sent."""
        web = self._web
        match route.kind:
            case Kind.PAGE:
                self._send(HTTPStatus.OK, web.files["index.html"], "text/html; charset=utf-8", headers.PAGE)
            case Kind.STATIC:
                self._send(HTTPStatus.OK, web.files[route.file], STATIC[route.file], headers.DATA)
            case Kind.LIST:
                self._send_json(self._describe_all())
            case Kind.LIST_EVENTS:
                self._tell(self._describe_all)
            case Kind.COMPARISON:
                self._send_json(self._compare(route))
            case Kind.ONE:
                self._send_json(self._describe_one(route.ids[0]))
            case Kind.ONE_EVENTS:
                self._describe_one(route.ids[0])  # what is not there is said at once
                self._tell(lambda: self._describe_one(route.ids[0]))
            case Kind.REPORT:
                self._send_report(self._find(route.ids[0]))

    def _describe_all(self) -> dict[str, Any]:
        shelf = self._web.shelf
        return {"name": shelf.root.name, "experiments": [summary.as_dict() for summary in shelf.summaries()]}

    def _describe_one(self, place_id: str) -> dict[str, Any]:
        place = self._find(place_id)
        return describe(place, self._web.shelf.summary(place))

    def _find(self, place_id: str) -> Place:
        place = self._web.shelf.find(place_id)
        if place is None:
            raise StoreError("this experiment is not there, or not any more")
        return place

    def _compare(self, route: Route) -> dict[str, Any]:
        """Both experiments, under the names of their folders: repeated ones have the same name otherwise."""
        if len(route.ids) != 2:
            raise StoreError("two experiments are needed for a comparison")
        first, second = (self._find(place_id) for place_id in route.ids)
        names = [make_visible(place.name) for place in (first, second)]
        return {"names": names, **side_by_side(_read_findings(first), _read_findings(second))}

    def _send_report(self, place: Place) -> None:
        with open_inside(place, layout.REPORT) as opened:
            if opened is None:
                raise StoreError("this experiment has no report yet", hint='"pgtrial report" makes one.')
            file, size = opened
            self._begin(HTTPStatus.OK, "text/html; charset=utf-8", headers.REPORT, length=size)
            if self.command != "HEAD":
                shutil.copyfileobj(_Limited(file.read, size), self.wfile)

    def _tell(self, describe: Callable[[], dict[str, Any]]) -> None:
        """Send what is to be seen whenever it changes, as server-sent events, until the browser or the server goes."""
        self.close_connection = True
        self._begin(HTTPStatus.OK, "text/event-stream; charset=utf-8", headers.DATA, length=None)
        if self.command == "HEAD":
            return
        told, silent_since, web = "", time.monotonic(), self._web
        while not web.stopping.is_set():
            before = time.thread_time()
            try:
                text = _encode(describe())
            except StoreError as err:
                self.wfile.write(f"event: gone\ndata: {_encode({'error': err.message})}\n\n".encode())
                return
            if text != told:
                self.wfile.write(f"data: {text}\n\n".encode())
                told, silent_since = text, time.monotonic()
            elif time.monotonic() - silent_since > _HEARTBEAT:
                self.wfile.write(b":\n\n")
                silent_since = time.monotonic()
            web.stopping.wait(next_pause(time.thread_time() - before))

    def _send_text(self, status: HTTPStatus, text: str, more: Mapping[str, str] | None = None) -> None:
        self._send(status, text.encode(), "text/plain; charset=utf-8", {**headers.DATA, **(more or {})})

    def _send_json(self, value: Any, *, status: HTTPStatus = HTTPStatus.OK) -> None:
        self._send(status, _encode(value).encode(), "application/json", headers.DATA)

    def _send(self, status: HTTPStatus, body: bytes, kind: str, more: Mapping[str, str]) -> None:
        self._begin(status, kind, more, length=len(body))
        if self.command != "HEAD":
            self.wfile.write(body)

    def _begin(self, status: HTTPStatus, kind: str, more: Mapping[str, str], *, length: int | None) -> None:
        """The head of an answer; without a ``length`` it ends with the connection."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if length is not None:
            self.send_header("Content-Length", str(length))
        if self.close_connection:
            self.send_header("Connection", "close")
        for name, value in more.items():
            self.send_header(name, value)
        self.end_headers()


class _Limited:
    """Reads no more than what was announced, though the file may have grown."""

    def __init__(self, read: Callable[[int], bytes], left: int) -> None:
        self._read = read
        self._left = left

    def read(self, size: int = 1 << 16) -> bytes:
        data = self._read(min(size, self._left))
        self._left -= len(data)
        return data


def _read_findings(place: Place) -> Findings:
    """Raises StoreError."""
    found = file_status(place.path, layout.FINDINGS)
    if found is None:
        raise StoreError(
            f'"{place.name}" has not been analysed yet', hint='It is when it has run; "pgtrial report" does it now.'
        )
    if found.st_size > _MOST_FINDINGS:
        raise StoreError(f'findings.json of "{place.name}" is too large to be shown')
    try:
        return read_findings(place.path)
    except RecursionError as err:
        raise StoreError(f'findings.json of "{place.name}" is damaged') from err


def _encode(value: Any) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def _in_one_line(err: PgTrialError) -> str:
    return " ".join(filter(None, [f"{err.message}.", err.hint]))
