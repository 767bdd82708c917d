"""The plans of the load's statements, read from each run's server after the load, so that arms can be compared."""

from collections.abc import Mapping, Sequence

from pgtrial.collectors.sessions import shown_query
from pgtrial.engine.record import RunRecorder
from pgtrial.engine.target.base import RunningServer
from pgtrial.errors import TargetError
from pgtrial.model.run import PLANS
from pgtrial.postgres.plans import read_shapes
from pgtrial.safe_text import without_literals
from pgtrial.workloads.statements import planned_statements


async def record_plans(record: RunRecorder, server: RunningServer, scripts: Mapping[str, str]) -> None:
    """Record an event with the plans of the statements in each scenario's script, by the scenario's name.

    Their literals are left out, as they are of sampled sessions.
    What cannot be planned has none, and a server that does not answer leaves a reason: no run is invalid for it.
    """
    found = [(name, statement) for name, script in scripts.items() for statement in planned_statements(script)]
    if not found or not server.is_there:
        return
    statements = [(statement.prepared, statement.parameters) for _, statement in found]
    try:
        shapes: Sequence[str | None] = await read_shapes(server.conninfo(server.database), statements)
    except TargetError as err:
        record.add_event(PLANS, statements=[], reason=str(err))
        return
    record.add_event(
        PLANS,
        statements=[
            {
                "scenario": name,
                "statement": " ".join(without_literals(statement.text).split()),
                "shown": [shown_query(statement.prepared)],  # how sampled sessions show it
                "shape": shape,
            }
            for (name, statement), shape in zip(found, shapes, strict=True)
            if shape is not None
        ],
        reason="",
    )
