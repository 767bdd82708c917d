"""What an experiment claims, and how it is to be tested, as a digest: to be published before the first run."""

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import PurePosixPath

from pgtrial.design.budget import is_open
from pgtrial.design.levels import load_levels
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.experiment_file.hypothesis_table import AndTable, Expect, HypothesisTable, judged_as
from pgtrial.experiment_file.workload_table import WorkloadTable
from pgtrial.knobs import KnobTables
from pgtrial.knobs.values import Table
from pgtrial.model.arm import Arm, Role
from pgtrial.model.metric import Better
from pgtrial.model.observable import find_observable
from pgtrial.model.rules import RULES
from pgtrial.units import parse_bytes, parse_duration, parse_ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """``digest`` is what is published. ``rest`` is all of it but the claim itself, as a digest: with it a copy that
    keeps only the claim can be held against the digest.
    """

    digest: str
    rest: str


def register(experiment: Experiment, arms: Sequence[Arm], *, rules: int, contents: Mapping[str, str]) -> Registration:
    """Of claim, metric, margin, rules, arms, load, data and design: without names, descriptions, and a seed that is
    drawn.

    The same for a file, whatever its spelling, and for the result folder that is made of it. contents : digests of the
    scripts and data by name.
    """
    criteria = [_declared(one) for one in experiment.criteria] if RULES[rules].bears_alike else []
    rest = _digest(
        {
            "plan": plan_digest(experiment, arms),
            "contents": dict(contents),
            **({"criteria": criteria} if criteria else {}),
        }
    )
    return Registration(digest=digest_with(experiment, rules=rules, rest=rest), rest=rest)


def digest_with(experiment: Experiment, *, rules: int, rest: str) -> str:
    """The digest of a claim and of the ``rest``, which another one had as well."""
    claims = (experiment.hypothesis, *experiment.hypothesis.also)
    not_registered = () if RULES[rules].registers_seed else ("seed",)
    return _digest(
        {
            "claims": [_declared(one, "claim", "arm", "scenario", "also") for one in claims],
            "design": _declared(experiment.design, *not_registered),
            "rules": rules,
            "rest": rest,
        }
    )


def plan_digest(experiment: Experiment, arms: Sequence[Arm]) -> str:
    """SHA-256 of what is declared, without the contents of scripts and data: all that rules 2 had registered."""
    # What the file leaves out is not part of it: a key that a newer version has changes no digest.
    is_chosen = {"duration"} if is_open(experiment) else set()  # by the budget and the machine, as the number of blocks
    return _digest(
        {
            "hypothesis": _declared(experiment.hypothesis),
            "arms": _arms(arms),
            "target": _declared(experiment.target),
            "dataset": _declared(experiment.dataset, "setup", "load"),
            "workload": _declared(experiment.workload, "scenario", *is_chosen),
            "scenarios": [_declared(one, "file") for one in experiment.workload.scenario],
            "design": _declared(experiment.design, "seed"),
            "hooks": _declared(experiment.hooks),
            "waive": [_declared(one) for one in experiment.waive],
            **({} if experiment.guardrails is None else {"guardrails": _declared(experiment.guardrails)}),
            **({"acceptance": [_declared(one) for one in experiment.acceptance]} if experiment.acceptance else {}),
        }
    )


def attempts_digest(digest: str, before: str, since: str = "") -> str:
    """Of an experiment's digest, the number of attempts before it and when the first was made: the one is published,
    the others known later. Older records do not say ``since``.
    """
    return _digest({"digest": digest, "attempts_before": before, **({"attempts_since": since} if since else {})})


# Of the workload what is compared otherwise, and how it is measured, or called; of the server what the arms have, too,
# and how it is reached; of an arm's knobs what its variant has.
_NOT_THE_LOAD = ("scenario", "mix", "clients", "rate", "files", "duration", "warmup", "threads", "unit")
_NOT_THE_SERVER = (*KnobTables.model_fields, "postgres", "directory", "restart", "copy_of")
_IN_VARIANT = ("server", "dataset")
_DATA = "/var/tmp"  # where data are unless the file says so


def claim_key(
    experiment: Experiment, arms: Sequence[Arm], *, contents: Mapping[str, str], tested: Sequence[str] = ()
) -> str:
    """SHA-256 of what attempts at one claim have in common: what is tested of which metrics, the two arms, the server,
    the data and the load, with ``contents`` as for ``register``; and whatever else is ``tested``, as the server's
    programs.

    Settings of ``arms`` are as the server reads them. Not how long or how often, nor what anything is called, nor what
    other arms there are: a claim that is tried again with more blocks is the same. So is another word for the same
    test: "worse" and "not-worse" are about one bound, and "a is worse than b" is "b is better than a". On other data,
    or of another build, it is another one.
    """
    compared = {arm.name: arm for arm in arms if arm.role is not Role.PLACEBO}
    control, *others = compared.values()
    claimed = compared.get(experiment.hypothesis.arm or "") or (others or [control])[0]
    pair = [_defined(arm) for arm in (control, claimed)]
    both = sorted(pair, key=lambda each: json.dumps(each, sort_keys=True))
    workload, claims = experiment.workload, experiment.hypothesis.claims
    return _digest(
        {
            "claims": sorted({_tested(workload, each, contents, is_mirrored=both != pair) for each in claims}),
            "arms": both,
            "target": _declared(experiment.target, *_NOT_THE_SERVER),
            "dataset": _declared(experiment.dataset, "setup", "load"),
            "workload": _declared(workload, *_NOT_THE_LOAD, *_without_effect(workload)),
            "levels": sorted((level.clients, level.rate or 0.0) for level in load_levels(workload)),
            "scenarios": sorted(_script(workload, name, contents) for name in workload.scenario_names),
            "contents": sorted(contents.values()),
            "tested": sorted(tested),
        }
    )


def _tested(
    workload: WorkloadTable, claim: HypothesisTable | AndTable, contents: Mapping[str, str], *, is_mirrored: bool
) -> tuple[str, ...]:
    """The bound that a claim is tested at, whichever side of it is claimed; ``is_mirrored``: of control / arm."""
    from pgtrial.stats.equivalence import claim_bound  # with numpy, which who only looks at folders does without

    scenario = None if workload.scenario_names == (claim.scenario,) else claim.scenario
    known = find_observable(claim.metric)
    expect, better = judged_as(claim.expect, Better.NEITHER if known is None else known.metric.better)
    bound, _ = claim_bound(expect, bounds=(-claim.margin, claim.margin), better=better) or (0.0, True)
    at = "both" if bound == 0 else "upper" if (bound > 0) != is_mirrored else "lower"
    return (claim.metric, "" if scenario is None else _script(workload, scenario, contents), at, f"{claim.margin:.9g}")


def _without_effect(workload: WorkloadTable) -> Iterator[str]:
    """Keys of a workload that change nothing in it."""
    if len(workload.scenario_names) == 1:
        yield "share"
    if workload.rate is None:
        yield "latency_limit"  # just counts


def _script(workload: WorkloadTable, name: str, contents: Mapping[str, str]) -> str:
    """What a scenario does, by whatever name."""
    own = next((each for each in workload.scenario if each.name == name), None)
    return contents.get(f"{name}.sql") or (own and own.builtin) or name


def _defined(arm: Arm) -> dict[str, object]:
    """What an arm is, beside its names."""
    knobs = {knob: table for knob, table in arm.knobs.items() if knob not in _IN_VARIANT}
    variant = replace(arm.variant, data=str(PurePosixPath(arm.variant.data or _DATA)))
    return {
        "settings": dict(arm.settings),
        "knobs": {knob: {name: _plain(value) for name, value in table.items()} for knob, table in knobs.items()},
        "variant": {name: value for name, value in asdict(variant).items() if value},
    }


def _plain(text: str) -> str:
    """A number, size, time or share as one number: "1GB" and "1024MB" are the same."""
    for parse in (float, parse_bytes, parse_duration, parse_ratio):
        with contextlib.suppress(ValueError):
            return repr(parse(text))
    return text.strip()


# What is claimed of two arms, and the same with the arms exchanged.
_MIRRORED = {
    Expect.BETTER: Expect.WORSE,
    Expect.WORSE: Expect.BETTER,
    Expect.LOWER: Expect.HIGHER,
    Expect.HIGHER: Expect.LOWER,
    Expect.EQUIVALENT: Expect.EQUIVALENT,
    Expect.DIFFERENT: Expect.DIFFERENT,
}


def wording_key(
    experiment: Experiment, arms: Sequence[Arm], *, contents: Mapping[str, str], tested: Sequence[str] = ()
) -> str:
    """SHA-256 of a claim and its arms in the words of the file: by that alone versions before rules 15 counted."""
    compared = [arm for arm in arms if arm.role is not Role.PLACEBO]
    names, asked = [arm.name for arm in compared], experiment.hypothesis
    arm = names.index(asked.arm) if asked.arm in names else 1
    described, expect = _arms([replace(each, name="", role=Role.CANDIDATE) for each in compared]), asked.expect
    if len(described) == 2 and expect in _MIRRORED and not asked.also:
        both = sorted(described, key=lambda each: json.dumps(each, sort_keys=True))
        if both != described:
            described, expect = both, _MIRRORED[expect]
    return _digest(
        {
            "hypothesis": _declared(asked, "claim", "confidence", "arm", "expect"),
            "expect": expect,
            "arm": arm,
            "arms": described,
            "target": _declared(experiment.target),
            "dataset": _declared(experiment.dataset, "setup", "load"),
            "workload": _declared(experiment.workload, "scenario", "files", "duration", "warmup"),
            "scenarios": list(experiment.workload.scenario_names),
            "contents": sorted(contents.values()),
            "tested": sorted(tested),
        }
    )


def _declared(table: Table, *left_out: str) -> object:
    return table.model_dump(mode="json", exclude_defaults=True, exclude=set(left_out))


def _arms(arms: Sequence[Arm]) -> list[dict[str, object]]:
    return [
        {
            "name": arm.name,
            "role": arm.role,
            "settings": dict(arm.settings),
            "knobs": {knob: dict(table) for knob, table in arm.knobs.items()},
            "disk": arm.disk,
            "variant": {name: value for name, value in asdict(arm.variant).items() if value},
        }
        for arm in arms
    ]


def _digest(facts: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
