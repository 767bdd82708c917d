"""The server's programs, if arms differ in them."""

from pydantic import Field

from pgtrial.knobs.declaration import ALWAYS, About, Among, EffectTiming, Knob, Rule, Scope
from pgtrial.knobs.values import Flag, Table, Version


class ServerTable(Table):
    """The server's programs, if arms differ in them."""

    postgres: Version | None = Field(
        default=None, description='Major version ("18") or a directory with the server\'s programs.'
    )
    checksums: Flag | None = Field(
        default=None,
        description="Data checksums of the cluster. Left out: the default of the version's initdb, which is on "
        "from 18.",
    )


class Server(Knob):
    name = "server"
    about = About(
        sets="the server's programs: version or build",
        takes_effect="arms with other programs have their own cluster, from their own initdb",
        rights="none",
        verified="the version is asked of the running server",
        undone="removed with the cluster",
    )
    scope = Scope.CLUSTER
    among_twins = Among.OWN
    acts = (ALWAYS,)
    rules = (Rule(timing=EffectTiming.AT_ONCE, reason="means programs and a cluster of its own"),)
    facts = ("PostgreSQL/*",)
    not_on_server = "the server that is there runs the programs it runs"
    needs_server = True
    cluster_keys = ("postgres", "checksums")
