import contextlib
from pathlib import Path

import pytest

from pgtrial.engine.sampler.spool import FILE, Header, SpoolWriter, read_header, read_records, read_times
from pgtrial.errors import StoreError

HEADER = Header(
    version_num=150018,
    interval=1.0,
    session_interval=0.1,
    sources=("proc_stat", "pg_stat_wal"),
    devices=("vda",),
    absent={"pressure_io": "/proc/pressure/io: No such file or directory"},
)
RECORDS = [
    (1795233390.25, "proc_stat", 'cpu  1 2\nintr "3"\n'),
    (1795233391.0, "pg_stat_wal", {"columns": ["wal_fpi", "é"], "rows": [["1", None]]}),
    (1e9, "proc_stat", ""),
]


def write(directory: Path) -> None:
    spool = SpoolWriter(directory)
    spool.add_header(1795233390.0, HEADER)
    for record in RECORDS:
        spool.add(*record)
    spool.close()


def test_what_was_written_is_read(tmp_path: Path) -> None:
    write(tmp_path)

    assert read_header(tmp_path) == HEADER
    assert list(read_records(tmp_path, "proc_stat", "pg_stat_wal")) == RECORDS
    assert list(read_times(tmp_path))[1:] == [(t, source) for t, source, _ in RECORDS]


def test_records_of_one_source_can_be_read_alone(tmp_path: Path) -> None:
    write(tmp_path)

    assert list(read_records(tmp_path, "pg_stat_wal")) == RECORDS[1:2]


def test_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    write(tmp_path)
    path = tmp_path / FILE
    path.write_bytes(path.read_bytes()[:-4])

    assert [t for t, _ in read_times(tmp_path)] == [1795233390.0, 1795233390.25, 1795233391.0]


def test_line_that_is_ended_while_it_is_read_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its second half would be read as a line of its own."""
    lines = [b'[1.0,"proc_stat",""]\n', b'[2.0,"pro', b'c_stat",""]\n']
    monkeypatch.setattr(Path, "open", lambda *_: contextlib.nullcontext(iter(lines)))

    assert list(read_times(tmp_path)) == [(1.0, "proc_stat")]


def test_readings_reach_the_disk_in_chunks(tmp_path: Path) -> None:
    spool = SpoolWriter(tmp_path)
    spool.add(1.0, "proc_stat", "x" * 1000)
    before = (tmp_path / FILE).stat().st_size
    for _ in range(200):
        spool.add(1.0, "proc_stat", "x" * 1000)
    after = (tmp_path / FILE).stat().st_size
    spool.close()

    assert before == 0
    assert 100_000 < after < 200_000
    assert len(list(read_times(tmp_path))) == 201


def test_spool_that_was_never_written_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"sampler\.jsonl"):
        read_header(tmp_path)
    (tmp_path / FILE).touch()
    with pytest.raises(StoreError, match="wrote nothing"):
        read_header(tmp_path)
