"""Try everything once before the load: what cannot work is known in seconds, not after the first hour."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pgtrial.engine.events import Observer, Preparing
from pgtrial.engine.target.base import RunningServer, Target
from pgtrial.errors import HostCommandError, SettingError, TargetError, WorkloadError
from pgtrial.hosts.base import Host
from pgtrial.model.arm import Arm
from pgtrial.postgres.programs import Programs
from pgtrial.postgres.settings import Setting
from pgtrial.workloads.pgbench import find_errors
from pgtrial.workloads.scenarios import Scenario


async def try_arms(
    target: Target,
    arms: Sequence[Arm],
    scenarios: Sequence[Scenario],
    *,
    client_host: Host,
    clients: int,
    scripts: Path,
    tell: Observer,
) -> dict[str, Setting]:
    """Start the server once with each arm, and run each scenario once on each server version: what cannot work is known
    before the load.

    ``clients`` is the largest number of sessions of the workload. Returns the settings of the control. Raises
    SettingError or WorkloadError that names the arm or the scenario. The data are to be restored after it.
    """
    control: dict[str, Setting] = {}
    tried: set[str] = set()  # versions
    try:
        for arm in arms:
            tell(Preparing(step=f'trying arm "{arm.name}"'))
            try:
                server = await target.start(arm, run=None)
            except TargetError as err:
                raise type(err)(f'arm "{arm.name}": {err.message}', detail=err.detail, hint=err.hint) from err
            _check_connections(arm, server.settings, clients)
            if not control:
                control = dict(server.settings)
            if server.version not in tried:
                tried.add(server.version)
                await _try_scenarios(client_host, target.client, server, scenarios, scripts)
            await target.stop(immediate=server.altered)
            if server.altered:
                await target.restore(arm)
    finally:
        await target.stop(immediate=True)
    return control


def _check_connections(arm: Arm, settings: Mapping[str, Setting], clients: int) -> None:
    """The sessions of the load, the sampler's two and our own must fit; all of them are a superuser's."""
    allowed = int(settings["max_connections"].value)
    needed = clients + 3
    if needed > allowed:
        raise SettingError(
            f'arm "{arm.name}": max_connections is {allowed}, {needed} are needed',
            detail=f"The workload has up to {clients} clients; pgtrial itself needs 3 connections.",
            hint=f"Set max_connections = {max(100, needed)} in [target.postgresql], or use fewer clients.",
        )


async def _try_scenarios(
    host: Host, client: Programs, server: RunningServer, scenarios: Sequence[Scenario], scripts: Path
) -> None:
    for scenario in scenarios:
        variables = [f"--define={name}={value}" for name, value in scenario.variables]
        script = f"--builtin={scenario.builtin}" if scenario.builtin else f"--file={scripts / f'{scenario.name}.sql'}@1"
        try:
            await host.run(
                [client.path("pgbench"), "-n", "-c", "1", "-t", "1", *variables, script],
                environment=server.environment,
            )
        except HostCommandError as err:
            raise WorkloadError(
                f'scenario "{scenario.name}" fails: {_telling(err.detail)}',
                hint="Correct the script; nothing has been measured.",
            ) from err


def _telling(output: str) -> str:
    """What says why, of pgbench's output."""
    return "; ".join(find_errors(output)) or output or "pgbench printed nothing"
