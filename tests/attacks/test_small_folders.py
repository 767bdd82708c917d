"""A small folder or bundle does no large damage: sizes before contents, plain files only, little memory."""

import json
import os
import sqlite3
import struct
import time
import tracemalloc
import zipfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import pytest
from pydantic import ValidationError

from pgtrial.analysis.log_pairing import add_up, pair_entries
from pgtrial.cli.main import main
from pgtrial.errors import SpecError, StoreError
from pgtrial.experiment_file.code_uses import find_in_sql
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.export import archive
from pgtrial.export.bundle import write_bundle
from pgtrial.findings.findings import Findings
from pgtrial.postgres.existing.log import LogMark, _write
from pgtrial.postgres.existing.log_place import LogFormat, LogPlace
from pgtrial.safe_files import open_file
from pgtrial.safe_text import parse_json
from pgtrial.store import layout
from pgtrial.store.server_log.entry import LogEntry
from pgtrial.store.server_log.stored import read_lines
from pgtrial.workloads import psql_script
from pgtrial.workloads.psql_script import PsqlScript, ScriptError
from pgtrial.workloads.scenarios import setup_sql
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


@pytest.mark.parametrize(
    "text",
    [
        "\\" * 200_000,
        "\\ " * 200_000,
        "\\shell x\n" * 100_000,
        "do execute x; " * 100_000,
        "ALTER DEFAULT PRIVILEGES " + "GRANT " * 200_000,
        "copy x from stdin " * 50_000 + ";x",
    ],
    ids=["backslashes", "spaced backslashes", "many lines", "one line", "grants", "copies"],
)
def test_the_time_to_read_a_script_grows_with_its_size_only(text: str, tmp_path: Path) -> None:
    (tmp_path / "load.sql").write_text(f"{text}\n")

    begin = time.process_time()
    list(find_in_sql("load.sql", text))
    PsqlScript.read(tmp_path / "load.sql")

    assert time.process_time() - begin < 10  # it was minutes


@pytest.mark.parametrize(
    "unit", [b"x", b"\\x ", b"x\n", b"grant x to y; "], ids=["one line", "commands", "lines", "roles"]
)
def test_of_a_file_to_load_no_more_is_read_than_takes_seconds(unit: bytes, tmp_path: Path, monkeypatch) -> None:
    with (tmp_path / "load.sql").open("wb") as file:
        for _ in range(100):
            file.write(unit * ((1 << 20) // len(unit)))
    opened: list[int] = []  # a copy of a descriptor has the same position in the file

    def opening(path: Path, *, follow: bool) -> BinaryIO:
        file = open_file(path, follow=follow)
        opened.append(os.dup(file.fileno()))
        return file

    monkeypatch.setattr(psql_script, "open_file", opening)
    script = PsqlScript.read(tmp_path / "load.sql")

    (position,) = [os.lseek(each, 0, os.SEEK_CUR) for each in opened]
    os.close(opened[0])
    assert position <= 66 << 20
    more = ["more escapes than are looked at"] if unit == b"\\x " else []
    assert [use.what for use in script.uses] == ["more statements than are looked at", *more]


def test_data_of_a_file_to_load_are_passed_over_and_what_follows_is_looked_at(tmp_path: Path) -> None:
    row = b"\\! no command\t\\N\n\\.x\n"
    with (tmp_path / "load.sql").open("wb") as file:
        file.write(b"COPY t FROM stdin;\r\n")
        for _ in range(80):
            file.write(row * ((1 << 20) // len(row)))
        lines = 80 * 2 * ((1 << 20) // len(row))
        file.write(b"\\.\r\n\\! id\nCOPY t FROM stdin;\n\\.\n\\! who\n")

    script = PsqlScript.read(tmp_path / "load.sql")

    assert [(use.where, use.what) for use in script.uses] == [
        (f"load.sql, line {lines + 3}", "a shell command: \\! id"),
        (f"load.sql, line {lines + 6}", "a shell command: \\! who"),
    ]


def test_rows_to_insert_leave_room_for_what_follows_them(tmp_path: Path) -> None:
    row = "INSERT INTO t VALUES (1, '" + "text " * 50 + "');\n"
    (tmp_path / "load.sql").write_text(row * 100_000 + "ALTER TABLE t OWNER TO alice;\n\\! id\n")

    script = PsqlScript.read(tmp_path / "load.sql")

    assert script.roles == {"alice"}
    assert [use.where for use in script.uses] == ["load.sql, line 100002"]


def test_files_that_read_each_other_again_and_again_are_refused(tmp_path: Path) -> None:
    for number in range(8):
        (tmp_path / f"{number}.sql").write_text(f"\\i {number + 1}.sql\n" * 50)
    (tmp_path / "8.sql").write_text("SELECT 1;\n")

    with pytest.raises(ScriptError, match="more than 1000 files are read"):
        PsqlScript.read(tmp_path / "0.sql")


def test_a_pipe_among_the_data_to_load_does_not_block(tmp_path: Path) -> None:
    (tmp_path / "load.sql").write_text("\\i pipe\n")
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(ScriptError, match="does not exist"):
        PsqlScript.read(tmp_path / "load.sql")
    with pytest.raises(OSError, match="not a plain file"):
        PsqlScript.read(tmp_path / "pipe")


@pytest.mark.parametrize(("size", "told"), [(30 << 30, "more than 16 MB"), (None, "not a plain file")])
def test_a_script_is_a_plain_file_of_bounded_size(size: int | None, told: str, tmp_path: Path) -> None:
    if size is None:
        os.mkfifo(tmp_path / "setup.sql")
    else:
        with (tmp_path / "setup.sql").open("w") as file:
            file.write("SELECT 1;\n")
            file.truncate(size)
    experiment = Experiment.model_validate(
        {
            "format": 1,
            "experiment": {"name": "x"},
            "dataset": {"scale": 1, "setup": "setup.sql"},
            "workload": {"mix": "select-only"},
            "arms": {"a": {}, "b": {}},
        }
    )

    with pytest.raises(SpecError, match=told):
        setup_sql(experiment, tmp_path)


def test_a_log_with_another_name_in_each_line_takes_little_memory(tmp_path: Path) -> None:
    def lines() -> Iterator[LogEntry]:
        for number in range(40_000):
            entry = LogEntry(t=float(number), pid=number, severity="ERROR", sqlstate=f"{number:05}" * 200, message="x")
            yield entry
            lock = f"process {number} still waiting for ShareLock on transaction {number} after 1000.000 ms"
            yield replace(entry, severity="LOG", sqlstate="", message=lock)

    events = add_up(pair_entries(1, lines(), is_own=lambda _name: False))

    assert len(events) < 10_000
    assert sum(event.count for event in events) == 80_000
    assert max(len(event.object) for event in events) <= 240


_TIME = b"2026-01-02 03:04:05.678 UTC"
_CSV = (
    _TIME
    + b',"u","d",7,"[local]",1.7,1,"SELECT",2026-01-02 03:04:05 UTC,1/1,0,ERROR,22012,"%b",,,,,,,,,"","client",,0\n'
)


@pytest.mark.parametrize(
    ("form", "begin", "unit", "end"),
    [
        (LogFormat.TEXT, _TIME + b" [7] ERROR:  ", b"x" * 1000, b"\n"),
        (LogFormat.TEXT, _TIME + b" [7] ERROR:  ", b"x" * 2000 + b"\n\t", b"\n"),
        (LogFormat.TEXT, _TIME + b" [7] ERROR:  x\n" + _TIME + b" [7] DETAIL:  ", b"x" * 2000 + b"\n\t", b"\n"),
        (LogFormat.CSV, _CSV.split(b"%b")[0], b"x" * 1000, _CSV.split(b"%b")[1]),
        (LogFormat.CSV, _CSV.split(b"%b")[0], b"x" * 5000 + b"\n", b"\n"),
    ],
    ids=["line", "lines", "detail", "csv", "csv without end"],
)
def test_one_entry_of_a_server_s_log_takes_little_memory(
    form: LogFormat, begin: bytes, unit: bytes, end: bytes, tmp_path: Path
) -> None:
    """Everybody who may connect to an existing server writes into its log what he likes."""
    settings = {"log_timezone": "UTC", "log_line_prefix": "%m [%p] ", "log_error_verbosity": "default"}
    place = LogPlace(path="x", format=form, by_host=True, is_english=True, encoding="UTF-8", settings=settings)
    mark = LogMark(place=place, ends={}, t=0.0, ahead=0.0)
    last = _TIME + b" [7] ERROR:  last\n" if form is LogFormat.TEXT else _CSV % b"last"
    with (tmp_path / "log").open("w+b") as file:
        file.write(begin)
        for _ in range(80):
            file.write(unit * ((1 << 20) // len(unit)))
        file.write(end + last)
        file.seek(0)
        tracemalloc.start()
        try:
            _write(file, mark, tmp_path / "server.jsonl")
            assert tracemalloc.get_traced_memory()[1] < 60 << 20  # it was twice the entry and more
        finally:
            tracemalloc.stop()

    assert [json.loads(line)["message"] for line in read_lines(tmp_path / "server.jsonl")][-1] == "last"


def forge_rows_that_share_their_text(path: Path) -> None:
    """Eight rows with one text of 8 MB, which is in the file once: their cells name the same chain of overflow pages.

    Source: the SQLite database file format, 1.6 (B-tree pages) and 1.7 (cell payload overflow pages).
    """
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
        ((size,),) = db.execute("PRAGMA page_size").fetchall()
        ((root,),) = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'caveat'").fetchall()
        for more in range(0, size, 200):  # what of a payload is on the page itself depends on its length
            db.execute("DELETE FROM caveat")
            db.execute(
                "INSERT INTO caveat (run, code, severity, text, hint) VALUES (NULL, 'x', 'warning', ?, '')",
                ["x" * ((8 << 20) + more)],
            )
            db.commit()
            content = bytearray(path.read_bytes())
            page = content[(root - 1) * size : root * size]
            cell = page[int.from_bytes(page[5:7]) :]
            if len(cell) < size // 8 - 10:
                break
    assert (page[0], int.from_bytes(page[3:5])) == (0x0D, 1), "a leaf with one cell"
    rowid = next(place for place, byte in enumerate(cell) if byte < 0x80) + 1
    forged, starts = bytearray(size), []
    for number in range(8):
        cell[rowid] = number + 1
        starts.append(size - (number + 1) * len(cell))
        forged[starts[-1] : starts[-1] + len(cell)] = cell
    head = bytes([0x0D, 0, 0]) + (8).to_bytes(2) + starts[-1].to_bytes(2) + b"\0"
    pointers = b"".join(start.to_bytes(2) for start in reversed(starts))
    forged[: len(head) + len(pointers)] = head + pointers
    content[(root - 1) * size : root * size] = forged
    path.write_bytes(content)


def test_rows_cannot_share_their_text(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    forge_rows_that_share_their_text(folder / layout.STATE)

    assert main(["report", str(folder)]) == 1
    assert "table caveat has more text than the file has room for" in capsys.readouterr().err


_MANY = "[" + ",".join(["{}"] * 200_000) + "]"  # 600 kB, which a bundle packs into one


@pytest.mark.parametrize(
    ("command", "where"), [("narrate", layout.FINDINGS), ("export", archive.FACTS), ("report", layout.STATE)]
)
def test_a_text_of_many_values_is_damage_before_they_are_made(
    command: str, where: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """60 MB of them, packed 60 kB, took 23 GB as findings and 7 GB as a plan."""
    facts = {layout.FINDINGS: '"schema_version": 2', archive.FACTS: '"pgtrial_version": "1", "left_out": 0'}
    if where == layout.STATE:
        with closing(sqlite3.connect(folder / layout.STATE)) as db, db:
            db.execute("UPDATE meta SET value = ? WHERE key = 'plan'", (f'{{"x": {_MANY}}}',))
    else:
        (folder / where).write_text(f'{{"format": 1, {facts[where]}, "redacted": {_MANY}}}')
    more = ["--bundle", "-o", str(tmp_path / "b.zip")] if command == "export" else []

    assert main([command, str(folder), *more]) == 1
    said = capsys.readouterr().err
    assert "is damaged" in said
    assert "is not" in said or "too many values" in said


def test_strings_may_have_as_many_commas_and_brackets_as_they_like() -> None:
    text = '[{,\\"' * 100_000

    assert parse_json(json.dumps({"statement": text})) == {"statement": text}
    with pytest.raises(ValueError, match="Unterminated"):
        parse_json(f'["{text}' + '\\"' * 100_000)


def test_findings_are_read_up_to_the_first_wrong_entry_of_a_list() -> None:
    """Each error takes a kilobyte."""
    text = json.dumps({"schema_version": 2, "runs": [{}] * 1000, "caveats": [1] * 1000})

    with pytest.raises(ValidationError) as raised:
        Findings.model_validate_json(text)
    assert raised.value.error_count() < 100
