"""What is installed is whole, and works without the source tree."""

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
