"""Mount options that can be varied: how each is written, what is in force when none is shown, and what was asked.

Only those that bear on speed are here. Those that protect (ro, noexec, errors), that name another device or file, or
that change what a directory shows, are not.
Sources: the kernel's Documentation/admin-guide/ext4.rst and xfs.rst, btrfs(5), mount(8). What can be switched both ways
while mounted, and what the kernel then shows, was tried with Linux 6.18.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pgtrial.errors import SettingError

_SIZE = re.compile(r"([0-9]{1,18})([kmg]?)", re.IGNORECASE)
_FACTORS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """Something that one option decides, or one of several.

    ``words`` are the options without a value, the first in force when none is shown; "" for one that has no name.
    With ``takes_value`` it is "NAME=VALUE", and ``default`` the value when none is shown. ``aliases`` are other ways to
    write an option. ``flags`` are those of mount(2), by word, for what is no option of the file system itself.
    ``remount`` says whether it can be switched both ways while mounted, ``fresh`` whether it means something for a
    file system in an image file: that has no blocks to discard.
    """

    name: str
    words: tuple[str, ...] = ()
    takes_value: bool = False
    default: str = ""
    aliases: Mapping[str, str] = field(default_factory=dict)
    flags: Mapping[str, int] = field(default_factory=dict)
    remount: bool = True
    fresh: bool = True

    def read(self, option: str) -> str | None:
        """The option in its usual form, None if it is about something else."""
        option = self.aliases.get(option, option)
        name, _, value = option.partition("=")
        if self.takes_value:
            return f"{name}={_plain(value)}" if value and name == self.name else None
        return option if option and option in self.words else None

    def in_force(self, shown: Iterable[str]) -> str:
        """What is in force where the kernel shows these options."""
        found = [text for option in shown if (text := self.read(option)) is not None]
        if found:
            return found[-1]
        return f"{self.name}={self.default}" if self.takes_value else self.words[0]

    def forms(self) -> tuple[str, ...]:
        """How it can be written, for people."""
        return (f"{self.name}=…",) if self.takes_value else tuple(filter(None, self.words))


# Flags of mount(2) (linux/mount.h).
REMOUNT = 1 << 5
_NOATIME, _NODIRATIME, _RELATIME, _STRICTATIME, _LAZYTIME = 1 << 10, 1 << 11, 1 << 21, 1 << 24, 1 << 25
# What else a mount may have, and loses when it is remounted without. "ro" may have come meanwhile: after an error some
# file systems go on read-only.
KEPT_FLAGS = {
    "ro": 1,
    "nosuid": 1 << 1,
    "nodev": 1 << 2,
    "noexec": 1 << 3,
    "sync": 1 << 4,
    "mand": 1 << 6,
    "nosymfollow": 1 << 8,
}

_OF_ALL = (
    Item(
        name="access times",
        words=("strictatime", "relatime", "noatime"),
        flags={"strictatime": _STRICTATIME, "relatime": _RELATIME, "noatime": _NOATIME},
    ),
    Item(name="access times of directories", words=("diratime", "nodiratime"), flags={"nodiratime": _NODIRATIME}),
    Item(name="lazy times", words=("nolazytime", "lazytime"), flags={"lazytime": _LAZYTIME}),
)
_BARRIER = Item(
    name="barriers", words=("barrier", "nobarrier"), aliases={"barrier=1": "barrier", "barrier=0": "nobarrier"}
)

ITEMS: Mapping[str, tuple[Item, ...]] = {
    "ext4": (
        *_OF_ALL,
        _BARRIER,
        Item(name="commit", takes_value=True, default="5"),
        Item(name="discard", words=("nodiscard", "discard"), fresh=False),
        Item(name="auto_da_alloc", words=("auto_da_alloc", "noauto_da_alloc")),
        Item(
            name="dioread",
            words=("dioread_nolock", "dioread_lock"),
            aliases={"nodioread_nolock": "dioread_lock", "nodioread_lock": "dioread_nolock"},
        ),
        Item(name="min_batch_time", takes_value=True, default="0"),
        Item(name="max_batch_time", takes_value=True, default="15000"),
        Item(name="inode_readahead_blks", takes_value=True, default="32"),
        Item(name="stripe", takes_value=True, default="0"),
        Item(name="delayed allocation", words=("delalloc", "nodelalloc"), remount=False),
        Item(name="data", takes_value=True, default="ordered", remount=False),
        Item(name="journal commit", words=("", "journal_async_commit"), remount=False),
    ),
    "xfs": (
        *_OF_ALL,
        Item(name="inodes", words=("inode64", "inode32")),
        Item(name="large I/O", words=("nolargeio", "largeio"), remount=False),
        Item(name="allocsize", takes_value=True, remount=False),
        Item(name="logbufs", takes_value=True, default="8", remount=False),
        Item(name="logbsize", takes_value=True, default="32768", remount=False),
        Item(name="synchronous metadata", words=("", "wsync"), remount=False),
        Item(name="file streams", words=("", "filestreams"), remount=False),
    ),
    "btrfs": (
        *_OF_ALL,
        _BARRIER,
        Item(name="commit", takes_value=True, default="30"),
        Item(
            name="discard",
            words=("nodiscard", "discard=sync", "discard=async"),
            aliases={"discard": "discard=sync"},
            fresh=False,
        ),
        Item(name="copy on write", words=("datacow", "nodatacow")),
        Item(name="checksums", words=("datasum", "nodatasum")),
        Item(
            name="compress",
            takes_value=True,
            default="no",
            aliases={"compress": "compress=zlib", "compress=none": "compress=no"},
        ),
        Item(name="defragmentation", words=("noautodefrag", "autodefrag")),
        Item(name="flush on commit", words=("noflushoncommit", "flushoncommit")),
        Item(name="tree log", words=("treelog", "notreelog")),
        Item(name="max_inline", takes_value=True, default="2048"),
    ),
}


def parse_options(kind: str, text: str, *, remount: bool) -> dict[str, str]:
    """Item to option of "noatime,commit=30" for a file system. SettingError for what cannot be varied there."""
    items = [item for item in ITEMS[kind] if (item.remount if remount else item.fresh)]
    found: dict[str, str] = {}
    for option in filter(None, text.split(",")):
        item, wanted = _find(items, option)
        if item is None:
            raise _refused(kind, option, items, remount=remount)
        if item.name in found:
            raise SettingError(f'mount options "{found[item.name]}" and "{wanted}" exclude each other')
        found[item.name] = wanted
    return found


def options_in_force(kind: str, shown: Iterable[str]) -> dict[str, str]:
    """Item to option of all that can be varied, where the kernel shows these options of a mount."""
    shown = list(shown)
    return {item.name: item.in_force(shown) for item in ITEMS[kind]}


def same_option(asked: str, got: str) -> bool:
    """Whether what is in force is what was asked for; a level of compression that was left open is the kernel's."""
    return got == asked or (asked.startswith("compress=") and got.startswith(f"{asked}:"))


def mount_flags(kind: str, options: Mapping[str, str]) -> int:
    """Flags of mount(2) for the options of these items; a remount wants all of them, also those that stay."""
    flags = 0
    for item in ITEMS[kind]:
        flags |= item.flags.get(options.get(item.name, ""), 0)
    return flags


def mount_data(kind: str, options: Mapping[str, str]) -> str:
    """The options of these items that go to the file system itself; others stay as they are, or are the default."""
    texts = [options[item.name] for item in ITEMS[kind] if item.name in options and not item.flags]
    return ",".join(text for text in texts if text and not text.endswith("="))


def _find(items: Iterable[Item], option: str) -> tuple[Item | None, str]:
    for item in items:
        wanted = item.read(option)
        if wanted is not None:
            return item, wanted
    return None, ""


def _refused(kind: str, option: str, items: Iterable[Item], *, remount: bool) -> SettingError:
    forms = [form for item in items for form in item.forms()]
    known = _find(ITEMS[kind], option)[0] is not None
    where = f"{kind} that is mounted already" if remount else f"{kind} in an image file"
    return SettingError(
        f'mount option "{option}" cannot be varied on {where}',
        detail="It is taken only when a file system is mounted anew." if known and remount else "",
        hint=f"What can be varied there: {', '.join(forms)}.",
    )


def _plain(value: str) -> str:
    """A number without its unit, as 1024k for 1m; other texts as they are."""
    match = _SIZE.fullmatch(value)
    return str(int(match[1]) * _FACTORS[match[2].lower()]) if match is not None else value
