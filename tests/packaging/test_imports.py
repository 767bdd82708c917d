"""Who may import whom: the contracts of pyproject.toml hold, and would notice if they did not."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def lint_imports(directory: Path) -> subprocess.CompletedProcess[str]:
    """Check the package in ``directory``/src by the contracts of ``directory``/pyproject.toml."""
    program = "import sys; sys.path.insert(0, 'src'); from importlinter.cli import lint_imports_command as main; main()"
    return subprocess.run(
        [sys.executable, "-c", program, "--no-cache"],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_the_contracts_hold() -> None:
    found = lint_imports(ROOT)

    assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("stats", "import psycopg", "inference never touches a server"),
        ("store", "from pgtrial.engine import __doc__", "layers"),
    ],
)
def test_a_planted_violation_is_found(tmp_path: Path, module: str, line: str, contract: str) -> None:
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "src/pgtrial" / module / "planted.py").write_text(f"{line}\n")

    found = lint_imports(tmp_path)

    assert found.returncode == 1, found.stdout + found.stderr
    assert f"{contract} BROKEN" in found.stdout
    assert f"pgtrial.{module}.planted" in found.stdout
