"""The load's sessions on the server, after the load."""

import asyncio
import time

from pgtrial.engine.collect import InvalidRunError
from pgtrial.engine.target.base import RunningServer
from pgtrial.postgres.connect import fetch

_POLITE = 1.0  # s for the load's sessions to end by themselves after the load has
_PATIENCE = 10.0  # s for them to end at all
_SESSIONS = """
    SELECT count(CASE WHEN %s THEN pg_terminate_backend(pid) ELSE true END)
    FROM pg_catalog.pg_stat_activity WHERE application_name LIKE 'pgtrial/%%'
"""


async def end_sessions(server: RunningServer) -> None:
    """Wait until the load's sessions are gone; end those that go on with a query nobody waits for any more.

    Raises InvalidRunError when they stay. Without a server there are none.
    """
    if not server.is_there:
        return
    begun = time.monotonic()
    while (await fetch(server.control, _SESSIONS, [time.monotonic() > begun + _POLITE]))[0][0]:
        if time.monotonic() > begun + _PATIENCE:
            raise InvalidRunError(f"sessions of the load are still there {_PATIENCE:g} s after its end")
        await asyncio.sleep(0.02)
