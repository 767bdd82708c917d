"""pgtrial plan: what an experiment will do."""

import json
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgtrial.cli import options
from pgtrial.cli.checked import Checked
from pgtrial.cli.plan_facts import (
    acceptance_text,
    changed_settings,
    claim_sentence,
    code_uses,
    plan_notes,
    proof_texts,
    split_levels,
    takes_effect,
)
from pgtrial.cli.plan_files import jobs_text
from pgtrial.cli.plan_method import (
    detectable_text,
    disturbed_text,
    looks_text,
    method_lines,
    order_lines,
    soak_measured,
    soak_question,
)
from pgtrial.cli.plan_target import data_text, host_changes, own_settings_text, place_texts, server_text, starts_text
from pgtrial.cli.terminal import echo
from pgtrial.cli.text import WIDTH, fill, render_table
from pgtrial.engine.preview import Preview
from pgtrial.experiment_file.arm_statements import find_waiting
from pgtrial.experiment_file.command_checks import replays
from pgtrial.experiment_file.workload_table import COMMAND, WarmupTable
from pgtrial.knobs import is_sql
from pgtrial.model.arm import Role
from pgtrial.model.run import Slot
from pgtrial.postgres.connect import split_statements
from pgtrial.units import format_bytes, format_duration
from pgtrial.workloads.scenarios import scenarios_of

if TYPE_CHECKING:
    from pgtrial.fleet.estimate import FleetEstimate

# A plan as plain text of at most 80 columns.


_LONGEST_CELL = 40  # characters of a value in a table


def render_plan(
    checked: Checked,
    previews: Sequence[Preview] | None,
    *,
    noise: float | None = None,
    fleet: "FleetEstimate | None" = None,
) -> str:
    """The whole plan; ``previews`` are the changes of the host, None if it was not asked, ``noise`` the standard
    deviation of a block's log ratio by a calibration, ``fleet`` the hosts if there are several.
    """
    plan = checked.plan
    sections = (
        ("", _overview(checked)),
        ("Settings", _settings(checked)),
        ("SQL of the arms", _sql(checked)),
        ("Load levels", _levels(checked)),
        ("Method", list(method_lines(checked))),
        ("Schedule", _schedule(checked)),
        ("Time", _time(checked)),
        ("Proof of what limits the arms", [fill(text) for text in proof_texts(checked)]),
        ("Hosts", [] if fleet is None else _hosts(fleet)),
        ("Detectable effect", [fill(detectable_text(plan, noise))]),
        (
            "Changes outside the result folder",
            [*host_changes(checked, previews), *map(fill, place_texts(checked))],
        ),
        ("Code that it executes", _code(checked)),
        ("Waived: no reason for an invalid verdict", _waived(checked)),
        ("Notes", [fill(note) for note in plan_notes(checked)]),
    )
    return "\n\n".join("\n".join([title, *lines] if title else lines) for title, lines in sections if lines) + "\n"


def _overview(checked: Checked) -> list[str]:
    experiment = checked.loaded.experiment
    workload, is_soak = checked.plan.experiment.workload, experiment.design.soak is not None
    facts = {
        "experiment": experiment.experiment.name,
        "claim": experiment.hypothesis.claim,
        "test": "" if is_soak else claim_sentence(checked),
        "soak": soak_question(checked) if is_soak else "",
        "required": acceptance_text(checked),
        "server": server_text(checked),
        "data": data_text(checked),
        "load": _load(checked),
        "unit": workload.unit if "unit" in workload.model_fields_set else "",
        "measured": soak_measured(checked.plan, _warmup(checked))
        if is_soak
        else f"{format_duration(workload.duration)} per load level, after a warm-up: {_warmup(checked)}",
    }
    return [
        textwrap.fill(f"{name:<12}{text}", WIDTH, subsequent_indent=" " * 12, break_long_words=False)
        for name, text in facts.items()
        if text
    ]


def _load(checked: Checked) -> str:
    workload = checked.loaded.experiment.workload
    loop = "closed loop" if workload.rate is None else "open loop"
    if workload.kind == COMMAND:
        loop = "at the times of its log" if replays(checked.loaded.experiment) else loop
        return f"the command {' '.join(workload.command)}; {loop}"
    return f"{_scenarios(checked)}; {loop}, {workload.protocol} protocol" if checked.servers else jobs_text(checked)


def _scenarios(checked: Checked) -> str:
    workload = checked.loaded.experiment.workload
    names = [scenario.name for scenario in scenarios_of(checked.loaded.experiment, checked.loaded.folder)]
    return (
        workload.mix
        if workload.mix is not None and names == [workload.mix]
        else (f"{workload.mix + ': ' if workload.mix else ''}{', '.join(names)}, shares by {workload.share}")
    )


def _warmup(checked: Checked) -> str:
    warmup = checked.loaded.experiment.workload.warmup
    if warmup == "auto":
        return "until steady"
    if isinstance(warmup, WarmupTable):
        return f"until steady, at most {format_duration(warmup.cap)}"
    return format_duration(warmup) if warmup else "none"


def _settings(checked: Checked) -> list[str]:
    rows = []
    for name, values in changed_settings(checked).items():
        restart = takes_effect(name, checked)
        groups: dict[str | None, list[str]] = {}
        for arm, value in values.items():
            groups.setdefault(value, []).append(arm)
        for number, (value, arms) in enumerate(groups.items()):
            shown = "(default)" if value is None else _cell(name, value)
            whose = "all arms" if len(groups) == 1 else ", ".join(arms)
            rows.append(("" if number else name, shown, "" if number else restart, whose))
    lines = render_table(("setting", "value", "takes effect", "arms"), rows) if rows else []
    placebo = [arm.name for arm in checked.plan.arms if arm.role is Role.PLACEBO]
    if placebo:
        lines.append(f"  {placebo[0]} is a second copy of {checked.plan.arms[0].name}.")
    own = own_settings_text(checked)
    return [*lines, fill(own)] if own else lines


def _cell(name: str, value: str) -> str:
    """A value in one short line; scripts have a section of their own."""
    knob, _, key = name.partition(".")
    if is_sql(knob, key):
        count = sum(1 for _ in split_statements(value))
        return "1 statement" if count == 1 else f"{count} statements"
    return textwrap.shorten(value, _LONGEST_CELL, placeholder=" …") or "''"


def _sql(checked: Checked) -> list[str]:
    """Every statement of the arms, in full."""
    is_existing = checked.loaded.experiment.target.database is not None
    lines = []
    for arm in checked.plan.arms:
        if arm.role is Role.PLACEBO:
            continue
        for key, when in (("apply", "before the load"), ("undo", "undone by")):
            statements = [text for _, text in split_statements(arm.knobs.get("sql", {}).get(key, ""))]
            lines += [f"  {arm.name}, {when}:"] if statements else []
            for statement in statements:
                lines += _in_its_lines(statement)
                if is_existing and (waiting := find_waiting(statement)):
                    lines.append(f"      It takes a lock that {waiting} wait for.")
    if lines and is_existing:
        lines.append(fill("Running this needs --allow-writes. Each arm's SQL is in the journal before it runs."))
    return lines


def _in_its_lines(statement: str) -> list[str]:
    """A statement in the lines that it has in the file: a comment ends where its line ends, there as here."""
    own = [line for line in textwrap.dedent(statement).expandtabs(4).splitlines() if line.strip()]
    own = [*own, ";"] if "--" in own[-1] else [*own[:-1], f"{own[-1].rstrip()};"]
    lines = []
    for line in own:
        deeper = " " * (6 + len(line) - len(line.lstrip()))
        lines.append(
            textwrap.fill(line, WIDTH, initial_indent=" " * 4, subsequent_indent=deeper, break_on_hyphens=False)
        )
    return lines


def _levels(checked: Checked) -> list[str]:
    splits = list(split_levels(checked))
    first = splits[0][1]
    names = list(first) if first is not None and len(first) > 1 else []
    has_rate = any(level.rate is not None for level, _ in splits)
    rows = [
        (
            str(level.clients),
            *([f"{level.rate:g}"] if level.rate is not None else []),
            *(str(split[name]) for name in names if split is not None),
        )
        for level, split in splits
    ]
    return render_table(("clients", *(["rate (tps)"] if has_rate else []), *names), rows)


def _schedule(checked: Checked) -> list[str]:
    plan = checked.plan
    texts = [text for text in (looks_text(plan), starts_text(checked), disturbed_text(plan)) if text]
    if plan.steps:
        return [*order_lines(plan), *map(fill, texts)]
    if plan.experiment.design.soak is not None:
        return [fill(text) for text in texts]
    if plan.experiment.design.seed is None:
        arms = ", ".join(arm.name for arm in plan.arms)
        return [fill(f"{plan.blocks} blocks, in each of which every arm runs once ({arms})."), *map(fill, texts)]
    blocks: dict[int, list[Slot]] = {}
    for slot in plan.slots:
        blocks.setdefault(slot.block, []).append(slot)
    width = len(str(plan.blocks))
    lines = [
        fill(f"block {block:>{width}}  {', '.join(slot.arm for slot in slots)}", indent=" " * (10 + width))
        for block, slots in blocks.items()
    ]
    return [*lines, *map(fill, texts)]


def _time(checked: Checked) -> list[str]:
    plan, estimate = checked.plan, checked.plan.estimate
    run = estimate.run
    # Runs that share the time of their block are no longer than it.
    unit, count = ("block", plan.blocks) if plan.steps else ("run", estimate.runs)
    parts = {"restore": run.restore, "server": run.server, "warm-up": run.warmup, "checkpoint": run.checkpoint}
    rows = [("prepare, once", format_duration(estimate.prepare), "")]
    # All windows of an arm share what is before the first one.
    is_soak = plan.experiment.design.soak is not None
    rows += _times("arm" if is_soak else unit, len(plan.arms) if is_soak else count, parts, runs=estimate.runs)
    rows += _times("window" if is_soak else unit, count, {"measure": run.measure}, runs=estimate.runs)
    rows.append(("total", f"about {format_duration(estimate.total)}", ""))
    return [
        *render_table(("part", "time", ""), rows),
        fill(
            "The load is as declared; the rest is estimated from the size of the data. Invalid "
            f"{'windows' if is_soak else 'runs'} are repeated and add to it."
        ),
    ]


def _hosts(fleet: "FleetEstimate") -> list[str]:
    rows = [(share.name, share.where, str(share.blocks)) for share in fleet.shares]
    together, alone = format_duration(round(fleet.seconds)), format_duration(round(fleet.alone))
    texts = [
        f"Together about {together} if all are equally fast, instead of {alone} on one.",
        "Hosts take the next block as they get free: a slow one gets fewer.",
        "" if fleet.is_balanced else "Not every host gets equally many blocks: a multiple of the hosts would do that.",
        f"There is no block for {', '.join(fleet.idle)}." if fleet.idle else "",
        f"The load of all hosts is made on this machine, at the same time. Beside it their workers and engines take "
        f"up to {format_bytes(fleet.memory)} of memory here."
        if fleet.loaded_here
        else "",
    ]
    return [*render_table(("host", "address", "blocks"), rows), *(fill(text) for text in texts if text)]


def _times(unit: str, count: int, parts: Mapping[str, float], *, runs: int) -> list[tuple[str, str, str]]:
    """Of parts whose seconds are those of one of the runs: all together, and as often as they come."""
    return [
        (f"{unit}: {name}", format_duration(seconds * runs), f"{count} × {format_duration(seconds * runs / count)}")
        for name, seconds in parts.items()
        if seconds
    ]


def _code(checked: Checked) -> list[str]:
    uses = code_uses(checked)
    lines = [fill(f"{use.where}: {use.what}") for use in uses]
    return (
        [
            *lines,
            fill(
                "It has the rights of the server's account where no others are named. Running this needs --allow-code."
            ),
        ]
        if uses
        else []
    )


def _waived(checked: Checked) -> list[str]:
    """Caveats that the file accepts, with its reasons."""
    return [fill(f"{one.caveat}, because {one.reason}") for one in checked.plan.experiment.waive]


@click.command()
@options.file
@options.host
@options.allow_files
@options.revision
@options.fleet
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def command(
    *, file: Path, host: str | None, allow_files: tuple[Path, ...], revision: str, fleet: str | None, as_json: bool
) -> None:
    """Show what the experiment in FILE will do: its order, time, restarts, and every setting it changes.

    Starts nothing that the file names, and changes nothing.

    \b
    Example:
      pgtrial plan experiment.toml
    """
    from pgtrial.analysis.calibration.promise import find_calibration
    from pgtrial.cli.attempts import with_attempts
    from pgtrial.cli.checked import check_file, host_to_ask
    from pgtrial.cli.on_fleet import check_for, is_listed, read_hosts
    from pgtrial.cli.plan_facts import plan_data
    from pgtrial.engine.preview import preview_experiment
    from pgtrial.fleet.estimate import estimate_fleet

    hosts = read_hosts(fleet, runs=False)
    checked = check_for(hosts, lambda place: check_file(file, on_host=True, allow_files=allow_files, place=place))
    checked = with_attempts(checked, revision)
    spread = None if hosts is None else estimate_fleet(checked.plan, hosts.fleet, loaded_here=hosts.scheduler is None)
    asked = host if is_listed(hosts, host) else host_to_ask(checked, host)
    previews = preview_experiment(checked.plan, asked) if asked is not None else None
    calibration = find_calibration(checked.loaded)
    duration = checked.loaded.experiment.workload.duration
    noise = calibration.noise(checked.plan.method, duration) if calibration else None
    if as_json:
        data = plan_data(checked, previews, noise=noise)
        if spread is not None:
            data["fleet"] = {
                "seconds": spread.seconds,
                "memory": spread.memory,
                "hosts": [asdict(share) for share in spread.shares],
            }
        echo(json.dumps(data, indent=2))
    else:
        echo(render_plan(checked, previews, noise=noise, fleet=spread), nl=False)
