"""Alarms to a webhook: what is posted, how often, what it may cost, and that its address is in no message."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from pgtrial.cli.main import main
from pgtrial.stats.alarms.audit import audit
from pgtrial.stats.alarms.blocks import Aspect
from pgtrial.watch import alarms
from pgtrial.watch.alarms import Watched
from pgtrial.watch.folder import Ages, Mark, open_folder
from pgtrial.watch.layout import DAY, HOUR, look
from pgtrial.watch.raised import Kept, ServerAlarm, Shift
from pgtrial.watch.sums import COUNTERS
from pgtrial.watch.webhook import TRIES, WebhookError, new_alarms, parse_webhook, post, remember
from pgtrial.watch.windows import Window

END = 1795824000 + 20 * DAY
TOKEN = "/services/T0KEN"


class Receiver(HTTPServer):
    """Answers with the statuses that it is told, the last one for ever."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.statuses = [200]
        self.got: list[tuple[str, dict[str, Any]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}{TOKEN}"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.got.append((self.path, content))
        statuses = self.server.statuses
        status = statuses.pop(0) if len(statuses) > 1 else statuses[0]
        self.send_response(status)
        if status == 302:
            self.send_header("Location", f"http://127.0.0.1:{self.server.server_port}/elsewhere")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with open_folder(
        tmp_path / "w", Mark(server="db1:5432", database="shop"), ages=Ages(), counters=COUNTERS, keep_free=0
    ):
        pass
    return tmp_path / "w"


def shift(onset: int) -> Shift:
    return Shift(
        signal="commits",
        part="",
        text="",
        aspect=Aspect.LEVEL,
        is_more=False,
        size=0.8,
        low=0.75,
        high=0.85,
        onset=onset,
    )


def found(*at: int, end: int = END) -> Watched:
    return Watched(
        calm=Window(END - 20 * DAY, END - 5 * DAY),
        rest=Window(END - 5 * DAY, end),
        columns=(),
        alarms=tuple(ServerAlarm(at=each, shifts=(shift(each - 600),)) for each in at),
        audit=audit(len(at), days=5.0),
        kept=Kept(since=END - 5 * DAY, until=END - 5 * DAY, days=0.0, alarms=()),
    )


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/hook",
        "http://127.0.0.1.example.com/hook",
        "http://10.0.0.1/hook",
        "ftp://127.0.0.1/hook",
        "https://me:T0KEN@example.com/hook",
        "https://exa mple.com/T0KEN",
        "https:///T0KEN",
        "https://example.com:99999/T0KEN",
        "file:///etc/passwd",
        "T0KEN",
    ],
)
def test_an_address_in_the_open_or_none_is_refused_and_not_shown(
    folder: Path, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["alarms", str(folder), "--webhook", url]) == 2
    said = capsys.readouterr().err
    assert "--webhook" in said
    assert "T0KEN" not in said


@pytest.mark.parametrize(
    "url", ["https://example.com/x", "http://localhost:1/x", "http://[::1]:8/x", "http://127.0.0.2/"]
)
def test_https_and_this_machine_are_taken(url: str) -> None:
    assert parse_webhook(url).url == url


def test_each_alarm_is_posted_once(
    receiver: Receiver, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PGTRIAL_WEBHOOK", receiver.url)
    monkeypatch.setattr(alarms, "find_alarms", lambda *_: found(END - 3 * DAY, END - 600))
    assert main(["alarms", str(folder)]) == 0
    assert main(["alarms", str(folder)]) == 0
    ((path, content),) = receiver.got
    assert path == TOKEN
    assert content["server"] == "db1:5432"
    ((alarm),) = content["alarms"]
    assert alarm["at"] == "2026-12-17T23:50:00+00:00"
    assert alarm["changes"][0]["ratio"] == 0.8
    assert content["text"] == (
        "2026-12-17T23:50 UTC, database shop at db1:5432: commits lower (−20.0 %) since 2026-12-17T23:40"
    )

    # Days later, however long nothing was asked: what came since, and no more.
    monkeypatch.setattr(
        alarms, "find_alarms", lambda *_: found(END - 3 * DAY, END - 600, END + HOUR, END + DAY, end=END + 2 * DAY)
    )
    assert main(["alarms", str(folder), "--json"]) == 0
    assert [each["at"] for each in receiver.got[1][1]["alarms"]] == [
        "2026-12-18T01:00:00+00:00",
        "2026-12-19T00:00:00+00:00",
    ]
    captured = capsys.readouterr()
    assert f"posted 2 alarms to 127.0.0.1:{receiver.server_port}" in captured.err
    assert "T0KEN" not in captured.err + captured.out
    assert TOKEN not in (folder / "posted.json").read_text()
    assert look(folder).left_over == ()  # what the folder keeps of it is no foreign file


def test_two_webhooks_get_it_each(receiver: Receiver, folder: Path) -> None:
    one, other = parse_webhook(receiver.url), parse_webhook(f"{receiver.url}/2")
    remember(folder, one, found(END - 600))

    assert new_alarms(folder, one, found(END - 600)) == ()
    assert len(new_alarms(folder, other, found(END - 600))) == 1


def test_no_alarm_is_lost_between_two_runs_that_are_far_apart(receiver: Receiver, folder: Path) -> None:
    hook = parse_webhook(receiver.url)
    remember(folder, hook, found())

    assert len(new_alarms(folder, hook, found(END + 600, end=END + DAY))) == 1


def test_what_passes_is_tried_again_and_then_said(receiver: Receiver) -> None:
    pauses: list[float] = []
    receiver.statuses = [503, 429, 200]
    post(parse_webhook(receiver.url), {}, pause=pauses.append)
    assert pauses == [1.0, 2.0]

    receiver.got.clear()
    receiver.statuses = [500]
    with pytest.raises(WebhookError, match="answers with HTTP 500"):
        post(parse_webhook(receiver.url), {}, pause=pauses.append)
    assert len(receiver.got) == TRIES


@pytest.mark.parametrize("status", [302, 400, 403, 404])
def test_what_does_not_pass_is_not_tried_again_and_a_redirection_not_followed(
    receiver: Receiver, folder: Path, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(alarms, "find_alarms", lambda *_: found(END - 600))
    receiver.statuses = [status]
    assert main(["alarms", str(folder), "--webhook", receiver.url]) == 1
    said = capsys.readouterr().err
    assert f"the webhook at 127.0.0.1:{receiver.server_port} answers with HTTP {status}" in said
    assert "T0KEN" not in said
    assert [path for path, _ in receiver.got] == [TOKEN]
    # It has not got them, so the next run posts them.
    receiver.statuses = [200]
    assert main(["alarms", str(folder), "--webhook", receiver.url]) == 0
    assert len(receiver.got) == 2


def test_nobody_there_is_said_without_the_address(folder: Path) -> None:
    with Receiver() as server:
        url = server.url
    with pytest.raises(WebhookError, match="cannot be reached") as caught:
        post(parse_webhook(url), {}, pause=lambda _: None)
    assert "T0KEN" not in f"{caught.value.message} {caught.value.detail} {caught.value.hint}"


@pytest.mark.parametrize("content", ["", "[]", '{"a": "x"}', '{"a": true}', "{" * 70_000])
def test_a_damaged_note_is_said(
    folder: Path, receiver: Receiver, content: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alarms, "find_alarms", lambda *_: found(END - 600))
    (folder / "posted.json").write_text(content)
    assert main(["alarms", str(folder), "--webhook", receiver.url]) == 1
    assert "posted.json" in capsys.readouterr().err
    assert receiver.got == []
