"""Experiment files as the program reads them."""

from pathlib import Path

from pgtrial.experiment_file.load import LoadedExperiment, parse_experiment, read_text


def load_experiment(path: Path, *, check_files: bool = True) -> LoadedExperiment:
    """Read and check a file; SpecError with all its problems, or because there is no such file."""
    return parse_experiment(read_text(path), str(path), path.absolute().parent, check_files=check_files)
