"""What hooks and programs have started ends with a pgtrial that is killed, whenever the kernel lets go of its lock."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgtrial.engine import keeper
from pgtrial.engine.leftovers import mark_of
from pgtrial.hosts.operations import MARK


@pytest.fixture
def stray(tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that was started for a folder."""
    process = subprocess.Popen(["sleep", "600"], env={**os.environ, MARK: mark_of(tmp_path)}, start_new_session=True)
    yield process
    process.kill()
    process.wait()


def keep(folder: Path, monkeypatch: pytest.MonkeyPatch, locked: list[bool]) -> None:
    """A keeper whose input has ended, and that finds the folder locked, or not, one look after the other."""
    monkeypatch.setattr(keeper.os, "read", lambda _fd, _length: b"")
    monkeypatch.setattr(keeper, "is_locked", lambda _folder: locked.pop(0))
    monkeypatch.setattr(keeper.time, "sleep", lambda _seconds: None)
    keeper.main(folder)


def test_a_lock_that_is_let_go_a_little_later_keeps_nothing_alive(tmp_path, stray, monkeypatch):
    keep(tmp_path, monkeypatch, [True, False, False])

    assert stray.wait(60) != 0


def test_what_another_pgtrial_goes_on_with_is_left_alone(tmp_path, stray, monkeypatch):
    keep(tmp_path, monkeypatch, [True] * 10)

    assert stray.poll() is None
