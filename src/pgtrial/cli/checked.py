"""Turn arguments, a file or options, into a checked experiment."""

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from pgtrial.design.limits import limits_to_prove
from pgtrial.design.plan import Plan, make_plan
from pgtrial.engine.host_facts import facts_for
from pgtrial.errors import PreflightError, SpecError, SpecProblem, TargetError
from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.experiment_file.generate import quick_experiment
from pgtrial.experiment_file.load import (
    AS_WRITTEN,
    LoadedExperiment,
    Place,
    examine,
    locate_problems,
    read_text,
    refuse,
)
from pgtrial.experiment_file.reach import files_in, find_outside
from pgtrial.experiment_file.workload_table import COMMAND
from pgtrial.hosts.base import LOCAL
from pgtrial.hosts.local import LocalHost
from pgtrial.knobs.fio import FIO
from pgtrial.postgres.catalogue import VERSIONS, check_unknown_server
from pgtrial.postgres.programs import (
    Programs,
    UnknownProgramsError,
    find_programs,
    has_extension,
    how_to_get_extensions,
    prefer_one_kind,
)
from pgtrial.workloads.command import files_of
from pgtrial.workloads.fio import find_fio
from pgtrial.workloads.pauses import explain_no_pauses, longest_sleeps
from pgtrial.workloads.scenarios import find_extensions, say_lacking
from pgtrial.workloads.variables import explain_idle_variables

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmServer:
    """The server of some arms. ``programs`` is None, and ``missing`` says why, when this machine has none for it.

    Unless it ``is_here``, made on this machine, they are those of pgbench. ``versions`` are the major versions that it
    may have, as far as the file and this machine say, in ascending order. If it ``is_unknown``, there are programs,
    which were not started to ask for their version because the file alone names them.
    """

    arms: tuple[str, ...]
    programs: Programs | None
    missing: str
    versions: tuple[int, ...]
    is_here: bool
    is_unknown: bool = False

    @property
    def version(self) -> int:
        """The newest of them."""
        return self.versions[-1]

    @property
    def majors(self) -> str:
        """ "16", or "15 to 18"."""
        return str(self.version) if len(self.versions) == 1 else f"{self.versions[0]} to {self.version}"

    @property
    def exact(self) -> str | None:
        """Its version as it says it, where that is known."""
        return self.programs.version if self.programs and self.is_here else None


@dataclass(frozen=True, kw_only=True)
class Checked:
    """A valid experiment; ``servers`` are those of its arms, the control's first.

    A load on files has none, but ``fio``, the version of the load generator; "" where this machine has none, for the
    reason that ``without_fio`` says. ``proofs`` are the experiments that prove what limits arms, by their names.

    ``place`` is where it was checked for; a host of a fleet is not in ``loaded`` and ``plan``, which are of all hosts.
    """

    loaded: LoadedExperiment
    plan: Plan
    servers: tuple[ArmServer, ...]
    fio: str = ""
    without_fio: str = ""
    proofs: Mapping[str, "Checked"] = field(default_factory=dict)
    place: Place = AS_WRITTEN

    @property
    def there(self) -> Experiment:
        """The experiment as its host has it."""
        return self.place.put(self.loaded.experiment)

    @cached_property
    def lacking(self) -> tuple[str, ...]:
        """Which extensions that it creates its servers here do not have. All data are read for it: only who asks."""
        return tuple(_lacking_extensions(self.plan, self.loaded.folder, self.servers))

    @cached_property
    def without_program(self) -> str:
        """Why the programs of a load, or PgBouncer, cannot be started here, "" if they can, there are none, or a hook
        may still bring them. Only who asks looks.
        """
        from pgtrial.engine.loads.command import refuse_missing
        from pgtrial.engine.target.throwaway import pooler_of

        workload = self.there.workload
        if not self.place.is_here or self.there.hooks.before_dataset:
            return ""
        try:
            if workload.kind == COMMAND:
                files = files_of(self.there, self.loaded.folder)
                asyncio.run(refuse_missing(workload, self.plan.arms, LocalHost(), files))
            if self.there.target.host is None:
                for arm in self.plan.arms:
                    asyncio.run(pooler_of(arm, workload, LocalHost()))
        except (PreflightError, SpecError, TargetError) as error:
            return f"{error.message}. {error.hint}".rstrip(". ")
        return ""

    @property
    def version(self) -> int:
        """The control's major version; the newest known version if there is no server."""
        return self.servers[0].version if self.servers else VERSIONS[-1]

    @property
    def missing(self) -> str:
        """Why the experiment cannot run on this machine, "" if it can."""
        reasons = (
            *(server.missing for server in self.servers if not server.is_unknown),
            self.without_fio,
            self.without_program,
            *self.lacking,
        )
        return "; ".join(reason for reason in reasons if reason)


def load_file_or_quick(
    file: Path | None,
    settings: Sequence[str],
    quick: Mapping[str, "str | int | bool | None"],
    *,
    allow_code: bool,
    allow_files: Sequence[Path],
    place: Place = AS_WRITTEN,
) -> Checked:
    """The experiment of ``pgtrial run``, planned for its host; SpecError if it has errors, or if both a file and
    options are given.
    """
    given = [f"--{'no-' if value is False else ''}{name}" for name, value in quick.items() if value is not None]
    if settings:
        given.insert(0, "-s")
    if file is not None:
        if given:
            raise SpecError(
                f"{', '.join(given)} cannot be used with an experiment file",
                hint=f'Change "{file}" instead, or leave the file out.',
            )
        return check_file(file, on_host=True, allow_code=allow_code, allow_files=allow_files, place=place)
    if not given:
        raise SpecError(
            "no experiment given",
            hint="Name an experiment file, or compare values of a setting: pgtrial run -s shared_buffers=128MB,1GB",
        )
    text = quick_experiment(settings, **quick)  # type: ignore[arg-type]  # click has converted each option
    return check_options(text, place)


def check_options(text: str, place: Place = AS_WRITTEN) -> Checked:
    """Check an experiment made from options, and plan it for its host.

    Errors do not mention its lines, which nobody has seen.
    """
    try:
        return check_text(text, "the command line", Path.cwd(), on_host=True, allow_code=True, place=place)
    except SpecError as error:
        problems = tuple(replace(problem, line=None) for problem in error.problems)
        count = "1 error" if len(problems) == 1 else f"{len(problems)} errors"
        raise SpecError(f"the command line has {count}", problems=problems) from None


def check_file(
    path: Path,
    *,
    on_host: bool = False,
    allow_code: bool = False,
    allow_files: Sequence[Path] = (),
    place: Place = AS_WRITTEN,
) -> Checked:
    """Read a file, check it against this machine or ``place``, and plan it. Raises SpecError with all problems.

    ``on_host``: choose a method that is valid on its host as it is now, which the file alone cannot tell.
    ``allow_code``: ask the programs that the file names for their version; else nothing that it names is started.
    ``allow_files``: directories whose files it may name, beside its own.
    """
    folder = path.absolute().parent
    text = read_text(path)
    return check_text(
        text, str(path), folder, on_host=on_host, allow_code=allow_code, allow_files=allow_files, place=place
    )


def check_text(
    text: str,
    source_name: str,
    folder: Path,
    *,
    on_host: bool = False,
    allow_code: bool = False,
    allow_files: Sequence[Path] = (),
    place: Place = AS_WRITTEN,
) -> Checked:
    """The same for a text; messages name it ``source_name``, and its relative paths start at ``folder``."""
    examination = examine(text, folder, place)
    experiment, problems = examination.experiment, examination.problems
    if experiment is None:
        raise refuse(source_name, problems)
    problems = locate_problems(text, [*problems, *find_outside(files_in(experiment), folder, allow_files)])
    # The file may be wrong in whatever way, and still name a program.
    servers = _find_servers(experiment, place, may_run=allow_code and not problems)
    for server in servers:
        programs = server.programs
        _log.info("%s: %s", source_name, f"programs in {programs.directory}" if programs else server.missing)
    found: list[SpecProblem] = []
    for server in servers:
        arms = server.arms if len(servers) > 1 else None
        found += (new for new in check_unknown_server(experiment, server.versions, arms=arms) if new not in found)
    plan = None
    if not problems and not found:
        try:
            facts = facts_for(experiment, folder, is_here=place.is_here) if on_host else None
            plan = make_plan(experiment, facts)
            found += explain_no_pauses(experiment, plan.arms, folder)
            found += explain_idle_variables(experiment, plan.arms, folder)
            files_of(experiment, folder)  # refuses those whose figures would be wrong
        except SpecError as error:
            found += error.problems
    if plan is None or found:
        raise refuse(source_name, locate_problems(text, [*problems, *found]))
    loaded = LoadedExperiment(experiment=plan.experiment, folder=folder, text=text, source_name=source_name)
    fio, without_fio = _look_for_fio() if experiment.workload.kind == FIO and place.is_here else ("", "")
    proofs = {
        arm: _check_proof(arm, each, folder, on_host=on_host, allow_code=allow_code, allow_files=allow_files)
        for arm, each in _texts_to_prove(plan, source_name, text, folder).items()
    }
    return Checked(
        loaded=loaded,
        plan=plan,
        servers=servers,
        fio=fio,
        without_fio=without_fio,
        proofs=proofs,
        place=place,
    )


def _texts_to_prove(plan: Plan, source_name: str, text: str, folder: Path) -> dict[str, str]:
    try:
        sleeps = longest_sleeps(plan.experiment, plan.arms, folder) if plan.experiment.limits is not None else {}
        return limits_to_prove(plan.experiment, plan.arms, sleeps=sleeps)
    except SpecError as error:
        hint = " ".join(filter(None, (error.detail, error.hint)))
        problem = SpecProblem(path="limits", message=error.message, hint=hint)
        raise refuse(source_name, locate_problems(text, [problem])) from None


def _check_proof(
    arm: str, text: str, folder: Path, *, on_host: bool, allow_code: bool, allow_files: Sequence[Path]
) -> Checked:
    """As ``check_text``; errors are about what the user's file asks for, whose text this is not."""
    source = f"what is to prove the limits of {arm}"
    try:
        return check_text(text, source, folder, on_host=on_host, allow_code=allow_code, allow_files=allow_files)
    except SpecError as error:
        problems = tuple(replace(problem, line=None) for problem in error.problems)
        raise SpecError(f"{source} has errors", problems=problems) from None


def host_to_ask(checked: Checked, named: str | None) -> str | None:
    """The host of an experiment if it may be asked: this machine, or another that the user has ``named``; else None.

    Raises SpecError if the user has named one that is not the experiment's.
    """
    wanted = checked.there.target.host or LOCAL
    if not checked.place.is_here:
        if named is None:
            return None
        raise SpecError("hosts that workers offer are not asked from here", hint="Leave out --host.")
    if named is not None and named != wanted:
        raise SpecError(f'the experiment runs on "{wanted}", not on "{named}"', hint=f"Give --host {wanted}.")
    return wanted if wanted == LOCAL or named is not None else None


def _lacking_extensions(plan: Plan, folder: Path, servers: Sequence[ArmServer]) -> Iterator[str]:
    """What servers that are made here lack: creating it would fail after the data have been loaded in part."""
    programs = tuple(server.programs for server in servers if server.programs is not None and server.is_here)
    if not programs:
        return
    try:
        wanted = find_extensions(plan.experiment, plan.arms, folder)
    except SpecError:
        return  # of a file that cannot be read, which is said where what it executes is asked for
    ops = LocalHost().ops
    for each in programs:
        if lacking := {name: where for name, where in wanted.items() if has_extension(ops, each, name) is False}:
            yield f"PostgreSQL {each.version} {say_lacking(lacking)}: {how_to_get_extensions(each, list(lacking))}"


def _look_for_fio() -> tuple[str, str]:
    try:
        return find_fio(LocalHost()).version, ""
    except PreflightError as error:
        return "", error.message


def _find_servers(experiment: Experiment, place: Place, *, may_run: bool) -> tuple[ArmServer, ...]:
    """The servers that the arms need; that of [target] if the arms cannot be resolved. Where another machine leads
    the experiment, nothing is needed of this one.
    """
    if experiment.target.kind == "host":
        return ()
    arms: dict[str | None, tuple[str, ...]] = {}
    with suppress(SpecError):
        for arm in resolve_arms(experiment):
            arms[arm.variant.postgres] = (*arms.get(arm.variant.postgres, ()), arm.name)
    is_new = experiment.target.kind == "throwaway"
    is_here = is_new and experiment.target.host is None and place.is_here
    arms = arms or {experiment.target.postgres: ()}
    # On another machine the server has the version that is wanted, and pgbench here has any.
    looked = {
        wanted: _find(wanted if is_here or not is_new else None, may_run=may_run)
        if place.is_here
        else (None, "", False)
        for wanted in arms
    }
    alike = {wanted: programs for wanted, (programs, _, _) in looked.items() if programs is not None}
    if is_here:
        alike = prefer_one_kind(alike)
    servers = []
    for wanted, names in arms.items():
        _, missing, is_unknown = looked[wanted]
        programs = alike.get(wanted)
        versions: tuple[int, ...] = VERSIONS
        if is_new and wanted and wanted.isdecimal() and len(wanted) < 5:
            versions = (int(wanted),)
        elif is_here and not is_unknown:
            versions = (programs.major if programs else VERSIONS[-1],)
        servers.append(
            ArmServer(
                arms=names,
                programs=programs,
                missing=missing,
                versions=versions,
                is_here=is_here,
                is_unknown=is_unknown,
            )
        )
    return tuple(servers)


def _find(wanted: str | None, *, may_run: bool) -> tuple[Programs | None, str, bool]:
    """The programs, or why there are none, and whether there are some of which nothing is known."""
    # A file can be checked and planned on a machine without PostgreSQL; only running it needs the programs.
    try:
        return find_programs(wanted, may_run=may_run), "", False
    except PreflightError as error:
        return None, error.message, isinstance(error, UnknownProgramsError)
