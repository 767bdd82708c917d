"""Whatever rhythm a load or a limit has, the sampler sees what an observer at random times sees, far more often."""

import importlib
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from pgtrial.postgres.programs import Programs
from support.programs import skip_for_want

FOLDER = Path(__file__).parents[2] / "benchmarks"
SECONDS = 21.0
LITTLE = 0.05  # sessions, of eight


def load_rhythms() -> ModuleType:
    sys.path.insert(0, str(FOLDER))  # as Python itself does for `python benchmarks/rhythms.py`
    try:
        return importlib.import_module("rhythms")
    finally:
        sys.path.remove(str(FOLDER))


rhythms = load_rhythms()


@pytest.mark.parametrize("name", ["disk", "quota", "script"])
def test_parts_of_the_time_of_sessions_agree_with_those_seen_at_random_times(name: str, programs: Programs) -> None:
    case = rhythms.CASES[name]
    missing = [each for each in case.limits if not os.access(rhythms.CONTROL_GROUPS / each / "cgroup.procs", os.W_OK)]
    if missing:
        skip_for_want("control groups of version 1", "run as root, with them mounted")
    parts = rhythms.run_case(case, seconds=SECONDS, postgres=str(programs.directory))

    assert sum(part.observer.value for part in parts) == pytest.approx(rhythms.CLIENTS, abs=0.1)
    assert sum(part.sampler.value for part in parts) == pytest.approx(rhythms.CLIENTS, abs=0.1)
    for part in parts:
        assert abs(part.sampler.value - part.observer.value) <= part.sampler.half + part.observer.half + LITTLE, part
