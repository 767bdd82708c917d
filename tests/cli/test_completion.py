import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pgtrial.cli.main import COMMANDS, main


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_each_shell_asks_the_program(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0

    script = capsys.readouterr().out
    assert f"_PGTRIAL_COMPLETE={shell}_complete" in script
    program = shutil.which(shell)
    if program is not None and shell != "fish":
        subprocess.run([program, "-n"], input=script, text=True, check=True)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("pgtrial re", {"register", "replay", "resume", "restore", "report"}),
        ("pgtrial run --asse", {"--assert"}),
        ("pgtrial al", {"alarms"}),
    ],
)
def test_the_program_says_what_fits(words: str, found: set[str]) -> None:
    environment = {
        **os.environ,
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
        "_PGTRIAL_COMPLETE": "bash_complete",
    }
    done = subprocess.run(
        [sys.executable, "-m", "pgtrial"], env=environment, capture_output=True, text=True, check=True, timeout=60
    )

    assert {line.partition(",")[2] for line in done.stdout.splitlines()} == found
    assert found <= {name for name, _ in COMMANDS} | {"--assert"}


def test_bash_completes_with_the_script(tmp_path: Path) -> None:
    """In a real bash, as when the Tab key is pressed."""
    program = tmp_path / "pgtrial"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pgtrial "$@"\n')
    program.chmod(0o755)
    code = (
        'eval "$(pgtrial completion bash)"; COMP_WORDS=(pgtrial regi); COMP_CWORD=1; '
        '_pgtrial_completion pgtrial; echo "${COMPREPLY[@]}"'
    )
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", code], env=environment, capture_output=True, text=True, check=True, timeout=120
    )

    assert done.stdout.split() == ["register"]
