"""Try everything once before the load: what cannot work is known in seconds, not after the first hour."""

from collections.abc import Sequence

from pgtrial.engine.events import Observer, Preparing
from pgtrial.engine.loads.base import Load
from pgtrial.engine.target.base import Target
from pgtrial.errors import TargetError
from pgtrial.model.arm import Arm
from pgtrial.postgres.settings import Setting


async def try_arms(target: Target, arms: Sequence[Arm], load: Load, *, tell: Observer) -> dict[str, Setting]:
    """Start each arm once and try the load with it: what cannot work is known before anything is measured.

    Returns the settings of the control. Raises SettingError or WorkloadError that names the arm, the scenario or the
    job. The data are to be restored after it.
    """
    control: dict[str, Setting] = {}
    try:
        for arm in arms:
            tell(Preparing(step=f'trying arm "{arm.name}"'))
            try:
                server = await target.start(arm, run=None)
            except TargetError as err:
                raise type(err)(f'arm "{arm.name}": {err.message}', detail=err.detail, hint=err.hint) from err
            if not control:
                control = dict(server.settings)
            await load.try_out(arm, server)
            await target.stop(immediate=server.altered)
            if server.altered:
                await target.restore(arm)
    finally:
        await target.stop(immediate=True)
    return control
