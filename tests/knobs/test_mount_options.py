import pytest

from pgtrial.errors import SettingError
from pgtrial.hosts.linux.mount_options import (
    ITEMS,
    Item,
    mount_data,
    mount_flags,
    options_in_force,
    parse_options,
    same_option,
)


def test_options_are_told_apart_by_what_they_decide() -> None:
    assert parse_options("ext4", "noatime,nobarrier,commit=30", remount=True) == {
        "access times": "noatime",
        "barriers": "nobarrier",
        "commit": "commit=30",
    }
    assert parse_options("xfs", "", remount=True) == {}


@pytest.mark.parametrize(
    ("kind", "written", "usual"),
    [
        ("ext4", "barrier=0", "nobarrier"),
        ("ext4", "nodioread_nolock", "dioread_lock"),
        ("xfs", "allocsize=1m", "allocsize=1048576"),
        ("xfs", "logbsize=64K", "logbsize=65536"),
        ("btrfs", "compress", "compress=zlib"),
        ("btrfs", "compress=none", "compress=no"),
        ("btrfs", "compress=zstd:3", "compress=zstd:3"),
    ],
)
def test_an_option_has_one_form_however_it_is_written(kind: str, written: str, usual: str) -> None:
    assert list(parse_options(kind, written, remount=False).values()) == [usual]


@pytest.mark.parametrize(
    ("kind", "option", "remount"),
    [
        ("ext4", "ro", True),
        ("ext4", "noexec", True),
        ("ext4", "errors=panic", False),
        ("xfs", "nobarrier", False),
        ("xfs", "commit=5", True),
        ("ext4", "commit", True),
        ("ext4", "commit=", True),
        ("ext4", "loop", False),
        ("btrfs", "discard=async", False),
    ],
)
def test_what_protects_or_means_nothing_is_refused_with_what_can_be_varied(
    kind: str, option: str, remount: bool
) -> None:
    with pytest.raises(SettingError, match=f'"{option}" cannot be varied on {kind}') as caught:
        parse_options(kind, f"noatime,{option}", remount=remount)

    assert "noatime" in caught.value.hint
    assert caught.value.detail == ""


def test_what_is_taken_only_at_a_new_mount_is_refused_for_one_that_is_there() -> None:
    with pytest.raises(SettingError, match='"nodelalloc" cannot be varied on ext4 that is mounted already') as caught:
        parse_options("ext4", "nodelalloc", remount=True)

    assert "only when a file system is mounted anew" in caught.value.detail
    assert "nodelalloc" not in caught.value.hint
    assert parse_options("ext4", "nodelalloc", remount=False) == {"delayed allocation": "nodelalloc"}


def test_two_options_about_one_thing_exclude_each_other() -> None:
    with pytest.raises(SettingError, match='"noatime" and "relatime" exclude each other'):
        parse_options("xfs", "noatime,relatime", remount=True)


def test_what_is_not_shown_is_the_default_and_the_last_one_shown_holds() -> None:
    found = options_in_force("ext4", ["rw", "noatime", "nobarrier", "commit=30", "data=writeback"])

    assert found["access times"] == "noatime"
    assert found["access times of directories"] == "diratime"
    assert found["barriers"] == "nobarrier"
    assert found["commit"] == "commit=30"
    assert found["max_batch_time"] == "max_batch_time=15000"
    assert found["data"] == "data=writeback"
    assert options_in_force("xfs", ["rw"])["access times"] == "strictatime"
    assert options_in_force("xfs", ["rw"])["allocsize"] == "allocsize="
    assert options_in_force("btrfs", ["relatime", "discard=async", "discard"])["discard"] == "discard=sync"


def test_a_level_that_was_left_open_is_the_kernels() -> None:
    assert same_option("compress=zstd", "compress=zstd:3")
    assert not same_option("compress=zstd:1", "compress=zstd:3")
    assert not same_option("commit=3", "commit=30")


def test_flags_and_options_go_to_the_kernel_apart() -> None:
    options = parse_options("ext4", "noatime,nodiratime,lazytime,nobarrier,commit=9", remount=True)

    assert mount_flags("ext4", options) == 0x400 | 0x800 | 0x2000000
    assert mount_data("ext4", options) == "nobarrier,commit=9"
    assert mount_flags("ext4", {"access times": "strictatime", "lazy times": "nolazytime"}) == 0x1000000
    assert mount_data("xfs", {"allocsize": "allocsize=", "synchronous metadata": ""}) == ""


@pytest.mark.parametrize("kind", ITEMS)
def test_each_option_is_about_one_item_only(kind: str) -> None:
    words = [word for item in ITEMS[kind] for word in (*item.words, *item.aliases) if word]

    assert len(words) == len(set(words))
    assert len({item.name for item in ITEMS[kind]}) == len(ITEMS[kind])
    assert all(item.takes_value != bool(item.words) for item in ITEMS[kind])
    assert all(item.read(word) for item in ITEMS[kind] for word in item.aliases)


def test_an_item_shows_how_it_is_written() -> None:
    assert Item(name="commit", takes_value=True).forms() == ("commit=…",)
    assert Item(name="x", words=("", "wsync")).forms() == ("wsync",)
