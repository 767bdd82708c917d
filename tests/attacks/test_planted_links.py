"""What is written into a folder from a stranger goes through no link, and every write goes one way."""

import ast
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgtrial.cli.main import main
from pgtrial.safe_files import make_directory, new_path, remove_tree, write_file
from support import write_result_folder

SOURCES = Path(__file__).parents[2] / "src" / "pgtrial"

# Who writes in another way than by safe_files, and why that is safe.
OTHERS = {
    "cli/gate.py": "appends to what the caller names, or writes to a device such as /dev/stdout",
    "cli/export.py": "a function of that name, which goes the one way",
    "cli/main.py": "/dev/null",
    "cli/narrate.py": "a function of that name, which only makes a text",
    "engine/folder.py": "the lock: never through a link, and nothing is written into it",
    "engine/live/view.py": "a new file of its own, which is written anew each second",
    "engine/sampler/spool.py": "a new file of its own, which grows all the time",
    "engine/slicer/__main__.py": "the kernel's files of control groups",
    "hosts/local.py": "the logs of programs, and files of the server's account",
    "hosts/operations.py": "the files of hosts: settings of the kernel and of servers, which the journal knows",
    "hosts/ssh/agent_programs.py": "the logs of programs on another host",
    "hosts/ssh/host.py": "copies from another host into directories that are made for them",
    "safe_files.py": "the one way",
    "store/attempts.py": "appends in the state directory, which nobody else enters; never through a link",
    "store/belongings.py": "appends in the state directory, which nobody else enters; never through a link",
    "store/journal_file.py": "the state directory, which nobody else enters",
    "export/archive.py": "entries of the archive",
    "export/bundle.py": "a directory of its own, which nobody else enters",
}
WRITERS = {
    "write_text",
    "write_bytes",
    "touch",
    "symlink_to",
    "hardlink_to",
    "copyfile",
    "copy",
    "copy2",
    "copytree",
    "move",
}
FLAGS = {"O_WRONLY", "O_RDWR", "O_CREAT", "O_APPEND", "O_TRUNC"}


def writes_of(source: str) -> Iterator[int]:
    """Lines with a call that may write a file."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in FLAGS:
            yield node.lineno
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        is_shutil = isinstance(owner, ast.Name) and owner.id == "shutil"
        if name in WRITERS and (name not in ("copy", "move") or is_shutil):
            yield node.lineno
        if name == "open":
            given = [*node.args, *(word.value for word in node.keywords if word.arg == "mode")]
            modes = [arg.value for arg in given if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
            if any(set(mode) <= set("rwaxbt+") and set(mode) & set("wax+") for mode in modes):
                yield node.lineno


def test_every_write_goes_one_way() -> None:
    found = {
        str(path.relative_to(SOURCES)): lines
        for path in sorted(SOURCES.rglob("*.py"))
        if (lines := [*writes_of(path.read_text(encoding="utf-8"))])
    }

    assert {name: lines for name, lines in found.items() if name not in OTHERS} == {}
    assert OTHERS.keys() <= found.keys()


@pytest.mark.parametrize("source", ['open("x", "w")', 'p.open(mode="ab")', "p.write_text(t)", "os.open(p, os.O_RDWR)"])
def test_the_rule_sees_what_writes(source: str) -> None:
    assert [*writes_of(source)] == [1]


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
