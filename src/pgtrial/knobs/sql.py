"""SQL that is run in the load's database before the load."""

from pydantic import Field

from pgtrial.knobs.declaration import About, Among, EffectTiming, Knob, Rule, Scope
from pgtrial.knobs.values import Table


class SqlTable(Table):
    """SQL to run in the load's database once the server is up: indexes, storage options, statistics targets."""

    apply: str = Field(description="Statements, separated by semicolons; each runs in its own transaction.")
    undo: str | None = Field(
        default=None, description="Statements that undo them; required if the data are not restored before each run."
    )


class Sql(Knob):
    name = "sql"
    about = About(
        sets="anything SQL can change: indexes, fillfactor, table options, statistics targets",
        takes_effect="after the data are restored, before the load",
        rights="those of the statements",
        verified="each statement fails loudly",
        undone="the data are restored before the next run, or the arm's undo statements run",
    )
    scope = Scope.DATABASE
    among_twins = Among.OWN
    rules = (Rule(timing=EffectTiming.BUILDS_UP, reason="bears on how tables and indexes grow and bloat"),)
    needs_server = True
