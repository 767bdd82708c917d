"""The file system under the data: one made for the experiment, or the one that is there with other mount options."""

from collections.abc import Mapping, Sequence

from pgtrial.hosts.base import Host
from pgtrial.knobs import filesystem_image, filesystem_remount
from pgtrial.knobs.base import About, HostKnob, KnobContext
from pgtrial.model.change import Change, JournalEntry, Undone


class Filesystem(HostKnob):
    """A wanted ``type`` makes a file system, ``options`` alone remount the one under the directory."""

    name = "filesystem"
    about = About(
        sets="a file system of its own in an image file on a loop device, its space reserved and its device without "
        "discard; or, with options alone, the mount options of the file system under the data, which are then those of "
        "everything on it. Only options that bear on speed are taken, when remounting only those that can be switched "
        "both ways",
        takes_effect="at once",
        rights="root",
        verified="kind, size and every option are read from /proc/self/mountinfo (ext4: /proc/fs/ext4) after mounting, "
        "and again at the end of the run; an option that the kernel passes over is an error",
        undone="the image is unmounted, its loop device given back and the file removed; a remounted file system gets "
        "the options that it had, and they are read",
    )

    async def plan(self, context: KnobContext, wanted: Mapping[str, str]) -> Sequence[Change]:
        if "type" in wanted:
            return filesystem_image.plan(context, wanted)
        return filesystem_remount.plan(context, wanted.get("options", ""))

    async def apply(self, context: KnobContext, change: Change) -> Mapping[str, str]:
        if filesystem_image.is_image(change):
            return await filesystem_image.apply(context, change)
        return filesystem_remount.apply(context.host.ops, change)

    async def undo(self, host: Host, entry: JournalEntry) -> Undone:
        if filesystem_image.is_image(entry.change):
            return await filesystem_image.undo(host, entry)
        return filesystem_remount.undo(host.ops, entry)

    async def still_applied(self, host: Host, entry: JournalEntry) -> str:
        if filesystem_image.is_image(entry.change):
            return filesystem_image.find_drift(host.ops, entry)
        return filesystem_remount.find_drift(host.ops, entry)

    def mount_point(self, context: KnobContext, wanted: Mapping[str, str]) -> str:
        """Where the file system of a wanted ``type`` is mounted: a directory beside its image."""
        return filesystem_image.place(context, wanted).point
