"""SQL that is run in the load's database before the load."""

from pydantic import Field

from pgtrial.knobs.declaration import About, Among, Knob, Rule, Scope, Settling
from pgtrial.knobs.values import Table


class SqlTable(Table):
    """SQL that is run in the load's database once the server is up: indexes, storage options, statistics targets."""

    apply: str = Field(description="Statements, separated by semicolons; each is a transaction of its own.")
    undo: str | None = Field(
        default=None, description="What undoes them; needed where the data are not put back before each run."
    )


class Sql(Knob):
    name = "sql"
    about = About(
        sets="whatever SQL can: indexes, fillfactor, table options, statistics targets",
        takes_effect="before the load, after the data are put back",
        rights="those of the statements",
        verified="each statement fails loudly",
        undone="the data are put back before the next run, or by its own undo statements",
    )
    scope = Scope.DATABASE
    among_twins = Among.OWN
    rules = (Rule(settling=Settling.BUILDS_UP, reason="bears on how tables and indexes grow and bloat"),)
    needs_server = True
