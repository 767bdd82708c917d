"""What the engine asks of a load, whatever kind it is."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from pgtrial.engine.target.base import RunningServer
from pgtrial.knobs.fio import Cache
from pgtrial.model.arm import Arm
from pgtrial.model.run import LoadLevel, Slice
from pgtrial.store.transactions import LoadLog
from pgtrial.workloads.base import Generator, Output


class Load(Protocol):
    """The load of an experiment. ``program`` makes it, and says what it does as ``output`` tells."""

    @property
    def program(self) -> Path: ...
    @property
    def output(self) -> Output: ...

    def facts(self) -> Mapping[str, str]:
        """Facts of the load for the fingerprint of the experiment, "group/name" to value."""

    async def try_out(self, arm: Arm, server: RunningServer) -> None:
        """Do a little of it with an arm that is up. Raises SettingError or WorkloadError that names what fails."""

    def cache_of(self, arm: Arm) -> Cache:
        """The state of the caches that the arm's runs begin with."""

    async def make_cold(self, arm: Arm) -> None:
        """Empty the page cache of the arm's data, before the arm is started. Raises SettingError, HostCommandError."""

    async def make_warm(self, arm: Arm, server: RunningServer) -> None:
        """Fill the cache with the arm's data, as far as they fit. Raises TargetError."""

    def generators(
        self,
        arm: Arm,
        server: RunningServer,
        level: LoadLevel,
        *,
        block: int,
        seconds: int,
        log_directory: str | None,
    ) -> tuple[Generator, ...]:
        """The load generators of an arm at a level, which are logged for what is measured only.

        The arms of a block see the same random numbers, other blocks see others; and so does what is not measured, the
        warm-up: it must not touch the very data that are measured next, and so put them into the cache.
        """

    def logs(
        self,
        level: LoadLevel,
        generators: Sequence[Generator],
        *,
        window: tuple[float, float],
        slices: tuple[Slice, ...] = (),
    ) -> list[LoadLog]:
        """What generators have written down, of which the ``window`` or the counted part of the ``slices`` counts."""
