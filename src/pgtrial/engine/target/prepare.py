"""Make the target of an experiment ready, whichever kind it is."""

from collections.abc import Mapping
from pathlib import Path

from pgtrial.design.plan import Plan
from pgtrial.engine.changes import HostChanges
from pgtrial.engine.events import Observer
from pgtrial.engine.target.base import Target
from pgtrial.engine.target.existing import prepare_server
from pgtrial.engine.target.host import prepare_host
from pgtrial.engine.target.preparation import prepare_throwaway
from pgtrial.hosts.base import Host
from pgtrial.store.state import State


async def prepare_target(
    plan: Plan,
    scripts: Path,
    state: State,
    *,
    host: Host,
    here: Host,
    changes: HostChanges,
    base: Path | None,
    caller: Mapping[str, str],
    tell: Observer,
) -> Target:
    """The target with its data, no arm started yet. ``here`` is where the load generator runs, ``scripts`` where the
    files of the experiment are.

    ``base`` is where data may lie instead of what the file says, ``caller`` are libpq's variables as pgtrial found
    them. Raises PgTrialError; whatever was made then is removed.
    """
    match plan.experiment.target.kind:
        case "server":
            return await prepare_server(
                plan, scripts, state, host=host, here=here, changes=changes, caller=caller, tell=tell
            )
        case "host":
            return await prepare_host(plan, state, host=host, changes=changes, base=base, tell=tell)
        case "throwaway":
            return await prepare_throwaway(plan, scripts, state, host=host, changes=changes, base=base, tell=tell)
