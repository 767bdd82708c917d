"""The prepared data, kept aside, and put back before runs."""

from dataclasses import dataclass
from pathlib import Path

from pgtrial.errors import HostCommandError, TargetError
from pgtrial.hosts.base import Host
from pgtrial.postgres.throwaway import ThrowawayCluster
from pgtrial.postgres.work_directory import remove_until_gone, writing

_COMPLETE = "snapshot.complete"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A copy of a stopped cluster's data directory beside it, shared block by block where the file system can."""

    host: Host
    cluster: ThrowawayCluster

    @property
    def directory(self) -> Path:
        return self.cluster.directory / "snapshot"

    @property
    def _mark(self) -> Path:
        return self.cluster.directory / _COMPLETE

    def is_complete(self) -> bool:
        """Whether a whole snapshot is there, also one that an earlier, interrupted pgtrial made."""
        return self._mark.is_file()

    async def take(self) -> None:
        """Keep a copy of the stopped cluster's data.

        Raises TargetError if some of the data lie elsewhere, where no copy would put them back.
        """
        links = [path for path in (self.cluster.data / "pg_tblspc").iterdir() if path.is_symlink()]
        if links:
            raise TargetError(
                f'the data have a tablespace in "{links[0].resolve()}"',
                detail="It could not be put back before each run.",
                hint="Leave it out of the set-up; directory in [target] chooses the storage of all data.",
            )
        await self._copy(self.cluster.data, self.directory)
        with writing(self._mark):
            self._mark.touch()

    async def restore(self) -> None:
        """Put the data back and write them out, so that the copy's own write-back is over before the load begins."""
        # Nothing of the old data may stay: the copy would come to lie inside them, and they would be used again.
        if not await remove_until_gone(self.cluster.data):
            raise TargetError(f'cannot remove the data of the run before in "{self.cluster.data}"')
        await self._copy(self.directory, self.cluster.data)

    async def _copy(self, source: Path, copy: Path) -> None:
        try:
            await self.host.run(["cp", "-a", "--reflink=auto", source, copy])
        except HostCommandError as err:
            raise TargetError(f'cannot copy the data to "{copy}"', detail=err.detail) from err
        # The file system as a whole: one call, and nothing else of ours is waiting to be written there.
        await self.host.run(["sync", "--file-system", copy])
