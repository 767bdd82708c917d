"""The settings of each supported PostgreSQL version, and checks of an experiment file against them.

The data are collected from running servers by tools/collect_settings.py and are stored in ``catalogue/``. A version
without data is not checked here; its server reports what it does not accept.
"""

import contextlib
import functools
import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pgtrial.design.levels import ScenarioShare, level_of, load_levels, split_clients
from pgtrial.errors import SpecError, SpecProblem
from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.experiment_file.position import Path as SpecPath
from pgtrial.experiment_file.position import format_path
from pgtrial.knobs.pgbouncer import PGBOUNCER
from pgtrial.knobs.postgresql import POSTGRESQL
from pgtrial.knobs.values import value_text
from pgtrial.model.arm import Arm
from pgtrial.nearest import nearest_name
from pgtrial.postgres.settings import SettingFacts, find_fault, read_number

VERSIONS = (15, 16, 17, 18)
OWN_CONNECTIONS = 3  # the sampler's and the engine's, beside the clients

# The server takes these old names, but shows the setting under the new one.
_RENAMED = {
    "sort_mem": "work_mem",
    "vacuum_mem": "maintenance_work_mem",
    "force_parallel_mode": "debug_parallel_query",
    "ssl_ecdh_curve": "ssl_groups",
}
_CUSTOM_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*(?:\.[A-Za-z_][A-Za-z0-9_$]*)+")


@functools.cache
def read_catalogue(version: int) -> Mapping[str, SettingFacts]:
    """Facts of every setting of a major version by its name; empty for a version without data."""
    if version not in VERSIONS:
        return {}
    path = Path(__file__).with_name("catalogue") / f"{version}.json"
    settings = json.loads(path.read_text(encoding="utf-8"))["settings"]
    return {
        name: SettingFacts(
            name=name,
            vartype=vartype,
            unit=unit,
            low=None if low is None else float(low),
            high=None if high is None else float(high),
            choices=tuple(choices or ()),
            context=context,
            boot=boot,
        )
        for name, (vartype, unit, low, high, choices, context, boot) in settings.items()
    }


def needs_restart(name: str, version: int) -> bool | None:
    """Whether the setting takes effect only at server start; None where that is not known."""
    facts = read_catalogue(version).get(name)
    return None if facts is None else facts.needs_restart


def as_read(settings: Mapping[str, str], *, has_defaults: bool) -> dict[str, str]:
    """Settings as a server reads them, by its name for them; what is in no catalogue as it is written.

    ``has_defaults``: it has the compiled-in defaults, so that a setting which is one in all versions sets nothing.
    """
    found = {}
    for written, text in settings.items():
        name = _RENAMED.get(written.lower(), written.lower())
        known = [facts for version in VERSIONS if (facts := _by_lower_name(version).get(name))]
        value = known[-1].read(text) if known else text
        if not (
            has_defaults
            and known
            and all(facts.boot is not None and facts.read(facts.boot) == value for facts in known)
        ):
            found[name] = value
    return found


@functools.cache
def _by_lower_name(version: int) -> Mapping[str, SettingFacts]:
    return {name.lower(): facts for name, facts in read_catalogue(version).items()}


def check_settings(
    experiment: Experiment, version: int, *, arms: Collection[str] | None = None
) -> tuple[SpecProblem, ...]:
    """Every setting of the file that this version does not have, or whose value it would refuse; without lines.

    ``arms`` are those that run on this version, None for all.
    """
    problems: list[SpecProblem] = []
    for declared in _declared(experiment, None if arms is None else _with_ancestors(experiment, arms)):
        problems += _check_declared(declared, version)
    if not problems and read_catalogue(version):
        with contextlib.suppress(SpecError):  # arms or levels that cannot be resolved: reported where the file is read
            problems += _check_connections(experiment, version, arms)
    return tuple(problems)


def check_unknown_server(
    experiment: Experiment, versions: Collection[int], *, arms: Collection[str] | None = None
) -> tuple[SpecProblem, ...]:
    """What ``check_settings`` finds with each of the ``versions`` the server may have, in the words of the last."""
    *others, last = (check_settings(experiment, version, arms=arms) for version in versions)
    everywhere = set.intersection({problem.path for problem in last}, *({p.path for p in found} for found in others))
    return tuple(problem for problem in last if problem.path in everywhere)


def _with_ancestors(experiment: Experiment, arms: Collection[str]) -> set[str]:
    """The arms with all from which they inherit."""
    found: set[str] = set()
    for arm in arms:
        name: str | None = arm
        while name in experiment.arms and name not in found:
            found.add(name)
            name = experiment.arms[name].inherit
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Declared:
    """A setting's name where it stands, and its values where they stand."""

    path: SpecPath
    name: str
    values: tuple[tuple[SpecPath, object], ...]


def _declared(experiment: Experiment, arms: Collection[str] | None) -> Iterator[_Declared]:
    tables: list[tuple[SpecPath, Mapping[str, object]]] = [(("target", "postgresql"), experiment.target.postgresql)]
    tables += [
        (("arms", name, "postgresql"), arm.postgresql)
        for name, arm in experiment.arms.items()
        if arms is None or name in arms
    ]
    for table, settings in tables:
        for name, value in settings.items():
            yield _Declared(path=(*table, name), name=name, values=(((*table, name), value),))
    for factor_name, factor in experiment.factors.items():
        if factor.knob != POSTGRESQL:
            continue
        path: SpecPath = ("factors", factor_name)
        yield _Declared(
            path=path if factor.setting is None else (*path, "setting"),
            name=factor.setting or factor_name,
            values=tuple(((*path, "levels", index), level) for index, level in enumerate(factor.levels)),
        )


def _check_declared(declared: _Declared, version: int) -> Iterator[SpecProblem]:
    catalogue = read_catalogue(version)
    facts = catalogue.get(declared.name)
    if facts is None:
        if _CUSTOM_NAME.fullmatch(declared.name) or not catalogue:
            return  # belongs to an extension, or to a version that is not known here: the server decides
        message = f'unrecognized setting "{declared.name}" for PostgreSQL {version}'
        yield SpecProblem(path=format_path(declared.path), message=message, hint=_advise_name(declared.name, version))
    elif facts.context == "internal":
        message = f'setting "{declared.name}" cannot be changed'
        hint = "The server only shows it; it was fixed when PostgreSQL was built or the cluster was made."
        yield SpecProblem(path=format_path(declared.path), message=message, hint=hint)
    else:
        for path, value in declared.values:
            fault = find_fault(facts, value_text(value))
            if fault is not None:
                yield SpecProblem(path=format_path(path), message=fault[0], hint=fault[1])


def _advise_name(name: str, version: int) -> str:
    catalogue = read_catalogue(version)
    others = [str(other) for other in VERSIONS if name in read_catalogue(other)]
    if others:
        return f"PostgreSQL {', '.join(others)} {'has' if len(others) == 1 else 'have'} it."
    renamed = _RENAMED.get(name.lower())
    near = renamed if renamed in catalogue else nearest_name(name, catalogue)
    return f'Perhaps you meant "{near}".' if near else "Settings of extensions have a dot in their names."


def _check_connections(experiment: Experiment, version: int, arms: Collection[str] | None) -> Iterator[SpecProblem]:
    """Whether the clients of the largest load level fit into every arm's max_connections."""
    facts = read_catalogue(version)["max_connections"]
    seen: set[str] = set()  # what all arms share is said once
    for arm in resolve_arms(experiment):
        if (arms is not None and arm.name not in arms) or PGBOUNCER in arm.knobs:
            continue  # behind a pooler it is the pool that has to fit, which is seen when its server is up
        needed = most_clients(experiment, arm) + OWN_CONNECTIONS
        # Only the server itself can say what an existing server has.
        default = "" if experiment.target.kind == "server" else facts.boot or ""
        allowed = read_number(facts, arm.settings.get(facts.name, default))
        if allowed is not None and allowed < needed:
            problem = _too_few_connections(experiment, arm, allowed=int(allowed), needed=needed)
            if problem.path not in seen:
                yield problem
            seen.add(problem.path)


def _too_few_connections(experiment: Experiment, arm: Arm, *, allowed: int, needed: int) -> SpecProblem:
    return SpecProblem(
        path=arm.origins.get(POSTGRESQL, {}).get("max_connections", "workload.clients"),
        message=f'arm "{arm.name}": max_connections is {allowed}, {needed} are needed',
        hint=f"pgtrial itself needs {OWN_CONNECTIONS} connections besides the clients. "
        f"Set max_connections = {needed} or more in [target.postgresql], or use fewer clients.",
    )


def most_clients(experiment: Experiment, arm: Arm) -> int:
    """Clients of an arm's largest load level."""
    shares = [ScenarioShare(name=s.name, share=s.share, sessions=s.sessions) for s in experiment.workload.scenario]
    return max(
        sum(split_clients(level.clients, shares).values()) if shares else level.clients
        for level in (level_of(arm, level) for level in load_levels(experiment.workload))
    )
