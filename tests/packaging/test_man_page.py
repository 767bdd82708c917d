"""The manual page, made of the command line."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from pgtrial.cli.main import COMMANDS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("man_page", ROOT / "tools/man_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_command_and_every_option_is_in_it(maker: ModuleType) -> None:
    page = maker.render()

    for name, _ in COMMANDS:
        escaped = name.replace("-", r"\-")
        assert f".SS pgtrial {escaped} " in page
    assert r"\fB\-\-allow\-host\-changes\fR" in page
    assert r"\fB\-\-summary\-markdown\fR FILE" in page


def test_no_line_of_text_is_taken_for_a_request(maker: ModuleType) -> None:
    requests = {line.split()[0] for line in maker.render().splitlines() if line.startswith((".", "'"))}

    assert requests == {".TH", ".SH", ".SS", ".PP", ".TP", ".nf", ".fi", ".B", ".BR"}


def test_it_is_the_same_to_the_byte_at_a_given_time() -> None:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    argv = [sys.executable, ROOT / "tools/man_page.py"]
    pages = {subprocess.run(argv, env=environment, capture_output=True, check=True).stdout for _ in range(2)}

    assert len(pages) == 1
    assert b'.TH PGTRIAL 1 "2023-11-14"' in pages.pop()


def test_groff_has_nothing_to_complain_about(maker: ModuleType, tmp_path: Path) -> None:
    groff = shutil.which("groff")
    if groff is None:
        return  # what it would say does not depend on the machine
    (tmp_path / "pgtrial.1").write_text(maker.render())
    argv = [groff, "-man", "-ww", "-z", "-Kutf8", tmp_path / "pgtrial.1"]
    assert subprocess.run(argv, capture_output=True, text=True, check=True).stderr == ""
