"""The source archive has what Git has, whatever else lies about in the checkout."""

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Of the repository, not of the source.
LEFT_OUT = (".ci/", ".pre-commit-config.yaml")


@pytest.fixture(scope="module")
def tracked() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def test_the_source_archive_has_what_git_has_and_nothing_else(tracked: list[str], tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    for name in tracked:
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, checkout / name)
    (checkout / "passwords.txt").write_text("s3cr3t")
    (checkout / "old").mkdir()
    (checkout / "old" / "pgtrial-0.0.tar.gz").write_bytes(b"")

    build = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "--directory", str(tmp_path / "dist")]
    subprocess.run(build, cwd=checkout, check=True, capture_output=True)

    (archive,) = (tmp_path / "dist").iterdir()
    with tarfile.open(archive) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    wanted = {name for name in tracked if not name.startswith(LEFT_OUT)}
    assert names - {"PKG-INFO"} == wanted
