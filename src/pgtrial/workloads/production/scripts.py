"""The scripts, set-up and record of a load like that of a server; pure: from what was read to texts.

File names are of our own making, so that nothing in a name that came from a server can be one.
"""

import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pgtrial.postgres.connect import READ_ONLY
from pgtrial.postgres.production import Column, Load, Statement, TableName
from pgtrial.units import format_share
from pgtrial.workloads.production.draws import (
    SCHEMA,
    Dial,
    Draw,
    Drawer,
    Drawn,
    by_type,
    count_of,
    dial,
    is_known,
    name_of,
    quote,
)
from pgtrial.workloads.production.keys import (
    can_number,
    find_obstacle,
    is_fresh,
    is_own,
    is_text,
    keep_own,
    room_of,
    settle_conflicts,
    tie_ranges,
)
from pgtrial.workloads.production.parameters import read_shape
from pgtrial.workloads.production.texts import LEVELS, Refusal, Text, control_of, examine, level_of, triggers_of
from pgtrial.workloads.production.transactions import Told, tell
from pgtrial.workloads.production.uses import Role, Shape, Use, key_of

MOST = 120  # scripts; pgbench takes 128
_KEY_SEED = 7  # of the order of statements in the draw that shuffles it


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    statement: Statement
    text: Text
    shape: Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """``members`` are sent together, ``calls`` is how often."""

    name: str
    members: tuple[Member, ...]
    calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Statements that are not part of the load, together: what they may be called, and why."""

    command: str
    reason: str
    statements: int
    calls: int
    time: float  # s


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedScripts:
    """``time`` is that of all statements, in seconds, also of those that are left out.

    ``triggers`` are those of tables that scripts write to, with the functions of the application that they call.
    ``unseen`` is of how many tables the role may not see the statistics, ``counted_for`` since how many seconds the
    server counts, None where it does not say. ``levels`` is how many transactions began with which level of isolation.
    """

    scripts: tuple[Script, ...]
    left_out: tuple[LeftOut, ...]
    triggers: tuple[str, ...]
    told: Told
    time: float
    hidden: int
    unseen: int
    counted_for: float | None = None
    levels: Mapping[str, int]

    @property
    def begin(self) -> str:
        """How a transaction of several statements begins: with the level of isolation that all had."""
        (level, *others) = self.levels or [""]
        return f"BEGIN ISOLATION LEVEL {level}" if level in LEVELS and not others else "BEGIN"

    @property
    def kept(self) -> float:
        """The part of the time that the scripts have."""
        own = sum(member.statement.time for script in self.scripts for member in script.members)
        return own / self.time if self.time else 0.0

    def left_out_texts(self, *, least: float = 0.0) -> Iterator[str]:
        """What is not part of the load, with its part of the time: at ``least`` so much."""
        for each in self.left_out:
            share = each.time / self.time if self.time else 0.0
            command = f"{each.command}, " if each.command else ""
            if share >= least:
                yield f"left out {each.statements} ({command}{format_share(share)} of the time): {each.reason}"

    def unseen_text(self) -> str:
        """ "" where all statistics were seen."""
        if not self.unseen:
            return ""
        tables = "1 analysed table" if self.unseen == 1 else f"{self.unseen} analysed tables"
        return (
            f"the role may not see the statistics of {tables}, so that nothing tells which keys are frequent there: "
            "grant it pg_read_all_data, or SELECT"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """``scripts`` by file name; ``how`` says by script, member and parameter how it is drawn."""

    setup: str
    scripts: Mapping[str, str]
    how: Mapping[str, tuple[tuple[str, ...], ...]]


def derive_scripts(load: Load, *, with_values: bool) -> DerivedScripts:
    """What of the load can be scripts, and which statements are in one together."""
    members: list[Member] = []
    refused: list[tuple[Statement, Refusal]] = []
    controls: Counter[str] = Counter()
    levels: Counter[str] = Counter()
    found: dict[str, tuple[Statement, Text]] = {}
    for statement in load.statements:
        if control := control_of(statement):
            controls[control] += statement.calls
            if control == "begin" and statement.text != READ_ONLY:
                levels[level_of(statement)] += statement.calls
            continue
        text = examine(statement, load, with_values=with_values)
        if isinstance(text, Refusal):
            refused.append((statement, text))
            continue
        # The server counts texts apart whose parameters were of other types, or constants: those that differ in nothing
        # that a script could say are one statement, as on the copy.
        same, text = found.get(text.canonical, (None, text))
        found[text.canonical] = (statement if same is None else same.plus(statement), text)
    for statement, text in found.values():
        shape = settle_conflicts(keep_own(tie_ranges(read_shape(statement, load), load), load), load)
        if is_known(statement, shape, load):
            members.append(Member(statement=statement, text=text, shape=shape))
        else:
            refused.append((statement, Refusal(reason="no value is known for the type of a parameter", command="")))
    returned = {(each.shape.target, name) for each in members for name, _ in each.shape.returned if each.shape.target}
    possible = []
    for member in members:
        if reason := find_obstacle(member.shape, load, returned):
            refused.append((member.statement, Refusal(reason=reason, command=_command(member))))
        else:
            possible.append(member)
    members = possible
    tables = [_tables_with_referred(member, load) for member in members]
    told = tell(
        [each.statement.calls for each in members],
        commits=controls["commit"],
        joined=lambda one, other: bool(tables[one][0] & tables[other][1] or tables[one][1] & tables[other][0]),
    )
    scripts = _scripts(members, told)
    refused += [
        (each.statement, Refusal(reason=f"{MOST} scripts that take more time are enough", command=""))
        for script in scripts[MOST:]
        for each in script.members
    ]
    return DerivedScripts(
        scripts=tuple(scripts[:MOST]),
        left_out=tuple(_add_up(refused)),
        triggers=tuple(
            dict.fromkeys(
                said
                for script in scripts[:MOST]
                for member in script.members
                for said in triggers_of(member.statement, load.effects)
            )
        ),
        told=told,
        time=sum(each.time for each in load.statements),
        hidden=load.hidden,
        unseen=load.unseen,
        counted_for=load.counted_for,
        levels=levels,
    )


def _tables_with_referred(member: Member, load: Load) -> tuple[set[TableName], set[TableName]]:
    """The tables that a statement's parameters meet, and those with the ones to which these refer."""
    own = {use.table for use in member.shape.uses if use.table is not None}
    own |= {member.shape.target} if member.shape.target else set()
    columns = (column for table in own for column in load.tables[table].columns.values())
    return own, own | {column.references[0] for column in columns if column.references is not None}


def _scripts(members: Sequence[Member], told: Told) -> list[Script]:
    """Those that take most time first."""
    alone = set(range(len(members))) - {index for group in told.groups for index in group}
    groups = [*told.groups, *((index,) for index in alone)]
    groups.sort(key=lambda group: (-sum(members[index].statement.time for index in group), group))
    return [
        Script(
            name=f"s{number:03d}",
            members=tuple(members[index] for index in group),
            calls=max(members[index].statement.calls for index in group),
        )
        for number, group in enumerate(groups, start=1)
    ]


def _add_up(refused: Sequence[tuple[Statement, Refusal]]) -> Iterator[LeftOut]:
    together: dict[Refusal, list[Statement]] = {}
    for statement, refusal in refused:
        together.setdefault(refusal, []).append(statement)
    for refusal, statements in sorted(together.items(), key=lambda item: -sum(each.time for each in item[1])):
        yield LeftOut(
            command=refusal.command,
            reason=refusal.reason,
            statements=len(statements),
            calls=sum(each.calls for each in statements),
            time=sum(each.time for each in statements),
        )


def write_files(derived: DerivedScripts, load: Load, draw: Draw) -> Files:
    """The files of one drawn load."""
    setup = [f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE", f"CREATE SCHEMA {SCHEMA}"]
    numbers = _numbers(derived, load)
    for (table, column), name in numbers.items():
        setup += _sequence(name, table, column, load)
    scripts, how = {}, {}
    for script in derived.scripts:
        writer = _Writer(script, load, draw, numbers)
        text = writer.text(derived.begin)
        scripts[f"{script.name}.sql"] = text
        setup += writer.setup()
        how[script.name] = writer.how()
    head = f"-- Parameters of the scripts, drawn from the rows of this database; all of it is in the schema {SCHEMA}."
    return Files(setup="\n".join([head, *(f"{each};" for each in setup), ""]), scripts=scripts, how=how)


def _numbers(derived: DerivedScripts, load: Load) -> dict[tuple[TableName, str], str]:
    """The sequences of what is new each time, by column: one for all statements, whose values may not meet either."""
    columns = {
        (use.table, use.column)
        for script in derived.scripts
        for member in script.members
        for use in member.shape.uses
        if use.table is not None and is_fresh(use, load) and _is_counted(load.tables[use.table].columns[use.column])
    }
    return {
        column: _own_sequence(load.tables[column[0]].columns[column[1]]) or f"{SCHEMA}.new_{number}"
        for number, column in enumerate(sorted(columns), start=1)
    }


def _own_sequence(column: Column) -> str:
    """What numbers other rows of the table, too; "" where there is none, or its name would be no name for pgbench."""
    if column.sequence is None or not can_number(column.type):
        return ""
    name = name_of(column.sequence)
    return "" if not name.isprintable() or set(name) & set("\\:'") else name


def _is_counted(column: Column) -> bool:
    return can_number(column.type) or is_text(column.type)


def _sequence(name: str, table: TableName, column: str, load: Load) -> Iterator[str]:
    """It goes on behind the numbers that are there, also behind those of texts that an earlier load has made."""
    value = quote(column)
    found = load.tables[table].columns[column]
    if name == _own_sequence(found):
        most = f"(SELECT seqmax FROM pg_catalog.pg_sequence WHERE seqrelid = '{name}'::regclass)"
        last = f"greatest(max({value})::bigint, nextval('{name}'))"
        room = f"least({most}, {room_of(found.type)})"
        yield f"SELECT setval('{name}', {last}) FROM {name_of(table)} WHERE {value} < {room}"
        return
    yield f"CREATE SEQUENCE {name}"
    where = ""
    if not can_number(found.type):
        value, where = f"substr({value}::text, 4)::bigint", f" WHERE {value}::text ~ '^new[0-9]{{1,15}} *$'"
    most = f"max({value}) FILTER (WHERE {value} < {room_of(found.type)})"  # "greatest" passes over what is missing
    yield f"SELECT setval('{name}', greatest({most}, 1)::bigint) FROM {name_of(table)}{where}"


class _Writer:
    """Of one script in one draw. ``numbers`` are sequences by column."""

    def __init__(self, script: Script, load: Load, draw: Draw, numbers: Mapping[tuple[TableName, str], str]) -> None:
        self.script, self.load, self.draw, self.numbers = script, load, draw, numbers
        self.members = _ordered(script, load, draw)
        self.count = count_of(((member.statement, member.shape) for member in script.members), load)
        self.sources: list[tuple[str, str]] = []
        self.columns: dict[str, Drawn] = {}  # of the table of parameters, by variable
        self.fresh: dict[str, str] = {}  # expression of what is new each time, by variable
        self.renewed: dict[str, str] = {}  # of those columns that are others for a new row, the expression
        self.chances: dict[str, float] = {}  # that a row is new, by the name of the other row of which it is then
        self.variables: dict[tuple[int, int], str] = {}
        self.dials: dict[Dial, float] = {}
        self.returns: set[int] = set()  # places of statements whose row gives variables
        self._assign()

    def _assign(self) -> None:
        shared: dict[tuple[object, bool], str] = {}
        alone: set[str] = set()  # variables that are the key of a row, and all that it is found by
        for place, member in enumerate(self.members):
            drawer = Drawer(
                self.script.name, member.statement, member.shape, self.load, self.draw, f"r{place}", self.count
            )
            for kind, value in drawer.dials().items():
                self.dials.setdefault(kind, value)
            drawn = {}
            for name, query, parameters in drawer.sources():
                self.sources.append((name, query))
                drawn.update(parameters)
            taken: set[str] = set()  # one statement with two keys is about two rows
            own = {use.row for use in member.shape.uses if is_own(use)}  # rows whose values go back into them
            for use in member.shape.uses:
                if returned := self._returned(place, use):
                    self.variables[place, use.number] = returned
                    continue
                variable = f"v{place}_{use.number}"
                if use.row not in own and not use.is_mixed:
                    variable = self._shared(variable, use, shared, taken)
                taken.add(variable)
                self.variables[place, use.number] = variable
                is_tied = any(each.row == use.row and each.role in (Role.LOW, Role.HIGH) for each in member.shape.uses)
                if variable in alone and (is_tied or use.role is Role.NEW) and use.number in drawn:
                    # Each row is there once, and those that refer to it tell how often it is asked for. That of which
                    # the ends of a range are decides before these.
                    self.columns[variable] = self._with_default(member, use, drawn[use.number])
                    alone -= {variable} if is_tied else set()
                if use.is_apart and variable not in self.fresh:
                    self.renewed[variable] = f"coalesce({self._other_row(place, use)}.{variable}, p.{variable})"
                if variable in self.columns or variable in self.fresh:
                    continue
                if self._is_found_by_key_alone(use, member):
                    alone.add(variable)
                is_new = is_fresh(use, self.load)
                if is_new and not use.is_mixed:
                    self.fresh[variable] = self._new_value(use)
                    continue
                if is_new:
                    other, new = self._other_row(place, use), self._new_value(use)
                    self.renewed[variable] = f"CASE WHEN {other}.n IS NULL THEN p.{variable} ELSE ({new})::text END"
                self.columns[variable] = self._with_default(member, use, drawn.get(use.number) or drawer.other(use))

    def _other_row(self, place: int, use: Use) -> str:
        """Of parameters, there only if a row of a statement is to be new."""
        assert use.new is not None
        name = f"o{place}_{use.row.rpartition(' ')[2]}"
        self.chances[name] = use.new
        return name

    def _is_found_by_key_alone(self, use: Use, member: Member) -> bool:
        if use.role is not Role.EQUAL or use.table is None:
            return False
        is_alone = sum(each.row == use.row for each in member.shape.uses) == 1
        return is_alone and self.load.tables[use.table].columns[use.column].is_unique

    def _returned(self, place: int, use: Use) -> str | None:
        """The variable with the key of a row that this transaction has just made, and that the server numbered."""
        if use.role is not Role.NEW or use.table is None:
            return None
        column = self.load.tables[use.table].columns[use.column]
        if not self.draw.is_shared and not (column.references is not None and is_fresh(use, self.load)):
            return None
        for before, member in enumerate(self.members[:place]):
            for name, alias in member.shape.returned:
                if column.references == (member.shape.target, name) and re.fullmatch("[a-z_][a-z0-9_]*", alias):
                    self.returns.add(before)
                    return f"q{before}_{alias}"
        return None

    def _shared(self, own: str, use: Use, shared: dict[tuple[object, bool], str], taken: set[str]) -> str:
        """The variable of an earlier statement of the transaction that is about the same row, or ``own``."""
        key = key_of(use, self.load)
        if key is None or not self.draw.is_shared:
            return own
        is_made = is_fresh(use, self.load)
        found = None
        if not is_made:
            found = (shared.get((key, True)) if use.role is Role.NEW else None) or shared.get((key, False))
        if found is None or found in taken:
            shared.setdefault((key, is_made), own)
            return own
        return found

    def _with_default(self, member: Member, use: Use, drawn: Drawn) -> Drawn:
        """As text, for the table may have no rows; pgbench knows no NULL."""
        default = by_type(member.statement.types[use.number - 1])
        if default is None and use.table is not None and use.role in (Role.NEW, Role.SET):
            column = quote(use.column)
            default = f"SELECT {column} FROM {name_of(use.table)} WHERE {column} IS NOT NULL LIMIT 1"
        rest = "" if default is None else f", ({default})::text"
        return Drawn(f"coalesce(({drawn.expression})::text{rest}, '')", drawn.how)

    def _new_value(self, use: Use) -> str:
        assert use.table is not None
        type_ = self.load.tables[use.table].columns[use.column].type
        if type_ == "uuid":
            return "gen_random_uuid()"
        if type_.startswith("timestamp"):
            return "clock_timestamp()"
        number = f"nextval('{self.numbers[use.table, use.column]}')"
        return number if can_number(type_) else f"'new' || {number}"

    def setup(self) -> Iterator[str]:
        for kind, value in self.dials.items():
            yield f"SET {dial(self.script.name, kind)} = '{value:.4g}'"
        if self.columns:
            selected = ", ".join(f"{drawn.expression} AS {variable}" for variable, drawn in self.columns.items())
            joins = "".join(f" LEFT JOIN ({query}) AS {name} USING (n)" for name, query in self.sources)
            table = f"{SCHEMA}.{self.script.name}"
            yield f"CREATE TABLE {table} AS SELECT n, {selected} FROM generate_series(1, {self.count}) AS g (n){joins}"
            yield f"ALTER TABLE {table} ADD PRIMARY KEY (n)"
            yield f"VACUUM ANALYZE {table}"

    def text(self, begin: str) -> str:
        lines = []
        fresh = [f"{expression} AS {variable}" for variable, expression in self.fresh.items()]
        if self.columns:
            zipf = self.draw.zipf
            drawn = f"random(1, {self.count})" if zipf is None else f"random_zipfian(1, {self.count}, {zipf})"
            lines.append(f"\\set n {drawn}")
            # Each row is as likely as another, and there is none as often as no new one is made.
            lines += [f"\\set {name} random(1, {round(self.count / chance)})" for name, chance in self.chances.items()]
            table = f"{SCHEMA}.{self.script.name}"
            others = "".join(f" LEFT JOIN {table} AS {name} ON {name}.n = :{name}" for name in self.chances)
            kept = [f"p.{variable}" for variable in self.columns if variable not in self.renewed]
            renewed = [f"{expression} AS {variable}" for variable, expression in self.renewed.items()]
            selected = ", ".join([*(kept if renewed else ["p.*"]), *renewed, *fresh])
            lines.append(f"SELECT {selected} FROM {table} AS p{others} WHERE p.n = :n \\gset")
        elif fresh:
            lines.append(f"SELECT {', '.join(fresh)} \\gset")
        statements = [
            member.text.fill(lambda number, place=place: f":{self.variables[place, number]}")  # type: ignore[misc]
            + (f" \\gset q{place}_" if place in self.returns else ";")
            for place, member in enumerate(self.members)
        ]
        if len(statements) > 1:
            statements = [f"{begin};", *statements, "COMMIT;"]
        return "\n".join([*lines, *statements, ""])

    def how(self) -> tuple[tuple[str, ...], ...]:
        return tuple(
            tuple(self._say(place, use) for use in member.shape.uses) for place, member in enumerate(self.members)
        )

    def _say(self, place: int, use: Use) -> str:
        variable = self.variables[place, use.number]
        if variable.startswith("q"):
            return f"${use.number}: the key of the row that the transaction has just made"
        if variable in self.fresh:
            return f"${use.number}: new each time"
        also = "" if variable == f"v{place}_{use.number}" else ", the same as of another statement"
        how = self.columns[variable].how
        part = f"{format_share(use.new)} of the calls" if use.new is not None else ""
        if use.is_apart:
            how += f", of another row in {part}, so that the key is new"
        elif use.is_mixed and variable in self.renewed:
            how = f"new in {part}, else {how}"
        if use.conflict is not None and use.role is Role.SET:
            how += f", of a row that is there: {_WHY_MET[use.new is None, bool(use.new)]}"
        return f"${use.number}: {how}{also}"


_WHY_MET = {  # by whether nothing tells, and whether there were new ones
    (True, False): "nothing tells how many calls made new ones",
    (False, False): "no call made a new one",
    (False, True): "no new key can be made",
}


def _ordered(script: Script, load: Load, draw: Draw) -> tuple[Member, ...]:
    """Reads, changes, new rows, deletions: what a row refers to comes before it. Or as it was drawn, but for that."""
    members = list(script.members)
    if draw.is_shuffled:
        random.Random(f"{_KEY_SEED}{script.name}").shuffle(members)
    else:
        members.sort(key=_kind)
    inserts = [index for index, member in enumerate(members) if _kind(member) == _INSERT]
    by_depth = sorted((members[index] for index in inserts), key=lambda member: _depth(member, load))
    for index, member in zip(inserts, by_depth, strict=True):
        members[index] = member
    return tuple(members)


_INSERT = 2


def _command(member: Member) -> str:
    first = member.text.pieces[0]
    return first.upper() if isinstance(first, str) else ""


def _kind(member: Member) -> int:
    first = member.text.canonical[:6].upper()
    if first == "INSERT":
        return _INSERT
    return 3 if first == "DELETE" else int(member.shape.writes)


def _depth(member: Member, load: Load) -> int:
    """How many tables stand above the one that gets the row."""
    table = next((use.table for use in member.shape.uses if use.role is Role.NEW), None)
    depth = 0
    while table is not None and depth < len(load.tables):
        columns = load.tables[table].columns.values()
        above = [other[0] for each in columns for other in (each.references, each.joint) if other is not None]
        table = next((each for each in above if each != table and each in load.tables), None)
        depth += table is not None
    return depth
