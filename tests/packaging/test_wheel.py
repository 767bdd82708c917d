"""What is installed is whole, works without the source tree, and is the same wherever it is built."""

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", directory],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=60,
    )
    (built,) = directory.glob("*.whl")
    return built


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(wheel: Path) -> None:
    source = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src" / "pgtrial").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}

    assert packed == source


def test_the_wheel_carries_the_licence(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("licenses/LICENSE"))
        assert archive.read(name).decode() == (ROOT / "LICENSE").read_text()


def test_the_wheel_has_the_program_and_the_version_of_the_package(wheel: Path, tmp_path: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    program = "import pgtrial; print(pgtrial.__file__); print(pgtrial.__version__)"

    # -S leaves out the editable installation; the package itself needs nothing for its name and version.
    found = subprocess.run(
        [sys.executable, "-S", "-c", program],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert found.stdout.splitlines() == [str(tmp_path / "pgtrial" / "__init__.py"), project["version"]]
    (entry_points,) = tmp_path.glob("*.dist-info/entry_points.txt")
    assert f"pgtrial = {project['scripts']['pgtrial']}" in entry_points.read_text()


def test_wheel_and_source_archive_are_the_same_to_the_byte_wherever_they_are_built(tmp_path: Path) -> None:
    """From another place, with other times and other rights of the files."""
    copy = tmp_path / "copy"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False).stdout.split(b"\0")
    names = [os.fsdecode(name) for name in listed if name]
    if not names:  # of an unpacked archive all files are those of the source
        names = [
            str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if path.is_file() and ".venv" not in path.parts
        ]
    for name in names:
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, copy / name)
            (copy / name).chmod(0o600 | ((ROOT / name).stat().st_mode & 0o100))
            os.utime(copy / name, (1e9, 1e9))
    (copy / ".venv").mkdir()

    built = [_build(copy, tmp_path / f"built-{number}") for number in (1, 2)]
    os.utime(copy / "src/pgtrial/__init__.py")
    built.append(_build(copy, tmp_path / "built-3"))

    assert len({name.split("-")[-1] for name in built[0]}) == 2
    assert built[0] == built[1] == built[2]


def _build(source: Path, directory: Path) -> dict[str, bytes]:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    argv = [sys.executable, "-m", "hatchling", "build", "--directory", directory]
    subprocess.run(argv, cwd=source, env=environment, check=True, capture_output=True, timeout=300)
    return {path.name: path.read_bytes() for path in directory.iterdir()}
