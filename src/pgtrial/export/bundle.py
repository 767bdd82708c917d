"""Bundle a result folder for somebody else: the data, the findings made from exactly these data, and the report.

Files that concern only this machine are left out, and the data are redacted before the findings are made.
"""

import os
import platform
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from pgtrial import __version__
from pgtrial.analysis.analyze import analyze
from pgtrial.analysis.evidence import read_evidence
from pgtrial.analysis.large import refuse_large
from pgtrial.errors import StoreError
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.export.archive import FACTS, SUFFIX, SUMS, TEMPORARY, BundleFacts, Packed, pack, portable, read_facts
from pgtrial.export.redacted_files import (
    COLUMN_FILES,
    copy_state,
    learn_columns,
    learn_log,
    learn_state,
    redact_columns,
    redact_log,
    redact_state,
)
from pgtrial.export.redaction import Names, PrivateNames, Redaction, lists, strings, with_strings
from pgtrial.knobs import KNOBS, is_sql
from pgtrial.model.run import RunRow
from pgtrial.report.html import write_html
from pgtrial.safe_files import make_directory, read_file, write_file
from pgtrial.store import layout, parquet
from pgtrial.store.findings_file import write_findings
from pgtrial.store.own_place import is_own
from pgtrial.store.plans import read_plan
from pgtrial.store.proofs import find_proofs
from pgtrial.store.run_rows import most_rows
from pgtrial.store.server_log.entry import find_zone
from pgtrial.store.state import State

# Made again from the rest, held while pgtrial is at work, or SQLite's own beside a copy that has what is in them.
_NOT_COPIED = {
    *(layout.FINDINGS, layout.REPORT, layout.LOCK, layout.LIVE, layout.STATE, FACTS, SUMS),
    *(f"{layout.STATE}-wal", f"{layout.STATE}-shm", f"{layout.STATE}-journal"),
}
_NUMBERS = (layout.TRANSACTIONS, layout.SLICES)  # files of a run whose only texts are the names of scenarios
_DEPTH = 3  # parts of the path of a run's file
_SCRIPT = "-- {}: this script was taken out of the bundle.\n"
_MOST_SCRIPT = 64 << 20  # bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """``name`` is that of the folder, ``left_out`` are files of it that are not in the copy, ``still_in`` names that
    users gave (of arms, of the experiment) which hold what is replaced elsewhere.
    """

    name: str
    left_out: tuple[str, ...]
    still_in: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundled:
    """An archive that was written, and what is to be said about it."""

    packed: Packed
    copied: Copied
    redacted: tuple[Redaction, ...]


def write_bundle(folder: Path, out: Path | None = None, kinds: Iterable[Redaction] = ()) -> Bundled:
    """Pack a result folder into ``out``, by default NAME.pgtrial.zip in the current directory.

    Whatever is taken out is taken out of the data first; findings and report are then made from what is left, so they
    hold nothing else. The folder is only read. Raises StoreError.
    """
    wanted = tuple(kind for kind in Redaction if kind in set(kinds))
    before = read_facts(folder)
    evidence = read_evidence(folder)
    for each in (evidence, *map(read_evidence, find_proofs(folder, evidence.experiment, evidence.arms))):
        refuse_large(each)
    target = out.parent if out is not None else Path()
    try:
        # Beside the archive a file that stays as it is gets a second name; but nobody else may exchange what is copied.
        place = target if is_own(target) else None
        with tempfile.TemporaryDirectory(prefix=TEMPORARY, dir=place) as name:
            copy = Path(name)
            copied = copy_folder(folder, copy, wanted)
            write_findings(findings := analyze(copy, of_any_size=True), copy)
            write_html(findings, copy / layout.REPORT)
            files = {str(path.relative_to(copy)): path for path in sorted(copy.rglob("*")) if path.is_file()}
            facts = BundleFacts(
                pgtrial_version=__version__,
                redacted=tuple(dict.fromkeys((*(before.redacted if before else ()), *wanted))),
                left_out=len(copied.left_out),
            )
            packed = pack(copied.name, files, out or target / f"{copied.name}{SUFFIX}", facts=facts)
    except OSError as err:
        raise StoreError(f'cannot write a bundle in "{target}": {err.strerror or err}') from err
    return Bundled(packed=packed, copied=copied, redacted=wanted)


def copy_folder(folder: Path, to: Path, kinds: Iterable[Redaction] = ()) -> Copied:
    """Make the copy in the empty directory ``to``; files that stay as they are get a second name there.

    Findings and report are not copied, nor is what lies in directories of a run, which has not been read in yet. With
    something to take out, only files are copied that pgtrial knows. What proves the limits of its arms is copied in the
    same way, as folders of their own. Raises StoreError.
    """
    copied, plan = _copy_one(folder, to, kinds), read_plan(folder)
    for proof in find_proofs(folder, plan.experiment, plan.arms):
        place = make_directory(to, *layout.proof_folder(Path(), proof.name).parts)
        more = _copy_one(proof, place, kinds)
        left_out = (*copied.left_out, *(f"{layout.PROOFS}/{proof.name}/{name}" for name in more.left_out))
        still_in = tuple(dict.fromkeys((*copied.still_in, *more.still_in)))
        copied = Copied(name=copied.name, left_out=left_out, still_in=still_in)
    return copied


def _copy_one(folder: Path, to: Path, kinds: Iterable[Redaction]) -> Copied:
    with closing(State.open(folder)) as state:  # says so if this is no result folder
        runs, settings = state.runs(), state.settings()
        given = {*(slot.arm for slot in state.slots()), *(name for name, _, _ in state.declared_arms())}
    copy_state(folder, to / layout.STATE)
    files = [path for path in _files(folder) if str(path) not in _NOT_COPIED and path.parts[0] != layout.PROOFS]
    known = PrivateNames(kinds=frozenset(kinds))
    if not known.kinds:
        for path in filter(_can_be_packed, files):
            _link(folder / path, to / path)
        left_out = tuple(str(path) for path in files if not _can_be_packed(path))
        return Copied(name=portable(folder.resolve().name), left_out=left_out, still_in=())
    _check_rows(folder, files, runs)
    tables = read_plan(folder).experiment.model_dump(mode="json", by_alias=True, exclude_unset=True)
    given |= {*_given_names(tables)}
    _learn(folder, files, known, tables=tables, state=to / layout.STATE)
    names = Names(known=known, kept=frozenset(given))
    _write_experiment(tables, to / layout.EXPERIMENT, names)
    redact_state(to / layout.STATE, names, is_of_program=tables["workload"].get("kind") == "command")
    zones = {run.folder: settings.get(run.id, {}).get("log_timezone", ("UTC", ""))[0] for run in runs}
    left_out = tuple(str(path) for path in files if not _copy_file(folder, path, to, names, zones))
    name = portable(names.clean(folder.resolve().name))
    return Copied(name=name, left_out=left_out, still_in=names.in_names([*sorted(given), name]))


def _files(folder: Path) -> Iterator[Path]:
    """Ordinary files below the folder, relative to it and in order; links could lead out of it and are none, and
    bundles that lie in it are not packed again.
    """
    for place, directories, files in os.walk(folder, onerror=_refuse):
        directories[:] = sorted(name for name in directories if not name.startswith(TEMPORARY))
        for name in sorted(files):
            path = Path(place) / name
            if stat.S_ISREG(path.lstat().st_mode) and not name.endswith((".part", SUFFIX)):
                yield path.relative_to(folder)


def _refuse(error: OSError) -> None:
    raise StoreError(f'cannot read "{error.filename}": {error.strerror}') from error


def _can_be_packed(path: Path) -> bool:
    """Whether the name is one that an archive may have, and the file none of the raw ones of a run."""
    is_raw = path.parts[0] == layout.RUNS and len(path.parts) > _DEPTH
    return not is_raw and str(path).isprintable() and "\\" not in str(path)


def _check_rows(folder: Path, files: Sequence[Path], runs: Sequence[RunRow]) -> None:
    for name in COLUMN_FILES:
        most = most_rows(folder, runs, name)
        parquet.check_rows([folder / path for path in files if folder / path in most], most)


def _learn(folder: Path, files: list[Path], known: PrivateNames, *, tables: dict[str, Any], state: Path) -> None:
    known.learn_hosts([platform.node()])
    for key, text in strings(tables):
        known.learn(text, key)
    for words in lists(tables):
        known.learn(" ".join(words))  # what follows "--password" is told by what stands before it
    for text in _sql_statements(tables):
        known.learn_query(text)
    learn_state(state, known)
    for path in files:
        if path.parts[0] == layout.FILES:
            text = _read_text(folder / path)
            known.learn(text)
            known.learn_query(text)
        elif path.parts[0] == layout.RUNS and path.name in COLUMN_FILES:
            learn_columns(folder / path, known)
        elif path.parts[0] == layout.RUNS and path.name == layout.SERVER_LOG:
            learn_log(folder / path, known)


def _copy_file(folder: Path, path: Path, to: Path, names: Names, zones: dict[str, str]) -> bool:
    """Whether the file is in the copy: one that pgtrial does not know may hold anything. ``zones`` are those of the
    runs' logs, by the runs' folders.
    """
    (to / path).parent.mkdir(parents=True, exist_ok=True)
    match path.parts:
        case (layout.EXPERIMENT,):
            return True  # written already
        case (layout.FILES, *_):
            text = _read_text(folder / path)
            is_hidden = Redaction.QUERIES in names.known.kinds
            write_file(to / path, _SCRIPT.format(names.query(text)) if is_hidden else names.clean(text))
        case (layout.RUNS, run, name) if run in zones and name in _NUMBERS:
            _link(folder / path, to / path)
        case (layout.RUNS, run, name) if run in zones and name in COLUMN_FILES:
            redact_columns(folder / path, to / path, names)
        case (layout.RUNS, run, layout.SERVER_LOG) if run in zones:
            redact_log(folder / path, to / path, names, find_zone(zones[run]))
        case _:
            return False
    return True


def _link(path: Path, to: Path) -> None:
    """The same file under a second name; a copy where the folder is on another file system, or belongs to others."""
    to.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(path, to, follow_symlinks=False)
    except OSError:
        shutil.copyfile(path, to, follow_symlinks=False)


def _read_text(path: Path) -> str:
    try:
        return read_file(path, limit=_MOST_SCRIPT).decode(errors="replace")
    except OSError as err:
        raise StoreError(f'cannot read "{path}": {err.strerror}') from err


def _write_experiment(tables: dict[str, Any], path: Path, names: Names) -> None:
    """The experiment as it was planned. StoreError where it would not be one any more."""
    if Redaction.QUERIES in names.known.kinds and any(_varies_sql(factor) for factor in _tables_of(tables, "factors")):
        raise StoreError(
            "cannot redact the texts of queries: arms are named after the SQL of a factor",
            hint="Leave out --redact queries, or use [arms] with names of their own instead of [factors].",
        )
    cleaned = with_strings(tables, lambda text, key: text if text in names.kept else names.clean(text, key))
    for (knob, original), (_, table) in zip(_sql_tables(tables), _sql_tables(cleaned), strict=True):
        table.update({key: names.query(text) for key, text in original.items() if is_sql(knob, key)})
    text = tomli_w.dumps(cleaned)
    try:
        Experiment.model_validate(cleaned)
    except ValueError as err:
        raise StoreError(
            "the experiment cannot be understood without the redacted words",
            detail="The name of a host, or a secret, is also a word in the experiment file.",
            hint="Leave out that kind of --redact.",
        ) from err
    write_file(path, text)


def _tables_of(tables: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """The tables that stand in a table, such as those of the arms."""
    found = tables.get(name, {})
    return [each for each in found.values() if isinstance(each, dict)] if isinstance(found, dict) else []


def _sql_tables(tables: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Knobs that have statements with their tables, of all arms and of the target."""
    owners = [*_tables_of(tables, "arms"), *([tables["target"]] if isinstance(tables.get("target"), dict) else [])]
    having = [name for name, knob in KNOBS.items() if knob.sql_keys]
    return [(name, owner[name]) for owner in owners for name in having if isinstance(owner.get(name), dict)]


def _varies_sql(factor: dict[str, Any]) -> bool:
    knob = KNOBS.get(str(factor.get("knob")))
    return knob is not None and bool(knob.sql_keys)


def _sql_statements(tables: dict[str, Any]) -> Iterator[str]:
    for knob, table in _sql_tables(tables):
        yield from (text for key, text in table.items() if is_sql(knob, key) and isinstance(text, str))


def _given_names(tables: dict[str, Any]) -> Iterator[str]:
    """Names that stand for something in all files: of the experiment, its arms, factors, disks and scenarios."""
    yield str(tables.get("experiment", {}).get("name", ""))
    for name in ("arms", "factors", "disks", "checks"):
        yield from tables.get(name, {})
    workload = tables.get("workload", {})
    for part in (*workload.get("scenario", []), *workload.get("job", [])):
        yield str(part.get("name", ""))
