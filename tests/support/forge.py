"""Stand-ins for the parts of GitHub and GitLab that keep comments: an HTTP server on loopback, and what it was asked.

GitHub: docs.github.com, "REST API endpoints for issue comments". It is reached as a proxy, for the host that GitHub's
command calls by plain HTTP. GitLab: docs.gitlab.com, "Notes API".
"""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

GITHUB_HOST = "github.localhost"  # the only one to which gh speaks without TLS
TOKEN = "a-token"
_GITHUB = re.compile(r"/repos/owner/shop/issues(?:/7)?/comments(?:/(\d+))?")
_GITLAB = re.compile(r"/api/v4/projects/3/merge_requests/7/notes(?:/(\d+))?")
_PER_PAGE = 2  # so few that there are several pages


class Forge:
    """``comments`` are those of number 7, oldest first: (who wrote it, text). ``asked`` are methods and paths.

    ``user`` is whom the token belongs to; "" for a workflow's own, which may not ask that.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.comments: list[tuple[str, str]] = []
        self.asked: list[tuple[str, str]] = []
        self.user = "gate"
        self.breaks = False

    def for_gh(self, settings: Path) -> dict[str, str]:
        """Variables by which GitHub's command calls this server; ``settings`` is a directory for its own."""
        proxies = {"HTTP_PROXY": self.address, "http_proxy": self.address, "NO_PROXY": "", "no_proxy": ""}
        return {"GH_HOST": GITHUB_HOST, "GH_CONFIG_DIR": str(settings), **proxies}

    @property
    def changes(self) -> list[tuple[str, str]]:
        return [each for each in self.asked if each[0] != "GET"]

    def answer(self, method: str, url: str, token: str, body: dict[str, str]) -> tuple[int, dict[str, str], Any]:
        parts = urlsplit(url)
        self.asked.append((method, parts.path))
        if token != TOKEN:
            return 401, {}, {"message": "401 Unauthorized"}
        if self.breaks:
            return 500, {}, {"message": "500 Internal Server Error"}
        if parts.path in ("/user", "/api/v4/user"):
            known = {"id": self._id(self.user), "login": self.user}
            return (200, {}, known) if self.user else (403, {}, {"message": "Resource not accessible by integration"})
        found = _GITHUB.fullmatch(parts.path) or _GITLAB.fullmatch(parts.path)
        if found is None:
            return 404, {}, {"message": "404 Not Found"}
        author = self.user or "github-actions[bot]"
        if method == "POST":
            self.comments.append((author, body["body"]))
            return 201, {}, self._show(len(self.comments) - 1)
        if method in ("PATCH", "PUT"):
            place = int(found[1]) - 100
            self.comments[place] = self.comments[place][0], body["body"]
            return 200, {}, self._show(place)
        page = int(parse_qs(parts.query).get("page", ["1"])[0])
        shown = [self._show(place) for place in range(len(self.comments))][(page - 1) * _PER_PAGE : page * _PER_PAGE]
        is_last = page * _PER_PAGE >= len(self.comments)
        headers = {"X-Next-Page": "" if is_last else str(page + 1)}
        if not is_last:
            headers["Link"] = f'<http://api.{GITHUB_HOST}{parts.path}?page={page + 1}>; rel="next"'
        return 200, headers, shown

    def _show(self, place: int) -> dict[str, Any]:
        author, text = self.comments[place]
        who = {"id": self._id(author), "login": author}
        return {"id": 100 + place, "body": text, "user": who, "author": who}

    def _id(self, name: str) -> int:
        return sum(name.encode())


@contextmanager
def open_forge() -> Iterator[Forge]:
    """A server on a free port of loopback."""

    class Handler(BaseHTTPRequestHandler):
        def _handle(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length) or b"{}")
            token = self.headers.get("PRIVATE-TOKEN") or self.headers.get("Authorization", "").partition(" ")[2]
            status, headers, answer = forge.answer(self.command, self.path, token, body)
            text = json.dumps(answer).encode()
            self.send_response(status)
            for name, value in {**headers, "Content-Type": "application/json"}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PATCH = do_PUT = _handle  # noqa: N815 - as the server calls them

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    forge = Forge(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield forge
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
