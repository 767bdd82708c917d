"""What is written into a folder from a stranger goes through no link, and every write goes one way."""

import os
import threading
from pathlib import Path

import pytest
from tools.check_writes import complaints, writes_of

from pgtrial.cli.main import main
from pgtrial.safe_files import make_directory, new_path, remove_tree, write_file
from support import write_result_folder


def test_every_write_goes_one_way() -> None:
    assert complaints() == []


@pytest.mark.parametrize(
    "source",
    [
        'open("x", "w")',
        "open(p, mode)",
        "open(p, **how)",
        'p.open(mode="ab")',
        'p.open("r+")',
        "p.write_text(t)",
        "p.write_bytes(t)",
        "p.touch()",
        "p.symlink_to(q)",
        "p.rename(q)",
        "p.replace(q)",
        "moves = os.replace",
        "partial(shutil.copyfile, p)",
        "logging.handlers.RotatingFileHandler(p)",
        "os.open(p, os.O_RDWR)",
        "os.open(p, flags)",
        "os.open(p, os.O_RDONLY | os.O_CREAT)",
        "os.replace(p, q)",
        "os.link(p, q)",
        "from os import open",
        "from shutil import copyfile as c",
        "import os as o",
        'getattr(os, "open")(p, 1)',
        '__import__("os")',
        "shutil.copy(p, q)",
        "shutil.move(p, q)",
        "sqlite3.connect(p)",
        "duckdb.connect(p)",
        "db.execute(f\"COPY (SELECT 1) TO '{p}'\")",
        "db.execute(\"EXPORT DATABASE 'x'\")",
        "db.execute(\"ATTACH 'x' AS y\")",
        "db.execute(\"VACUUM INTO 'x'\")",
        "frame.to_parquet(p)",
        "frame.write_parquet(p)",
        "np.save(p, a)",
        "array.tofile(p)",
        'zipfile.ZipFile(p, "w")',
        "archive.extractall(p)",
        "tempfile.NamedTemporaryFile(dir=p)",
        "logging.FileHandler(p)",
        "xlsxwriter.Workbook(p)",
    ],
)
def test_the_rule_sees_what_writes(source: str) -> None:
    assert [number for number, _ in writes_of(source)] == [1]


@pytest.mark.parametrize(
    "source", ['open("x")', 'p.open("rb")', "os.open(p, os.O_RDONLY | os.O_NOFOLLOW)", 'text.replace("a", "b")']
)
def test_the_rule_lets_pass_what_reads(source: str) -> None:
    assert [*writes_of(source)] == []


def test_one_more_call_in_a_file_that_may_write_is_seen(tmp_path: Path) -> None:
    (tmp_path / "safe_files.py").write_text('open("x", "w")\n' * 3)

    assert any(line.startswith("safe_files.py: 3 calls") for line in complaints(tmp_path))


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "authorized_keys"
    path.write_text("precious\n")
    return path


def test_report_writes_through_no_link(victim: Path, tmp_path: Path) -> None:
    folder = write_result_folder(tmp_path / "results" / "gift")
    for name in ("report.html", "report.html.part", "findings.json", "findings.part"):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(victim)

    assert main(["report", str(folder)]) == 0

    assert victim.read_text() == "precious\n"
    assert (folder / "report.html").read_text().startswith("<!doctype html>")


def test_a_bundle_is_written_through_no_link(victim: Path, tmp_path: Path) -> None:
    folder = write_result_folder(tmp_path / "results" / "mine")
    out = tmp_path / "b.zip"
    for name in (out, tmp_path / "b.zip.part"):
        name.symlink_to(victim)

    assert main(["export", str(folder), "--bundle", "-o", str(out)]) == 0

    assert victim.read_text() == "precious\n"
    assert out.read_bytes()[:2] == b"PK"


def test_directories_are_made_and_removed_through_no_link(victim: Path, tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "folder", tmp_path / "elsewhere"
    folder.mkdir()
    (elsewhere / "0001" / "spool").mkdir(parents=True)
    (folder / "runs").symlink_to(elsewhere)

    with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
        make_directory(folder, "runs", "0002")
    remove_tree(folder, "runs", "0001", "spool")
    remove_tree(folder, "runs")

    assert [str(path.relative_to(elsewhere)) for path in sorted(elsewhere.rglob("*"))] == ["0001", "0001/spool"]
    assert victim.read_text() == "precious\n"


@pytest.mark.parametrize("way", ["file", "path"])
def test_a_neighbour_who_swaps_names_for_links_changes_nothing_elsewhere(
    victim: Path, tmp_path: Path, way: str
) -> None:
    """Whatever appears in the directory is at once replaced by a link to the victim, as fast as one can look."""
    folder, is_over, swapped = tmp_path / "shared", threading.Event(), []
    folder.mkdir()

    def swap() -> None:
        while not is_over.is_set():
            for path in [*folder.iterdir()]:
                try:
                    path.rename(tmp_path / "taken") if path.is_dir() else path.unlink()
                    path.symlink_to(victim.parent if way == "path" else victim)
                except OSError:
                    continue
                swapped.append(path)

    neighbour = threading.Thread(target=swap)
    neighbour.start()
    try:
        for _ in range(300):
            try:
                if way == "file":
                    write_file(folder / "report.html", "x" * 100)
                else:
                    with new_path(folder / "a.parquet") as part:
                        part.write_text("x" * 100)
            except OSError:
                continue  # it says so
    finally:
        is_over.set()
        neighbour.join()

    assert swapped
    assert victim.read_text() == "precious\n"
    assert not (victim.parent / "a.parquet").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a link away")
def test_root_writes_through_no_link_of_another_user_on_the_way(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    (precious / "inner").mkdir(parents=True)
    (precious / "report.html").write_text("precious")
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    for link in (mine, theirs):
        link.symlink_to("precious")
    os.chown(theirs, 65534, 65534, follow_symlinks=False)

    with pytest.raises(OSError, match="a link of another user"):
        write_file(theirs / "report.html", "overwritten")
    assert (precious / "report.html").read_text() == "precious"

    write_file(mine / "inner" / ".." / "report.html", "own")
    assert (precious / "report.html").read_text() == "own"
