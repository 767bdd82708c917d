"""What is written of a load: its record, the experiment files, and the table that says how true a copy is of it."""

import json
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pgtrial.postgres.production import Statement
from pgtrial.units import format_duration
from pgtrial.workloads.production.draws import SCHEMA, Dial, Draw, dial
from pgtrial.workloads.production.failures import Failure
from pgtrial.workloads.production.fit import Fitted
from pgtrial.workloads.production.scripts import DerivedScripts, Files
from pgtrial.workloads.production.texts import UNKNOWN, read_text

FORMAT = 1
NEAREST = "nearest"  # the load of the scripts that were nearest, each of its own draw
FITTED = "fitted"  # in place of a draw: the first one, with its dials turned
LARGEST = 64 << 20  # bytes of a record
_LONGEST_SHOWN = 120  # characters of a statement in a table
_DRIFT = 1.2  # times as many blocks of a call in one half of the time as in the other
_MOST = 0.9  # of the time
_LEAST_CALLS = 100  # in each half, to tell that from chance

EXPERIMENT = """\
# A load like that of a server, drawn in the way "{draw}". Write the arms and the claim, and run all files of this
# folder: a claim that holds in one drawn load only is a claim about what was drawn.
#
# copy.dump is a dump of the database:  pg_dump --format=custom --file=copy.dump …
format = 1

[experiment]
name = "production-{draw}"

[hypothesis]
claim  = "the change makes this load faster"
arm    = "changed"
expect = "better"
margin = "5%"

[dataset]
kind  = "sql"
load  = "copy.dump"
setup = "{draw}/setup.sql"

[workload]
clients  = 4
duration = "30s"
protocol = "extended"   # as which parameters are sent; the scripts need it, or "prepared"
share    = "transactions"

{scenarios}
[arms.as_it_is]

[arms.changed.postgresql]
work_mem = "64MB"
"""


def experiment_text(derived: DerivedScripts, draw: Draw) -> str:
    scenarios = "\n".join(
        f'[[workload.scenario]]\nname  = "{script.name}"\n'
        f'file  = "{draw.name}/{script.name}.sql"\nshare = {script.calls}\n'
        for script in derived.scripts
    )
    return EXPERIMENT.format(draw=draw.name, scenarios=scenarios)


def only_scripts(experiment: str, names: Collection[str]) -> str:
    """An experiment file without the scenarios of other scripts than ``names``."""

    def keep(found: re.Match[str]) -> str:
        return found[0] if found[1] in names else ""

    return re.sub(r'^\[\[workload\.scenario\]\]\nname +=[ ]"(s\d+)"\n(?:\w+ +=.*\n)*\n?', keep, experiment, flags=re.M)


def record_of(derived: DerivedScripts, drawn: Mapping[str, Files], *, with_values: bool) -> str:
    """JSON, with the scripts in the order of their names and the statements of each in that of the server."""
    scripts = [
        {
            "name": script.name,
            "calls": script.calls,
            "statements": [
                {
                    "text": member.text.fill(lambda number: f"${number}"),
                    "calls": member.statement.calls,
                    "rows": member.statement.rows,
                    "hit": member.statement.hit,
                    "read": member.statement.read,
                    "seconds": member.statement.time,
                }
                for member in script.members
            ],
        }
        for script in derived.scripts
    ]
    document = {
        "format": FORMAT,
        "with_values": with_values,
        "seconds": derived.time,
        "counted_for": derived.counted_for,
        "transactions": {
            "commits": derived.told.commits,
            "explained": derived.told.explained,
            "levels": derived.levels,
        },
        "scripts": scripts,
        "left_out": [
            {
                "command": each.command,
                "reason": each.reason,
                "statements": each.statements,
                "calls": each.calls,
                "seconds": each.time,
            }
            for each in derived.left_out
        ],
        "hidden": derived.hidden,
        "triggers": list(derived.triggers),
        "parameters": {name: files.how for name, files in drawn.items()},
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A statement of the original, and what the copy counted of it; None where it never was called."""

    script: str
    original: Statement
    copy: Statement | None


def statements_of(record: Mapping[str, Any]) -> Iterator[tuple[str, Statement]]:
    for script in record["scripts"]:
        for each in script["statements"]:
            yield (
                script["name"],
                Statement(
                    text=each["text"],
                    calls=each["calls"],
                    rows=each["rows"],
                    hit=each["hit"],
                    read=each["read"],
                    time=each["seconds"],
                ),
            )


def match(record: Mapping[str, Any], before: Sequence[Statement], after: Sequence[Statement]) -> tuple[Match, ...]:
    """What was counted between two looks at the copy, by statement of the original, those that take most time first."""
    earlier, counted = _by_text(before), {}
    for text, each in _by_text(after).items():
        known = earlier.get(text)
        counted[text] = each if known is None else each.plus(known, -1)
    found = [
        Match(
            script=name, original=statement, copy=None if (copy := counted.get(_key(statement.text))) is None else copy
        )
        for name, statement in statements_of(record)
    ]
    found = [
        each
        if each.copy is not None and each.copy.calls
        else Match(script=each.script, original=each.original, copy=None)
        for each in found
    ]
    return tuple(sorted(found, key=lambda each: -each.original.time))


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """Blocks of a call of a statement in the ``first`` half of the time of a load, and in the ``second``."""

    script: str
    text: str
    first: float
    second: float

    def __str__(self) -> str:
        return (
            f"{self.script} goes through {_blocks(self.first)} blocks of a call in the first half of the time and "
            f"through {_blocks(self.second)} in the second ({_short(self.text)}): where it meets what the load itself "
            "has written, they depend on how long that is sent, and on the rows that were there when it began"
        )


def _blocks(number: float) -> str:
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"


def find_drifts(
    record: Mapping[str, Any], before: Sequence[Statement], middle: Sequence[Statement], after: Sequence[Statement]
) -> tuple[Drift, ...]:
    """Those of the statements that make most of the time whose blocks changed while a load was sent."""
    found = []
    halves = {each.original.text: each.copy for each in match(record, before, middle)}
    for each in _heaviest(match(record, middle, after)):
        first, second = halves[each.original.text], each.copy
        if first is None or second is None or min(first.calls, second.calls) < _LEAST_CALLS:
            continue
        blocks = (first.blocks_per_call, second.blocks_per_call)
        if max(blocks) > _DRIFT * min(blocks):
            found.append(Drift(script=each.script, text=each.original.text, first=blocks[0], second=blocks[1]))
    return tuple(found)


def _heaviest(matches: Sequence[Match], *, of_copy: bool = True) -> Iterator[Match]:
    """Those that make most of the original's time, then others that make as much of the copy's."""
    chosen = [*_most(matches, lambda each: each.original.time)]
    yield from chosen
    if of_copy:
        others = _most(matches, lambda each: 0.0 if each.copy is None else each.copy.time)
        yield from (each for each in others if each not in chosen)


def _most(matches: Sequence[Match], time: Callable[[Match], float]) -> Iterator[Match]:
    whole, seen = sum(map(time, matches)), 0.0
    for each in sorted(matches, key=time, reverse=True):
        if seen >= _MOST * whole:
            break
        seen += time(each)
        yield each


def _key(text: str) -> str:
    return read_text(text)[0].canonical


def _by_text(statements: Sequence[Statement]) -> dict[str, Statement]:
    found: dict[str, Statement] = {}
    for each in statements:
        key = _key(each.text)
        found[key] = found[key].plus(each) if key in found else each
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """How true one drawn load is. ``drawing`` is the share of the copy's time that the parameters take.

    ``failures`` are of scripts that cannot be sent, which ``matches`` do not have; ``errors`` are others of pgbench.
    ``drifts`` are statements whose blocks changed while it was sent.
    """

    draw: str
    matches: tuple[Match, ...]
    drawing: float
    failures: tuple[Failure, ...] = ()
    errors: tuple[str, ...] = ()
    drifts: tuple[Drift, ...] = ()

    @property
    def failed(self) -> frozenset[str]:
        """The names of scripts that cannot be sent."""
        return frozenset(each.script for each in self.failures)

    @property
    def share_error(self) -> float:
        """The largest difference of a statement's share of the calls."""
        ours, theirs = self._calls()
        return max((abs(_share(each.original, ours) - _share(each.copy, theirs)) for each in self.matches), default=0.0)

    def block_error(self, *, of_copy: bool = True) -> float:
        """The largest relative difference in blocks per call, of the statements that make 90 % of the original's time,
        and of the copy's.
        """
        worst = 0.0
        for each in _heaviest(self.matches, of_copy=of_copy):
            asked = each.original.blocks_per_call
            if each.copy is None:
                return 1.0
            if asked:
                worst = max(worst, abs(each.copy.blocks_per_call / asked - 1))
        return worst

    def _calls(self) -> tuple[int, int]:
        return (
            sum(each.original.calls for each in self.matches),
            sum(each.copy.calls for each in self.matches if each.copy is not None),
        )

    def rows(self) -> Iterator[tuple[str, ...]]:
        ours, theirs = self._calls()
        for each in self.matches:
            yield (
                each.script,
                _short(each.original.text),
                *_pair(_share(each.original, ours), _share(each.copy, theirs), "{:.1%}"),
                *_per_call(each, lambda one: one.rows),
                *_per_call(each, lambda one: one.hit),
                *_per_call(each, lambda one: one.read),
                *_per_call(each, lambda one: 1000 * one.time),
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """How far a dial was turned for a statement of the original: from ``told`` to what ``fitted`` says."""

    script: str
    kind: Dial
    told: float
    statement: Statement
    fitted: Fitted


def nearest(record: Mapping[str, Any], truths: Sequence[Truth], fits: Sequence[Fit]) -> dict[str, str]:
    """For each script the drawn load in which its blocks are nearest to the original's, by the time that it takes.

    It is the first one where the dials of that, turned as ``fits`` say, come nearer than any.
    """

    def distance(truth: Truth, script: str) -> float:
        if script in truth.failed:
            return math.inf
        return sum(
            each.original.time
            * (1.0 if each.copy is None else abs(each.copy.blocks_per_call / max(each.original.blocks_per_call, 1) - 1))
            for each in truth.matches
            if each.script == script
        )

    def fitted(fit: Fit) -> float:
        return fit.statement.time * abs(fit.fitted.blocks / max(fit.statement.blocks_per_call, 1) - 1)

    chosen = {}
    last = {fit.script: fit for fit in fits}  # of two dials the second was turned with the first
    for name in (script["name"] for script in record["scripts"]):
        best = min(truths, key=lambda truth: distance(truth, name))
        is_fitted = name in last and fitted(last[name]) <= distance(best, name)
        chosen[name] = FITTED if is_fitted else best.draw
    return chosen


def setup_of(texts: Mapping[str, str], chosen: Mapping[str, str]) -> str:
    """The set-up of scripts that are each from one of several loads, whose set-ups are ``texts``."""
    lines: list[str] = []
    for draw, text in texts.items():
        for line in text.splitlines():
            script = re.search(rf"{SCHEMA}\.(s\d+)", line)
            if script is None:
                lines += [] if line in lines else [line]
            elif chosen.get(script[1]) == draw:
                lines.append(line)
    return "\n".join([*lines, ""])


def turned(setup: str, fits: Sequence[Fit]) -> str:
    """A set-up with its dials at what was fitted."""
    values = {dial(fit.script, fit.kind): fit.fitted.value for fit in fits}
    return re.sub(
        rf"^SET ({SCHEMA}\.\w+) = '[^']*';$",
        lambda line: f"SET {line[1]} = '{values[line[1]]:.6g}';" if line[1] in values else line[0],
        setup,
        flags=re.MULTILINE,
    )


def dials_of(setup: str, script: str) -> dict[Dial, float]:
    """Those of a script in a set-up that may come from anybody, and where they stand. Raises ValueError."""
    found = re.findall(rf"^SET {SCHEMA}\.{script}_(\w+) = '([^']*)';$", setup, flags=re.MULTILINE)
    dials = {Dial(kind): float(value) for kind, value in found}
    if not all(math.isfinite(value) and (value > 0 or kind is not Dial.WIDTH) for kind, value in dials.items()):
        raise ValueError("a dial stands at no place that it has")
    return dials


def trigger_text(said: str) -> str:
    return f"Runs on a copy, too: {said}; look at its body"


def told_text(explained: int, commits: int, levels: Mapping[str, int]) -> str:
    """What is known of transactions, and from what alone; and where those of the scripts begin otherwise."""
    said = (
        f"{explained} of {commits} explicit ones told, by nothing but equal counts of calls, which others may have "
        "by chance"
    )
    if len(levels) > 1 or UNKNOWN in levels:
        begun = sum(levels.values())
        for level in filter(None, levels):
            how = "an ISOLATION LEVEL that the server does not tell" if level == UNKNOWN else f"ISOLATION LEVEL {level}"
            said += f"; {levels[level]} of {begun} began with {how}, and none of the scripts does"
    return said


def _share(statement: Statement | None, calls: int) -> float:
    return statement.calls / calls if statement is not None and calls else 0.0


def _per_call(found: Match, value: Callable[[Statement], float]) -> tuple[str, str]:
    one, other = (None if each is None else value(each) / each.calls for each in (found.original, found.copy))
    return _pair(one, other, "{:.3g}")


def _pair(original: float | None, copy: float | None, form: str) -> tuple[str, str]:
    return ("–" if original is None else form.format(original), "–" if copy is None else form.format(copy))


def _short(text: str) -> str:
    return _plain(text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…")


def _plain(text: str) -> str:
    """Without what Markdown, or a page made of it, would take for its own."""
    plain = "".join(character if character.isprintable() else " " for character in text)
    return plain.replace("|", "\\|").replace("`", "'").replace("<", "&lt;")


_HEAD = (
    *("script", "statement", "share of calls", "copy", "rows", "copy"),
    *("blocks hit", "copy", "blocks read", "copy", "ms", "copy"),
)


def truth_text(
    record: Mapping[str, Any], truths: Sequence[Truth], fits: Sequence[Fit], *, is_whole: bool = True
) -> str:
    """The table, as Markdown: for each drawn load, original against copy, and what was left out.

    Unless it ``is_whole`` it says that other loads are still to be sent.
    """
    parts = [
        "# How true the load is\n",
        "Rows, blocks and ms are those of a call; the copy's are beside the original's.\n",
    ]
    if record["counted_for"] is not None:
        parts.append(f"The original's are means of {format_duration(record['counted_for'])}.\n")
    if not is_whole:
        parts.append("The check has not ended: these are the loads that were sent so far.\n")
    for truth in truths:
        said = (
            f"Shares of the calls differ by {truth.share_error * 100:.1f} percentage points at most, "
            f"blocks of a call by {truth.block_error():.0%} at most among the statements that make 90 % of the "
            "original's time, or of the copy's. "
            f"Drawing the parameters takes {truth.drawing:.1%} of the time of all statements.\n"
        )
        parts.append(f"## {truth.draw}\n\n" + (said if truth.matches else "None of its scripts can be sent.\n"))
        parts += [f"{each.script} fails, and is not in these figures: {_short(str(each))}\n" for each in truth.failures]
        parts += [f"Failed: {_short(error)}\n" for error in truth.errors]
        parts += [f"{drift}.\n" for drift in truth.drifts]
        parts.append(_table(_HEAD, list(truth.rows())))
    if fits:
        parts.append("## How far the dials of the first load were turned\n")
        turns = [
            (
                fit.script,
                _short(fit.statement.text),
                fit.kind.value,
                f"{fit.told:.3g}",
                f"{fit.fitted.value:.3g}",
                *_pair(fit.statement.blocks_per_call, fit.fitted.blocks, "{:.3g}"),
            )
            for fit in fits
        ]
        parts.append(_table(("script", "statement", "dial", "told", "fitted", "blocks", "copy"), turns))
    parts.append("## What was left out\n")
    whole = record["seconds"] or 1.0
    rows = [
        (
            _plain(each["command"]) or "–",
            _plain(each["reason"]),
            str(each["statements"]),
            str(each["calls"]),
            f"{each['seconds'] / whole:.1%}",
        )
        for each in record["left_out"]
    ]
    parts.append(_table(("command", "why", "statements", "calls", "share of the time"), rows) if rows else "Nothing.\n")
    if record["hidden"]:
        parts.append(f"The role may not see the text of {record['hidden']} more.\n")
    parts += [f"{_short(trigger_text(said))}.\n" for said in record["triggers"]]
    told = record["transactions"]
    parts.append(f"Transactions: {told_text(told['explained'], told['commits'], told['levels'])}.\n")
    return "\n".join(parts)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
