"""Run what proves the limits of arms, when the experiment that asks for it is done: result folders in its own."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from pgtrial.engine.events import Observer
from pgtrial.engine.experiment import Permission, is_done, run_experiment, uses_left
from pgtrial.engine.folder import load_stored, lock_folder
from pgtrial.experiment_file.code_uses import CodeUse
from pgtrial.store.belongings import Belongings
from pgtrial.store.proofs import find_proofs


def find_proofs_left(folder: Path) -> Iterator[Path]:
    """The result folders of a folder's proofs in which runs are left to do. Raises StoreError."""
    plan = load_stored(folder)
    for proof in find_proofs(folder, plan.experiment, plan.arms):
        if not is_done(proof, load_stored(proof)):
            yield proof


def run_proof(folder: Path, proof: Path, *, permission: Permission, tell: Observer) -> None:
    """Do what is left of a proof of ``folder``, and keep everybody else off both. Raises as ``run_experiment``."""
    whole = Belongings.of(folder)
    with lock_folder(folder):
        own = Belongings.of(proof)
        if whole.is_measured_here() and not own.is_measured_here():
            own.add_measured()
        # What the experiment may read that asks for the proof, this one may, too.
        allowed = replace(permission, files=(*permission.files, *whole.readable()))
        run_experiment(proof, permission=allowed, tell=tell)


def all_uses_left(folder: Path, files: Sequence[Path] = ()) -> tuple[CodeUse, ...]:
    """As ``uses_left``, with those of the folder's proofs."""
    known = (*files, *Belongings.of(folder).readable())
    found = [*uses_left(folder, files), *(use for proof in find_proofs_left(folder) for use in uses_left(proof, known))]
    return tuple(dict.fromkeys(found))
