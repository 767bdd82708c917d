"""What an arm needs of the host, and what it does to its data."""

from collections.abc import Mapping, Sequence

from pgtrial.experiment_file.experiment import Experiment
from pgtrial.knobs import KNOBS, scope_of
from pgtrial.knobs.declaration import Scope
from pgtrial.knobs.postgresql import LIBRARIES
from pgtrial.knobs.workload import SCRIPTS, WORKLOAD
from pgtrial.model.arm import Arm


def made_with(arm: Arm) -> frozenset[tuple[str, str]]:
    """Knob and key of what an arm declares and its cluster is made with, as ``arm.variant`` has it."""
    return frozenset((name, key) for name, knob in KNOBS.items() for key in knob.made_with(arm.knobs.get(name, {})))


def host_knobs(arm: Arm) -> dict[str, Mapping[str, str]]:
    """What has to be set on the host while the arm runs, beside what its cluster is made with."""
    return {
        knob: table
        for knob, table in arm.knobs.items()
        if scope_of(knob) is Scope.HOST and not (knob in KNOBS and KNOBS[knob].made_with(table))
    }


def has_scripts(arm: Arm) -> bool:
    """Whether an arm has scripts of its own, which are not read to find out whether they write."""
    return any(key.startswith(SCRIPTS) for key in arm.knobs.get(WORKLOAD, {}))


def may_count_statements(experiment: Experiment, arms: Sequence[Arm]) -> bool:
    """Whether pgtrial may load a library into the servers of all arms: not beside those that the file names.

    An arm that names some would have others than the rest, and the difference would be in the effect.
    """
    return (
        experiment.target.kind == "throwaway"
        and experiment.target.count_statements
        and not any("preload" in arm.knobs.get("extensions", {}) for arm in arms)
        and not any(name.lower() in LIBRARIES for arm in arms for name in arm.settings)
    )


def stays_as_prepared(experiment: Experiment, arms: Sequence[Arm]) -> bool:
    """Whether the data are still those of the snapshot after any run, so that nothing has to be put back.

    The load only reads, no arm creates or alters anything, and all arms have the same data. Where an arm sets anything
    on the host, a fresh copy also gives every run the same page cache to begin with, so there it is made all the same.
    """
    workload = experiment.workload
    scripts: list[str | None] = [scenario.builtin for scenario in workload.scenario] or [workload.mix]
    return (
        experiment.target.kind == "throwaway"
        and all(script == "select-only" for script in scripts)
        and not any(has_scripts(arm) for arm in arms)
        and len({arm.variant for arm in arms}) == 1
        and not any(host_knobs(arm) for arm in arms)
        and not any(scope_of(knob) is Scope.DATABASE for arm in arms for knob in arm.knobs)
    )
