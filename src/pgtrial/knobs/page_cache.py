"""Empty the page cache of what lies under directories, so that the next reader is charged for it."""

from collections.abc import Sequence

from pgtrial.hosts.base import Host

# posix_fadvise(2) leaves out what has not been written to disk, so that is done first. Arguments: directories.
_EVICT = """
import os, sys
for top in sys.argv[1:]:
    for directory, _, names in os.walk(top):
        for name in names:
            try:
                file = os.open(os.path.join(directory, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            except OSError:
                continue  # a link, a socket, or gone
            try:
                os.fdatasync(file)
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            except OSError:
                pass  # not a file with data
            finally:
                os.close(file)
"""


async def evict(host: Host, directories: Sequence[str]) -> None:
    """Write out and forget the cached pages of all files under the directories. Raises HostCommandError."""
    await host.run([host.ops.python(), "-I", "-S", "-c", _EVICT, *directories])
