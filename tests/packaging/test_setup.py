"""Set-up on machines that lack something, played by stand-ins for python3, id and apt-get."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Answers what setup.sh asks of an interpreter. Files in the same directory say what it has.
PYTHON = """#!/bin/sh
here=$(dirname "$0")
echo "$*" >>"$here/calls"
case "$*" in
*_base_executable*) cat "$here/version" ;;
*"import venv, ensurepip"*) [ -e "$here/ensurepip" ] ;;
-) [ -e "$here/pip" ] ;;
"-m venv "*) mkdir -p .venv ;;
"-m pip "*) ;;
*) exit 1 ;;
esac
"""


class Machine:
    """A checkout of what set-up needs, and a directory of stand-ins that comes first in PATH."""

    def __init__(self, directory: Path) -> None:
        self.checkout = directory / "checkout"
        self.programs = directory / "programs"
        self.programs.mkdir()
        for name in ("tools", "requirements"):
            shutil.copytree(ROOT / name, self.checkout / name)
        shutil.copy(ROOT / "pyproject.toml", self.checkout)
        self.has_python("3.11")
        self.add("id", "#!/bin/sh\necho 1000\n")

    def add(self, name: str, script: str) -> None:
        program = self.programs / name
        program.write_text(script)
        program.chmod(0o755)

    def has_python(self, version: str) -> None:
        self.add("python3", PYTHON)
        (self.programs / "version").write_text(f"{version} {self.programs}/python3\n")

    def has(self, name: str) -> None:
        (self.programs / name).touch()

    def set_up(self, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.checkout / "tools" / "setup.sh"],
            env={"PATH": f"{self.programs}:{os.environ['PATH']}", **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def calls(self) -> str:
        return (self.programs / "calls").read_text()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_an_old_python_is_refused_with_its_version(machine: Machine) -> None:
    machine.has_python("3.10")

    done = machine.set_up()

    assert done.returncode == 1
    assert "is Python 3.10, oldest supported is 3.11" in done.stderr
    assert not (machine.checkout / ".venv").exists()


def test_a_python_that_is_not_there_is_named(machine: Machine) -> None:
    done = machine.set_up(PYTHON="python3.99")

    assert done.returncode == 1
    assert 'no Python at "python3.99"' in done.stderr


def test_without_ensurepip_and_pip_a_user_is_told_which_package_is_missing(machine: Machine) -> None:
    done = machine.set_up()

    assert done.returncode == 1
    assert "apt-get install python3-venv" in done.stderr
    assert not (machine.checkout / ".venv").exists()


def test_without_ensurepip_and_pip_root_installs_the_package(machine: Machine) -> None:
    machine.add("id", "#!/bin/sh\necho 0\n")
    machine.add(
        "apt-get", '#!/bin/sh\necho "apt-get $*" >>"$(dirname "$0")/calls"; touch "$(dirname "$0")/ensurepip"\n'
    )

    machine.set_up()

    assert "apt-get install -y -qq python3-venv\n" in machine.calls()
    assert "-m venv --clear .venv\n" in machine.calls()


def test_a_package_that_cannot_be_installed_is_an_error_with_the_last_words(machine: Machine) -> None:
    machine.add("id", "#!/bin/sh\necho 0\n")
    machine.add("apt-get", "#!/bin/sh\necho E: no such package; exit 100\n")

    done = machine.set_up()

    assert done.returncode == 1
    assert "E: no such package" in done.stderr
    assert "the package python3-venv could not be installed" in done.stderr


def test_with_pip_alone_the_environment_is_filled_from_outside(machine: Machine) -> None:
    machine.has("pip")

    done = machine.set_up()

    assert done.returncode == 0, done.stderr
    assert "-m venv --clear --without-pip .venv\n" in machine.calls()
    assert "-m pip --python .venv/bin/python install --require-hashes --only-binary :all:" in machine.calls()


def test_embedded_servers_are_installed_when_asked_for(machine: Machine) -> None:
    machine.has("pip")

    machine.set_up(PGTRIAL_EMBEDDED="1")

    assert "-r requirements/embedded.lock" in machine.calls()


def test_an_environment_of_another_place_is_not_emptied_through_a_link(machine: Machine, tmp_path: Path) -> None:
    machine.has("ensurepip")
    other = tmp_path / "other"
    other.mkdir()
    (other / "pyvenv.cfg").write_text(f"command = python3 -m venv {other}\n")
    (machine.checkout / ".venv").symlink_to(other)

    done = machine.set_up()

    assert done.returncode == 1
    assert f".venv is a link to {other}" in done.stderr
    assert "rm .venv" in done.stderr
    assert (other / "pyvenv.cfg").exists()
    assert "-m venv" not in (machine.programs / "calls").read_text()
