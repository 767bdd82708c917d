import asyncio
import errno
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pgtrial.errors import SettingError
from pgtrial.hosts.base import Account, Completed
from pgtrial.hosts.linux.loop_devices import loops_of
from pgtrial.hosts.linux.mount_options import ITEMS, Item
from pgtrial.hosts.linux.mounts import mount_at, mount_of, options_of
from pgtrial.hosts.local import LocalHost
from pgtrial.hosts.operations import Operations
from pgtrial.knobs import filesystem_image
from pgtrial.knobs.base import KnobContext
from pgtrial.knobs.filesystem import Filesystem
from pgtrial.model.change import Change, JournalEntry, Outcome
from support import wait_until
from support.programs import needs_program

KNOB = Filesystem()
OPS = Operations()
TOKEN = "0123abcd"
SIZES = {"ext4": "64MB", "xfs": "320MB", "btrfs": "128MB"}
VALUES = {
    "commit": "17",
    "min_batch_time": "100",
    "max_batch_time": "2000",
    "inode_readahead_blks": "64",
    "stripe": "16",
    "data": "writeback",
    "allocsize": "1m",
    "logbufs": "4",
    "logbsize": "64k",
    "compress": "zstd",
    "max_inline": "1024",
}
pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/dev/loop-control").exists() or shutil.which("losetup") is None,
    reason="needs root and loop devices",
)


def kinds() -> list[Any]:
    return [
        pytest.param(
            kind,
            marks=needs_program(f"mkfs.{kind}", "apt install e2fsprogs xfsprogs btrfs-progs f2fs-tools"),
        )
        for kind in ITEMS
    ]


def context(directory: Path, host: LocalHost | None = None, **more: Any) -> KnobContext:
    return KnobContext(host=host or LocalHost(), token=TOKEN, directory=str(directory), **more)


def plan(where: KnobContext, wanted: Mapping[str, str]) -> Change:
    (change,) = asyncio.run(KNOB.plan(where, wanted))  # type: ignore[misc]
    return change


def entry(change: Change, got: Mapping[str, str] | None = None, **more: Any) -> JournalEntry:
    made = JournalEntry(
        id=1, t=0, host="local", boot_id=OPS.boot_id(), folder="/results", run=None, change=change, got=got
    )
    return replace(made, **more)


def undo(made: JournalEntry) -> tuple[Outcome, str]:
    undone = asyncio.run(KNOB.undo(LocalHost(), made))
    return undone.outcome, undone.text


def traces(directory: Path) -> tuple[list[str], list[str], list[str]]:
    """What is left below a directory: files, loop devices, mounts."""
    below = str(directory)
    loops = [
        text.strip()
        for text in OPS.read_all(["/sys/block/loop*/loop/backing_file"]).values()
        if text.startswith(f"{below}/")
    ]
    mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if f" {below}/" in line]
    return sorted(path.name for path in directory.iterdir()), loops, mounts


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A directory; whatever a test that failed leaves mounted or attached below it is taken away."""
    yield tmp_path
    _, _, mounts = traces(tmp_path)
    for line in reversed(mounts):
        OPS.unmount(line.split()[4], detach=True)
    for path in tmp_path.glob("*.img"):
        for name in loops_of(OPS, str(path)):
            subprocess.run(["losetup", "--detach", f"/dev/{name}"], check=True)


# -- a file system in an image -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", kinds())
def test_a_file_system_is_made_mounted_and_taken_away(folder: Path, kind: str) -> None:
    where, wanted = context(folder), {"type": kind, "size": SIZES[kind], "options": "noatime"}
    change = plan(where, wanted)
    assert change.new_text == f"{kind}, {SIZES[kind]}, noatime"
    assert traces(folder) == ([], [], [])

    got = asyncio.run(KNOB.apply(where, change))
    point = Path(KNOB.mount_point(where, wanted))
    (point / "file").write_text("x")
    mount = mount_of(OPS, str(point / "file"))

    assert (mount.point, mount.kind) == (str(point), kind)
    assert "noatime" in mount.shown
    assert "discard=async" not in mount.shown
    assert got["direct I/O"] in {"on", "off, data are cached twice"}
    assert json.loads(got["options"])["access times"] == "noatime"
    assert point.parent == folder
    assert (folder / f"{point.name}.img").stat().st_blocks * 512 >= int(got["bytes"])
    assert stat_mode(folder / f"{point.name}.img") == 0o600
    assert asyncio.run(KNOB.plan(where, wanted)) == ()
    assert asyncio.run(KNOB.still_applied(LocalHost(), entry(change, got))) == ""

    assert undo(entry(change, got)) == (Outcome.RESTORED, "")
    assert traces(folder) == ([], [], [])
    assert undo(entry(change, got)) == (Outcome.ALREADY, "")


def stat_mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def option(item: Item) -> str:
    """Something else than the default."""
    return f"{item.name}={VALUES[item.name]}" if item.takes_value else item.words[-1]


@pytest.mark.parametrize("kind", kinds())
def test_every_option_is_in_force_in_a_new_file_system(folder: Path, kind: str) -> None:
    alone = {"copy on write", "checksums"}  # these exclude compression
    common = [item for item in ITEMS[kind] if item.fresh and item.name not in alone]
    for items in (common, *([item] for item in ITEMS[kind] if item.name in alone)):
        wanted = {"type": kind, "size": SIZES[kind], "options": ",".join(map(option, items))}
        where = context(folder)
        change = plan(where, wanted)

        got = asyncio.run(KNOB.apply(where, change))

        found = json.loads(got["options"])
        assert all(found[item.name] != item.in_force([]) for item in items)
        assert undo(entry(change, got))[0] is Outcome.RESTORED


class Killed(BaseException):
    pass


class Counting:
    """Lets a number of steps be done and then, before or after the next one, ends everything."""

    def __init__(self, steps: int, *, done: bool) -> None:
        self.steps, self.done = steps, done

    def step(self, work: Callable[[], Any]) -> Any:
        if self.steps == 0:
            if self.done:
                work()
            raise Killed
        self.steps -= 1
        return work()


class DyingOperations(Operations):
    def __init__(self, counting: Counting) -> None:
        self.counting = counting

    def put(self, path: str, text: str, owner: tuple[int, int] | None = None, mode: int = 0o644) -> None:
        fresh = Path(path).with_name(f".{Path(path).name}-0123456789abcdef")
        self.counting.step(lambda: fresh.write_text(text))
        self.counting.step(lambda: fresh.replace(path))

    def write(self, path: str, text: str) -> None:
        self.counting.step(lambda: Operations.write(self, path, text))

    def make_directory(
        self, path: str, owner: tuple[int, int] | None = None, mode: int = 0o700, parents: bool = False
    ) -> None:
        self.counting.step(lambda: Operations.make_directory(self, path, owner, mode, parents))

    def mount(self, source: str, path: str, kind: str, flags: int, options: str) -> None:
        self.counting.step(lambda: Operations.mount(self, source, path, kind, flags, options))


class DyingHost(LocalHost):
    async def run(self, argv: Sequence[str | Path], *, check: bool = True, **_: Any) -> Completed:
        ops = self.ops
        assert isinstance(ops, DyingOperations)
        words = [str(word) for word in argv]
        found = ops.counting.step(lambda: subprocess.run(words, capture_output=True, check=check, text=True))
        return Completed(status=found.returncode, stdout=found.stdout, stderr=found.stderr)


@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
def test_whatever_step_was_the_last_one_nothing_is_left(folder: Path, done: bool) -> None:
    wanted = {"type": "ext4", "size": SIZES["ext4"]}
    change = plan(context(folder), wanted)
    for steps in range(30):
        where = context(folder, DyingHost(ops=DyingOperations(Counting(steps, done=done))))
        try:
            got = asyncio.run(KNOB.apply(where, change))
        except Killed:
            left = traces(folder) != ([], [], [])
            assert undo(entry(change)) == (Outcome.RESTORED if left else Outcome.ALREADY, "")
            assert traces(folder) == ([], [], [])
            assert undo(entry(change)) == (Outcome.ALREADY, "")
        else:
            assert undo(entry(change, got)) == (Outcome.RESTORED, "")
            break
    assert 8 < steps < 29


def test_after_a_reboot_the_image_and_the_directory_are_left_and_removed(folder: Path) -> None:
    change = plan(context(folder), {"type": "ext4", "size": SIZES["ext4"]})
    Path(change.new["image"]).write_bytes(bytes(4096))
    Path(change.new["mount point"]).mkdir()

    assert undo(entry(change, dict(change.new), boot_id="another")) == (Outcome.RESTORED, "")
    assert traces(folder) == ([], [], [])


def test_a_disk_that_is_not_mounted_after_a_reboot_is_no_success(folder: Path) -> None:
    change = plan(context(folder), {"type": "ext4", "size": SIZES["ext4"]})
    elsewhere = replace(change, new={**change.new, "mount point below the image": "/mnt/fast"})

    outcome, text = undo(entry(elsewhere, dict(change.new), boot_id="another"))

    assert outcome is Outcome.CHANGED
    assert 'not mounted at "/mnt/fast" now' in text


def test_half_an_undo_is_brought_to_its_end(folder: Path) -> None:
    where = context(folder)
    change = plan(where, {"type": "ext4", "size": SIZES["ext4"]})
    got = asyncio.run(KNOB.apply(where, change))
    Path(change.new["image"]).unlink()

    assert undo(entry(change, got)) == (Outcome.RESTORED, "")
    assert traces(folder) == ([], [], [])


@pytest.fixture
def holder(folder: Path) -> Iterator[Callable[[str, float], None]]:
    """Starts a process that stands in a directory for some seconds."""
    started: list[subprocess.Popen[bytes]] = []

    def start(directory: str, seconds: float) -> None:
        started.append(subprocess.Popen(["sleep", str(seconds)], cwd=directory))

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_what_is_still_in_use_is_waited_for(folder: Path, holder: Callable[[str, float], None]) -> None:
    where = context(folder)
    change = plan(where, {"type": "ext4", "size": SIZES["ext4"]})
    got = asyncio.run(KNOB.apply(where, change))
    holder(change.new["mount point"], 0.4)

    assert undo(entry(change, got)) == (Outcome.RESTORED, "")
    assert traces(folder) == ([], [], [])


def test_what_stays_in_use_is_taken_out_of_sight_and_said(
    folder: Path, holder: Callable[[str, float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filesystem_image, "_PATIENCE", 0.2)
    where = context(folder)
    change = plan(where, {"type": "ext4", "size": SIZES["ext4"]})
    got = asyncio.run(KNOB.apply(where, change))
    holder(change.new["mount point"], 1.0)

    outcome, text = undo(entry(change, got))

    assert outcome is Outcome.RESTORED
    assert text == f'"{change.new["mount point"]}" was in use all the time; its space becomes free when that ends.'
    files, _, mounts = traces(folder)
    assert (files, mounts) == ([], [])
    wait_until(lambda: traces(folder)[1] == [])


def test_a_file_system_of_somebody_else_is_not_unmounted(folder: Path) -> None:
    where = context(folder)
    change = plan(where, {"type": "ext4", "size": SIZES["ext4"]})
    point = Path(change.new["mount point"])
    point.mkdir()
    OPS.mount("tmpfs", str(point), "tmpfs", 0, "size=64k")
    try:
        outcome, text = undo(entry(change))

        assert outcome is Outcome.CHANGED
        assert 'is mounted at "' in text
        assert mount_at(OPS, str(point)) is not None
    finally:
        OPS.unmount(str(point))


def test_a_file_in_the_directory_is_not_lost(folder: Path) -> None:
    change = plan(context(folder), {"type": "ext4", "size": SIZES["ext4"]})
    point = Path(change.new["mount point"])
    point.mkdir()
    (point / "precious").touch()

    outcome, text = undo(entry(change))

    assert outcome is Outcome.FAILED
    assert os.strerror(errno.ENOTEMPTY) in text
    assert (point / "precious").exists()


def test_what_has_become_of_it_is_told_at_the_end_of_a_run(folder: Path) -> None:
    where = context(folder)
    change = plan(where, {"type": "ext4", "size": SIZES["ext4"], "options": "commit=30"})
    got = asyncio.run(KNOB.apply(where, change))
    point, made = change.new["mount point"], entry(change, got)

    OPS.mount("x", point, "ext4", 32, "commit=20")
    assert "had commit=30 when it was made and has commit=20 now" in asyncio.run(KNOB.still_applied(LocalHost(), made))
    OPS.mount("x", point, "ext4", 32 | 1, "commit=30")
    assert "is read-only now" in asyncio.run(KNOB.still_applied(LocalHost(), made))
    OPS.unmount(point)
    assert "has been unmounted" in asyncio.run(KNOB.still_applied(LocalHost(), made))
    assert undo(made)[0] is Outcome.RESTORED


@pytest.mark.parametrize("delay", [0.01, 0.05, 0.1, 0.2, 0.4])
def test_nothing_is_left_of_a_process_that_was_killed(folder: Path, delay: float, forked: Any) -> None:
    change = plan(context(folder), {"type": "ext4", "size": SIZES["ext4"]})

    def apply() -> None:
        print("go")
        asyncio.run(KNOB.apply(context(folder), change))

    with forked(apply) as process:
        assert process.printed.readline() == "go\n"
        time.sleep(delay)
        process.kill()

    assert undo(entry(change))[0] in {Outcome.RESTORED, Outcome.ALREADY}
    assert traces(folder) == ([], [], [])


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"type": "ext4", "size": "900TB"}, "there is no room for an image of 900 TB"),
        ({"type": "ext4", "size": "64MB", "options": "ro"}, 'mount option "ro" cannot be varied on ext4 in an image'),
    ],
)
def test_what_cannot_be_made_is_known_before(folder: Path, wanted: Mapping[str, str], message: str) -> None:
    with pytest.raises(SettingError, match=message) as caught:
        plan(context(folder), wanted)

    assert caught.value.hint


def test_a_file_that_is_there_is_not_overwritten(folder: Path) -> None:
    wanted = {"type": "ext4", "size": SIZES["ext4"]}
    Path(f"{KNOB.mount_point(context(folder), wanted)}.img").touch()

    with pytest.raises(SettingError, match="already exists") as caught:
        plan(context(folder), wanted)
    assert "pgtrial restore" in caught.value.hint


def test_a_file_system_too_small_for_its_kind_is_refused_in_the_programs_words(folder: Path) -> None:
    where = context(folder)
    change = plan(where, {"type": "ext4", "size": "8kB"})

    with pytest.raises(SettingError, match="cannot create a file system of type ext4") as caught:
        asyncio.run(KNOB.apply(where, change))

    assert caught.value.detail
    assert undo(entry(change)) == (Outcome.RESTORED, "")
    assert traces(folder) == ([], [], [])


def test_an_option_that_the_kernel_refuses_is_an_error(folder: Path) -> None:
    where = context(folder)
    change = plan(where, {"type": "ext4", "size": SIZES["ext4"], "options": "data=nonsense"})

    with pytest.raises(SettingError, match="cannot mount a file system of type ext4") as caught:
        asyncio.run(KNOB.apply(where, change))

    assert caught.value.detail == f"{os.strerror(errno.EINVAL)}."
    assert undo(entry(change)) == (Outcome.RESTORED, "")


def test_an_option_that_the_kernel_limits_is_an_error(folder: Path) -> None:
    where = context(folder)
    change = plan(where, {"type": "ext4", "size": SIZES["ext4"], "options": "commit=0"})

    with pytest.raises(SettingError, match="asked for ext4 with commit=0, got commit=5"):
        asyncio.run(KNOB.apply(where, change))

    assert undo(entry(change)) == (Outcome.RESTORED, "")


class Ordinary(Operations):
    """What an ordinary user sees, on a machine without the programs of ``missing``."""

    def __init__(self, *, user: int = 1000, missing: str = "") -> None:
        self._user, self.missing = user, missing

    def user(self) -> int:
        return self._user

    def which(self, program: str) -> str | None:
        return None if program == self.missing else f"/bin/{program}"

    def exists(self, path: str) -> bool:
        return not (self.missing and path.endswith(self.missing)) and super().exists(path)


@pytest.mark.parametrize(("kind", "package"), [("ext4", "e2fsprogs"), ("xfs", "xfsprogs"), ("btrfs", "btrfs-progs")])
def test_a_program_that_is_missing_is_named_with_its_package(folder: Path, kind: str, package: str) -> None:
    host = LocalHost(ops=Ordinary(user=0, missing=f"mkfs.{kind}"))

    with pytest.raises(SettingError, match=f'"mkfs.{kind}" is missing') as caught:
        plan(context(folder, host), {"type": kind, "size": "1GB"})
    assert caught.value.hint == f'Install the package "{package}".'


def test_only_root_makes_file_systems(folder: Path) -> None:
    with pytest.raises(SettingError, match="needs root") as caught:
        plan(context(folder, LocalHost(ops=Ordinary())), {"type": "ext4", "size": "64MB"})
    assert caught.value.hint == "Run pgtrial as root."


def test_a_directory_that_is_not_there_yet_is_made(folder: Path) -> None:
    where = context(folder / "new")
    change = plan(where, {"type": "ext4", "size": SIZES["ext4"]})

    got = asyncio.run(KNOB.apply(where, change))

    assert undo(entry(change, got)) == (Outcome.RESTORED, "")
    assert traces(folder / "new") == ([], [], [])


# -- other mount options -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=kinds())
def mounted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file system of our own, as a machine has it: neither made by the knob nor for it."""
    kind, folder = request.param, tmp_path_factory.mktemp(request.param)
    image, point = folder / "image", folder / "mount point"
    point.mkdir()
    subprocess.run(["truncate", "--size", SIZES[kind].removesuffix("B"), image], check=True)
    subprocess.run([f"mkfs.{kind}", "-q", image], check=True, capture_output=True)
    subprocess.run(["mount", "-o", "loop,nosuid,relatime", image, point], check=True)
    yield point
    subprocess.run(["umount", point], check=True)


def state(point: Path) -> tuple[tuple[str, ...], Mapping[str, str]]:
    mount = mount_of(OPS, str(point))
    return mount.shown, options_of(OPS, mount)


def test_every_option_is_switched_there_and_back(mounted: Path) -> None:
    before = state(mounted)
    kind = mount_of(OPS, str(mounted)).kind
    for item in (item for item in ITEMS[kind] if item.remount):
        words = [option(item)] if item.takes_value else [word for word in item.words if word != before[1][item.name]]
        for word in words:
            where = context(mounted)
            change = plan(where, {"options": word})
            assert change.name == f'mount options of "{mounted}"'

            got = asyncio.run(KNOB.apply(where, change))

            made = entry(change, got)
            assert state(mounted)[1] == {item: value for item, value in got.items() if item in before[1]}
            assert state(mounted)[1][item.name] != before[1][item.name]
            assert "nosuid" in state(mounted)[0]
            assert asyncio.run(KNOB.plan(where, {"options": word})) == ()
            assert asyncio.run(KNOB.still_applied(LocalHost(), made)) == ""
            assert undo(made) == (Outcome.RESTORED, "")
            assert state(mounted) == before
            assert undo(made) == (Outcome.ALREADY, "")


def test_several_options_are_one_change_that_a_person_can_read(mounted: Path) -> None:
    before = state(mounted)
    where = context(mounted / "not" / "there", data=str(mounted))
    change = plan(where, {"options": "noatime,nodiratime,lazytime"})

    assert (change.old_text, change.new_text) == ("relatime, diratime, nolazytime", "noatime, nodiratime, lazytime")
    got = asyncio.run(KNOB.apply(where, change))
    assert {"noatime", "nodiratime", "lazytime"} <= set(state(mounted)[0])
    assert undo(entry(change, got))[0] is Outcome.RESTORED
    assert state(mounted) == before
    assert asyncio.run(KNOB.plan(where, {"options": ""})) == ()


def test_what_is_dangerous_for_everything_else_there_is_said(mounted: Path) -> None:
    if mount_of(OPS, str(mounted)).kind == "xfs":
        with pytest.raises(SettingError, match='"nobarrier" cannot be varied on xfs'):
            plan(context(mounted), {"options": "nobarrier"})
    else:
        assert "losing power" in plan(context(mounted), {"options": "nobarrier"}).new_text


def test_a_change_that_was_not_confirmed_is_undone(mounted: Path) -> None:
    before = state(mounted)
    where = context(mounted)
    change = plan(where, {"options": "noatime"})

    assert undo(entry(change)) == (Outcome.ALREADY, "")
    asyncio.run(KNOB.apply(where, change))
    assert undo(entry(change)) == (Outcome.RESTORED, "")
    assert state(mounted) == before


def test_what_somebody_else_has_remounted_is_left(mounted: Path) -> None:
    where = context(mounted)
    change = plan(where, {"options": "noatime"})
    got = asyncio.run(KNOB.apply(where, change))
    subprocess.run(["mount", "-o", "remount,strictatime", mounted], check=True)
    try:
        made = entry(change, got)
        assert "had noatime after it was remounted" in asyncio.run(KNOB.still_applied(LocalHost(), made))
        outcome, text = undo(made)

        assert outcome is Outcome.CHANGED
        assert "had relatime, pgtrial made it noatime, and it is strictatime now" in text
        assert undo(entry(change, got, boot_id="another"))[0] is Outcome.REBOOTED
    finally:
        subprocess.run(["mount", "-o", "remount,relatime", mounted], check=True)
    assert undo(entry(change, got, boot_id="another"))[0] is Outcome.ALREADY


def test_a_mount_that_is_gone_is_told(mounted: Path) -> None:
    change = plan(context(mounted), {"options": "noatime"})
    gone = replace(change, new={**change.new, "device": "0:999"})

    assert undo(entry(gone)) == (Outcome.CHANGED, f'The file system at "{mounted}" has been unmounted.')
    assert "has been unmounted" in asyncio.run(KNOB.still_applied(LocalHost(), entry(gone, {})))
    with pytest.raises(SettingError, match="is not the one that it was a moment ago"):
        asyncio.run(KNOB.apply(context(mounted), gone))


def test_a_file_system_that_went_read_only_is_not_made_writable(mounted: Path) -> None:
    where = context(mounted)
    change = plan(where, {"options": "noatime"})
    got = asyncio.run(KNOB.apply(where, change))
    subprocess.run(["mount", "-o", "remount,ro", mounted], check=True)
    try:
        outcome, _ = undo(entry(change, got))

        assert outcome is Outcome.RESTORED
        assert "ro" in state(mounted)[0]
        with pytest.raises(SettingError, match="is mounted read-only"):
            plan(where, {"options": "noatime"})
    finally:
        subprocess.run(["mount", "-o", "remount,rw", mounted], check=True)


def test_only_root_remounts(mounted: Path) -> None:
    with pytest.raises(SettingError, match=r"remounting .* needs root"):
        plan(context(mounted, LocalHost(ops=Ordinary())), {"options": "noatime"})


class Refusing(Operations):
    def __init__(self, number: int) -> None:
        self.number = number

    def mount(self, source: str, path: str, kind: str, flags: int, options: str) -> None:
        if self.number:
            raise OSError(self.number, os.strerror(self.number), path)


@pytest.mark.parametrize(
    ("number", "message"),
    [(errno.EPERM, "needs root"), (errno.EINVAL, "cannot be noatime"), (0, "asked for noatime, got relatime")],
)
def test_a_kernel_that_does_not_do_as_told_is_an_error(mounted: Path, number: int, message: str) -> None:
    where = context(mounted)
    change = plan(where, {"options": "noatime"})

    with pytest.raises(SettingError, match=message):
        asyncio.run(KNOB.apply(context(mounted, LocalHost(ops=Refusing(number))), change))


@pytest.mark.parametrize("number", [errno.EBUSY, 0])
def test_an_undo_that_fails_says_why(mounted: Path, number: int) -> None:
    where = context(mounted)
    change = plan(where, {"options": "noatime"})
    got = asyncio.run(KNOB.apply(where, change))
    try:
        undone = asyncio.run(KNOB.undo(LocalHost(ops=Refusing(number)), entry(change, got)))

        assert undone.outcome is Outcome.FAILED
        assert (os.strerror(number) if number else "has noatime, not relatime as before") in undone.text
    finally:
        assert undo(entry(change, got))[0] is Outcome.RESTORED


def test_other_file_systems_are_not_remounted(folder: Path) -> None:
    OPS.mount("tmpfs", str(folder), "tmpfs", 0, "size=64k")
    try:
        with pytest.raises(SettingError, match="cannot be varied, it is tmpfs") as caught:
            plan(context(folder), {"options": "noatime"})
        assert "ext4, xfs, btrfs" in caught.value.hint
    finally:
        OPS.unmount(str(folder))


def test_the_server_can_write_there_as_another_user(folder: Path) -> None:
    # A directory of pytest's is not open to others; what is mounted in it is.
    where = context(folder, account=Account(name="nobody", uid=65534, gid=65534))
    change = plan(where, {"type": "ext4", "size": SIZES["ext4"]})
    got = asyncio.run(KNOB.apply(where, change))

    assert stat_mode(Path(change.new["mount point"])) == 0o755
    assert undo(entry(change, got))[0] is Outcome.RESTORED
