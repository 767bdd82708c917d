"""The result folder of an experiment: created atomically, loaded again, and locked while a pgtrial works in it."""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from pgtrial import __version__
from pgtrial.design.levels import load_levels
from pgtrial.design.methods import judge_methods
from pgtrial.design.plan import Plan
from pgtrial.design.registration import claim_key, register, wording_key
from pgtrial.errors import StoreError
from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.crosscheck import crosscheck
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.experiment_file.load import LoadedExperiment
from pgtrial.experiment_file.position import format_path
from pgtrial.findings.caveat import caveat
from pgtrial.hosts.base import Account
from pgtrial.knobs.workload import SCRIPTS, WORKLOAD
from pgtrial.model.arm import Arm
from pgtrial.safe_files import make_directory, open_file, remove_tree, write_file
from pgtrial.safe_text import shell_word
from pgtrial.store import layout
from pgtrial.store.attempts import Claim, first_attempt, note_attempt, note_runs, runs_noted, withdraw_attempt
from pgtrial.store.calibrations import calibration_key, read_calibration
from pgtrial.store.journal_file import VARIABLE
from pgtrial.store.own_place import refuse_changeable
from pgtrial.store.plans import ATTEMPTS, LOADED, LOADED_DATA, REVISION, read_plan, write_plan
from pgtrial.store.rows import damaged
from pgtrial.store.state import State
from pgtrial.workloads.command import files_of
from pgtrial.workloads.data_files import data_files, resolve
from pgtrial.workloads.scenarios import read_arm_scripts, scenarios_of

# In the folder of a run, until it ends.
SPOOL = "spool"  # of its sampler
_SHARED_SPOOL = "spool-machine"  # of the sampler of the machine, in one run of a block
LOGS = "pgbench"
RECORDED = "recorded"  # what a program has told that keeps no log


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """What a claim is about, beside what its file says: digests of the ``programs``, and the user's name for it all."""

    programs: tuple[str, ...] = ()
    revision: str = ""


def create_folder(
    loaded: LoadedExperiment,
    plan: Plan,
    results: Path,
    *,
    tested: Tested | None = None,
    proofs: Mapping[str, tuple[LoadedExperiment, Plan]] = {},
) -> Path:
    """Make a new result folder with the plan of the experiment in it; never an existing one. Raises StoreError.

    ``proofs``: by arm, the experiments that prove what limits it; each has a folder of its own in it.

    It is made under another name and renamed, so that a folder with its name is whole. It is an attempt at the claim
    about what is ``tested``; None: it claims nothing that is not known, as a calibration or the demonstration.
    """
    name = f"{loaded.experiment.experiment.name}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    part = results / f".{name}-{os.getpid()}"
    make_results(results)
    try:
        part.mkdir(mode=0o700)  # what is measured may tell of the data and the machine: sharing is "pgtrial export"
    except OSError as err:
        raise StoreError(
            f'cannot create a result folder in "{results}": {err.strerror}',
            hint="Choose another location with --results.",
        ) from err
    try:
        _fill_folder(part, loaded, plan, published=results.absolute() / name, tested=tested)
        for arm, (each, its_plan) in proofs.items():
            place = make_directory(part, *layout.proof_folder(Path(), arm).parts)
            _fill_folder(place, each, its_plan, published=place, tested=None)
        return _publish(part, name)
    except OSError as err:
        raise StoreError(f'cannot write to the result folder "{results / name}": {err.strerror}') from err
    finally:
        shutil.rmtree(part, ignore_errors=True)


def make_results(results: Path) -> None:
    """Make the directory for result folders where it is missing. Raises StoreError, also where others may change it."""
    hint = (
        "Choose a directory of your own, with all above it, with --results. One that you share needs the sticky bit "
        "(chmod +t), as /tmp has it."
    )
    refuse_changeable(results, hint=hint)
    try:
        results.mkdir(parents=True, exist_ok=True)
    except OSError as err:
        raise StoreError(
            f'cannot create a result folder in "{results}": {err.strerror}',
            hint="Choose another location with --results.",
        ) from err
    refuse_changeable(results, hint=hint)  # by others who were quicker, or whom the umask lets write


def _fill_folder(folder: Path, loaded: LoadedExperiment, plan: Plan, *, published: Path, tested: Tested | None) -> None:
    experiment = loaded.experiment
    write_file(folder / layout.EXPERIMENT, loaded.text)
    scripts = folder / layout.FILES
    scripts.mkdir()
    copied = _copied(experiment, plan.arms, loaded.folder)
    for name, content in copied.items():
        file = scripts / name
        file.parent.mkdir(parents=True, exist_ok=True)
        write_file(file, content)
    with contextlib.closing(State.create(folder)) as state:
        contents, created = _digests(copied, experiment, loaded.folder), time.time()
        if tested is not None and experiment.design.soak is None:  # a soak claims nothing
            claim = claim_of(plan, contents, tested)
            before = note_attempt(
                claim,
                digest=register(plan.experiment, plan.arms, rules=plan.rules.version, contents=contents).digest,
                folder=published,
                t=created,
            )
            since = None if before is None else first_attempt(claim)
            plan = replace(plan, attempts_before=before, attempts_since=since)
            if before is None:
                state.add_caveat(caveat("attempts-unknown", variable=VARIABLE))
        if tested is not None and tested.revision:
            state.set_meta(**{REVISION: tested.revision})
        write_plan(state, replace(plan, experiment=_with_places(experiment, loaded.folder)), contents)
        state.set_meta(
            **{LOADED: json.dumps([contents[name] for name in contents if name.startswith(LOADED_DATA)])},
            pgtrial_version=__version__,
            created=str(created),
            calibration=read_calibration(calibration_key(loaded)) or "",
        )


def claim_of(plan: Plan, contents: Mapping[str, str], tested: Tested) -> Claim:
    """By what attempts at the claim of a plan are counted; ``contents`` as of ``digest_contents``."""
    from pgtrial.postgres.catalogue import as_read  # with psycopg, which who only looks at folders does without

    has_defaults = plan.experiment.target.kind == "throwaway"
    read = [replace(arm, settings=as_read(arm.settings, has_defaults=has_defaults)) for arm in plan.arms]
    if len(tested.programs) == 1:  # by whatever name the file has them
        read = [replace(arm, variant=replace(arm.variant, postgres=None)) for arm in read]
    about = (*tested.programs, tested.revision)
    return Claim(
        test=claim_key(plan.experiment, read, contents=contents, tested=about),
        words=wording_key(plan.experiment, plan.arms, contents=contents, tested=about),
    )


def forget_attempt(folder: Path) -> None:
    """Count an experiment as no attempt, because no run of it was begun."""
    with contextlib.closing(State.open(folder)) as state:
        begun = _attempt_of(folder, state)
    if begun is not None:
        withdraw_attempt(begun)


def note_begun(folder: Path, state: State) -> None:
    """Record outside of the folder how many runs its experiment has begun, before anybody can see the last one's.

    StoreError as ``refuse_older_copy``, where a copy goes on beside.
    """
    begun, runs = _attempt_of(folder, state), state.count_runs()
    if begun is not None:
        if runs <= (known := runs_noted(begun)):
            raise _went_on(folder, runs=runs - 1, known=known)
        note_runs(begun, runs)


def refuse_older_copy(folder: Path) -> None:
    """Raise StoreError where the experiment of a folder went on elsewhere: of two continuations one could choose."""
    with contextlib.closing(State.open(folder)) as state:
        begun, runs = _attempt_of(folder, state), len(state.runs())
    known = 0 if begun is None else runs_noted(begun)
    if runs < known:
        raise _went_on(folder, runs=runs, known=known)


def _went_on(folder: Path, *, runs: int, known: int) -> StoreError:
    return StoreError(
        f'"{folder}" is a copy of an experiment that went on without it: it has {runs} of the {known} runs begun',
        detail="Whoever continues an experiment twice, and shows one of the two, has tried twice.",
        hint="Continue the folder that has all runs, or run the experiment anew, which counts as another attempt.",
    )


def _attempt_of(folder: Path, state: State) -> float | None:
    """By what the attempt of a folder is known to ``store.attempts``; None where it is not one."""
    meta = state.meta()
    try:
        return float(meta["created"]) if meta.get(ATTEMPTS) else None
    except (KeyError, ValueError) as err:
        raise damaged(folder / layout.STATE, f"table meta: {err}") from err


def _with_stored_scripts(arm: Arm) -> Arm:
    table = {
        key: layout.arm_script(arm.name, key.removeprefix(SCRIPTS)) if key.startswith(SCRIPTS) else value
        for key, value in arm.knobs.get(WORKLOAD, {}).items()
    }
    return replace(arm, knobs={**arm.knobs, WORKLOAD: table}) if table else arm


def _with_places(experiment: Experiment, folder: Path) -> Experiment:
    """Data to load are not copied: they are where they were, wherever the result folder is."""
    if not experiment.dataset.load:
        return experiment
    places = tuple(str(resolve(name, folder)) for name in experiment.dataset.load)
    return experiment.model_copy(update={"dataset": experiment.dataset.model_copy(update={"load": places})})


def _copied(experiment: Experiment, arms: Sequence[Arm], folder: Path) -> dict[str, str | bytes]:
    """What is copied into a result folder, by its path below FILES. Raises SpecError for what cannot be read."""
    found: dict[str, str | bytes] = {
        f"{each.name}.sql": each.script for each in scenarios_of(experiment, folder) if each.script is not None
    }
    for arm, texts in read_arm_scripts(arms, folder).items():
        found |= {str(layout.arm_script(arm, name)): text for name, text in texts.items()}
    found |= {f"{layout.COMMAND_FILES}/{name}": text for name, text in files_of(experiment, folder).items()}
    if experiment.dataset.setup is not None:
        found[layout.SETUP] = (folder / experiment.dataset.setup).read_bytes()
    return found


def digest_contents(experiment: Experiment, arms: Sequence[Arm], folder: Path) -> dict[str, str]:
    """SHA-256 by name of what is copied into the result folder, and of the data to load; ``folder`` is the file's own.

    Raises SpecError for what cannot be read.
    """
    return _digests(_copied(experiment, arms, folder), experiment, folder)


def _digests(copied: Mapping[str, str | bytes], experiment: Experiment, folder: Path) -> dict[str, str]:
    found = {
        name: hashlib.sha256(content if isinstance(content, bytes) else content.encode()).hexdigest()
        for name, content in copied.items()
    }
    loaded = (file.digest() for file in data_files(experiment, folder))
    return found | {f"{LOADED_DATA}{number}": digest for number, digest in enumerate(loaded, 1)}


def _publish(part: Path, name: str) -> Path:
    """Give the folder its name, with a number behind it while that is taken."""
    folder, number = part.with_name(name), 1
    while True:
        try:
            if not os.path.lexists(folder):  # an empty folder would be replaced
                return part.rename(folder)
        except OSError:
            if not os.path.lexists(folder):  # else another pgtrial was quicker
                raise
        number += 1
        folder = part.with_name(f"{name}-{number}")


def load_stored(folder: Path) -> Plan:
    """The plan of a result folder, to be continued; its experiment names the scripts as they are below FILES.

    Raises StoreError, also where it holds what no file could say.
    """
    plan = read_plan(folder)
    _refuse_unlike(plan, folder)
    experiment = plan.experiment
    scenarios = tuple(
        scenario.model_copy(update={"file": f"{scenario.name}.sql"}) if scenario.file else scenario
        for scenario in experiment.workload.scenario
    )
    dataset = experiment.dataset
    if dataset.setup is not None:
        dataset = dataset.model_copy(update={"setup": layout.SETUP})
    files = tuple(f"{layout.COMMAND_FILES}/{Path(file).name}" for file in experiment.workload.files)
    workload = experiment.workload.model_copy(update={"scenario": scenarios, "files": files})
    arms = tuple(map(_with_stored_scripts, plan.arms))
    return replace(plan, arms=arms, experiment=experiment.model_copy(update={"workload": workload, "dataset": dataset}))


def _refuse_unlike(plan: Plan, folder: Path) -> None:
    """Raise StoreError for a plan that is not what its experiment comes to. What its arms do is shown, asked for and
    checked by the rules of a file; without it a received folder could have them do anything.
    """
    problems = tuple(crosscheck(plan.experiment, None))
    if problems:
        path, message, _ = problems[0]
        detail = f"{format_path(path)}: {message}."
    elif [_without_origins(arm) for arm in plan.arms] != [
        _without_origins(arm) for arm in resolve_arms(plan.experiment)
    ]:
        detail = "Its arms are not those of its experiment."
    elif plan.levels != load_levels(plan.experiment.workload):
        detail = "Its load levels are not those of its experiment."
    elif not _may_be_method(plan):
        detail = f'Its method, "{plan.method.method}", is none for its experiment.'
    else:
        return
    raise StoreError(
        f'the plan in "{folder / layout.STATE}" cannot be continued',
        detail=detail,
        hint="It was made by another version of pgtrial, or changed by somebody. Run the experiment anew.",
    )


def _may_be_method(plan: Plan) -> bool:
    """Whether the file may have led to the method, as far as it tells itself: the host may have changed since."""
    design, method = plan.experiment.design, plan.method.method
    if method == "blocks":
        return True
    if design.soak is not None or design.method not in (method, "auto"):
        return False
    judged = judge_methods(plan.experiment, plan.arms, plan.levels, None)
    return any(one.valid for one in judged if one.method == method)


def _without_origins(arm: Arm) -> Arm:
    return replace(arm, origins={})


def named_files(plan: Plan) -> Iterator[tuple[str, str]]:
    """Where a stored plan names a file, and its path: below FILES, but for data to load."""
    experiment = plan.experiment
    yield from (("workload.scenario", one.file) for one in experiment.workload.scenario if one.file is not None)
    yield from (("workload.files", name) for name in experiment.workload.files)
    for arm in plan.arms:
        table = arm.knobs.get(WORKLOAD, {})
        yield from ((arm.origin(WORKLOAD, key), name) for key, name in table.items() if key.startswith(SCRIPTS))
    if experiment.dataset.setup is not None:
        yield "dataset.setup", experiment.dataset.setup
    yield from (("dataset.load", name) for name in experiment.dataset.load)


@contextlib.contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Keep a second pgtrial off the folder. The kernel gives the lock back whatever happens to this process.

    Raises StoreError, also where others may change where it leads.
    """
    for place in (folder, folder / layout.RUNS):
        refuse_changeable(place, hint="Copy the folder into a directory of your own, and name the copy.")
    try:
        # No link, which would lead elsewhere, and no pipe, which would block.
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        file = os.fdopen(os.open(folder / layout.LOCK, flags, 0o666), "r+b", buffering=0)
    except OSError as err:
        raise StoreError(f'cannot lock the result folder "{folder}": {err.strerror}') from err
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreError(
                f'result folder "{folder}" is in use by another pgtrial',
                hint=f'Check its progress with "pgtrial status {shell_word(folder)}".',
            ) from None
        yield


def is_locked(folder: Path, name: str = layout.LOCK) -> bool:
    """Whether a pgtrial is at work in the folder, by its lock; also of a folder that this user may only read."""
    try:
        with open_file(folder / name) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # no pgtrial has been at work in it yet
    return False


def make_raw_folders(folder: Path, *, account: Account | None = None) -> tuple[Path, Path]:
    """Make the folder of a run, in it one for the sampler and one for the load: these two. Raises StoreError.

    The load is started in its own, which it owns if it runs as an ``account``; it gets to nothing above it. What it
    tells has a third beside them.
    """
    spool, logs = folder / SPOOL, folder / LOGS
    try:
        make_directory(folder.parents[1], *folder.parts[-2:])
        spool.mkdir()
        (folder / RECORDED).mkdir()
        logs.mkdir(mode=0o700)
        if account is not None:
            os.chown(logs, account.uid, account.gid, follow_symlinks=False)
    except OSError as err:
        raise StoreError(f'cannot write to the result folder: "{err.filename}": {err.strerror}') from err
    return spool, logs


def make_shared_spool(folder: Path) -> Path:
    """Make a folder for the sampler whose readings are those of all runs of a block. Raises StoreError."""
    spool = folder / _SHARED_SPOOL
    try:
        spool.mkdir()
    except OSError as err:
        raise StoreError(f'cannot write to the result folder: "{err.filename}": {err.strerror}') from err
    return spool


def discard_raw(folder: Path) -> None:
    """Remove the raw logs and spools of a run: they can be larger than everything else."""
    _discard(folder, (SPOOL, _SHARED_SPOOL, LOGS, RECORDED))


def discard_unfinished(folder: Path) -> None:
    """Of a run whose pgtrial was killed, also what that one was about to write, and what DuckDB had put on the disk for
    it: the directories with a ``hidden_name``, and those of ``store.transactions``.
    """
    discard_raw(folder)
    _discard(folder, [path.name for way in (".ingest-*", f".*-{'[0-9a-f]' * 16}") for path in folder.glob(way)])


def _discard(folder: Path, names: Iterable[str]) -> None:
    for name in names:
        remove_tree(folder.parents[1], *folder.parts[-2:], name)
