"""Write experiment-file.md, experiment.schema.json, knobs.md, metrics.md, methods.md, caveats.md from the code, and the
tables of statistics.md from what `make calibration` measured; tests compare them.

python tools/generate_docs.py docs
"""

import argparse
import inspect
import textwrap
import tomllib
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from pgtrial.cli import init
from pgtrial.design.slice_time import (
    LEAST_SLICE_BUILDING_UP,
    LEAST_SWITCH,
    LEAST_SWITCH_BUILDING_UP,
    LONGEST_DUET_SLICE,
    MOST_DUET_SLICES,
    SECONDS_PER_CLIENT,
)
from pgtrial.design.slices import DUET_GUARD, GUARD
from pgtrial.experiment_file import cause_tables, disk_tables
from pgtrial.experiment_file import experiment as spec
from pgtrial.experiment_file.arm_checks import OWNED, OWNED_BY_SERVER
from pgtrial.experiment_file.check_rules import LIMITS, SHARE, CheckKind, CheckRule, check_rules
from pgtrial.experiment_file.fields import UNIONS, choices_of, render_schema
from pgtrial.findings.catalogue import ENTRIES
from pgtrial.findings.catalogue.base import Entry
from pgtrial.findings.catalogue.calibration import CALIBRATION_CAVEATS
from pgtrial.findings.catalogue.effects import EFFECT_CAVEATS
from pgtrial.findings.catalogue.sharing import SHARING_CAVEATS
from pgtrial.findings.catalogue.validity import VALIDITY_CAVEATS
from pgtrial.findings.catalogue.world import WORLD_CAVEATS
from pgtrial.findings.message import message, say
from pgtrial.findings.naming import name_metric, name_series
from pgtrial.knobs import KNOBS, KnobTables
from pgtrial.knobs.declaration import About, Acts, Among, Rule, Scope
from pgtrial.knobs.fio import FileJobTable
from pgtrial.knobs.sysctl_rules import REFUSALS, VARIED, Refusal
from pgtrial.knobs.values import Form, Name
from pgtrial.model.formulas import TimelineMetric
from pgtrial.model.observable import find_observable, observable_names
from pgtrial.model.series import find_metric
from pgtrial.postgres.existing.knobs import ServerDatabase, ServerSettings, ServerSql
from pgtrial.report.values import format_value
from pgtrial.units import format_bytes, format_count, format_duration, format_share


def knob_models() -> dict[str, type[BaseModel]]:
    """The tables of an arm that have keys of their own, by name."""
    found: dict[str, type[BaseModel]] = {}
    for name, field in KnobTables.model_fields.items():
        for part in typing.get_args(field.annotation) or (field.annotation,):
            if isinstance(part, type) and issubclass(part, BaseModel):
                found[name] = part
    return found


# Heading and model in the order in which one writes a file.
TABLES: tuple[tuple[str, type[BaseModel]], ...] = (
    ("[experiment]", spec.ExperimentTable),
    ("[hypothesis]", spec.HypothesisTable),
    ("[[hypothesis.and]]", spec.AndTable),
    ("[target]", spec.TargetTable),
    ("[dataset]", spec.DatasetTable),
    ("[workload]", spec.WorkloadTable),
    ("[[workload.scenario]]", spec.ScenarioTable),
    ("[[workload.job]]", FileJobTable),
    ("Load levels as a ramp", spec.RampTable),
    ("Warm-up with a cap", spec.WarmupTable),
    ("[arms.NAME]", spec.ArmTable),
    *((f"[arms.NAME.{name}]", model) for name, model in knob_models().items()),
    ("[factors.NAME]", spec.FactorTable),
    ("[disks.NAME]", disk_tables.DiskTable),
    ("[design]", spec.DesignTable),
    ("[[criteria]]", cause_tables.CriterionTable),
    ("[checks.NAME]", cause_tables.CheckTable),
    ("[associations]", cause_tables.AssociationsTable),
    ("[limits]", spec.LimitsTable),
    ("[hooks]", spec.HooksTable),
    ("[[waive]]", cause_tables.WaiverTable),
)

_INTRODUCTION = """\
# The experiment file

<!-- Written by tools/generate_docs.py from src/pgtrial/experiment_file/; change the models, not this page. -->

An experiment is one TOML file. `pgtrial init` writes a commented example, `pgtrial check FILE` lists everything wrong
with a file, and `pgtrial plan FILE` shows what the experiment will do. For completion in an editor there is a JSON
Schema: `pgtrial schema`, or [experiment.schema.json](experiment.schema.json).

- The file begins with `format = {format}`. Unknown keys are errors.
- Times and sizes use PostgreSQL's units: `us`, `ms`, `s`, `min`, `h`, `d`; `B`, `kB`, `MB`, `GB`, `TB`. A time without
  a unit is in seconds.
- PostgreSQL settings have their own names; write values as in postgresql.conf, or as TOML numbers, `true` and
  `false`. A name with a dot needs quotation marks: `"auto_explain.log_analyze" = true`. pgtrial checks names, units,
  ranges and allowed values for the version of the server (15 to 18).
- Paths of scripts are relative to the experiment file.
- Give either `[arms.NAME]` tables or `[factors.NAME]` tables. The first arm is the control. With factors every
  combination is an arm, named like `shared_buffers=1GB,work_mem=64MB`; the first level of each factor makes the
  control.
- A factor varies a PostgreSQL setting or, with a knob such as `knob = "sysctl"`, a value in another table of an arm.
  For a list, a level is one text: `"auto_explain, pg_prewarm"`, or `""` for none.
- Declare a disk class once, as `[disks.NAME]`, and name it in arms or in a factor: `storage = {{ disk = "NAME" }}`.
  With a size it is emulated; see [disks.md](disks.md).
- A table of `[target]`, such as `[target.sysctl]`, applies to all arms unless an arm overrides it.
- Each change to a machine is journaled first, read back afterwards, and undone when the run is over, even after a
  failure. Most of these changes need root.
- You cannot set the settings through which pgtrial reaches and reads its own cluster:
{owned}.
- An existing server (`kind = "server"`) keeps its programs, its location and the way to connect to it. You cannot set
  these tables for it: {refused}; nor these settings:
{owned_by_server}.
"""


def render_page() -> str:
    """The page's Markdown, ending in a line feed."""
    parts = [
        _INTRODUCTION.format(
            format=spec.FORMAT,
            owned=_listed(OWNED),
            refused=", ".join(f"`{name}`" for name, knob in KNOBS.items() if knob.not_on_server),
            owned_by_server=_listed(OWNED_BY_SERVER),
        )
    ]
    for heading, model in TABLES:
        shown = f"`{heading}`" if heading.startswith("[") else heading
        parts.append(
            f"## {shown}\n\n{(inspect.getdoc(model) or '').replace('``', '`')}\n\n" + "\n".join(_rows(model)) + "\n"
        )
        if model is cause_tables.CheckTable:
            parts.append(_CHECKS + "\n".join(map(_check_row, check_rules().values())) + "\n")
    example = init.EXAMPLE.read_text(encoding="utf-8")
    parts.append(f"## A whole file\n\nThis is what `pgtrial init` writes.\n\n```toml\n{example}```\n")
    return "\n".join(parts)


_CHECKS = """\
A check by share of time compares every second with its threshold; the level follows from the share of the time
beyond it, and a share that equals a limit has that level. For other checks the level follows from the value itself:
over the whole time, its change over the measured time (trend), or log entries per minute. A trend whose interval
includes zero is `info` at most. The series that each check reads are in
[checks.toml](../src/pgtrial/experiment_file/checks.toml).

| Name | Looks at | Threshold | `info` | `warning` | `alarm` |
|---|---|---|---|---|---|
"""


def _check_row(rule: CheckRule) -> str:
    is_by_time = rule.kind is CheckKind.TIME
    sign = ">" if rule.is_higher_worse else "<"
    threshold = f"{sign} {_amount(rule.threshold, rule.unit)}" if is_by_time else "–"
    levels = dict(rule.limits())
    cells = [f"`{rule.id}`", rule.name, threshold]
    for level in LIMITS:
        limit = levels.get(level)
        if limit is None:
            cells.append("–")
        elif limit == 0:
            cells.append("at all")
        else:
            reached = "" if is_by_time else "≥ " if rule.is_higher_worse else "< "
            cells.append(reached + _amount(limit, rule.unit_of(level)))
    return "| " + " | ".join(cells) + " |"


def _amount(value: float, unit: str) -> str:
    if unit == SHARE:
        return format_share(value)
    base, _, per = unit.partition("/")
    shown = {"s": format_duration, "B": format_bytes}.get(base, format_count)(value)
    return f"{shown} per {per}" if per else shown


def _listed(names: Iterable[str]) -> str:
    """Names in lines of the page's width, as they continue a list's item."""
    text = ", ".join(f"`{name}`" for name in names)
    return textwrap.fill(text, 120, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)


def _rows(model: type[BaseModel]) -> Iterator[str]:
    yield "| Key | Value | Left out | Meaning |"
    yield "|---|---|---|---|"
    # An arm's own keys come before those that it shares with the target, where they are not repeated.
    for name, field in sorted(model.model_fields.items(), key=lambda item: item[0] in KNOBS):
        if name in KNOBS and model is spec.TargetTable:
            continue
        cells = (f"`{field.alias or name}`", _form(field), _default(field), field.description or "")
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _form(field: FieldInfo) -> str:
    forms = dict.fromkeys(_forms(field.annotation, field.metadata))
    return ", or ".join(forms)


def _forms(annotation: Any, metadata: Any) -> Iterator[str]:
    given = [note.text for note in metadata if isinstance(note, Form)]
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if given:
        yield from given
    elif origin is typing.Annotated:
        yield from _forms(inner[0], inner[1:])
    elif origin not in UNIONS and (choices := choices_of(annotation)):
        yield ", ".join(f"`{choice}`" if choice.isdecimal() else f'`"{choice}"`' for choice in choices)
    elif origin is dict:
        yield "a table of settings"
    elif origin is tuple:
        yield _list(inner[0])
    elif inner:
        for part in inner:
            yield from _forms(part, ())
    elif annotation is not type(None):
        yield _plain(annotation)


def _list(element: Any) -> str:
    if isinstance(element, type) and issubclass(element, BaseModel):
        return "a list of tables"
    return "a list of names" if element is Name else "a list"


def _plain(annotation: Any) -> str:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return {spec.RampTable: "a ramp", spec.WarmupTable: '`{ cap = "2min" }`'}.get(annotation, "a table, below")
    return {bool: "`true` or `false`", int: "a whole number", float: "a number", str: "a text"}[annotation]


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    default = field.default
    if default is None or isinstance(default, BaseModel) or default in ("", {}, ()):
        return "–"
    if any(isinstance(note, Form) and "percentage" in note.text for note in field.metadata):
        return f"`{default:.0%}`"
    if any(isinstance(note, Form) and "time" in note.text for note in field.metadata):
        return f"`{default:g}s`"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


_KNOBS = """\
# What can be varied

<!-- Written by tools/generate_docs.py from src/pgtrial/knobs/; change what a knob says about itself, not this page. -->

Each knob is a table of an arm, or of `[target]` for all arms; [experiment-file.md](experiment-file.md) lists their
keys. Knobs in the second table change the host and need `--allow-host-changes`. `pgtrial plan` shows each change next
to the current value. Each change is journaled before it is made, then verified, and undone after the run, last change
first: by the run itself after success, an error, Ctrl-C or SIGTERM, and by `pgtrial restore` after `kill -9` or a
reboot. A value that somebody else has changed in the meantime is left as it is and reported.

An arm's settings are in effect only while the arm runs. The journal is one file per machine and user,
`/var/lib/pgtrial/journal.sqlite` for root and under `$XDG_STATE_HOME/pgtrial` for others; `PGTRIAL_STATE_DIRECTORY`
sets another directory.

## In and around the server

{cluster}

## On the host

{host}

## On an existing server

{server}

## What shows that a setting had something to act on

A claim about a setting with nothing to act on is "not tested". In some second of one of the two arms one of these has
to reach the value; of a setting that is not listed pgtrial has no evidence, and says so. `plan` says where there will
be nothing, as far as that is known before the runs.

| Table | Settings | Acts on | Seen by | At least |
|---|---|---|---|---|
{acts}

## Kernel settings that can be varied

Those whose name begins so, but for the refused ones below:

{varied}

They can still slow a machine down, or starve other programs of memory: `plan` shows each with its value, and
`--allow-host-changes` is the user's word.

## Kernel settings that are refused

All that are not listed above. Of these it is said why:

| sysctl | Value | Why |
|---|---|---|
{refusals}
"""


def _refusal(refusal: Refusal) -> str:
    name = refusal.pattern.replace("/", ".")
    value = "any" if refusal.below is None else f"below {refusal.below}"
    return f"| `{name}` | {value} | {refusal.reason} {refusal.hint}".rstrip() + " |"


def render_knobs() -> str:
    """Another page: what each knob says about itself."""
    host = {name: knob.about for name, knob in KNOBS.items() if knob.scope is Scope.HOST}
    cluster = {name: knob.about for name, knob in KNOBS.items() if knob.scope is not Scope.HOST}
    server = {knob.name: knob.about for knob in (ServerSettings, ServerSql, ServerDatabase)}
    refusals = "\n".join(map(_refusal, REFUSALS))
    varied = ", ".join(f"`{pattern.replace('/', '.')}`" for pattern in VARIED) + "."
    return _KNOBS.format(
        cluster=_abouts(cluster),
        host=_abouts(host),
        server=_abouts(server, named=False),
        acts=_acts_rows(),
        refusals=refusals,
        varied=varied,
    )


def _acts_rows() -> str:
    rows = []
    for name, knob in KNOBS.items():
        for acts in knob.acts:
            keys = ", ".join(f"`{pattern}`" for pattern in acts.patterns) if acts.patterns != ("*",) else "all"
            what = say(message(f"acts.{acts.code}")) if acts.metrics else "the load, data or server: in every run"
            metrics = ", ".join(f"`{metric}`" for metric in acts.metrics)
            least = "" if not acts.metrics else "more than none" if acts.least < _ANY else _least(acts)
            rows.append(f"| `{name}` | {keys} | {what} | {metrics} | {least} |")
    return "\n".join(rows)


def _least(acts: Acts) -> str:
    found = find_observable(acts.metrics[0])
    assert found is not None
    return format_value(acts.least, found.metric.unit)


def _abouts(abouts: Mapping[str, About], *, named: bool = True) -> str:
    rows = ["| Table | Sets | Takes effect | Rights | Verified | Undone |" if named else
            "| Sets | Takes effect | Rights | Verified | Undone |"]  # fmt: skip
    rows.append("|---" * (6 if named else 5) + "|")
    for name, about in abouts.items():
        cells = [about.sets, about.takes_effect, about.rights, about.verified, about.undone]
        rows.append("| " + " | ".join([f"`{name}`", *cells] if named else cells) + " |")
    return "\n".join(rows)


_METHODS = """\
# Methods

<!-- Written by tools/generate_docs.py from the rules in src/pgtrial/knobs/; change those, not this page. -->

`method` in [design] sets how the arms share the time of a block. The block stays the unit of analysis: it gives one
ratio per arm, whatever the method. `pgtrial plan` shows which methods are valid for an experiment on this machine, and
why the others are not. The result folder records the method and the reason for it.

| Method | In a block | Valid for |
|---|---|---|
| `blocks` | the arms run one after the other, each with the whole machine | everything |
| `interleaved` | all servers are up and take turns in short slices | effects inside a server, or switched at once |
| `duet` | all servers run at the same time, each on its own CPUs, which they exchange | CPU-bound loads |
| `switchback` | one server with one load is switched back and forth between the arms | settings that hold at run time |
| `auto` | the first of interleaved, duet, switchback and blocks to which there is no objection | everything |

Machines have good and bad minutes. Anything that changes more slowly than the arms take turns affects all of them and
cancels out, so slices of a second find in minutes what runs of a minute find in hours. The price is that arms share
resources, through which an effect can leak.

A `budget` in [design] is turned into blocks. Without a `duration` in [workload] it also decides how long a run is: two
starts of the same server differ by a few percent whatever their length, so a run is as long as makes the interval
narrowest for the time, 5 to 30 s, and shorter, down to 3 s, where 6 blocks would not fit. If an effect builds up, a run
takes 30 s as long as 6 blocks of that fit. This is wrong where a load shows its effect only after minutes, or where
single statements take longer than seconds: give a `duration` there.

## Interleaved

The arms' clusters are twins: copies of one snapshot. While one runs, the servers of the others and their load are
frozen (SIGSTOP); sessions stay open. Two arms alternate, and the second half of the sequence is the first backwards;
more arms run as rows of Williams squares, so that every arm follows every other one equally often. Slices are longer
or shorter by up to half. The first half of a slice does not count: it still feels the other arm. An arm needs
{guard} ms of it to settle, more where a machine setting is switched with the arm.

Where the duration has room for two rounds of them, slices are twice as long in every second block. What a slice leaves
behind for longer than half of the next one shows as another effect there (`effect-grows-with-slices`); where it has
the other direction, the experiment is invalid. What comes some slices late is looked for, because slices have many
lengths, and the interval bears it ([statistics.md](statistics.md#what-comes-later)). On a real server, an arm that hands work over to programs which do it a
second later was 9 and 3 % faster in slices of 1 s, and 18 and 16 % slower in slices of 2 s, so both experiments are
invalid. By sequences of ABBA in slices of 1 s alone it was 4 % faster and 5 % slower, and nothing was said; in runs one
after the other it was 19 % slower. (A machine of 2 CPUs with other load; `tests/calibration/test_handed_over.py`.)

pgtrial refuses this method for:

- servers of its own on other machines, `cache = "cold"`, and arrivals at a rate, which would continue while a server is
  frozen;
- arms whose effect builds up in what twins share, or follows the clock, according to the tables below;
- servers that together need more than 70 % of the available memory (shared_buffers, and 8 MB per session), and data
  that fit into the page cache once but not once per arm;
- slices in whose first half an arm does not settle, and slices below {building:g} s where an effect builds up.

An effect that builds up in the arm's own cluster is allowed with a warning, in slices of {building:g} s or more: work
paced by the clock, such as the kernel's write-back every 5 s, then falls mostly into the slices of the arm that
causes it. `auto` chooses another method for such an effect, and where a timeout such as statement_timeout is set,
because its clock keeps running while a server is frozen.

The twins' data are restored at the beginning of each block, unless `restore = "never"`. Where the load only reads, all
arms have the same data and no arm sets anything on the host, they are still as they were restored: then copies are not
made anew but change hands from block to block, and every arm has each copy equally often.

### On an existing server

An existing server has no twin, but arms that differ only by what each session can set can take turns on it: the
load of an arm is frozen while the other's is at work. Nothing of the server is ever frozen, since a process that
stands still may hold a lock. Three things follow:

- Loads that write are refused: a transaction that waits for its turn keeps its locks. The load of a database that
  is read-only for it never writes.
- All arms share one server and its caches. A setting whose effect builds up, or lies in what sessions share, is
  refused; what the plans of one arm have read is there for the other, so an effect on what is cached looks smaller.
- A statement that is at work when the turn of its arm ends goes on in the next turn. The first half of a turn does
  not count; with statements longer than that, use longer slices, or blocks.

What the server counts (blocks, WAL, commits) is of all arms together, and is left out; times, transactions and
sampled waits are each arm's own.

## Duet

A duet needs at least as many CPUs as arms. Each arm gets the same number, whole cores if there are enough. In every
block each arm has each set of CPUs for the same time, so a faster core favours none. The arms exchange CPUs every
{duet_slice:g} s (with many clients {per_client:g} ms times their number, in long runs 1/{duet_most} of the duration,
both up to {duet_longest:g} s), of which the first third, but at most {duet:g} s, does not count; `slice` sets another
time.
The arms share disk and memory bandwidth, so `auto` does not choose a duet where commits wait for the disk. Machine
settings cannot differ between arms, and a control group's CPU limit has no meaning.

## Switchback

In each block one server is started once, with the settings of the control, and has one load from beginning to end.
While it runs, pgtrial switches it between the arms: it writes the values of the kernel, or the server's settings and
has it reload them, and reads each back. Nothing is frozen, so arrivals at a rate, timeouts and clocks are as they are.
All arms have the same memory, the same page cache and the same luck of a start, which cancels. Two arms alternate, and
then come backwards; more arms are rows of Williams squares. Slices are longer or shorter by up to a half, and their
first half does not count. Their usual length is {switch:g} s where an effect builds up, twice that in every second
block, and else {least_switch:g} s; `slice` sets another one.

The tables below say in the column **Switched** what can be switched: it holds for all that a running server and its
sessions do next. What holds only for memory, files or sessions that are begun after it cannot, such as `read_ahead_kb`
or `transparent_huge_pages`: what is there already would keep the other arm's value. pgtrial also refuses this method
for:

- existing servers, servers on other machines, and `cache = "cold"`;
- what the clock paces (`checkpoint_timeout`, `autovacuum_naptime`);
- settings of PostgreSQL with `protocol = "prepared"`, whose sessions keep their plans;
- slices below {least_building:g} s where an effect builds up.

The values of the kernel are in the journal before the first switch, as open changes: whoever has to undo them, also
after `kill -9` in the midst of a switch, puts back what was before, whichever arm's value is there.

**When it is wrong.** Where an effect takes longer than a washout, it looks smaller than it is, never larger
([statistics.md](statistics.md#one-server-switched-back-and-forth) says by how much). The caveat
`effect-grows-with-slices` compares blocks with long and short slices. `auto` leaves out what acts over the minutes in
which memory is reclaimed (`vm.swappiness`, `vm.vfs_cache_pressure`); a file may ask for it. Statements that take longer
than half a slice belong to more than one arm. The server is not sampled: waits, WAL and buffers are not told apart by
arm, so the report has an effect, but no cause.

## How effects settle

The tables below show what `pgtrial` knows about each setting. **Shared** is the resource that twins have in common,
through which an effect leaks from one arm to another. Leaks through dirty pages do not matter if the load is
select-only, and leaks through the page cache do not matter if all data and servers fit into memory.

| Effect | interleaved | duet |
|---|---|---|
| at once, or within seconds | valid | valid |
| at once, or within seconds, and shared | valid with a warning; refused if the page cache is shared | the same |
| builds up in the arm's own cluster | valid with a warning | valid with a warning |
| builds up and is shared | refused | refused |
| follows the clock | refused | valid with a warning |
| of the machine, switched with the arm ({switched}) | valid with longer slices, unless it builds up | refused |
| of the machine, for as long as a server runs ({standing}) | refused | refused |

An asterisk matches any text; the first matching row of a table applies. A setting of an extension, such as
`auto_explain.log_analyze`, settles as its extension does.

{rules}"""


def render_methods() -> str:
    """A third page: what is valid when, and how each setting settles."""
    tables = []
    for name, knob in KNOBS.items():
        rows = "\n".join(f"| {' | '.join(_timing_cells(rule))} |" for rule in knob.rules)
        tables.append(
            f"### `{name}`\n\n| Setting | Settles | Shared | Switched | Because it |\n|---|---|---|---|---|\n{rows}\n"
        )
    return _METHODS.format(
        guard=round(GUARD * 1000),
        building=LEAST_SLICE_BUILDING_UP,
        duet=DUET_GUARD,
        switch=spec.DEFAULT_SWITCH_SLICE,
        least_switch=LEAST_SWITCH,
        least_building=LEAST_SWITCH_BUILDING_UP,
        duet_slice=spec.DEFAULT_DUET_SLICE,
        duet_longest=LONGEST_DUET_SLICE,
        duet_most=MOST_DUET_SLICES,
        per_client=SECONDS_PER_CLIENT * 1000,
        switched=", ".join(f"`{knob}`" for knob in _among(Among.SWITCHED)),
        standing=", ".join(f"`{knob}`" for knob in _among(Among.STANDING)),
        rules="\n".join(tables),
    )


def _among(among: Among) -> list[str]:
    return [name for name, knob in KNOBS.items() if knob.among_twins is among]


def _timing_cells(rule: Rule) -> Sequence[str]:
    settles = str(rule.timing) + (f", {rule.seconds:g} s" if rule.seconds else "")
    if rule.by_clock:
        settles += ", by the clock"
    return (
        ", ".join(f"`{pattern}`" for pattern in rule.patterns),
        settles,
        ", ".join(rule.shares) or "–",
        "yes" if rule.at_run_time and not rule.by_clock else "–",
        rule.reason,
    )


_CAVEATS = """\
# Caveats

A caveat limits how far you can trust a number. "invalid" voids the verdict, "warning" reduces trust in it, "info" does
not. Each caveat has a stable code, the values it names, and a sentence and a hint, which stand in
`src/pgtrial/findings/catalogue/`; findings.json has all of them ([result-folder.md](result-folder.md#findingsjson)).
[result-folder.md](result-folder.md#caveats-noted-while-measuring) lists the caveats noted while measuring.

`tools/generate_docs.py` writes this page.
"""
_CAVEAT_TABLES = {
    "Experiment and runs": VALIDITY_CAVEATS,
    "Arms that share a block's time": SHARING_CAVEATS,
    "Settings, servers, machine": WORLD_CAVEATS,
    "A single effect": EFFECT_CAVEATS,
    "Calibration": CALIBRATION_CAVEATS,
}


def render_caveats() -> str:
    """The table of caveats by question, in the order of the catalogue."""
    parts = [_CAVEATS]
    for title, table in _CAVEAT_TABLES.items():
        rows = [_caveat_row(code, entry) for code, entry in table.items() if entry.when]
        parts.append(f"## {title}\n\n| Code | Severity | When |\n|---|---|---|\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def _caveat_row(code: str, entry: Entry) -> str:
    name = code.partition(".")[0]
    return f"| `{name}` | {entry.severity or ENTRIES[code].severity} | {entry.when} |"


DEFECTS = Path(__file__).parent.parent / "tests" / "calibration" / "rows"
_BEGIN = (
    "<!-- Written by tools/generate_docs.py from tests/calibration/rows/{}, which `make calibration` measures. -->\n"
)
_END = "<!-- End of the table of {}. -->\n"
_NOISES = "| Noise of the machine | runs one after the other | SD | interleaved | SD | duet | SD |\n" + "|---" * 7 + "|"
_DEFECTS = "| | What goes wrong | Before | Now |\n" + "|---" * 4 + "|"


def render_statistics(page: str) -> str:
    """The page with its tables of noises and of defects, as they were last measured."""
    noises = [f"| {row['noise']} | {row['cells']} |" for _, row in _measured("noise-*.toml")]
    defects = [
        f"| {int(name)} | {row['defect']} | {row['before']} | {row['after']} |"
        for name, row in _measured("[0-9]*.toml")
    ]
    page = _put_in(page, "noise-*.toml", "noises", (_NOISES, *noises))
    return _put_in(page, "", "defects", (_DEFECTS, *defects))


def _measured(pattern: str) -> Iterator[tuple[str, dict[str, str]]]:
    for path in sorted(DEFECTS.glob(pattern)):
        yield path.stem, tomllib.loads(path.read_text(encoding="utf-8"))


def _put_in(page: str, source: str, name: str, lines: Iterable[str]) -> str:
    begin, end = _BEGIN.format(source), _END.format(name)
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    table = "\n".join(lines)
    return f"{before}{begin}\n{table}\n\n{end}{after}"


_METRICS = """\
# Metrics

Everything of which a run gives one number. Each can be the `metric` of a [hypothesis](experiment-file.md#hypothesis),
and all of them are compared in the report under "All metrics" and exported as `metrics` and `metric_values`.

- The number is over the measured time of a load level. A rate is the increase of a counter by time; a quotient is the
  sum above the line by the sum below it, so that `iostat.r_await` is a mean over reads.
- Over all load levels it is for throughput, latencies, costs and what begins with `stability.` the geometric mean of
  the levels, so that every level weighs the same; for samples it is the mean, as of a whole test.
- Samples of one of several objects have its name after a slash: `iostat.r_await/vda`, `wait.IO/DataFileRead`. Without
  it, what is of a device is of the one with most requests under way in the arm; other metrics are of all objects
  together.
- Values below what is next to nothing, such as 0.1 % of the CPU time, count as that: 0.01 against 0.02 % is no
  doubling.
- Where neither direction is the better one, a claim says `expect = "lower"` or `"higher"`.
- What is of the machine, and not of the server and its load, cannot be claimed where arms share the time of a block.

## A claim of several metrics

```toml
[hypothesis]
claim  = "reads fall by a tenth, and throughput is not worse"
metric = "iostat.r"
expect = "lower"
margin = "10%"

[[hypothesis.and]]
metric = "pgbench.tps"
expect = "not-worse"
margin = "3%"
```

The claim is supported only if it is in every metric, each at the full level of confidence. That is an
intersection-union test, which supports a claim that is wrong in one of them no more often than the test of that one
would (R. L. Berger, Technometrics 24 (1982) 295-300). It is refuted where one of them is; there the error probability
is divided by their number (Bonferroni). Blocks are planned by the first metric, and a rule for a precision ends by it;
a rule for a decision ends when the whole claim is decided.

"""
_ANY = 1e-6  # of a least value that only tells something from nothing
_METRIC_HEAD = "| Metric | Unit | Better | What it is | How it is computed |\n|---|---|---|---|---|\n"


def render_metrics() -> str:
    """Another page: what a claim can be about."""
    on_server = "".join(map(_metric_row, observable_names("pgbench")))
    on_files = "".join(_metric_row(name) for name in observable_names("fio") if name.startswith("fio."))
    return (
        f"{_METRICS}## On a server\n\nThose of `pgbench.` are also those of [another program](command.md).\n\n"
        f"{_METRIC_HEAD}{on_server}\n"
        f"## On files\n\nThese, and those of the machine above.\n\n{_METRIC_HEAD}{on_files}"
    )


def _metric_row(name: str) -> str:
    shown = {"waits.": "waits.TYPE", "wait.": "wait.TYPE/EVENT"}.get(name, name)
    found, series = find_observable(shown), find_metric(name)
    assert found is not None
    words = name_metric(name) if series is None else name_series(name)
    objects = "/OBJECT" if isinstance(series, TimelineMetric) and series.per_object else ""
    better = "" if found.metric.better == "neither" else found.metric.better
    formula = "" if series is None else f"`{series.formula}`"
    return f"| `{shown}{objects}` | {found.metric.unit} | {better} | {say(words)} | {formula} |\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    (folder / "experiment-file.md").write_text(render_page(), encoding="utf-8")
    (folder / "knobs.md").write_text(render_knobs(), encoding="utf-8")
    (folder / "metrics.md").write_text(render_metrics(), encoding="utf-8")
    (folder / "methods.md").write_text(render_methods(), encoding="utf-8")
    (folder / "caveats.md").write_text(render_caveats(), encoding="utf-8")
    statistics = folder / "statistics.md"
    statistics.write_text(render_statistics(statistics.read_text(encoding="utf-8")), encoding="utf-8")
    (folder / "experiment.schema.json").write_text(render_schema(), encoding="utf-8")


if __name__ == "__main__":
    main()
