"""What an experiment would change on a host, read from the host as it is now; nothing is touched."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pgtrial.design.host_facts import HostFacts
from pgtrial.design.variants import FILESYSTEM, host_knobs, variant_of
from pgtrial.engine.method_facts import read_facts
from pgtrial.errors import SettingError
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.hosts.base import Host
from pgtrial.hosts.connect import open_host
from pgtrial.knobs import HOST_KNOBS
from pgtrial.knobs.base import KnobContext
from pgtrial.model.arm import Arm, Role
from pgtrial.model.change import Change


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """One change of one arm; or, with ``problem``, why a knob cannot be turned here."""

    arm: str
    knob: str
    change: Change | None = None
    problem: str = ""
    for_all_runs: bool = False  # made once, put back at the end; else for each run of the arm


def preview_experiment(experiment: Experiment, arms: Sequence[Arm]) -> tuple[tuple[Preview, ...], HostFacts]:
    """``preview_changes`` on the experiment's host, and what decides on the method there.

    Raises ConnectError if it cannot be reached.
    """

    async def look() -> tuple[tuple[Preview, ...], HostFacts]:
        async with open_host(experiment.target.host) as host:
            return await preview_changes(experiment, arms, host), read_facts(host)

    return asyncio.run(look())


async def preview_changes(experiment: Experiment, arms: Sequence[Arm], host: Host) -> tuple[Preview, ...]:
    """All changes of all arms but the placebo, which are its control's, in the order in which they would be made."""
    found: list[Preview] = []
    for arm in arms:
        if arm.role is Role.PLACEBO:
            continue
        variant = variant_of(experiment, arm)
        directory = variant.data or "/var/tmp"
        context = KnobContext(host=host, token="00000000", directory=directory, wal=variant.wal)
        wanted = host_knobs(experiment, arm)
        if variant.filesystem:
            found += await _preview(context, arm, {FILESYSTEM: dict(variant.filesystem)}, for_all_runs=True)
            context = replace(context, on_image=True)
        found += await _preview(context, arm, wanted, for_all_runs=False)
    return tuple(found)


async def _preview(
    context: KnobContext, arm: Arm, wanted: dict[str, dict[str, str]], *, for_all_runs: bool
) -> list[Preview]:
    known = {knob.name for knob in HOST_KNOBS}
    found = [
        Preview(arm=arm.name, knob=name, problem="Nothing in pgtrial sets it.", for_all_runs=for_all_runs)
        for name in wanted
        if name not in known
    ]
    for knob in HOST_KNOBS:
        if knob.name not in wanted:
            continue
        try:
            changes = await knob.plan(context, wanted[knob.name])
        except SettingError as err:
            problem = " ".join(part for part in (f"{err.message}.", err.detail, err.hint) if part)
            found.append(Preview(arm=arm.name, knob=knob.name, problem=problem, for_all_runs=for_all_runs))
        else:
            found += [
                Preview(arm=arm.name, knob=knob.name, change=change, for_all_runs=for_all_runs) for change in changes
            ]
    return found
