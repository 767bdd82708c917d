"""Which tables the statements of a script name, and what each statement needs to be allowed to do with them."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from sqlglot import exp

from pgtrial.experiment_file.experiment import Experiment
from pgtrial.knobs.sql import Sql
from pgtrial.model.arm import Arm
from pgtrial.postgres.existing.table_rights import TableUse
from pgtrial.workloads.scenarios import read_arm_scripts, scenarios_of
from pgtrial.workloads.sql_tree import MARK, name_of, parse_statement
from pgtrial.workloads.statements import planned_statements, read_statements

_COPY = re.compile(r"COPY\b", re.IGNORECASE)
# What a script can do that gives its names or its rights another meaning: then nothing is said of it.
_ELSEWHERE = re.compile(r"\b(?:SET\s+(?:(?:SESSION|LOCAL)\s+)?(?:ROLE|AUTHORIZATION|search_path)|CREATE|GRANT)\b", re.I)
_MEANINGS = frozenset({"search_path", "role", "session_authorization"})  # settings that do


def uses_of(experiment: Experiment, arms: Sequence[Arm], folder: Path) -> list[TableUse]:
    """What the scripts, which are in ``folder``, are sure to need: to read, unless they may write.

    Nothing where an arm's own SQL or settings may give the right, or have names mean something else. Raises SpecError.
    """
    for arm in arms:
        names = {name.lower() for name in arm.settings}
        if names & _MEANINGS or any("grant" in text.lower() for text in arm.knobs.get(Sql.name, {}).values()):
            return []
    scripts = [one.script for one in scenarios_of(experiment, folder)]
    scripts += [text for texts in read_arm_scripts(arms, folder).values() for text in texts.values()]
    uses = {use for script in scripts if script is not None for use in table_uses(script)}
    return sorted(use for use in uses if use.right == "SELECT" or experiment.target.writes)


def table_uses(script: str) -> frozenset[TableUse]:
    """What is sure to be needed: a statement that is not understood needs nothing, nor does what a view reads."""
    if _ELSEWHERE.search(script):
        return frozenset()
    trees = (parse_statement(statement.prepared) for statement in planned_statements(script))
    # What MERGE does with its target its branches say, each of which may never be taken.
    return frozenset(use for tree in trees if tree is not None and tree.find(exp.Merge) is None for use in _uses(tree))


def possible_uses(text: str) -> frozenset[TableUse]:
    """What statements may do with the tables that they name, whatever these names mean where they are executed."""
    found: set[TableUse] = set()
    for statement in read_statements(text):
        if statement.is_planned or _COPY.match(statement.text):
            tree = parse_statement(statement.prepared)
            for table in () if tree is None else tree.find_all(exp.Table):
                table.set("catalog", None)  # there is no other database for a statement
            found.update(() if tree is None else _uses(tree))
    return frozenset(found)


def _uses(tree: exp.Expr) -> Iterator[TableUse]:
    local = {name_of(each.args["alias"].this) for each in tree.find_all(exp.CTE)}
    targets = set()
    for statement in tree.find_all(exp.Insert, exp.Update, exp.Delete, exp.Merge):
        schema = statement.this
        target = schema.this if isinstance(schema, exp.Schema) else schema
        if isinstance(target, exp.Table):
            targets.add(id(target))
            yield from _changes(statement, target)
    for table in tree.find_all(exp.Table):
        found = _named(table)
        if found is not None and id(table) not in targets and (found[0] or found[1] not in local):
            yield TableUse(*found, "SELECT")


def _changes(statement: exp.Expr, target: exp.Table) -> Iterator[TableUse]:
    found = _named(target)
    if found is None:
        return
    if isinstance(statement, exp.Insert):
        listed = statement.this.expressions if isinstance(statement.this, exp.Schema) else ()
        yield TableUse(*found, "INSERT", tuple(name_of(each) for each in listed if isinstance(each, exp.Identifier)))
        conflict = statement.args.get("conflict")
        if conflict is not None and conflict.expressions:
            yield TableUse(*found, "UPDATE")
        return
    if isinstance(statement, exp.Merge):
        yield from (TableUse(*found, right) for right in ("INSERT", "UPDATE", "DELETE"))
        return
    yield TableUse(*found, "UPDATE" if isinstance(statement, exp.Update) else "DELETE")
    where = statement.args.get("where")
    tables = [each for each in statement.find_all(exp.Table) if each is not target]
    if where is not None and not tables and any(not each.name.startswith(MARK) for each in where.find_all(exp.Column)):
        yield TableUse(*found, "SELECT")


def _named(table: exp.Table) -> tuple[str, str] | None:
    """Schema and name; None for what is a function's, or in another database by its name."""
    if not isinstance(table.this, exp.Identifier) or table.args.get("catalog") is not None:
        return None
    schema = table.args.get("db")
    return ("" if schema is None else name_of(schema)), name_of(table.this)
