"""What is written into a folder from a stranger goes through no link, and every write goes one way."""

import os
import threading
from pathlib import Path

import pytest
from tools.check_writes import complaints, writes_of

from pgtrial.cli import gate
from pgtrial.cli.main import main
from pgtrial.safe_files import append_file, make_directory, new_path, remove_path, remove_tree, write_file
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
        'open_it = open; open_it(p, "w")',
        "map(open, paths, modes)",
        "save = p.write_text",
        "from builtins import open as o",
        "from sqlite3 import dbapi2",
        "dbapi2.connect(p)",
        "posix.rename(p, q)",
        'vars(os)["rename"](p, q)',
        'os.__dict__["rename"](p, q)',
        'globals()["open"](p, "w")',
        'importlib.import_module("os")',
        "exec(text)",
        "eval(text)",
        "os.system(text)",
        "subprocess.run(text, shell=True)",
        "asyncio.create_subprocess_shell(text)",
        "logging.basicConfig(filename=p)",
        "fileinput.input(p, inplace=True)",
        "duckdb.sql(query)",
        "urllib.request.urlretrieve(url, p)",
        "chart.save(p)",
        "profile.dump_stats(p)",
        "console.save_html(p)",
        "tempfile.mktemp()",
        "libc.creat(p)",
        "stream.dump(p)",
        "pickle.dump(a, file)",
        "os.makedirs(p)",
        "os.mkdir(p)",
        "p.mkdir(parents=True)",
        'Image.open(p, "w")',
        'State.open(p, mode="w")',
        "archive.write(p)",
        'archive.writestr("x", text)',
        "archive.extract(p)",
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


def test_what_a_killed_process_left_of_a_path_is_removed_with_nothing_else(tmp_path: Path) -> None:
    path, left = tmp_path / "a.dump", tmp_path / ".a.dump-1"

    def remove(*, inode: int | None) -> bool:
        return remove_path(path, left.name, inode=inode)

    assert remove(inode=1)  # there is none
    left.mkdir()
    assert remove(inode=None)
    assert not left.exists()
    left.mkdir()
    (left / "a.dump").write_text("data")
    (left / "precious").write_text("data")
    inode = left.stat().st_ino
    assert not remove(inode=inode + 1)
    for number in (None, inode):
        with pytest.raises(OSError, match="not empty"):
            remove(inode=number)
        assert (left / "a.dump").exists() == (number is None)
    (left / "precious").unlink()
    assert remove(inode=inode)
    left.write_text("a file")
    assert not remove(inode=inode)

    assert [each.name for each in tmp_path.iterdir()] == [left.name]


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


def test_a_file_is_added_to_through_no_link_and_by_no_second_name(victim: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(victim)
    (tmp_path / "name").hardlink_to(victim)

    for name in ("link", "name"):
        with pytest.raises(OSError, match=r"link|more than one name"):
            append_file(tmp_path / name, "owned\n")
    append_file(tmp_path / "new", "one\n")
    append_file(tmp_path / "new", "two\n")

    assert victim.read_text() == "precious\n"
    assert (tmp_path / "new").read_text() == "one\ntwo\n"


@pytest.mark.parametrize("write", [gate._write_whole, gate._append])
def test_what_was_a_pipe_a_moment_ago_is_not_followed(
    write, victim: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a neighbour puts a link in the place of his pipe between a look and a write."""
    (tmp_path / "pipe").symlink_to(victim)
    monkeypatch.setattr(gate, "_is_special", lambda _: True)

    with pytest.raises(OSError, match="symbolic link"):
        write(tmp_path / "pipe", "owned\n")
    assert victim.read_text() == "precious\n"


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        gate._write_whole(tmp_path / "pipe", "text\n")
        assert os.read(reader, 100) == b"text\n"
    finally:
        os.close(reader)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a link away")
@pytest.mark.parametrize(
    "words", [("export", "{f}", "--format", "csv", "-o"), ("unpack", "{b}", "--results"), ("suggest", "{f}", "-o")]
)
def test_root_makes_no_directory_through_a_link_of_another_user(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, bundle = write_result_folder(tmp_path / "mine", runs=2), tmp_path / "b.zip"
    assert main(["report", str(folder)]) == 0
    assert main(["export", str(folder), "--bundle", "-o", str(bundle)]) == 0
    shared, elsewhere = tmp_path / "shared", tmp_path / "elsewhere"
    for directory in (shared, elsewhere):
        directory.mkdir()
    os.chown(shared, 65534, 65534)
    (shared / "way").symlink_to(elsewhere)
    os.chown(shared / "way", 65534, 65534, follow_symlinks=False)

    main([*(word.format(f=folder, b=bundle) for word in words), str(shared / "way" / "new" / "newer")])

    assert list(elsewhere.iterdir()) == []
