"""What comes next: experiment files for the questions that a finished experiment leaves open.

Nothing is guessed: each follows from a finding of the experiment and from what its file sets, and says so.
"""

import copy
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pgtrial.analysis.factors import read_number
from pgtrial.experiment_file.generate import file_text
from pgtrial.experiment_file.load import examine
from pgtrial.findings.findings import Findings
from pgtrial.findings.message import in_english
from pgtrial.model.verdict import Verdict
from pgtrial.safe_text import make_visible, parse_toml
from pgtrial.store import layout
from pgtrial.units import format_duration

MOST_BLOCKS = 100
_LARGER = 4  # times as much data, so that they no longer fit
_MOST_APART = 6  # settings, of which each gets an arm
_CYCLES = 3  # of checkpoints in a run
_AROUND = 2  # times the largest, and a part of the smallest, of the levels around those that were tried
_MIB = 1024**2

_TIME = re.compile(r"[1-9]\d*\s?(?:s|min|h|d)")  # whole seconds, and no thousandths

_File = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowUp:
    """``name`` is that of the experiment and, with ".toml", of its file; ``reason`` a sentence or two."""

    name: str
    reason: str
    text: str


def follow_ups(findings: Findings, text: str, folder: Path) -> tuple[FollowUp, ...]:
    """Those whose files are valid, the most useful first. ``text`` is the experiment's file, in ``folder``.

    Raises ValueError where it is not TOML.
    """
    given = parse_toml(text)
    found = []
    for ending, reason, changed in (each for find in _FINDERS for each in find(findings, copy.deepcopy(given))):
        name = f"{findings.experiment.name[:40]}-{ending}"
        changed["experiment"] = {**changed.get("experiment", {}), "name": name}
        changed.get("design", {}).pop("seed", None)
        _name_files(changed, folder)
        told = make_visible(" ".join(reason.split()))  # names of the folder are in it, and must not end the comment
        written = file_text(f"Suggested by pgtrial after {make_visible(folder.absolute().name)}: {told}", changed)
        if not examine(written, None).problems:
            found.append(FollowUp(name=name, reason=reason, text=written))
    return tuple(found)


_Found = Iterator[tuple[str, str, _File]]


def _more_blocks(findings: Findings, file: _File) -> _Found:
    needed, done = findings.needed, findings.experiment.blocks_complete
    if findings.hypothesis.provisional:  # its own blocks are still to come
        return
    if needed.blocks is None or done + needed.blocks > MOST_BLOCKS:
        return
    design = {key: value for key, value in file.get("design", {}).items() if key not in ("budget", "stop", "looks")}
    file["design"] = {**design, "blocks": done + needed.blocks}
    yield "more-blocks", f"The claim is not decided: {in_english(needed.text)}.", file


def _make_it_act(findings: Findings, file: _File) -> _Found:
    """Where a setting had nothing to act on: what would make it act, as far as the file can say that."""
    for each in findings.engagements:
        if each.state != "idle":
            continue
        changed, reason = copy.deepcopy(file), in_english(each.text)
        dataset, workload = changed.setdefault("dataset", {}), changed.setdefault("workload", {})
        if each.setting == "shared_buffers" and dataset.get("kind", "pgbench") == "pgbench":
            dataset["scale"] = _LARGER * int(dataset.get("scale", 10))
        elif each.setting == "checkpoint_timeout":
            times = [time for _, value in _values(changed, each.setting) if (time := read_number(value)) is not None]
            workload["duration"] = format_duration(_CYCLES * max(times, default=300.0)).replace(" ", "")
        elif each.setting in ("work_mem", "hash_mem_multiplier") and not workload.get("scenario"):
            workload["mix"] = "olap"
        else:
            continue
        yield f"engaged-{each.setting.replace('_', '-')}", reason, changed


def _apart(findings: Findings, file: _File) -> _Found:
    """Settings that were changed together: two each by itself and with the other, more of them each by itself."""
    differing = _differing(file)
    if not 2 <= len(differing) <= _MOST_APART:
        return
    *others, last = (key for _, key in differing)
    names = f"{', '.join(others)} and {last}"
    reason = f"{names} were changed together, so that nobody can tell which of them did it."
    if len(differing) > 2:
        control = next(iter(file["arms"].values()))
        for (knob, key), (_, value) in differing.items():
            alone = copy.deepcopy(control)
            alone[knob][key] = value
            file["arms"][f"only_{key.replace('.', '_')}"] = alone
        yield "each-alone", reason, file
        return
    factors = {
        key.replace(".", "_"): {"knob": knob, "setting": key, "levels": list(values)}
        for (knob, key), values in differing.items()
    }
    file["factors"] = factors
    _leave_arms(file)
    yield "two-by-two", reason, file


def _curve(findings: Findings, file: _File) -> _Found:
    """One numeric setting with two values: those between and around them."""
    differing = _differing(file)
    if len(differing) != 1:
        return
    (((knob, key), values),) = differing.items()
    numbers = [read_number(str(value)) for value in values]
    if None in numbers or min(n for n in numbers if n is not None) <= 0:
        return
    low, high = sorted(n for n in numbers if n is not None)
    write = _writer(values[0], values[1])
    # A server's times have a least value near the usual ones: what is below both may not be possible.
    below = () if write is _write_time else (low / _AROUND,)
    levels = [*below, low, (low * high) ** 0.5, high, high * _AROUND]
    if write is None or (write is _write_size and levels[0] < _MIB):
        return
    written = [write(level) for level in levels]
    if len(set(written)) < len(written):
        return
    first = write(read_number(str(values[0])) or 0)
    ordered = [first, *(level for level in written if level != first)]
    file["factors"] = {key.replace(".", "_"): {"knob": knob, "setting": key, "levels": ordered}}
    _leave_arms(file)
    yield "curve", f"Two values of {key} say which is better, and not where the best one lies.", file


def _write_size(level: float) -> str:
    return f"{round(level / _MIB)}MB"


def _write_time(level: float) -> str:
    return f"{round(level)}s"


def _writer(*values: object) -> Callable[[float], str | int] | None:
    """How a level between such values is written; None where that cannot be told."""
    if all(isinstance(value, int) for value in values):
        return round
    texts = [value if isinstance(value, str) else "" for value in values]
    if all(text.endswith("B") for text in texts):
        return _write_size
    return _write_time if all(_TIME.fullmatch(text) for text in texts) else None


def _placebo(findings: Findings, file: _File) -> _Found:
    asked = findings.hypothesis
    if findings.placebo or asked.provisional or asked.verdict not in (Verdict.SUPPORTED, Verdict.REFUTED):
        return
    if any(arm.role == "placebo" for arm in findings.experiment.arms):
        return
    file["design"] = {**file.get("design", {}), "placebo": True}
    yield "placebo", "The verdict has no placebo beside it: a false alarm of the set-up would go unnoticed.", file


_FINDERS: tuple[Callable[[Findings, _File], _Found], ...] = (_make_it_act, _more_blocks, _apart, _curve, _placebo)


def _differing(file: Mapping[str, Any]) -> dict[tuple[str, str], tuple[Any, Any]]:
    """(knob, key) to the values in the two arms of a file; {} where it has others, or tables that are inherited."""
    arms = list(file.get("arms", {}).values())
    if len(arms) != 2 or any(not isinstance(table, dict) for arm in arms for table in arm.values()):
        return {}
    tables = dict.fromkeys(knob for arm in arms for knob in arm)
    found = {}
    for knob in tables:
        one, other = (arm.get(knob, {}) for arm in arms)
        for key in dict.fromkeys((*one, *other)):
            if key not in one or key not in other:
                return {}  # what the server has by itself is not in the file
            if one[key] != other[key]:
                found[knob, key] = (one[key], other[key])
    return found


def _values(file: Mapping[str, Any], setting: str) -> Iterator[tuple[str, str]]:
    for name, arm in file.get("arms", {}).items():
        value = arm.get("postgresql", {}).get(setting)
        if value is not None:
            yield name, str(value)


def _leave_arms(file: _File) -> None:
    """Combinations have names of their own, and the claim is about whether any of them differs."""
    del file["arms"]
    claimed = file.get("hypothesis", {})
    for key in ("arm", "claim", "expect", "and"):
        claimed.pop(key, None)


def _name_files(file: _File, folder: Path) -> None:
    """Scripts stay where the experiment has kept them."""
    kept = (folder / layout.FILES).absolute()
    if "setup" in file.get("dataset", {}):
        file["dataset"]["setup"] = str(kept / layout.SETUP)
    for one in file.get("workload", {}).get("scenario", []):
        if "file" in one:
            one["file"] = str(kept / f"{one.get('name')}.sql")
    if files := file.get("workload", {}).get("files"):
        names = [files] if isinstance(files, str) else files
        file["workload"]["files"] = [str(kept / layout.COMMAND_FILES / Path(name).name) for name in names]
    for name, arm in file.get("arms", {}).items():
        scripts = arm.get("workload", {}).get("scripts", {})
        scripts.update({one: str(kept / layout.arm_script(name, one)) for one in scripts})
