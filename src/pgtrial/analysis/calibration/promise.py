"""Results of a calibration: the noise of each method on a machine, and what each can detect."""

import math

from pgtrial.design.calibration import slice_text
from pgtrial.design.methods import MethodChoice
from pgtrial.experiment_file.load import LoadedExperiment
from pgtrial.findings.caveat import CaveatFinding
from pgtrial.findings.record import Record
from pgtrial.store.calibrations import calibration_key, read_calibration

SCHEMA_VERSION = 1


class Detectable(Record):
    seconds: float
    change: float | None  # relative, found with 80 % probability; None: no two blocks fit


class Forecast(Record):
    """Of the experiment itself: its own duration, warm-up and number of arms."""

    duration: float  # s, measured time of a run at a load level
    block_seconds: float
    sd_log_ratio: float
    sd_per_minute: float
    sd_per_minute_low: float
    sd_per_minute_high: float
    detectable: tuple[Detectable, ...]
    blocks: int | None  # that find the margin with 80 % probability; None: out of reach
    seconds: float | None


class MethodCalibration(Record):
    """A method as it was calibrated. SDs are those of log ratios, ratios are dimensionless."""

    method: str  # blocks | interleaved | duet
    slice: float | None  # s, guard included
    label: str  # "interleaved-250ms"
    folders: tuple[str, ...]  # names, below that of the calibration
    warnings: tuple[str, ...]  # what speaks against the method in this experiment
    doubtful: bool
    duration: float  # s, measured time of a run at a load level
    block_ratios: tuple[tuple[float, ...], ...]  # of every folder
    blocks: int
    sd_log_ratio: float
    sd_low: float
    sd_high: float
    block_seconds: float  # everything that a block took
    load_seconds: float  # of it measured load, guard time included
    sd_per_minute: float
    sd_per_minute_low: float
    sd_per_minute_high: float
    ratio: float  # control against control: 1, but for chance
    low: float | None
    high: float | None  # the intervals of all methods hold together
    growth: float | None  # of the ratio inside the slices: 1, but for chance
    growth_low: float | None
    growth_high: float | None
    autocorrelation: float | None  # of neighbouring pairs of slices
    forecast: Forecast


class MethodAdvice(Record):
    label: str
    method: str
    slice: float | None
    blocks: int | None
    seconds: float | None
    as_good: tuple[str, ...]  # labels of methods whose noise cannot be told apart from this one's
    reason: str


class Calibration(Record):
    schema_version: int = SCHEMA_VERSION
    pgtrial_version: str
    experiment: str  # its name
    folder: str  # name of the calibration's folder
    created: float  # s since the epoch
    complete: bool  # every part was done
    budget: float  # s
    metric: str
    scenario: str | None
    margin: float
    confidence: float
    arms: int  # of the experiment, the placebo included
    methods: tuple[MethodCalibration, ...]
    refused: dict[str, str]  # what was not calibrated, and why
    recommendation: MethodAdvice
    caveats: tuple[CaveatFinding, ...]

    def noise(self, choice: MethodChoice, duration: float) -> float | None:
        """SD between blocks of the log ratio, for runs of ``duration`` seconds by a method; None if not calibrated.

        It is taken to fall with the root of the duration.
        """
        one = self.nearest(choice)
        return None if one is None else one.sd_log_ratio * math.sqrt(one.duration / duration)

    def nearest(self, choice: MethodChoice) -> MethodCalibration | None:
        """What was calibrated of a method, of interleaved ones that with the most similar slices."""
        found = [one for one in self.methods if one.method == choice.method]
        return min(
            found, key=lambda each: abs(math.log(each.slice / choice.slice)) if each.slice else 0.0, default=None
        )


def find_calibration(loaded: LoadedExperiment) -> Calibration | None:
    """The newest complete calibration on this machine that holds for an experiment. Raises StoreError where a script
    of the experiment cannot be read.
    """
    return parse_calibration(read_calibration(calibration_key(loaded)))


def parse_calibration(text: str | None) -> Calibration | None:
    """A calibration from its JSON; None if there is none, or one that this pgtrial does not understand."""
    try:
        found = Calibration.model_validate_json(text or "")
    except ValueError:
        return None
    return found if found.schema_version <= SCHEMA_VERSION else None


def shown_label(one: MethodCalibration) -> str:
    """ "interleaved 250ms", for a table or a sentence."""
    return one.method if one.slice is None else f"{one.method} {slice_text(one.slice)}"
