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


PLANTED = {
    "inference never touches a server": ("stats", "import psycopg"),
    "the engine imports one module of the analysis": ("engine", "from pgtrial.analysis import __doc__"),
    "layers": ("store", "from pgtrial.engine import __doc__"),
}


@pytest.fixture(scope="module")
def violated(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    """What is said of a copy in which each of these contracts is broken by a module of its own."""
    copy = tmp_path_factory.mktemp("violated")
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    for module, line in PLANTED.values():
        (copy / "src/pgtrial" / module / "planted.py").write_text(f"{line}\n")
    return lint_imports(copy)


@pytest.mark.parametrize("contract", PLANTED)
def test_a_planted_violation_is_found(violated: subprocess.CompletedProcess[str], contract: str) -> None:
    module, _ = PLANTED[contract]

    assert violated.returncode == 1, violated.stdout + violated.stderr
    assert f"{contract} BROKEN" in violated.stdout
    assert f"pgtrial.{module}.planted" in violated.stdout
