"""A small folder or bundle does no large damage: sizes before contents, plain files only, little memory."""

import json
import os
import struct
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from pgtrial.cli.main import main
from pgtrial.errors import StoreError
from pgtrial.export import archive
from pgtrial.export.bundle import write_bundle
from pgtrial.store import layout
from pgtrial.store.server_log.stored import read_lines
from support import write_result_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_result_folder(tmp_path / "gift", runs=2)


def stretched(bundle: Path, size: int) -> None:
    """Say of the first entry that it holds so many bytes, as an archive of zeros would."""
    content = bytearray(bundle.read_bytes())
    at = content.find(b"PK\x01\x02")
    content[at + 24 : at + 28] = struct.pack("<L", size)
    bundle.write_bytes(content)


def test_a_bundle_that_holds_too_much_is_refused_before_it_is_read(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = tmp_path / "b.zip"
    write_bundle(folder, bundle, [])
    stretched(bundle, 0xFFFFFFF0)
    monkeypatch.setattr(archive, "_hash", lambda *_: pytest.fail("it was read"))

    with pytest.raises(StoreError, match=r"that hold 4"):
        archive.verify(bundle)


def test_a_bundle_that_has_no_room_is_refused_before_it_is_read(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = tmp_path / "b.zip"
    write_bundle(folder, bundle, [])
    monkeypatch.setattr(archive, "_hash", lambda *_: pytest.fail("it was read"))
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 10}))

    with pytest.raises(StoreError, match="has room for 10 B"):
        archive.unpack(bundle, tmp_path / "results")


def test_a_bundle_of_too_many_files_is_not_listed(tmp_path: Path) -> None:
    bundle = tmp_path / "b.zip"
    with zipfile.ZipFile(bundle, "w") as packed:
        for number in range(20_000):
            packed.writestr(f"x/{number}", b"")

    with pytest.raises(StoreError, match="too many files"):
        archive.verify(bundle)


@pytest.mark.parametrize("name", [f"x/{'d/' * 2000}f", f"x/{'d/' * 10}f"])
def test_a_deep_path_is_no_entry(tmp_path: Path, name: str) -> None:
    bundle = tmp_path / "b.zip"
    with zipfile.ZipFile(bundle, "w") as packed:
        packed.writestr(name, b"")

    with pytest.raises(StoreError, match="is not a bundle: it has an entry"):
        archive.verify(bundle)


def test_deep_facts_of_a_bundle_are_damage(folder: Path, tmp_path: Path) -> None:
    (folder / archive.FACTS).write_text("[" * 100_000)

    with pytest.raises(StoreError, match="is not what it should be"):
        archive.read_facts(folder)


def test_a_pipe_blocks_nobody(folder: Path, tmp_path: Path) -> None:
    for name in (layout.LOCK, layout.LIVE, layout.FINDINGS, archive.FACTS):
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)
    os.mkfifo(tmp_path / "pipe.zip")

    assert main(["status", str(folder)]) == 0
    assert main(["report", str(folder)]) == 0
    assert main(["unpack", str(tmp_path / "pipe.zip")]) == 1


def test_one_line_of_a_log_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "server.jsonl"
    with path.open("wb") as file:
        file.truncate(400 << 20)
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + json.dumps({"message": "x"}).encode() + b"\n")
    tracemalloc.start()
    try:
        assert [json.loads(line) for line in read_lines(path)] == [{"message": "x"}]
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()
