"""PgBouncer between the clients and the server of an arm: how it hands out its sessions, and how many it has."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from pgtrial.knobs.declaration import ALWAYS, About, Among, EffectTiming, Knob, Rule, Scope
from pgtrial.knobs.values import Form, Table

PGBOUNCER = "pgbouncer"
POOL_MODE, POOL_SIZE, MOST_CLIENTS = "pool_mode", "pool_size", "max_client_conn"
SESSION = "session"
DEFAULT_POOL_SIZE = 20  # its own (pgbouncer.ini(5), default_pool_size)

Count = Annotated[int, Field(strict=True, ge=1, le=100_000), Form("a number: `50`")]


class PgbouncerTable(Table):
    """A pooler of the arm's own. Any of its keys asks for one; what is left out is as PgBouncer has it by itself."""

    pool_mode: Literal["session", "transaction", "statement"] | None = Field(
        default=None, description="For how long a client keeps a session of the server. Left out: `session`."
    )
    pool_size: Count | None = Field(
        default=None, description=f"Sessions of the server that all clients share. Left out: {DEFAULT_POOL_SIZE}."
    )
    max_client_conn: Count | None = Field(
        default=None, description="Clients that it lets in at once. Left out: as many as the load has."
    )


class Pgbouncer(Knob):
    name = PGBOUNCER
    about = About(
        sets="PgBouncer between the load and the server: how it shares sessions of the server among clients, and how "
        "many; each arm that asks for one has its own, with a configuration that pgtrial makes",
        takes_effect="when the server of the arm has started",
        rights="none; the program `pgbouncer` on the server's machine",
        verified="read back by SHOW CONFIG of the running PgBouncer",
        undone="ended with the server",
    )
    scope = Scope.LOAD
    among_twins = Among.OWN
    acts = (ALWAYS,)
    rules = (Rule(timing=EffectTiming.AT_ONCE, reason="is how the clients of an arm reach its server"),)
    not_on_server = "pgtrial only puts a pooler in front of a server of its own"
    needs_server = True
    needs_socket = True


def pool_mode(table: Mapping[str, str]) -> str:
    return table.get(POOL_MODE, SESSION)


def pool_size(table: Mapping[str, str]) -> int:
    return int(table.get(POOL_SIZE, DEFAULT_POOL_SIZE))
