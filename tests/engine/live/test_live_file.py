import json
import os
import zlib
from pathlib import Path
from typing import Any

import pytest

from pgtrial.engine.live.view import ArmView, LiveFile, LiveView, read_live
from pgtrial.model.arm import Role
from pgtrial.store import layout
from support.live import make_estimate, make_view

VIEW = make_view(
    [
        ArmView(
            name="off",
            role=Role.CANDIDATE,
            is_at_work=True,
            runs_done=0,
            tps_now=1234.0,
            p95_now=None,
            tps=(1200.0, None, 1300.0),
            p95=(),
            waits=(("IO:WALSync", 1.5), ("CPU", 0.25)),
        ),
    ],
    make_estimate(1.5, None, None, margin=0.03),
    t=1767225600.5,
    run=3,
    block=1,
    spent=3.5,
    length=31.0,
    tps=1234.0,
    remaining=600.0,
    share_done=0.125,
)


def put(folder: Path, value: Any) -> None:
    """A file as somebody else might make it, with a checksum that is right."""
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    (folder / layout.LIVE).write_bytes(b"%08x %d\n%s\n" % (zlib.crc32(text), len(text), text))


def test_what_was_written_is_read(tmp_path: Path) -> None:
    LiveFile(folder=tmp_path).write(VIEW)

    assert read_live(tmp_path) == VIEW


def test_a_shorter_record_replaces_a_longer_one(tmp_path: Path) -> None:
    file = LiveFile(folder=tmp_path)
    file.write(VIEW)
    shorter = LiveView(**{**{name: getattr(VIEW, name) for name in LiveView.__dataclass_fields__}, "arms": ()})
    file.write(shorter)

    assert read_live(tmp_path) == shorter


def test_a_record_half_written_is_none(tmp_path: Path) -> None:
    LiveFile(folder=tmp_path).write(VIEW)
    data = bytearray((tmp_path / layout.LIVE).read_bytes())
    data[60:70] = b"0123456789"
    (tmp_path / layout.LIVE).write_bytes(data)

    assert read_live(tmp_path) is None


def test_it_goes_away_when_it_is_not_needed_any_more(tmp_path: Path) -> None:
    file = LiveFile(folder=tmp_path)
    file.remove()
    file.write(VIEW)
    file.remove()

    assert list(tmp_path.iterdir()) == []
    assert read_live(tmp_path) is None


def test_one_that_was_not_made_here_stays(tmp_path: Path) -> None:
    LiveFile(folder=tmp_path).write(VIEW)
    LiveFile(folder=tmp_path).remove()

    assert read_live(tmp_path) == VIEW


def test_a_place_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    file = LiveFile(folder=tmp_path / "none")
    file.write(VIEW)
    file.remove()

    assert list(tmp_path.iterdir()) == []


def test_links_and_pipes_are_neither_written_nor_read(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("precious")
    (tmp_path / layout.LIVE).symlink_to("target")
    assert read_live(tmp_path) is None
    LiveFile(folder=tmp_path).write(VIEW)
    assert (tmp_path / "target").read_text() == "precious"
    assert read_live(tmp_path) == VIEW

    (tmp_path / layout.LIVE).unlink()
    os.mkfifo(tmp_path / layout.LIVE)
    assert read_live(tmp_path) is None


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"t": "now"},
        {"t": -1},
        {"t": 1e300},
        {"t": True},
        {"run": 1.5},
        {"state": None},
        {"state": "x" * 5000},
        {"arms": {}},
        {"arms": [1]},
        {"arms": [{"name": "off"}]},
        {"arms_at_work": "off"},
        {"estimate": []},
        {"estimate": {"arm": "<script>"}},
    ],
)
def test_what_is_no_view_is_none(tmp_path: Path, change: dict[str, Any]) -> None:
    put(tmp_path, {**json.loads(json.dumps(VIEW.as_dict())), **change})

    assert read_live(tmp_path) is None


@pytest.mark.parametrize("text", [b"", b"[]", b"null", b"{", b"[" * 100_000, b'{"format":1}', b"NaN", b"\xff"])
def test_what_is_no_object_is_none(tmp_path: Path, text: bytes) -> None:
    put(tmp_path, text)

    assert read_live(tmp_path) is None


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"zz 3\nabc\n", b"00000000 -5\nabc\n", b"1 2 3\n", b"00000000 " + b"9" * 9000]
)
def test_what_has_no_head_is_none(tmp_path: Path, data: bytes) -> None:
    (tmp_path / layout.LIVE).write_bytes(data)

    assert read_live(tmp_path) is None
