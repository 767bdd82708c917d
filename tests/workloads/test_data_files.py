import tarfile
from pathlib import Path
from typing import Any

import pytest

from pgtrial.errors import SpecError
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.workloads.data_files import DumpFormat, data_files, explain_no_sql


def experiment(*names: str) -> Experiment:
    content: dict[str, Any] = {
        "format": 1,
        "experiment": {"name": "x"},
        "dataset": {"kind": "sql", "load": list(names)},
        "workload": {"scenario": [{"name": "read", "file": "read.sql"}]},
        "arms": {"a": {}, "b": {}},
    }
    return Experiment.model_validate(content)


def text(value: str | None) -> bytes:
    return number(-1) if value is None else number(len(value)) + value.encode()


def number(value: int) -> bytes:
    return bytes([value < 0]) + abs(value).to_bytes(4, "little")


def toc(*entries: tuple[str, str, str, str], form: int = 1, version: int = 16) -> bytes:
    """The table of contents of an archive; an entry is (kind, name, owner, statements)."""
    content = b"PGDMP" + bytes([1, version, 0, 4, 8, form])
    content += b"\0" if version >= 15 else number(0)
    content += b"".join(map(number, (0, 0, 12, 24, 10, 126, 0))) + text("shop") + text("18.4") + text("18.4")
    content += number(len(entries))
    for kind, name, owner, statements in entries:
        content += number(1) + number(0) + text("0") + text("0") + text(name) + text(kind) + number(2)
        content += text(statements) + text("") + text(None) + text("public") + text("")
        content += (text("heap") if version >= 14 else b"") + (number(0) if version >= 16 else b"")
        content += text(owner) + text("false") + text("7") + text(None)
        content += bytes(9) if form == 1 else text("1.dat")
    return content


ENTRIES = (
    ("DATABASE", "shop", "boss", "CREATE DATABASE shop;"),
    ("TABLE", "orders", "shop", "CREATE TABLE orders (id int);"),
    ("ACL", "TABLE orders", "shop", "GRANT SELECT ON TABLE orders TO reader;"),
    ("FUNCTION", "f()", "shop", "CREATE FUNCTION f() RETURNS int\n LANGUAGE c AS 'x.so', 'f';"),
)


@pytest.mark.parametrize("version", [13, 14, 15, 16])
def test_archive_is_known_by_its_beginning_and_read_without_pg_restore(tmp_path: Path, version: int) -> None:
    (tmp_path / "shop.dump").write_bytes(toc(*ENTRIES, version=version))

    (file,) = data_files(experiment("shop.dump"), tmp_path)

    assert (file.kind, file.roles) == (DumpFormat.ARCHIVE, {"shop", "reader"})
    assert [(use.where, use.what) for use in file.uses] == [
        ("shop.dump, function f(), line 2", "a function that is not SQL: LANGUAGE c AS 'x.so', 'f';")
    ]


def test_archive_in_a_directory_consists_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/toc.dat").write_bytes(toc(*ENTRIES, form=5))
    (tmp_path / "shop/1.dat.gz").write_bytes(b"x")

    (file,) = data_files(experiment("shop"), tmp_path)

    assert [str(each) for each in file.files] == ["shop/1.dat.gz", "shop/toc.dat"]
    assert file.roles == {"shop", "reader"}


def test_archive_in_a_tar_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "toc.dat").write_bytes(toc(*ENTRIES, form=3))
    with tarfile.open(tmp_path / "shop.tar", "w", format=tarfile.USTAR_FORMAT) as tar:  # as pg_dump's
        tar.add(tmp_path / "toc.dat", "toc.dat")

    (file,) = data_files(experiment("shop.tar"), tmp_path)

    assert (file.kind, file.roles) == (DumpFormat.ARCHIVE, {"shop", "reader"})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (toc(*ENTRIES)[:-30], "it ends too early"),
        (toc(*ENTRIES, version=99), "version 1.99 of its format"),
        (b"PGDMP\x01\x10\x00\x04\x08\x01\x00" + b"\xff" * 200, "none|claims"),
        (b"\x1f\x8b\x08", "compressed as a whole"),
        (b"SELECT 1;\0", "neither an archive of pg_dump nor text"),
    ],
)
def test_file_that_cannot_be_loaded_is_refused_with_its_name(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "x.dump").write_bytes(content)

    with pytest.raises(SpecError, match=rf'cannot load "x.dump": .*(?:{message})'):
        data_files(experiment("x.dump"), tmp_path)


def test_every_file_that_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()

    with pytest.raises(SpecError) as caught:
        data_files(experiment("missing.sql", "empty"), tmp_path)

    assert [problem.message for problem in caught.value.problems] == [
        f'cannot read "{tmp_path}/missing.sql": No such file or directory',
        'cannot load "empty": it is a directory without "toc.dat", so not one of pg_dump',
    ]


def test_digest_changes_with_a_file_that_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("\\i b.sql\n")
    (tmp_path / "b.sql").write_text("SELECT 1;\n")
    before = data_files(experiment("a.sql"), tmp_path)[0].digest()

    (tmp_path / "b.sql").write_text("SELECT 2;\n")

    assert data_files(experiment("a.sql"), tmp_path)[0].digest() != before


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"CREATE TABLE t ();\n", ""),
        (toc(*ENTRIES), "an archive of pg_dump"),
        (b"--\n-- PostgreSQL database dump\n--\n", "the output of pg_dump"),
        (b"SELECT 1;\n\\i other.sql\n", "a file for psql"),
    ],
)
def test_what_is_no_plain_sql_is_told(tmp_path: Path, content: bytes, kind: str) -> None:
    (tmp_path / "setup.sql").write_bytes(content)

    assert explain_no_sql(tmp_path / "setup.sql") == kind
