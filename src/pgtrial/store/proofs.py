"""The result folders of what proves the limits of arms, in the result folder of an experiment that asks for it."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from pgtrial.experiment_file.experiment import Experiment
from pgtrial.model.arm import Arm
from pgtrial.safe_files import is_plain
from pgtrial.store import layout


def find_proofs(folder: Path, experiment: Experiment, arms: Sequence[Arm]) -> Iterator[Path]:
    """Those that are there, in the order of the arms whose names they have. A link would lead out of the folder."""
    limits = experiment.limits
    if limits is None or not limits.prove or (folder / layout.PROOFS).is_symlink():
        return
    for arm in arms:
        place = layout.proof_folder(folder, arm.name)
        if not place.is_symlink() and is_plain(place / layout.STATE):
            yield place
