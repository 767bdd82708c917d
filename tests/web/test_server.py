"""The server over HTTP: who is let in, what is answered, what never is."""

import contextlib
import http.client
import json
import math
import os
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pgtrial.store import layout
from pgtrial.web.server import _SOON, STATIC
from support import wait_until, write_result_folder

PATIENCE = 30.0  # s
NO_COOKIE = {"Cookie": None}
PAGES = ("/", "/api/experiments", "/events", "/static/app.js", "/compare", "/api/compare")


def csp(answer: Any) -> dict[str, str]:
    """Directives of an answer's policy."""
    parts = (part.strip().partition(" ") for part in answer.headers["Content-Security-Policy"].split(";"))
    return {name: value for name, _, value in parts}


# -- who is let in ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PAGES)
def test_without_token_or_cookie_there_is_nothing_to_see(client, path: str) -> None:
    answer = client.ask(path, headers=NO_COOKIE)

    assert answer.status == 401
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert b"finished" not in answer.body


def test_the_token_is_exchanged_for_a_cookie_once(client) -> None:
    answer = client.ask(f"/compare?token={client.server.access.token}", headers=NO_COOKIE)

    assert answer.status == 200
    assert b'content="0; url=/compare"' in answer.body
    assert client.server.access.token.encode() not in answer.body
    assert client.server.access.token not in str(answer.headers)
    cookie = answer.headers["Set-Cookie"]
    assert cookie.startswith(f"pgtrial-{client.server.server_port}=")
    assert cookie.endswith("; HttpOnly; SameSite=Strict; Path=/")
    assert client.ask("/", headers={"Cookie": cookie.partition(";")[0]}).status == 200


@pytest.mark.parametrize("token", ["", "x", "%C3%A9", "%00"])
def test_a_wrong_token_is_refused_even_with_the_cookie(client, token: str) -> None:
    assert client.ask(f"/?token={token}").status == 401


@pytest.mark.parametrize("path", ["//evil.example/", "/\\evil.example", "/%2f%2fevil.example", "/nowhere"])
def test_a_token_leads_nowhere_else(client, path: str) -> None:
    answer = client.ask(f"{path}?token={client.server.access.token}", headers=NO_COOKIE)

    assert b'content="0; url=/"' in answer.body
    assert b"evil" not in answer.body


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "192.168.1.2", "", None])
def test_a_name_that_is_not_this_machines_is_refused(client, host: str | None) -> None:
    """A page of another site may have its own name mean 127.0.0.1 (DNS rebinding)."""
    answer = client.ask(f"/?token={client.server.access.token}", headers={"Host": host})

    assert answer.status == 403
    assert "Set-Cookie" not in answer.headers


@pytest.mark.parametrize(
    "method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get", "X" * 100]
)
def test_nothing_but_reading_is_allowed(client, method: str) -> None:
    answer = client.ask("/", method=method)

    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize("path", ["/", "/api/experiments", "/events", "/static/style.css", "/nowhere"])
def test_head_is_get_without_a_body(client, path: str) -> None:
    answer = client.ask(path, method="HEAD")

    assert answer.body == b""
    if path != "/events":
        assert answer.headers["Content-Length"] == client.ask(path).headers["Content-Length"]


# -- what is answered ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [*PAGES[:2], "/static/app.js", "/nowhere", "/reports/0123456789abcdef"])
def test_every_answer_says_what_browsers_must_refuse(client, path: str) -> None:
    answer = client.ask(path)

    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert csp(answer)["default-src"] == "'none'"
    assert csp(answer)["frame-ancestors"] == "'none'"
    assert "Access-Control-Allow-Origin" not in answer.headers
    assert answer.headers["Server"] == "pgtrial"


def test_the_page_runs_no_script_but_its_own(client) -> None:
    policy = csp(client.ask("/"))

    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["require-trusted-types-for"] == "'script'"
    assert "unsafe" not in str(policy)


def test_a_report_is_sent_as_it_was_built_into_a_sandbox(client, shelf: Path) -> None:
    answer = client.ask(f"/reports/{client.id_of('finished')}")

    assert answer.status == 200
    assert answer.body == (shelf / "finished" / layout.REPORT).read_bytes()
    policy = csp(answer)
    assert policy["sandbox"] == "allow-scripts"
    assert policy["default-src"] == "'none'"
    assert "connect-src" not in policy
    assert policy["frame-ancestors"] == "'self'"


def test_the_list_has_every_experiment(client) -> None:
    found = client.ask("/api/experiments").json

    assert {one["name"]: one["state"] for one in found["experiments"]} == {
        "finished": "complete",
        "stopped": "interrupted",
    }


def test_one_experiment_is_told_alone(client) -> None:
    found = client.ask(f"/api/experiments/{client.id_of('stopped')}").json

    assert found["experiment"]["name"] == "stopped"
    assert found["live"] is None


def test_two_experiments_stand_side_by_side(client) -> None:
    one = client.id_of("finished")
    found = client.ask(f"/api/compare?a={one}&b={one}").json

    assert found["names"] == ["finished", "finished"]
    assert found["world"] == []


def test_an_experiment_without_findings_is_not_compared(client) -> None:
    answer = client.ask(f"/api/compare?a={client.id_of('finished')}&b={client.id_of('stopped')}")

    assert answer.status == 404
    assert answer.json["error"].startswith('"stopped" has not been analysed yet')


@pytest.mark.parametrize("query", ["", "?a=1&b=2", f"?a={16 * 'a'}", f"?a={16 * 'a'}&b=../{16 * 'b'}"])
def test_a_comparison_needs_two(client, query: str) -> None:
    assert client.ask(f"/api/compare{query}").json == {"error": "two experiments are needed for a comparison."}


@pytest.mark.parametrize(
    "path",
    [
        "/..",
        "/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/static/../../../etc/passwd",
        "/static/%2e%2e/access.py",
        "/reports/../finished/report.html",
        "/reports/finished",
        "/reports/..%2f..%2fetc%2fpasswd",
        "/reports/0123456789abcdef",
        "/experiments/..",
        "/finished/report.html",
        "/finished/state.sqlite",
        "http://127.0.0.1/",
        "*",
        "/api/experiments/",
        "/static/",
        "/static/index.html",
        "/static/server.py",
    ],
)
def test_no_address_leads_out_of_what_is_served(client, path: str) -> None:
    answer = client.ask(path)

    assert answer.status == 404
    assert b"root:" not in answer.body


@pytest.mark.parametrize(
    "form", ["/reports/{}/", "/reports/{}/../x", "/reports/{}0", "/reports/{}%0a", "/reports/{}%00"]
)
def test_an_id_stands_alone(client, form: str) -> None:
    place_id = client.id_of("finished")

    assert client.ask(form.format(place_id)).status == 404
    assert client.ask(f"/reports/{place_id.upper()}").status == 404


def test_every_file_of_the_page_is_there_and_none_of_it_is_inline(client) -> None:
    page = client.ask("/").body.decode()

    assert all(client.ask(f"/static/{name}").status == 200 for name in STATIC)
    for name in ("app.js", "style.css"):
        assert f"/static/{name}" in page
    assert "<style" not in page
    assert " style=" not in page
    assert " on" not in page.replace(" on ", "")
    assert page.count("<script") == page.count('<script type="module" src=') == 1


def test_links_lead_nowhere(tmp_path: Path, serve) -> None:
    secret = tmp_path / "secret.html"
    secret.write_text("secret")
    write_result_folder(tmp_path / "results" / "first", runs=1)
    (tmp_path / "results" / "first" / layout.REPORT).symlink_to(secret)
    client = serve(tmp_path / "results")
    answer = client.ask(f"/reports/{client.id_of('first')}")

    assert answer.status == 404
    assert b"secret" not in answer.body


@pytest.mark.parametrize(
    "name",
    ["<img src=x onerror=alert(1)>", "=cmd|' 'C calc'!A0", "x\r\nSet-Cookie: a=b", "ü\u202e", os.fsdecode(b"\xff")],
)
def test_a_hostile_name_is_only_a_text(tmp_path: Path, shelf: Path, serve, name: str) -> None:
    shutil.copytree(shelf / "finished", tmp_path / name)
    client = serve(tmp_path)
    (one,) = client.ask("/api/experiments").json["experiments"]
    answer = client.ask(f"/reports/{one['id']}")

    assert answer.status == 200
    assert "Set-Cookie" not in answer.headers
    assert one["name"].isprintable()


def test_a_directory_that_vanishes_is_said(tmp_path: Path, serve) -> None:
    (tmp_path / "results").mkdir()
    client = serve(tmp_path / "results")
    (tmp_path / "results").rmdir()
    answer = client.ask("/api/experiments")

    assert answer.status == 404
    assert answer.json["error"].startswith("cannot read")


# -- what is told as it happens --------------------------------------------------------------------------------------


@contextlib.contextmanager
def listening(client, path: str) -> Iterator[Callable[[], tuple[str, Any]]]:
    """Next event: (its name, its data)."""
    server = client.server
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=PATIENCE)
    with contextlib.closing(connection):
        connection.request("GET", path, headers={"Cookie": f"{server.access.cookie_name}={server.access.session}"})
        response = connection.getresponse()
        assert response.getheader("Content-Type") == "text/event-stream; charset=utf-8"

        def following() -> tuple[str, Any]:
            name = "message"
            while True:
                line = response.readline().decode()
                assert line, "the server has gone"
                if line.startswith("event: "):
                    name = line[7:].strip()
                if line.startswith("data: "):
                    return name, json.loads(line[6:])

        yield following


def test_the_list_grows_while_somebody_looks(tmp_path: Path, serve) -> None:
    client = serve(tmp_path)
    with listening(client, "/events") as following:
        assert following()[1]["experiments"] == []
        write_result_folder(tmp_path / ".part", runs=3).rename(tmp_path / "first")
        (one,) = following()[1]["experiments"]

    assert (one["name"], one["done"]) == ("first", 3)


def test_after_a_change_the_next_look_is_soon_however_long_reading_it_took(tmp_path, serve, monkeypatch) -> None:
    latest: list[float] = []  # s, of each look: the next one is no later

    def next_pause(cost: float, *, most: float) -> float:
        latest.append(most)
        return 0.01

    monkeypatch.setattr("pgtrial.web.server.next_pause", next_pause)
    client = serve(tmp_path)
    with listening(client, "/events") as following:
        following()
        wait_until(lambda: math.inf in latest)
        write_result_folder(tmp_path / ".part", runs=1).rename(tmp_path / "first")
        following()
        wait_until(lambda: latest.count(_SOON) == 2)

    assert latest[0] == _SOON


def test_an_experiment_that_vanishes_is_told_and_ends_the_telling(tmp_path: Path, serve) -> None:
    write_result_folder(tmp_path / "first", runs=1)
    client = serve(tmp_path)
    with listening(client, f"/events/{client.id_of('first')}") as following:
        assert following()[1]["experiment"]["name"] == "first"
        (tmp_path / "first").rename(tmp_path / ".gone")

        assert following() == ("gone", {"error": "this experiment is not there, or not any more"})


def test_what_is_told_ends_with_the_server(tmp_path: Path, serve) -> None:
    client = serve(tmp_path)
    with listening(client, "/events") as following:
        following()
        client.server.stopping.set()
        with pytest.raises(AssertionError, match="the server has gone"):
            following()


def test_events_of_nothing_are_an_error(client) -> None:
    assert client.ask("/events/0123456789abcdef").status == 404


# -- what is no request ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"GET /<script> HTTP/9.9\r\n\r\n", b"505"),
        (b"nonsense <script>\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\n\r\n", b"403"),
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", b"414"),
        (b"GET / HTTP/1.1\r\n" + b"".join(b"X%d: 1\r\n" % n for n in range(200)) + b"\r\n", b"431"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", b"403"),
    ],
)
def test_what_is_no_request_is_refused_without_being_repeated(client, raw: bytes, status: bytes) -> None:
    with socket.create_connection(("127.0.0.1", client.server.server_port), timeout=PATIENCE) as connection:
        connection.sendall(raw)
        connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionResetError):
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
            assert answer.split()[1] == status
            assert b"<script>" not in answer


def test_a_body_is_not_taken_for_the_next_request(client) -> None:
    access = client.server.access
    head = f"Host: localhost\r\nCookie: {access.cookie_name}={access.session}\r\n"
    second = f"GET /api/experiments HTTP/1.1\r\n{head}\r\n"
    raw = f"GET / HTTP/1.1\r\n{head}Content-Length: {len(second)}\r\n\r\n{second}"
    with socket.create_connection(("127.0.0.1", client.server.server_port), timeout=PATIENCE) as connection:
        connection.sendall(raw.encode())
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while data := connection.recv(65536):
                answer += data

    assert answer.count(b"HTTP/1.1 ") == 1


def test_one_connection_serves_several_requests(client) -> None:
    server = client.server
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=PATIENCE)
    headers = {"Cookie": f"{server.access.cookie_name}={server.access.session}"}
    with contextlib.closing(connection):
        for path in ("/", "/api/experiments", "/static/dom.js"):
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            assert response.status == 200
            assert response.read()
            assert connection.sock is not None


def test_a_neighbour_with_many_connections_that_trickle_keeps_nobody_out(client) -> None:
    """The ones that have been waited for longest are closed instead."""
    port = client.server.server_port
    with contextlib.ExitStack() as stack:
        opened = [
            stack.enter_context(contextlib.closing(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)))
            for _ in range(200)
        ]
        for one in opened:
            with contextlib.suppress(ConnectionError):
                one.sendall(b"GET / HTTP/1.1\r\nX: ")
        begun = time.monotonic()

        assert client.ask("/").status == 200
        assert time.monotonic() - begun < PATIENCE
        with contextlib.suppress(ConnectionError):
            assert opened[0].recv(1) == b""


def test_a_request_has_to_be_whole_in_time_and_an_answer_may_last(tmp_path: Path, serve) -> None:
    client = serve(tmp_path, patience=2.0)
    with listening(client, "/events") as following:
        following()
        trickling = socket.create_connection(("127.0.0.1", client.server.server_port), timeout=0.05)
        with trickling, contextlib.suppress(ConnectionError):
            trickling.sendall(b"GET / HTTP/1.1\r\nX: ")
            while True:
                with contextlib.suppress(TimeoutError):
                    assert trickling.recv(1) == b""
                    break
                trickling.sendall(b"x")
        write_result_folder(tmp_path / ".part", runs=1).rename(tmp_path / "first")

        assert following()[1]["experiments"]


def test_an_interrupt_is_not_lost_while_a_connection_is_given_its_thread(
    client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python waits there until the thread has begun, which may by then have answered and ended."""
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        thread.join(PATIENCE)
        raise KeyboardInterrupt

    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.shutdown(socket.SHUT_WR)
        monkeypatch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            client.server.process_request(theirs, ("127.0.0.1", 1))
