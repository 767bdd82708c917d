"""The plan of an experiment in its result folder: what was shown before the first run is what is run and analysed.

It is in state.sqlite: arms, levels and slots in their tables, the method in the record, and the rest, with the arms as
they were resolved, as one text there. experiment.toml is for people: what is changed in it later changes nothing.
"""

import contextlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from pgtrial.design.budget import with_duration
from pgtrial.design.method_case import METHODS
from pgtrial.design.methods import BLOCKS, Judgement, MethodChoice
from pgtrial.design.plan import Plan, due_slots
from pgtrial.design.registration import attempts_digest, register
from pgtrial.errors import StoreError
from pgtrial.experiment_file.arms import complete_arm
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.experiment_file.load import LARGEST_FILE
from pgtrial.experiment_file.values import LONGEST_TIME
from pgtrial.model.arm import Arm
from pgtrial.model.rules import CURRENT, RULES, Rules
from pgtrial.safe_files import is_plain, read_file
from pgtrial.safe_text import check_json, parse_toml
from pgtrial.store import layout
from pgtrial.store.rows import damaged
from pgtrial.store.state import State
from pgtrial.units import read_count

PLAN = "plan"  # key of the record
# Keys of the record: of the claim and the plan, as they were before the first run; the digest of all but the claim; and
# those of scripts and data by name.
DIGEST, REST, CONTENTS = "digest", "digest_rest", "contents"
LOADED_DATA = "dataset.load "  # and a number: names of data to load among the contents, which are not in the folder
REGISTERED = 3  # rules from which on a folder has all of them
# Keys of the record: how often the claim was tried before, "" where that is not known, with a digest of both; and what
# was tested, as whoever ran it names it.
ATTEMPTS, ATTEMPTS_DIGEST, REVISION = "attempts_before", "attempts_digest", "revision"
ATTEMPTS_SINCE = "attempts_since"  # the first attempt in the list that has counted them: s since the epoch
LOADED = "loaded"  # key of the record: digests of the data to load, in their order
DEFAULT_SEED = 1  # of folders in which no seed is recorded
# What tells the age of a folder. Keys of the record, by the rules that were current when they came; tables that all
# folders had which are older than rules, and no other one; and a column of transactions.
_SINCE = {"seed": 2, DIGEST: 2, ATTEMPTS: 2, LOADED: 2, REST: 3, CONTENTS: 3, ATTEMPTS_DIGEST: 4, REVISION: 4}
_BEFORE_RULES = {"process", "work_directory"}
_COLUMN, _COLUMN_SINCE = "inside", 9
_LEAST_GUARD = 1e-4  # s; guards are rounded to it
_MOST_SLICES = 200_000  # of an arm in a run: a day of slices of half a second
_NEWER = "Use the pgtrial version that made the folder, or a newer one."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Text:
    """What the record has as a text; ``version`` is that of its form."""

    version: Literal[1] = 1
    experiment: Experiment
    arms: tuple[Arm, ...]
    judgements: tuple[Judgement, ...]


@cache
def _adapter() -> TypeAdapter[_Text]:
    return TypeAdapter(_Text)


def write_plan(state: State, plan: Plan, contents: Mapping[str, str] | None = None) -> None:
    """Record a plan in a new state, with the digests of its scripts and data by name. Raises StoreError."""
    state.set_plan(plan.arms, plan.levels, plan.slots)
    text = _Text(experiment=plan.experiment, arms=plan.arms, judgements=plan.judgements)
    before = "" if plan.attempts_before is None else str(plan.attempts_before)
    since = "" if plan.attempts_since is None else str(plan.attempts_since)
    registered = register(plan.experiment, plan.arms, rules=plan.rules.version, contents=contents or {})
    state.set_meta(
        plan=_adapter().dump_json(text, by_alias=True, exclude_unset=True).decode(),
        seed=str(plan.seed),
        rules=str(plan.rules.version),
        **{DIGEST: registered.digest, REST: registered.rest, CONTENTS: json.dumps(contents or {}, sort_keys=True)},
        **{ATTEMPTS: before, ATTEMPTS_DIGEST: attempts_digest(registered.digest, before, since)},
        **({ATTEMPTS_SINCE: since} if since else {}),
    )
    write_method(state, plan.method)


def write_method(state: State, method: MethodChoice) -> None:
    """Record how the runs are arranged, before the first of them. Raises StoreError."""
    state.set_meta(**_method_text(method))


def _method_text(method: MethodChoice) -> dict[str, str]:
    return {
        "method": method.method,
        "method_reason": method.reason,
        "method_guard": str(method.guard),
        "method_slice": str(method.slice),
        "method_doubled": str(int(method.doubled)),
        "method_duration": "" if method.duration is None else str(method.duration),
    }


METHOD_KEYS = tuple(_method_text(BLOCKS))  # of the record: ``write_method`` writes them


def read_plan(folder: Path) -> Plan:
    """The plan of a result folder. One that is older than stored plans has its experiment resolved anew.

    Raises StoreError.
    """
    with contextlib.closing(State.open(folder)) as state:
        return plan_of(state, folder)


def plan_of(state: State, folder: Path) -> Plan:
    """``read_plan`` for a state that is open."""
    try:
        plan = _plan_of(state, folder)
    except (ValueError, OverflowError) as err:
        raise damaged(folder / layout.STATE, f"table meta: {err}") from err
    unknown = {slot.arm for slot in plan.slots} - {arm.name for arm in plan.arms}
    if unknown:
        raise damaged(folder / layout.STATE, f'table slot names arm "{min(unknown)}", which is not in the plan')
    there = {(slot.block, slot.arm) for slot in plan.slots}
    for block, arm in product(sorted({slot.block for slot in plan.slots}), plan.arms):
        if (block, arm.name) not in there:
            raise damaged(folder / layout.STATE, f'table slot has no run of arm "{arm.name}" in block {block}')
    settled = state.settled()
    if settled and plan.experiment.design.stop != "each-arm":
        raise damaged(folder / layout.STATE, "table meta: arms are settled that have no rule of their own")
    return replace(plan, slots=due_slots(plan.slots, settled), settled=settled)


def _plan_of(state: State, folder: Path) -> Plan:
    meta = state.meta()
    if PLAN in meta:
        check_json(meta[PLAN])
        try:
            text = _adapter().validate_json(meta[PLAN])
        except ValidationError as err:
            raise StoreError(
                f'the plan in "{folder / layout.STATE}" is not one that this pgtrial understands',
                detail=str(err),
                hint=_NEWER,
            ) from err
        experiment, arms, judgements = text.experiment, text.arms, text.judgements
    else:
        experiment, judgements = _read_experiment(folder), ()
        arms = tuple(complete_arm(experiment, name, role, own) for name, role, own in state.declared_arms())
    method = _recorded_method(meta, experiment)
    return Plan(
        experiment=with_duration(experiment, method.duration),
        arms=arms,
        levels=state.levels(),
        slots=state.slots(),
        method=method,
        seed=int(meta.get("seed", DEFAULT_SEED if experiment.design.seed is None else experiment.design.seed)),
        judgements=judgements,
        rules=CURRENT if lacks_record(state, folder) else _recorded_rules(meta, folder),
        attempts_before=_recorded_attempts(meta),
        attempts_since=float(meta[ATTEMPTS_SINCE]) if meta.get(ATTEMPTS_SINCE) else None,
    )


def _recorded_attempts(meta: Mapping[str, str]) -> int | None:
    """None where they were not known. Raises ValueError where it is no count."""
    text = meta.get(ATTEMPTS)
    count = read_count(text) if text else None
    if text and count is None:
        raise ValueError(f"{ATTEMPTS} is {text[:40]!r}, which is no count")
    return count


def lacks_record(state: State, folder: Path) -> bool:
    """Whether a folder says that it is of older rules than it shows: what it is to be judged by was altered or taken
    out.

    Raises StoreError, and ValueError where its rules are no number.
    """
    meta = state.meta()
    rules = int(meta.get("rules", 1))
    shown = [since for key, since in _SINCE.items() if key in meta]
    if not state.tables() >= _BEFORE_RULES:
        shown.append(2)
    return rules < max(shown, default=1) or (rules < _COLUMN_SINCE and _first_has_column(state, folder))


def _first_has_column(state: State, folder: Path) -> bool:
    """Of the first run alone: a newer version may have gone on with the others."""
    from pgtrial.store import parquet  # a page beside a measurement loads no DuckDB for today's folders

    files = (layout.run_folder(folder, run.folder) / layout.TRANSACTIONS for run in state.runs())
    first = next((file for file in files if is_plain(file)), None)
    return first is not None and _COLUMN in parquet.columns(first)


def _recorded_rules(meta: Mapping[str, str], folder: Path) -> Rules:
    version = int(meta.get("rules", 1))
    if version not in RULES:
        raise StoreError(f'"{folder}" is judged by rules {version}, which this pgtrial does not know', hint=_NEWER)
    return RULES[version]


def _recorded_method(meta: Mapping[str, str], experiment: Experiment) -> MethodChoice:
    """The method of the record. Raises ValueError where its times are none."""
    method, recorded = meta.get("method", experiment.design.method), meta.get("method_duration")
    duration = float(recorded) if recorded else None
    choice = MethodChoice(
        method=METHODS[METHODS.index(method)] if method in METHODS else "blocks",
        reason=meta.get("method_reason", ""),
        guard=float(meta.get("method_guard", 0)),
        slice=float(meta.get("method_slice", 0)),
        doubled=meta.get("method_doubled") == "1",
        duration=duration,
    )
    seconds = experiment.workload.duration if duration is None else duration
    if not 0 < seconds <= LONGEST_TIME:
        raise ValueError(f"a run does not take {seconds:g} s")
    counted = choice.slice - choice.guard
    if choice.method != "blocks" and not (
        choice.guard >= _LEAST_GUARD and seconds / _MOST_SLICES <= counted < math.inf
    ):
        raise ValueError(f"a slice does not take {choice.slice:g} s, {choice.guard:g} s of which do not count")
    return choice


def _read_experiment(folder: Path) -> Experiment:
    """The experiment of a folder without a stored plan.

    It was checked before it ran. The checks that need more than the file, such as that the scripts are there, are
    not repeated: they would say something about this machine.
    """
    path = folder / layout.EXPERIMENT
    try:
        return Experiment.model_validate(parse_toml(read_file(path, limit=LARGEST_FILE).decode()))
    except OSError as err:
        raise StoreError(
            f'cannot read "{path}": {err.strerror}',
            hint="Restore the file from a copy of the folder; without it the claim is not known.",
        ) from err
    except ValueError as err:
        raise StoreError(
            f'"{path}" is not an experiment that this pgtrial understands', detail=str(err), hint=_NEWER
        ) from err
