"""Apache Otava: points of change in the history of a benchmark, by E-divisive means and Student's t test at 0.1 %.

The history is as many runs before the change as after it; a point of change anywhere in it is an alarm, and the largest
tells the direction. All settings are the defaults of version 0.8. Otava needs other versions of numpy and scipy than
pgtrial, so it has an environment of its own, and is asked through a pipe.
Source: Fleming et al., "Hunter", ICPE 2023; Matteson & James, J. Am. Stat. Assoc. 109 (2014) 334-345.
"""

import json
import subprocess
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gym.contenders.base import Answer, Plain
from gym.schedule import Schedule, one_after_the_other

_PLACE = Path(__file__).parents[2] / ".venv" / "otava"
PYTHON, WHOLE = _PLACE / "bin" / "python", _PLACE / "pgtrial-setup"  # tools/otava.sh writes the latter last
_PROGRAM = """
import json, sys
from otava.analysis import compute_change_points
for line in sys.stdin:
    points, _ = compute_change_points(json.loads(line))
    print(json.dumps([point.stats.forward_rel_change() for point in points]), flush=True)
"""


class Otava(Plain):
    name = "Apache Otava"
    sizes = (6, 10, 20)
    is_nested = False
    peeks_from = 4
    most = 200

    def schedule(self, size: int, experiments: int, _: np.random.Generator) -> Schedule:
        return one_after_the_other(size, experiments)

    def answer(self, control: NDArray[np.float64], treated: NDArray[np.float64]) -> Answer:
        changes = find_changes(np.concatenate([control, treated], axis=1).tolist())
        largest = [max(found, key=abs, default=0.0) for found in changes]
        return Answer(direction=np.sign(largest).astype(np.int8))


def is_installed() -> bool:
    return WHOLE.exists()


def find_changes(histories: Iterable[Sequence[float]]) -> list[list[float]]:
    """Relative changes at the points of change of each history."""
    process = _start()
    questions, answers = process.stdin, process.stdout
    assert questions is not None
    assert answers is not None
    found = []
    for history in histories:
        print(json.dumps(list(history)), file=questions, flush=True)
        found.append(json.loads(answers.readline()))
    return found


@cache
def _start() -> "subprocess.Popen[str]":
    """One process for all questions: to start it takes longer than to answer a hundred. It ends with this one."""
    return subprocess.Popen([str(PYTHON), "-c", _PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
