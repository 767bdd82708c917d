"""What can be varied, one file each."""

from collections.abc import Mapping

from pgtrial.knobs.base import HostKnob
from pgtrial.knobs.block_device import BlockDevice
from pgtrial.knobs.cgroup import Cgroup
from pgtrial.knobs.filesystem import Filesystem
from pgtrial.knobs.huge_pages import HugePages
from pgtrial.knobs.memory_pressure import MemoryPressure
from pgtrial.knobs.server_database import ServerDatabase
from pgtrial.knobs.server_settings import ServerSettings
from pgtrial.knobs.sysctl import Sysctl
from pgtrial.knobs.tracing import Tracing
from pgtrial.knobs.transparent_huge_pages import TransparentHugePages

# In the order in which they are applied; undone in the reverse order. Transparent huge pages change
# vm.min_free_kbytes, which an arm may set; memory pressure would leave the kernel nothing to make huge pages of.
HOST_KNOBS: tuple[HostKnob, ...] = (
    Filesystem(),
    Cgroup(),
    TransparentHugePages(),
    Sysctl(),
    BlockDevice(),
    HugePages(),
    MemoryPressure(),
    Tracing(),
)


def restoring_knobs(caller: Mapping[str, str]) -> tuple[HostKnob, ...]:
    """All that can undo what a journal has. ``caller`` are libpq's variables, by which a server is reached again."""
    return (*HOST_KNOBS, ServerSettings(caller=caller), ServerDatabase(caller=caller))
