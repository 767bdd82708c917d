"""The load on files: fio."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pgtrial.engine.target.base import RunningServer
from pgtrial.engine.target.host import HostTarget
from pgtrial.errors import HostCommandError, WorkloadError
from pgtrial.hosts.base import Account, Host
from pgtrial.hosts.processes import end_process
from pgtrial.knobs.cgroup import evict
from pgtrial.model.arm import Arm
from pgtrial.model.run import LoadLevel, Slice
from pgtrial.store.transactions import HistogramLog, LoadLog
from pgtrial.workloads.base import Generator, Output
from pgtrial.workloads.fio import HISTOGRAM_INTERVAL, OUTPUT, FioProgram, plan_jobs, trial_argv

_READ_SIZE = 1 << 20  # B, of one request that warms the cache


@dataclass(frozen=True, slots=True, kw_only=True)
class FioLoad:
    """Jobs on the files that the target has made. fio runs where they are, in the control groups of its arm."""

    fio: FioProgram
    seed: int
    target: HostTarget

    @property
    def output(self) -> Output:
        return OUTPUT

    @property
    def account(self) -> Account | None:
        return self.target.account

    @property
    def _host(self) -> Host:
        return self.target.host

    def scripts(self, arm: Arm) -> Mapping[str, str]:
        return {}

    def does(self, arm: Arm) -> frozenset[tuple[str, str]]:
        return frozenset()  # its jobs are those that the target has made files for

    def facts(self) -> Mapping[str, str]:
        return {"load generator/fio": self.fio.version, "load generator/program": str(self.fio.path)}

    async def try_out(self, arm: Arm, server: RunningServer) -> None:
        """Run a few requests of every job, to find what the file system or the kernel does not support."""
        for job in arm.jobs:
            try:
                await self._host.run(
                    [self.fio.path, *trial_argv(job, server.directories[0])], account=self.account, directory=Path("/")
                )
            except HostCommandError as err:
                said = "; ".join(OUTPUT.find_errors("", err.detail)) or err.detail
                raise WorkloadError(
                    f'arm "{arm.name}": job "{job.name}" fails: {said}',
                    hint="Fix the job, or choose another location for the files; nothing has been measured.",
                ) from err

    async def make_cold(self, arm: Arm) -> None:
        """Evict only the files' own pages, which needs no rights and leaves the rest of the host alone."""
        await evict(self._host, [str(self.target.directory(arm))])

    async def make_warm(self, arm: Arm, server: RunningServer) -> None:
        """Read the files once, in the arm's control groups, which are charged for the pages."""
        for job in arm.jobs:
            process = await self._host.start(
                [
                    "dd",
                    f"if={server.directories[0]}/{job.name}",
                    "of=/dev/null",
                    f"bs={_READ_SIZE}",
                    f"count={math.ceil(job.size / _READ_SIZE)}",
                ],
                role="warm",
                account=self.account,
                directory=Path("/"),
                groups=server.groups,
            )
            try:
                status = await process.wait()
            except BaseException:
                await end_process(process)
                raise
            if status != 0:
                raise HostCommandError(f'the file of job "{job.name}" cannot be read')

    def generators(
        self,
        arm: Arm,
        server: RunningServer,
        level: LoadLevel,
        *,
        block: int,
        seconds: int,
        directory: Path,
        logged: bool,
    ) -> tuple[Generator, ...]:
        seed = self.seed + block
        return plan_jobs(
            arm.jobs,
            level,
            program=self.fio.path,
            seconds=seconds,
            files=server.directories[0],
            directory=str(directory),
            logged=logged,
            seed=seed if logged else -seed,
            groups=server.groups,
        )

    def logs(
        self,
        level: LoadLevel,
        generators: Sequence[Generator],
        *,
        window: tuple[float, float],
        slices: tuple[Slice, ...] = (),
    ) -> list[LoadLog]:
        """``slices`` there are none: files have no twins."""
        prefixes = [Path(each.directory) / each.log_prefix for each in generators if each.log_prefix is not None]
        return [
            HistogramLog(
                level=level.index,
                scenario=generator.scenario_names[0],
                files=tuple(sorted(prefix.parent.glob(f"{prefix.name}_clat_hist.*.log"))),
                window=window,
                interval=HISTOGRAM_INTERVAL,
            )
            for generator, prefix in zip(generators, prefixes, strict=True)
        ]
