"""The time that a window is best compared with: the same hour and weekday where the watch has it."""

from pathlib import Path

import numpy as np

from pgtrial.errors import SpecError, StoreError
from pgtrial.watch.layout import DAY
from pgtrial.watch.series import read_polls
from pgtrial.watch.windows import Window, window_sums

_LEAST_READ = 0.75  # share of a window


def comparable_window(root: Path, b: Window) -> tuple[Window, str]:
    """The window to compare ``b`` with, and in words which one that is. Raises SpecError where there is none."""
    length = b.end - b.start
    for back, words in (
        (7 * DAY, "A is the same time a week before."),
        (DAY, "A is the same time the day before: of a week before too little was read, and weekdays may differ."),
        (length, "A is the time right before B: of the same time a day or a week before too little was read."),
    ):
        if back >= length and _is_read(root, found := Window(b.start - back, b.end - back)):
            return found, words
    raise SpecError(
        f'"{root}" has nothing that {b} could be compared with: too little was read of the time before it',
        hint="Name the other window: pgtrial compare-times FOLDER A B.",
    )


def _is_read(root: Path, window: Window) -> bool:
    try:
        with window_sums(root, window) as sums:
            return float(np.mean(read_polls(sums) > 0)) >= _LEAST_READ
    except StoreError:
        return False
