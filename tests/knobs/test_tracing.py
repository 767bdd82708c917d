"""Tracefs is simulated: a directory in which making an instance makes its files, as the kernel does."""

from pathlib import Path

import pytest

from pgtrial.errors import SettingError
from pgtrial.hosts.operations import Operations
from pgtrial.knobs.tracing import Tracing
from pgtrial.model.change import Outcome
from pgtrial.model.tracing import EVENT, INSTANCE, TRIGGER

ROOT = "/sys/kernel/tracing"


class Tracefs(Operations):
    """``root`` stands for /sys/kernel/tracing; ``refuses``: the kernel does not take the trigger."""

    def __init__(self, root: Path, *, refuses: bool = False) -> None:
        self.root, self.refuses = root, refuses

    def _at(self, path: str) -> str:
        return path.replace(ROOT, str(self.root)) if path.startswith(ROOT) else path

    def exists(self, path: str) -> bool:
        return super().exists(self._at(path))

    def is_writable(self, path: str) -> bool:
        return super().is_writable(self._at(path))

    def read(self, path: str, limit: int | None = None) -> str:
        return super().read(self._at(path), limit)

    def make_directory(
        self, path: str, owner: tuple[int, int] | None = None, mode: int = 0o700, parents: bool = False
    ) -> None:
        super().make_directory(self._at(path), owner, mode, parents)
        event = Path(self._at(path)) / EVENT
        event.mkdir(parents=True)
        (event / "trigger").write_text("# Available triggers:\n")

    def write(self, path: str, text: str) -> None:
        if not path.startswith(ROOT):
            super().write(path, text)
        elif self.refuses:
            raise OSError(22, "Invalid argument")
        else:
            kept = "# Available triggers:\n" if text.startswith("!") else f"{text.strip()} [active]\n"
            Path(self._at(path)).write_text(kept)

    def remove_directory(self, path: str) -> None:
        instance = Path(self._at(path))
        for file in sorted(instance.rglob("*"), reverse=True):
            file.rmdir() if file.is_dir() else file.unlink()
        super().remove_directory(str(instance))


@pytest.fixture
def tracefs(tmp_path: Path) -> Path:
    (tmp_path / EVENT).mkdir(parents=True)
    (tmp_path / EVENT / "hist").write_text("")
    (tmp_path / "instances").mkdir()
    return tmp_path


def test_pauses_are_counted_and_nothing_is_left(bench, tracefs: Path) -> None:
    table = bench(Tracing(), Tracefs(tracefs))

    (entry,) = table.apply({"throttling": "required"})

    assert TRIGGER in entry.got[f"{INSTANCE}/{EVENT}/trigger"]
    assert (tracefs / "instances" / "pgtrial").is_dir()
    assert table.undo().outcome is Outcome.RESTORED
    assert list((tracefs / "instances").iterdir()) == []
    assert table.undo().outcome is Outcome.ALREADY


def test_what_was_begun_and_not_confirmed_is_undone(bench, tracefs: Path) -> None:
    table = bench(Tracing(), Tracefs(tracefs, refuses=True))

    with pytest.raises(SettingError, match="cannot be counted here"):
        table.apply({"throttling": "required"})

    assert table.undo().outcome is Outcome.RESTORED
    assert list((tracefs / "instances").iterdir()) == []


@pytest.mark.parametrize("missing", [EVENT, f"{EVENT}/hist"])
def test_where_it_cannot_be_had_only_the_one_who_requires_it_is_refused(bench, tracefs: Path, missing: str) -> None:
    gone = tracefs / missing
    (gone / "hist").unlink() if gone.is_dir() else gone.unlink()
    if gone.is_dir():
        gone.rmdir()
    table = bench(Tracing(), Tracefs(tracefs))

    assert table.plan({"throttling": "if-possible"}) == []
    with pytest.raises(SettingError, match="cannot be counted here"):
        table.plan({"throttling": "required"})


def test_switched_off_it_changes_nothing(bench, tracefs: Path) -> None:
    assert bench(Tracing(), Tracefs(tracefs)).plan({"throttling": "off"}) == []


def test_somebody_who_removes_the_instance_is_noticed(bench, tracefs: Path, runner) -> None:
    ops = Tracefs(tracefs)
    table = bench(Tracing(), ops)
    (entry,) = table.apply({"throttling": "required"})

    assert runner.run(Tracing().still_applied(table.host, entry)) == ""
    ops.remove_directory(INSTANCE)
    assert runner.run(Tracing().still_applied(table.host, entry)).endswith("is gone.")
