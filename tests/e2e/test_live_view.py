"""An experiment on a real server, looked at while it runs: on a terminal, and in its folder."""

import contextlib
import fcntl
import os
import pty
import re
import struct
import termios
import threading
import time
from collections.abc import Iterator

import pytest

from pgtrial.engine.live.live_file import read_live
from pgtrial.engine.live.view import LiveView
from pgtrial.store import layout

COLUMNS, LINES = 100, 24
PATIENCE = 240.0  # s
# Clients that mostly sleep leave the processors to what runs at the same time.
LIGHT = """\\set id random(1, 100000)
SELECT pg_sleep(0.01);
UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :id;
"""


@contextlib.contextmanager
def terminal() -> Iterator[tuple[int, list[bytes]]]:
    """(the end that a program gets, what it has written there)."""
    own, others = pty.openpty()
    fcntl.ioctl(others, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    written: list[bytes] = []

    def read() -> None:
        with contextlib.suppress(OSError):  # so it is told that nobody writes any more
            while data := os.read(own, 65536):
                written.append(data)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield others, written
    finally:
        os.close(others)
        reader.join(PATIENCE)
        os.close(own)


@pytest.mark.parametrize(
    ("method", "runs"),
    [
        ("", "run 1 of 6"),
        pytest.param('method = "interleaved"\nslice = "250ms"\n', "runs 1 to 2 of 6", marks=pytest.mark.thorough),
    ],
)
def test_a_run_can_be_watched(place, settled_kernel, method: str, runs: str) -> None:
    (place.directory / "light.sql").write_text(LIGHT)
    place.write_experiment(
        ('mix      = "simple-update"', 'scenario = [{ name = "light", file = "light.sql" }]'),
        ("blocks = 2", f"{method}blocks = 3"),
        ('duration = "2s"', 'duration = "4s"'),
        ('warmup   = "1s"', "warmup = 0"),
    )
    seen: list[LiveView] = []
    with (
        settled_kernel(changing=False),
        terminal() as (stderr, written),
        place.start_on_terminal(
            "run", "small.toml", "--work-directory", str(place.storage), terminal=stderr
        ) as process,
    ):
        try:
            deadline = time.monotonic() + PATIENCE
            while process.poll() is None and time.monotonic() < deadline:
                for folder in place.folders():
                    view = read_live(folder.path)
                    if view is not None:
                        seen.append(view)
                time.sleep(0.2)
        finally:
            process.kill()
        assert process.returncode == 0
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", b"".join(written).decode())

    assert runs in text
    assert re.search(r"▸ (on|off) +[\d.]+( k)? [▁▂▃▄▅▆▇█ ]+", text)
    assert re.search(r"waits  (on|off) .* \d+ %", text)
    assert re.search(r"so far off against on, throughput: .* after 3 blocks", " ".join(text.split()))
    assert [arm.name for arm in seen[-1].arms] == ["on", "off"]
    # Not in every view: on a busy machine a run of a few seconds may be over before it is read.
    arms = [arm for view in seen for arm in view.arms]
    assert {arm.name for arm in arms if any(arm.p95)} == {"on", "off"}
    assert {arm.name for arm in arms if arm.waits} == {"on", "off"}
    # Of turns it is told when a level is a few seconds old.
    assert method or {arm.name for arm in arms if any(arm.tps)} == {"on", "off"}
    assert not (place.only_folder().path / layout.LIVE).exists()
