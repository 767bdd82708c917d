"""The snapshot of the prepared data, restored before runs."""

import glob
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pgtrial.errors import HostCommandError, TargetError
from pgtrial.hosts.base import Host
from pgtrial.postgres.throwaway import ThrowawayCluster
from pgtrial.postgres.work_directory import make_own, remove_until_gone, writing

_COMPLETE = "snapshot.complete"
_NAME = "snapshot"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A copy of a stopped cluster's data directory beside it, shared block by block where the file system can.

    A WAL directory of its own is copied likewise, beside itself. ``taken_of`` is the cluster whose snapshot it is,
    where that is another one, which has to be laid out in the same way.
    """

    host: Host
    cluster: ThrowawayCluster
    taken_of: ThrowawayCluster | None = None

    @property
    def _origin(self) -> ThrowawayCluster:
        return self.taken_of or self.cluster

    @property
    def directory(self) -> Path:
        return self._origin.directory / _NAME

    @property
    def _mark(self) -> Path:
        return self._origin.directory / _COMPLETE

    def _pairs(self) -> Iterator[tuple[Path, Path]]:
        """Directories of the cluster, and the copy of each."""
        yield self.cluster.data, self.directory
        if self._origin.wal_directory is not None:
            yield self.cluster.wal, self._origin.wal_directory / _NAME

    def is_complete(self) -> bool:
        """Whether a whole snapshot is there, also one that an earlier, interrupted pgtrial made."""
        return self.host.ops.is_file(str(self._mark))

    async def take(self) -> None:
        """Keep a copy of the stopped cluster's data.

        Raises TargetError if some of the data lie elsewhere, where no copy would put them back.
        """
        ops, tablespaces = self.host.ops, glob.escape(str(self.cluster.data / "pg_tblspc"))
        links = [path for path in ops.glob(f"{tablespaces}/*") if ops.is_link(path)]
        if links:
            raise TargetError(
                f'the data have a tablespace in "{ops.resolve(links[0])}"',
                detail="It could not be put back before each run.",
                hint="Leave it out of the set-up; directory in [target] chooses the storage of all data.",
            )
        for original, copy in self._pairs():
            await copy_directory(self.cluster, original, copy)
        with writing(self._mark):
            ops.put(str(self._mark), "")

    async def restore(self) -> None:
        """Put the data back and write them out, so that the copy's own write-back is over before the load begins."""
        await self.cluster.clear()  # of a server that was killed together with the pgtrial that had started it
        # Nothing of the old data may stay: the copy would come to lie inside them, and they would be used again.
        originals = [original for original, _ in self._pairs()]
        if not await remove_until_gone(self.host, *originals):
            raise TargetError(f'cannot remove the data of the previous run in "{self.cluster.data}"')
        for original, copy in self._pairs():
            await copy_directory(self.cluster, copy, original)


async def copy_directory(cluster: ThrowawayCluster, source: Path, copy: Path) -> None:
    """Copy one of the directories of a cluster, or into it, and write the copy out. Raises TargetError."""
    host = cluster.host
    with writing(copy):
        make_own(host, copy, cluster.account)
    try:
        # As the server's account, whose directories these are: root would go where their owner sends it.
        await host.run(
            ["cp", "-a", "--reflink=auto", f"{source}/.", copy],
            account=cluster.account,
            directory=cluster.directory,
        )
    except HostCommandError as err:
        raise TargetError(f'cannot copy the data to "{copy}"', detail=err.detail) from err
    # The file system as a whole: one call, and nothing else of ours is waiting to be written there.
    await host.run(["sync", "--file-system", copy])
