"""What the sampler's file becomes, from captured texts."""

from pathlib import Path

import pytest

from pgtrial.engine.collect import convert
from pgtrial.engine.sampler.parse import ReadingError
from pgtrial.engine.sampler.spool import Header, SpoolWriter
from pgtrial.hosts.clock import HostClock
from pgtrial.store import parquet

DISKSTATS = """\
 254       0 vda 58735 10364 4126882 11739 26675 44027 4590544 7923 2 6712 20187
   7       0 loop0 69 0 2784 2 55 1152 9632 64 0 20 71
"""
WAL = {"columns": ["wal_fpi"], "rows": [["7"]]}
IO = "254:0 rbytes=4096 wbytes=0 rios=1 wios=0\n259:3 rbytes=0 wbytes=512 rios=0 wios=1\n"


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    (tmp_path / "spool").mkdir()
    return tmp_path / "spool"


def write(spool: Path, *records: tuple[float, str, object], foreign: bool = False, clock_offset: float = 0.0) -> None:
    sources = ("disk", "cgroup_io.stat")
    header = Header(
        version_num=160000,
        interval=1.0,
        session_interval=0.1,
        sources=(*sources, "pg_stat_wal"),
        devices=("vda",),
        absent={},
        foreign=sources if foreign else (),
        clock_offset=clock_offset,
    )
    writer = SpoolWriter(spool)
    writer.add_header(1000.0, header)
    for record in records:
        writer.add(*record)
    writer.close()


def samples(spool: Path, clock: HostClock | None = None) -> dict[tuple[str, str], tuple[float, float]]:
    """Time and value by metric and object."""
    convert(spool, folder=spool.parent, clock=clock)
    with parquet.connect() as db:
        rows = db.execute(f"SELECT metric, object, t, value FROM '{spool.parent}/samples.parquet'").fetchall()
    return {(metric, about): (t, value) for metric, about, t, value in rows}


def test_only_disks_under_the_data_are_kept(spool: Path) -> None:
    write(spool, (1001.0, "disk", DISKSTATS))

    assert {about for _, about in samples(spool)} == {"vda"}


def test_device_of_a_control_group_gets_its_name_where_it_has_one(spool: Path) -> None:
    write(spool, (1001.0, "disk", DISKSTATS), (1001.0, "cgroup_io.stat", IO))

    found = samples(spool)

    assert found["cgroup.io_read_bytes", "vda"] == (1001.0, 4096)
    assert found["cgroup.io_writes", "259:3"] == (1001.0, 1)


def test_times_of_another_clock_become_ours_and_ours_stay(spool: Path) -> None:
    write(spool, (1051.0, "disk", DISKSTATS), (1001.5, "pg_stat_wal", WAL), foreign=True, clock_offset=50.0)

    found = samples(spool)

    assert found["disk.reads", "vda"] == (1001.0, 58735)
    assert found["pg_stat_wal.wal_fpi", ""] == (1001.5, 7)


def test_clock_that_was_measured_twice_is_better_known(spool: Path) -> None:
    write(spool, (1061.0, "disk", DISKSTATS), foreign=True, clock_offset=50.0)
    clock = HostClock(t_before=1000.0, offset_before=50.0, t_after=1020.0, offset_after=52.0)

    t, _ = samples(spool, clock)["disk.reads", "vda"]

    assert t == pytest.approx(1010.0)


def test_clock_does_not_concern_a_reader_on_this_machine(spool: Path) -> None:
    write(spool, (1001.0, "disk", DISKSTATS))

    t, _ = samples(spool, HostClock.constant(50.0))["disk.reads", "vda"]

    assert t == 1001.0


def test_text_that_is_not_understood_is_an_error_that_names_its_source(spool: Path) -> None:
    write(spool, (1001.0, "disk", "254 0\n"))

    with pytest.raises(ReadingError, match="cannot understand what disk said"):
        samples(spool)


def test_sessions_without_a_column_are_an_error_that_names_them(spool: Path) -> None:
    write(spool, (1001.0, "sessions", {"polls": 10, "late": 0, "columns": [], "rows": []}))

    with pytest.raises(ReadingError, match="cannot understand what sessions said: 'backend_type' is not in list"):
        samples(spool)
