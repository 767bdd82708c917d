"""Several things at the same time, as if they were one."""

import asyncio
from collections.abc import Coroutine


async def together(*work: Coroutine[object, object, None]) -> None:
    """Do all of it. The first error ends the rest, which is waited for, and is raised as it is."""
    try:
        async with asyncio.TaskGroup() as group:
            for one in work:
                group.create_task(one)
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
