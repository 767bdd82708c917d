"""SQL that is run in the load's database before the load."""

import re
from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from pgtrial.knobs.declaration import ALWAYS, About, Among, EffectTiming, Knob, Rule, Scope
from pgtrial.knobs.values import Table


class SqlTable(Table):
    """SQL to run in the load's database once the server is up: indexes, storage options, statistics targets."""

    apply: str = Field(
        description="Statements, separated by semicolons; each runs in its own transaction. In an existing database "
        "none may take what is there for its own: IF NOT EXISTS is refused, and CREATE OR REPLACE where undo drops "
        "such an object. There a statement waits 5 s for a lock (CONCURRENTLY: 5 min), and is tried again for 30 s; "
        "undo for 5 min. SET lock_timeout in the script changes the wait."
    )
    undo: str | None = Field(
        default=None,
        description="Statements that undo them; required if the data are not restored before each run. In an existing "
        "database each is executed once, also after a kill, and none where nothing of apply was committed; what cannot "
        "be in a transaction (CREATE INDEX CONCURRENTLY, VACUUM) may be executed again. Where only a part of apply was "
        "committed and they change data or drop what was there, where a procedure that commits by itself was cut off, "
        "and where the server was started again in between, they are left to you: write BEGIN and COMMIT around what "
        "belongs together.",
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
    acts = (ALWAYS,)
    rules = (Rule(timing=EffectTiming.AT_ONCE, reason="makes other tables and indexes, before the load begins"),)
    needs_server = True
    sql_keys = ("apply", "undo")
    writing_keys = ("apply",)
    unvaried_keys: ClassVar = {
        "undo": 'It goes with what is applied. Use [arms.NAME.sql] tables with "apply" and "undo".'
    }

    def rule_among(self, key: str, values: Sequence[str]) -> Rule:
        """What is made is there before the load, in a cluster that stands still between its turns with all its growth
        and bloat; only what decides when or how that is cleaned up has to be given its time.
        """
        return _UPKEEP if any(_ON_UPKEEP.search(value) for value in values) else self.rule_of(key)


_ON_UPKEEP = re.compile(r"\b(?:autovacuum|vacuum|fillfactor|toast)|\breset\s*\(|\bset\s*\(", re.IGNORECASE)
_UPKEEP = Rule(timing=EffectTiming.BUILDS_UP, reason="bears on how tables and indexes grow and bloat")
