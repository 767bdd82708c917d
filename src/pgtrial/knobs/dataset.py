"""The size of the data, where arms differ in it."""

from typing import Annotated

from pydantic import Field

from pgtrial.knobs.declaration import ALWAYS, About, Among, EffectTiming, Knob, Rule, Scope, Shared
from pgtrial.knobs.values import Table

Scale = Annotated[int, Field(strict=True, ge=1, le=1_000_000)]


class ScaleTable(Table):
    """A size of pgbench's tables that differs from [dataset]."""

    scale: Scale | None = Field(
        default=None, description="pgbench's scale; every scale has its own cluster and snapshot."
    )


class Dataset(Knob):
    name = "dataset"
    about = About(
        sets="the scale of pgbench's tables",
        takes_effect="arms with another scale have their own cluster and snapshot",
        rights="none",
        verified="pgbench creates the tables of the cluster at that scale, and fails loudly",
        undone="removed with the cluster",
    )
    scope = Scope.CLUSTER
    among_twins = Among.OWN
    acts = (ALWAYS,)
    rules = (
        Rule(
            timing=EffectTiming.BUILDS_UP,
            reason="means data of another size, of which the caches hold another part",
            shares=(Shared.PAGE_CACHE,),
        ),
    )
    not_on_server = "its database is made once, for all arms"
    needs_server = True
    cluster_keys = ("scale",)
