"""Calibrations made on this machine, found by a key that says for which experiments they hold."""

import hashlib
import json
import os
from pathlib import Path

from pgtrial.errors import StoreError
from pgtrial.experiment_file.arms import resolve_arms
from pgtrial.experiment_file.load import LoadedExperiment
from pgtrial.safe_files import write_file
from pgtrial.store.journal_file import VARIABLE, make_state_directory, state_directory

CALIBRATION = "calibration.json"  # in the folder of a calibration
DIRECTORY = "calibrations"  # below the state directory
_SALT = "pgtrial calibration"
_MACHINE_IDS = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
_CPUINFO, _MEMINFO = Path("/proc/cpuinfo"), Path("/proc/meminfo")


def calibration_key(loaded: LoadedExperiment, *, machine: str | None = None) -> str:
    """What a calibration and an experiment have in common if the one holds for the other, as a digest: the machine, the
    data, the load but for its duration and warm-up, the target, the control's settings, and the scripts.

    ``machine`` is ``identify_machine()`` if left out. Raises StoreError where a script cannot be read.
    """
    experiment = loaded.experiment
    control = resolve_arms(experiment)[0]
    workload = experiment.workload
    facts = {
        "machine": identify_machine() if machine is None else machine,
        "dataset": experiment.dataset.model_dump(mode="json", exclude={"setup", "load"}),
        "workload": workload.model_dump(mode="json", exclude={"duration", "warmup", "scenario"}),
        "scenarios": [one.model_dump(mode="json", exclude={"file"}) for one in workload.scenario],
        "scripts": _scripts(loaded),
        "target": experiment.target.model_dump(mode="json"),
        "settings": control.settings,
        "knobs": control.knobs,
        "design": experiment.design.model_dump(mode="json", include={"restore", "cache"}),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]


def identify_machine() -> str:
    """A digest that stays the same after a reboot and changes with the machine's CPUs or memory.

    The machine's id is not to be shown to others as it is (machine-id(5)); it goes into a digest of our own.
    """
    number = next(filter(None, map(_read, _MACHINE_IDS)), "")
    models = {line.partition(":")[2].strip() for line in _read(_CPUINFO).splitlines() if line.startswith("model name")}
    memory = next((line.split()[1] for line in _read(_MEMINFO).splitlines() if line.startswith("MemTotal:")), "0")
    # A kernel keeps a little memory for itself, and another one a little more.
    facts = [_SALT, number, *sorted(models), os.cpu_count(), round(int(memory) / 1024**2)]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]


def write_calibration(folder: Path, text: str) -> Path:
    """Write the JSON of a calibration into its folder, at once or not at all; its path. Raises StoreError."""
    return _write(folder / CALIBRATION, text)


def keep_calibration(key: str, text: str) -> Path:
    """Keep a copy for later experiments; it replaces an older one with the same key. Raises StoreError."""
    try:
        make_state_directory(DIRECTORY)
    except OSError as err:
        raise StoreError(
            f'cannot create "{state_directory() / DIRECTORY}": {err.strerror}',
            hint=f"Make its directory writable, or name another one with {VARIABLE}.",
        ) from err
    return _write(_place(key), text)


def read_calibration(key: str) -> str | None:
    """The newest calibration that was kept with the key; None if there is none that can be read."""
    try:
        return _place(key).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError, StoreError):
        return None


def _place(key: str) -> Path:
    return state_directory() / DIRECTORY / f"{key}.json"


def _write(path: Path, text: str) -> Path:
    try:
        write_file(path, text)
    except OSError as err:
        raise StoreError(f'cannot write "{path}": {err.strerror}') from err
    return path


def _scripts(loaded: LoadedExperiment) -> dict[str, str]:
    """Digests of the file's own scripts and set-up by scenario; a result folder has them under names of its own."""
    experiment = loaded.experiment
    files = {one.name: one.file for one in experiment.workload.scenario if one.file is not None}
    if experiment.dataset.setup is not None:
        files[""] = experiment.dataset.setup
    try:
        return {name: hashlib.sha256((loaded.folder / file).read_bytes()).hexdigest() for name, file in files.items()}
    except OSError as err:
        raise StoreError(f'cannot read "{err.filename}": {err.strerror}') from err


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
