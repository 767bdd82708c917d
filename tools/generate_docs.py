"""Write the pages of PAGES from the code, and the tables of statistics.md from what `make calibration` measured; tests
compare them.

`make pages` runs it: python tools/generate_docs.py docs
"""

import argparse
import inspect
import textwrap
import tomllib
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from pgtrial.cli import init
from pgtrial.design.effect_timing import ISOLATED_BY
from pgtrial.design.slices import (
    DUET_GUARD,
    GUARD,
    LEAST_SLICE_BUILDING_UP,
    LEAST_SWITCH,
    LEAST_SWITCH_BUILDING_UP,
    LONGEST_DUET_SLICE,
    MOST_DUET_SLICES,
    SECONDS_PER_CLIENT,
)
from pgtrial.experiment_file import cause_tables, disk_tables
from pgtrial.experiment_file import experiment as spec
from pgtrial.experiment_file.arm_checks import OWNED, OWNED_BY_SERVER
from pgtrial.experiment_file.cause_tables import AcceptanceTable
from pgtrial.experiment_file.check_rules import LIMITS, SHARE, CheckKind, CheckRule, check_rules
from pgtrial.experiment_file.fields import UNIONS, choices_of, render_schema
from pgtrial.experiment_file.guardrails_table import GuardrailsTable
from pgtrial.experiment_file.hypothesis_table import AndTable, HypothesisTable
from pgtrial.experiment_file.workload_table import RampTable, ScenarioTable, WarmupTable, WorkloadTable
from pgtrial.findings.catalogue import ENTRIES
from pgtrial.findings.catalogue.base import Entry
from pgtrial.findings.catalogue.effects import CALIBRATION_CAVEATS, EFFECT_CAVEATS
from pgtrial.findings.catalogue.hosts import HOST_CAVEATS
from pgtrial.findings.catalogue.measured import MEASURED_CAVEATS
from pgtrial.findings.catalogue.sharing import SHARING_CAVEATS
from pgtrial.findings.catalogue.validity import VALIDITY_CAVEATS
from pgtrial.findings.catalogue.world import WORLD_CAVEATS
from pgtrial.findings.message import message, say
from pgtrial.findings.naming import name_metric, name_series
from pgtrial.knobs import KNOBS, KnobTables
from pgtrial.knobs.declaration import About, Acts, Among, Rule, Scope, Shared
from pgtrial.knobs.fio import FileJobTable
from pgtrial.knobs.sysctl_rules import REFUSALS, VARIED, RefusedSetting
from pgtrial.knobs.values import Form, Name
from pgtrial.model.formulas import TimelineMetric
from pgtrial.model.observable import find_observable, observable_names
from pgtrial.model.series import find_metric
from pgtrial.postgres.existing.knobs import ServerDatabase, ServerSettings, ServerSql
from pgtrial.report.values import format_value
from pgtrial.units import format_bytes, format_count, format_duration, format_share

_TEMPLATES = Path(__file__).with_name("pages")  # the pages' prose; what is in braces is filled in


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
    ("[hypothesis]", HypothesisTable),
    ("[[hypothesis.and]]", AndTable),
    ("[target]", spec.TargetTable),
    ("[dataset]", spec.DatasetTable),
    ("[workload]", WorkloadTable),
    ("[[workload.scenario]]", ScenarioTable),
    ("[[workload.job]]", FileJobTable),
    ("Load levels as a ramp", RampTable),
    ("Warm-up with a cap", WarmupTable),
    ("[load]", spec.LoadTable),
    ("[arms.NAME]", spec.ArmTable),
    *((f"[arms.NAME.{name}]", model) for name, model in knob_models().items()),
    ("[factors.NAME]", spec.FactorTable),
    ("[disks.NAME]", disk_tables.DiskTable),
    ("[design]", spec.DesignTable),
    ("[guardrails]", GuardrailsTable),
    ("[[criteria]]", cause_tables.CriterionTable),
    ("[[acceptance]]", AcceptanceTable),
    ("[checks.NAME]", cause_tables.CheckTable),
    ("[associations]", cause_tables.AssociationsTable),
    ("[limits]", spec.LimitsTable),
    ("[hooks]", spec.HooksTable),
    ("[[waive]]", cause_tables.WaiverTable),
)


def _template(name: str) -> str:
    return (_TEMPLATES / f"{name}.md.in").read_text(encoding="utf-8")


def render_page() -> str:
    """The page's Markdown, ending in a line feed."""
    parts = [
        _template("experiment-file").format(
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
            parts.append(_template("checks") + "\n".join(map(_check_row, check_rules().values())) + "\n")
    example = init.EXAMPLE.read_text(encoding="utf-8")
    parts.append(f"## A whole file\n\nThis is what `pgtrial init` writes.\n\n```toml\n{example}```\n")
    return "\n".join(parts)


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
        return {RampTable: "a ramp", WarmupTable: '`{ cap = "2min" }`'}.get(annotation, "a table, below")
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


def _refusal(refusal: RefusedSetting) -> str:
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
    return _template("knobs").format(
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
            if acts.in_group:
                own = ", ".join(f"`{metric}`" for metric in acts.in_group.metrics)
                metrics += f"; where control groups have it for themselves, {own}"
            least = _least(acts) if acts.metrics else ""
            rows.append(f"| `{name}` | {keys} | {what} | {metrics} | {least} |")
    return "\n".join(rows)


def _least(acts: Acts) -> str:
    if acts.of_value:
        return f"{format_share(acts.of_value)} of the lowest"
    if acts.least < _ANY:
        return "more than none"
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


def render_methods() -> str:
    """A third page: what is valid when, and how each setting settles."""
    tables = []
    for name, knob in KNOBS.items():
        rows = "\n".join(f"| {' | '.join(_timing_cells(rule))} |" for rule in knob.rules)
        tables.append(
            f"### `{name}`\n\n| Setting | Settles | Shared | Isolated by | Switched | Because it |\n"
            f"|---|---|---|---|---|---|\n{rows}\n"
        )
    return _template("methods").format(
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
        _isolation(rule),
        "yes" if rule.at_run_time and not rule.by_clock else "–",
        rule.reason,
    )


def _isolation(rule: Rule) -> str:
    """What gives each arm its own of the resources, where it does of all, or which of them where it does not."""
    by: dict[str, list[Shared]] = {}
    for shared in rule.shares:
        if shared in ISOLATED_BY and (rule.in_group or Shared.MEMORY not in rule.shares):
            by.setdefault("`{}` {}".format(*ISOLATED_BY[shared]), []).append(shared)
    return (
        "; ".join(how if len(found) == len(rule.shares) else f"{', '.join(found)}: {how}" for how, found in by.items())
        or "–"
    )


CAVEAT_TABLES = {
    "Experiment and runs": VALIDITY_CAVEATS,
    "Arms that share a block's time": SHARING_CAVEATS,
    "Settings, servers, machine": WORLD_CAVEATS,
    "A single effect": EFFECT_CAVEATS,
    "Several hosts": HOST_CAVEATS,
    "Calibration": CALIBRATION_CAVEATS,
    "Noted while measuring": MEASURED_CAVEATS,
}


def render_caveats() -> str:
    """The table of caveats by question, in the order of the catalogue."""
    parts = [_template("caveats")]
    for title, table in CAVEAT_TABLES.items():
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
_WORLDS = "| How times add up | × 0.5 | × 0.67 | × 0.8 | × 1.25 | × 1.5 |\n" + "|---" * 6 + "|"
_DAYS = "| Load over the day, of the usual one | slices of 30 s | 2 min | 10 min |\n" + "|---" * 4 + "|"
_ARMS = (
    "| Arms | supported falsely | refuted falsely | arms with a verdict | runs | fewer than all "
    "| fewer than to the end |\n" + "|---" * 7 + "|"
)
_DEFECTS = "| | What goes wrong | In the audit | Before | Now |\n" + "|---" * 5 + "|"


def render_statistics(page: str) -> str:
    """The page with its tables of noises, predictions, days, arms and defects, as they were last measured."""
    noises = [f"| {row['noise']} | {row['cells']} |" for _, row in _measured("noise-*.toml")]
    worlds = [f"| {row['world']} | {row['cells']} |" for _, row in _measured("predict-*.toml")]
    days = [f"| {row['day']} | {row['cells']} |" for _, row in _measured("daily-*.toml")]
    arms = [f"| {row['case']} | {row['cells']} |" for _, row in _measured("arms-*.toml")]
    defects = [
        f"| {int(name)} | {row['defect']} | {row.get('audit', '')} | {row['before']} | {row['after']} |"
        for name, row in _measured("[0-9]*.toml")
    ]
    page = _put_in(page, "noise-*.toml", "noises", (_NOISES, *noises))
    page = _put_in(page, "predict-*.toml", "predictions", (_WORLDS, *worlds))
    page = _put_in(page, "daily-*.toml", "days", (_DAYS, *days))
    page = _put_in(page, "arms-*.toml", "arms", (_ARMS, *arms))
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


_ANY = 1e-6  # of a least value that only tells something from nothing
_METRIC_HEAD = "| Metric | Unit | Better | What it is | How it is computed |\n|---|---|---|---|---|\n"


def render_metrics() -> str:
    """Another page: what a claim can be about."""
    on_server = "".join(map(_metric_row, observable_names("pgbench")))
    on_files = "".join(_metric_row(name) for name in observable_names("fio") if name.startswith("fio."))
    return (
        f"{_template('metrics')}## On a server\n\n"
        f"Those of `pgbench.` are also those of [another program](command.md).\n\n{_METRIC_HEAD}{on_server}\n"
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


# What is written from the code alone.
PAGES: Mapping[str, Callable[[], str]] = {
    "experiment-file.md": render_page,
    "experiment.schema.json": render_schema,
    "knobs.md": render_knobs,
    "metrics.md": render_metrics,
    "methods.md": render_methods,
    "caveats.md": render_caveats,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    for name, render in PAGES.items():
        (folder / name).write_text(render(), encoding="utf-8")
    statistics = folder / "statistics.md"
    statistics.write_text(render_statistics(statistics.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
