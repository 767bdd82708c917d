"""An experiment with chosen effects, its dossier, and a stand-in for a model's endpoint."""

import importlib.util
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

import pytest

from pgtrial.findings.findings import Effect, Findings
from pgtrial.findings.message import verbatim
from pgtrial.model.verdict import Decision
from pgtrial.narrate.dossier import Dossier, make_dossier

ARMS = ("4GB", "2GB", "placebo")  # names with digits: the control, the claim's arm, and the control's copy
# Metric and load level to ratio, low, high.
EFFECTS = {
    ("tps", "all"): (2.652, 2.581, 2.725),
    ("tps", 0): (2.312, 2.224, 2.403),
    ("tps", 1): (3.041, 2.952, 3.133),
    ("latency_mean", "all"): (0.377, 0.367, 0.388),
    ("latency_p50", "all"): (0.361, 0.349, 0.373),
    ("latency_p95", "all"): (0.412, 0.398, 0.427),
    ("latency_p99", "all"): (0.508, 0.471, 0.548),
    ("latency_p999", "all"): (0.97, 0.88, 1.069),
}
PLACEBO = {("tps", "all"): (1.004, 0.987, 1.021), ("latency_p95", "all"): (0.996, 0.975, 1.018)}


def _sample_module() -> ModuleType:
    path = Path(__file__).parents[1] / "report" / "conftest.py"
    found = importlib.util.spec_from_file_location("report_samples", path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


make_sample: Callable[..., Findings] = _sample_module().make_sample


def make_story(names: tuple[str, str, str] = ARMS) -> Findings:
    """The sample of the report's tests with effects that sentences can be written about."""
    sample = make_sample(names=names)
    return sample.model_copy(
        update={
            "effects": tuple(_effects(names[1], EFFECTS, Decision.BETTER, p_value=6.2e-7)),
            "placebo": tuple(_effects(names[2], PLACEBO, Decision.EQUIVALENT, p_value=0.62)),
            "hypothesis": sample.hypothesis.model_copy(
                update={
                    "reason": verbatim(
                        f"{names[1]} is 2.7 times as fast as {names[0]} (+165.2 %, between +158.1 % and +172.5 %), "
                        "which is beyond the margin of 3 %."
                    )
                }
            ),
        }
    )


def _effects(
    arm: str, values: dict[tuple[str, object], tuple[float, float, float]], decision: Decision, *, p_value: float
) -> Iterator[Effect]:
    for (metric, level), (ratio, low, high) in values.items():
        yield Effect(
            arm=arm,
            metric=f"pgbench.{metric}",
            better="higher" if metric == "tps" else "lower",
            scenario=None,
            load_level=level,
            ratio=ratio,
            low=low,
            high=high,
            confidence=0.95,
            p_value=p_value,
            p_adjusted=p_value,
            p_sign_flip=0.03125,
            hodges_lehmann=ratio,
            margin=0.03,
            decision=decision,
            sure=True,
            blocks=6,
            needed=None,
            block_ratios=(ratio,) * 6,
            caveats=(),
        )


@pytest.fixture(scope="session", name="make_story")
def _make_story() -> Callable[..., Findings]:
    return make_story


@pytest.fixture(scope="session")
def story() -> Findings:
    return make_story()


@pytest.fixture(scope="session")
def dossier(story: Findings) -> Dossier:
    return make_dossier(story)


class StandIn(ThreadingHTTPServer):
    """An endpoint on loopback. ``replies`` are given one after the other, the last one for ever; each is a status,
    headers and a body. ``requests`` are those that came: path, headers, body.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.replies: list[tuple[int, dict[str, str], bytes]] = []
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.release = threading.Event()  # what waits, goes on

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def say(self, text: str, **more: object) -> None:
        """A right answer with this text."""
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop", **more}
        self.reply(json.dumps({"model": "stand-in", "choices": [choice]}).encode())

    def reply(self, body: bytes, status: int = 200, **headers: str) -> None:
        self.replies.append((status, {name.replace("_", "-"): value for name, value in headers.items()}, body))


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, StandIn)
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        server.requests.append((self.path, dict(self.headers), body))
        status, headers, answer = server.replies.pop(0) if len(server.replies) > 1 else server.replies[0]
        headers = dict(headers)
        if headers.pop("X-Wait", ""):
            server.release.wait(30)
        if headers.pop("X-Hang-Up", ""):
            return
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if "Content-Length" not in headers:
            self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def do_GET(self) -> None:
        """What a redirection would lead to."""
        self.do_POST()

    def log_message(self, *_: object) -> None:
        """Nothing on standard error."""


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    server = StandIn()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.release.set()
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="session")
def minimal() -> Findings:
    found: Findings = _sample_module().make_minimal()
    return found
