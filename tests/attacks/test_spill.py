"""What DuckDB has no room for in memory is put where no neighbour is, wherever pgtrial was started."""

import os
import stat
from pathlib import Path

import pytest

from pgtrial.store import parquet


def test_a_link_of_a_neighbour_in_the_current_directory_gets_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (tmp_path / ".tmp").symlink_to(victim)  # where DuckDB puts it by itself
    monkeypatch.chdir(tmp_path)
    with parquet.connect(threads=1) as db:
        db.execute("SET memory_limit = '30MB'")
        db.execute("CREATE TEMP TABLE t AS SELECT random() AS a FROM range(10_000_000)")
        (place,) = (Path(name) for (name,) in db.execute("SELECT current_setting('temp_directory')").fetchall())

        assert [*place.iterdir()]  # it was put somewhere
        assert stat.S_IMODE(place.stat().st_mode) == 0o700
        assert place.stat().st_uid == os.geteuid()
        assert [*victim.iterdir()] == []
