"""Preview what an experiment would change on a host, without changing anything."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from pgtrial.design.plan import Plan
from pgtrial.design.variants import host_knobs
from pgtrial.engine.target.base import groups_of
from pgtrial.errors import SettingError
from pgtrial.experiment_file.arms import FILESYSTEM
from pgtrial.hosts.base import Host
from pgtrial.hosts.connect import open_host
from pgtrial.knobs import HOST_KNOBS
from pgtrial.knobs.base import KnobContext
from pgtrial.model.arm import Arm, Role, Tables
from pgtrial.model.change import Change


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """One change of one arm; or, with ``problem``, why a knob cannot be turned here."""

    arm: str
    knob: str
    change: Change | None = None
    problem: str = ""
    for_all_runs: bool = False  # made once, put back at the end; else for each run of the arm


def preview_experiment(plan: Plan, host_name: str) -> tuple[Preview, ...]:
    """``preview_changes`` on the host that the user has named. Raises ConnectError if it cannot be reached."""

    async def look() -> tuple[Preview, ...]:
        async with open_host(host_name) as host:
            return await preview_changes(plan.arms, host)

    return asyncio.run(look())


async def preview_changes(arms: Sequence[Arm], host: Host) -> tuple[Preview, ...]:
    """All changes of all arms but the placebo, which are its control's, in the order in which they would be made."""
    found: list[Preview] = []
    for arm in arms:
        if arm.role is Role.PLACEBO:
            continue
        variant = arm.variant
        directory = variant.data or "/var/tmp"
        context = KnobContext(host=host, token="00000000", directory=directory, wal=variant.wal)
        wanted = host_knobs(arm)
        if variant.filesystem:
            found += await _preview(context, arm, {FILESYSTEM: dict(variant.filesystem)}, for_all_runs=True)
            context = replace(context, on_image=True)
        found += await _preview(context, arm, wanted, for_all_runs=False)
    return tuple(found)


async def _preview(context: KnobContext, arm: Arm, wanted: Tables, *, for_all_runs: bool) -> list[Preview]:
    known = {knob.name for knob in HOST_KNOBS}
    found = [
        Preview(arm=arm.name, knob=name, problem="Nothing in pgtrial sets it.", for_all_runs=for_all_runs)
        for name in wanted
        if name not in known
    ]
    with suppress(SettingError):  # the knob whose groups cannot be says so itself
        context = replace(context, groups=groups_of(context, wanted))
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
