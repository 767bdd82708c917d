"""PostgreSQL settings of a throw-away cluster: set before its start, verified once it runs.

They live in a file of the cluster's own data directory, so there is nothing on the host to put back.
"""

from collections.abc import Mapping

from pgtrial.errors import SettingError
from pgtrial.postgres.settings import Setting, find_mismatches, read_settings
from pgtrial.postgres.throwaway import ThrowawayCluster

NAME = "postgresql"


def apply(cluster: ThrowawayCluster, settings: Mapping[str, str]) -> None:
    """Write the settings for the next start of the cluster."""
    cluster.write_settings(settings)


async def verify(
    cluster: ThrowawayCluster, settings: Mapping[str, str], *, database: str = "postgres"
) -> dict[str, Setting]:
    """Read back every setting; SettingError if one of ``settings`` is not what was asked for, or not from our file.

    They are those of a session in ``database``, which may have values of its own (ALTER DATABASE … SET).
    """
    actual = await read_settings(cluster.conninfo(database), also=settings)
    mismatches = find_mismatches(settings, actual, source_file=str(cluster.conf))
    if mismatches:
        name, wanted, got = mismatches[0]
        raise SettingError(
            f'setting "{name}" is {got} after the start, expected {wanted}',
            detail=" ".join(f'"{name}": expected {wanted}, got {got}.' for name, wanted, got in mismatches[1:]),
        )
    return actual
