import os
from pathlib import Path

import pytest

from pgtrial.store.cache import cached_text


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


class Maker:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        return f"text größer {self.calls}\n"


def test_what_was_made_once_is_read_again(home: Path) -> None:
    make = Maker()

    assert [cached_text("a", make) for _ in range(3)] == ["text größer 1\n"] * 3
    assert cached_text("b", make) == "text größer 2\n"
    assert sorted(path.name for path in (home / ".cache/pgtrial").iterdir()) == ["a", "b"]


def test_place_is_the_users_choice(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))

    cached_text("a", Maker())

    assert (tmp_path / "elsewhere/pgtrial/a").is_file()
    assert not (home / ".cache").exists()


@pytest.mark.parametrize("damage", [b"", b"half of it", b"x" * 64 + b"\nother text\n", b"\xff" * 70])
def test_damaged_text_is_made_anew_and_kept(home: Path, damage: bytes) -> None:
    make = Maker()
    cached_text("a", make)
    (home / ".cache/pgtrial/a").write_bytes(damage)

    assert cached_text("a", make) == "text größer 2\n"
    assert cached_text("a", make) == "text größer 2\n"


def test_without_a_place_it_is_made_every_time(home: Path) -> None:
    (home / ".cache").write_text("a file")
    make = Maker()

    assert [cached_text("a", make), cached_text("a", make)] == ["text größer 1\n", "text größer 2\n"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files for another user")
def test_what_is_somebody_elses_is_neither_read_nor_written(home: Path) -> None:
    make = Maker()
    cached_text("a", make)
    kept = home / ".cache/pgtrial/a"
    os.chown(kept, 65534, -1)
    assert cached_text("a", make) == "text größer 2\n"

    kept.unlink()
    os.chown(home / ".cache/pgtrial", 65534, -1)
    assert cached_text("a", make) == "text größer 3\n"
    assert not kept.exists()
