"""Turn the dials of drawn scripts until calls go through as many blocks as those of the original."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pgtrial.engine.production import SETUP, read_text
from pgtrial.errors import SpecError, TargetError
from pgtrial.postgres.connect import connect, execute_script
from pgtrial.postgres.plans import read_blocks
from pgtrial.postgres.production import Statement
from pgtrial.workloads.production.draws import DRAWS, SCHEMA, Dial, dial
from pgtrial.workloads.production.fit import choose, mean_of, ratio_near, search_all, statement_of
from pgtrial.workloads.production.record import Fit, Truth, dials_of, statements_of, turned

FIRST = DRAWS[0].name  # the load whose dials are turned
_FITTED_PART = 0.95  # of the time, by the statements that take most of it: of 90 % it is said how true they are
_PATIENCE = 5.0  # s of calls that are measured for one value of a dial
_CALLS = (20, 300)  # of them, at least and at most
_PILOT = 5  # calls that tell how long one takes


async def fit_dials(
    conninfo: str, folder: Path, record: Mapping[str, Any], tried: Sequence[tuple[Truth, tuple[Fit, ...]]]
) -> tuple[Fit, ...]:
    """The dials of the first load's scripts, turned until calls go through as many blocks as those of the original.

    ``tried`` are loads with how far the dials were turned for them: what a load does meets other rows than single calls
    do afterwards, and by that ratio other blocks.
    """
    before = tried[-1][1] if tried else ()
    setup = turned(read_text(folder / FIRST / SETUP), before)
    old = {(fit.script, fit.kind): fit for fit in before}
    await execute_script(conninfo, setup, name=f"{FIRST}/{SETUP}")
    whole, seen, fits = sum(each.time for _, each in statements_of(record)), 0.0, []
    alone = {script["name"] for script in record["scripts"] if len(script["statements"]) == 1}
    try:
        for name, statement in sorted(statements_of(record), key=lambda each: -each[1].time):
            if seen >= _FITTED_PART * whole:
                break
            seen += statement.time
            if name in alone and statement.blocks_per_call > 0:
                script = read_text(folder / FIRST / f"{name}.sql")
                fits += await _fit_script(conninfo, setup, name, script, statement, _blocks_in(tried, name))
    finally:
        await execute_script(conninfo, f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE", name="the end")
    found = {(fit.script, fit.kind): fit for fit in fits}
    return tuple(replace(fit, told=old[key].told) if key in old else fit for key, fit in (old | found).items())


def _blocks_in(tried: Sequence[tuple[Truth, tuple[Fit, ...]]], script: str) -> list[tuple[dict[Dial, float], float]]:
    """How far the dials of a script were turned for each load, and the blocks of a call in it."""
    return [
        ({fit.kind: fit.fitted.value for fit in fits if fit.script == script}, each.copy.blocks_per_call)
        for truth, fits in tried
        for each in truth.matches
        if each.script == script and each.copy is not None and each.copy.blocks_per_call > 0
    ]


async def _fit_script(  # noqa: PLR0917
    conninfo: str,
    setup: str,
    name: str,
    script: str,
    statement: Statement,
    ran: Sequence[tuple[Mapping[Dial, float], float]],
) -> list[Fit]:
    """How far each dial is turned; none for a script that writes or has no dials.

    ``ran`` are blocks of a call in loads that were tried, each with how far the dials were turned for it.
    """
    try:
        found, dials = statement_of(script), dials_of(setup, name)
    except ValueError as err:
        raise SpecError(
            f'"{FIRST}/{SETUP}" has a dial of {name} that is none', detail=str(err), hint="Write the folder again."
        ) from err
    table = f"CREATE TABLE {SCHEMA}.{name} AS "
    drawing = next((line for line in setup.splitlines() if line.startswith(table)), "")
    if found is None or not dials or not drawing:
        return []
    text, names = found
    known: dict[tuple[str, ...], int] = {}
    async with connect(conninfo, as_user=True) as connection:
        await connection.execute("SET statement_timeout = 0")

        async def measure(to: Mapping[Dial, float]) -> float:
            for kind, value in to.items():
                await connection.execute(f"SET {dial(name, kind)} = '{value:.6g}'".encode())
            await connection.execute(f"DROP TABLE {SCHEMA}.{name}".encode())
            await connection.execute(drawing.encode())
            columns = ", ".join(names)
            drawn = await connection.execute(
                f"SELECT count(*), {columns} FROM {SCHEMA}.{name} GROUP BY {columns} "
                f"ORDER BY count(*) DESC, {columns}".encode()
            )
            return await _mean_blocks(connection, text, await drawn.fetchall(), known)

        wanted = statement.blocks_per_call
        try:
            alone = [(blocks, await measure({**dials, **turned_to})) for turned_to, blocks in ran]
            ratio = ratio_near(wanted, alone)
            fitted = await search_all(dials, wanted / ratio, measure, is_first=not ran)
        except TargetError:  # it writes
            return []
    return [
        Fit(
            script=name,
            kind=kind,
            told=dials[kind],
            statement=statement,
            fitted=replace(each, blocks=each.blocks * ratio),
        )
        for kind, each in fitted.items()
        if kind is not Dial.ONLY or each.value != dials[kind]  # else it was not turned
    ]


async def _mean_blocks(
    connection: Any, text: str, drawn: Sequence[tuple[Any, ...]], known: dict[tuple[str, ...], int]
) -> float:
    """Of a call with parameters ``drawn``: how often each, and their values. ``known`` are those measured before."""
    counts, values = [count for count, *_ in drawn], [tuple(map(str, each)) for _, *each in drawn]

    async def measure(places: Sequence[int]) -> float:
        new = list(dict.fromkeys(values[place] for place in places if values[place] not in known))
        found, took = await read_blocks(connection, text, new)
        known.update(zip(new, found, strict=True))
        return took / len(new) if new else 0.0

    each = await measure(choose(counts, _PILOT, seed=0)[0])
    least, most = _CALLS
    chosen = choose(counts, min(most, max(least, round(_PATIENCE / max(each, 1e-6)))), seed=0)
    await measure([*chosen[0], *chosen[1]])
    return mean_of(counts, chosen, {place: known[values[place]] for place in (*chosen[0], *chosen[1])})
