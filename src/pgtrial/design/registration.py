"""What an experiment claims, and how it is to be tested, as a digest: to be published before the first run."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from pgtrial.design.budget import is_open
from pgtrial.experiment_file.experiment import DEFAULT_DURATION, DesignTable, Experiment
from pgtrial.model.arm import Arm


def plan_digest(experiment: Experiment, arms: Sequence[Arm]) -> str:
    """SHA-256 of claim, metric, margin, arms, load, data and design: without names, descriptions, and the seed.

    The same for a file, whatever its spelling, and for the result folder that is made of it.
    """
    return _digest(
        {
            "hypothesis": experiment.hypothesis.model_dump(mode="json"),
            "arms": _arms(arms),
            "target": experiment.target.model_dump(mode="json"),
            "dataset": experiment.dataset.model_dump(mode="json", exclude={"setup", "load"}),
            "workload": _workload(experiment),
            "scenarios": [one.model_dump(mode="json", exclude={"file"}) for one in experiment.workload.scenario],
            "design": experiment.design.model_dump(mode="json", exclude={"seed"} | _left_out(experiment.design)),
            **({"hooks": experiment.hooks.model_dump(mode="json")} if experiment.hooks.programs() else {}),
            **({"waive": [one.model_dump(mode="json") for one in experiment.waive]} if experiment.waive else {}),
        }
    )


def _left_out(design: DesignTable) -> set[str]:
    """Keys that came later and that the file does not have: a plan without them keeps its digest."""
    return {"disturbed"} if design.disturbed is None else set()


def claim_key(experiment: Experiment, arms: Sequence[Arm]) -> str:
    """SHA-256 of what attempts at one claim have in common: metric, expectation and margin, the arms, the kind of load.

    Not how long or how often: a claim that is tried again with more blocks is the same.
    """
    workload = experiment.workload
    return _digest(
        {
            "hypothesis": experiment.hypothesis.model_dump(mode="json", exclude={"claim", "confidence"}),
            "arms": _arms(arms),
            "scenarios": list(workload.scenario_names),
        }
    )


def _workload(experiment: Experiment) -> object:
    """As the file has it: what a budget makes of the duration depends on the machine, as the number of blocks does."""
    facts = experiment.workload.model_dump(mode="json", exclude={"scenario"})
    return {**facts, "duration": DEFAULT_DURATION} if is_open(experiment) else facts


def _arms(arms: Sequence[Arm]) -> object:
    return [
        {
            "name": arm.name,
            "role": arm.role,
            "settings": dict(arm.settings),
            "knobs": {knob: dict(table) for knob, table in arm.knobs.items()},
            "disk": arm.disk,
            "variant": asdict(arm.variant),
        }
        for arm in arms
    ]


def _digest(facts: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
