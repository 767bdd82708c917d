"""What has to be known of a machine to say which methods are valid on it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """The machine of the server. ``cores`` has the CPUs of each physical core that this process may use,
    ``memory_available`` is in bytes, None where it is not known; ``local`` that pgtrial is on it as well.
    """

    local: bool
    cores: tuple[tuple[int, ...], ...]
    memory_available: int | None
