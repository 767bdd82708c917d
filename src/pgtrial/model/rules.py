"""The rules by which a verdict is reached, by version: an experiment is judged by those of its time."""

import math
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the versions differ by.

    ``fewest_blocks`` decide a claim. ``takes_position``: the effect of running second in a block is taken out.
    ``is_reciprocal``: the margin means a factor, 1 / (1 + margin) to 1 + margin, so that a ratio and its reciprocal
    are decided alike. ``proves_placebo``: a placebo is clean only where its effect is shown to lie within the margin.
    ``counts_failures``: attempts that fail more often in one arm bear on the verdict. ``weighs_failures``: there is
    none where one fails much more often; interruptions, and failures of arms that share the time, count as well.
    ``bears_fade``: what an arm leaves behind for the turn of the next one is in the interval. ``is_provisional``: what
    is said before the last block holds whenever one looks. ``counts_attempts``: so does what is said of a claim that is
    tried again, however often. ``bears_late``: what an arm does later than in its own
    turn is in the interval. ``bears_failures``: failures bear on every effect, not on the claim's alone.
    ``bounds_interruptions``: so does each run that was interrupted, of either arm, as if it had been chosen.
    ``bears_late_of_control``: what the control does later than in its own turn is in the interval, too, where more than
    two arms take turns. ``bears_carry_over``: what a run leaves for the next one is in the interval.
    ``counts_parts``: a transaction that began before the measured time or ended after it counts with the part of its
    time that lies inside, not by its end. ``bears_all_that_is_left``: what comes later than eight slices is in the
    interval as well, and what a run leaves for the next one as large as it may be, not as it is estimated.
    ``bears_steps``: so is the step in which a load tells its latencies, where that is coarser than what is compared.
    ``tells_orders_apart``: blocks of both orders may scatter differently. ``registers_seed``: a seed that the file has
    chosen is in the digest, and has to be that of the record. ``reads_latencies``: what arms that take turns leave
    behind and do later is told from the latencies of the slices where it is about a latency, not from their throughput.
    ``weighs_lone_failures``: there is no verdict where two attempts of one arm failed and none of the other.
    ``refutes_with_failures``: a metric refutes a claim of several only where it does so at its share of the level with
    failures, too. ``describes_latencies``: what else slices tell, as whether arms turn with their length, is read from
    latencies where the claim is about one. ``bears_alike``: requirements, factors, sentences, recommendations and
    comparisons of experiments bear what effects do: runs that lack a value, failures, interruptions, what is left
    behind, and too few blocks; and all of them transactions that were lost, failed ones like skipped ones, and values
    at a metric's floor. Of arms that take turns an effect has no interval where slices do not tell of its metric.
    Goals, slopes and curves share the level, and criteria are in the digest. ``needs_every_value``: there is no
    effect on a metric that a run which counts has no value of, and what a standstill leaves defined has its value.
    ``fixes_devices``: what is of a device is of the one that the data are on, as it was known before the load, or else
    of one and the same for all arms.
    """

    version: int
    fewest_blocks: int
    takes_position: bool
    is_reciprocal: bool
    proves_placebo: bool
    counts_failures: bool
    bears_fade: bool
    weighs_failures: bool
    is_provisional: bool
    counts_attempts: bool
    bears_late: bool
    bears_failures: bool
    bounds_interruptions: bool
    bears_late_of_control: bool
    bears_carry_over: bool
    counts_parts: bool
    bears_all_that_is_left: bool
    bears_steps: bool
    tells_orders_apart: bool
    registers_seed: bool
    reads_latencies: bool
    weighs_lone_failures: bool
    refutes_with_failures: bool
    describes_latencies: bool
    bears_alike: bool
    needs_every_value: bool
    fixes_devices: bool

    def bounds(self, margin: float) -> tuple[float, float]:
        """Ratios between which an effect does not matter; ValueError unless 0 <= margin < 1."""
        low, high = self.log_bounds(margin)
        return math.exp(low), math.exp(high)

    def log_bounds(self, margin: float) -> tuple[float, float]:
        """Logarithms of ``bounds``; ValueError as for them."""
        if not 0 <= margin < 1:
            raise ValueError(f"expected 0 <= margin < 1, got {margin}")
        return (-math.log1p(margin) if self.is_reciprocal else math.log1p(-margin)), math.log1p(margin)

    def confidence(self, declared: float, *, attempts_before: int | None) -> float:
        """That of an experiment whose claim was tried ``attempts_before`` times already; None where that is not known.

        The error probability of attempt k > 1 is its share 1 / (k (k - 1)) of the first one's. These add up to one, so
        all attempts after the first together, however many, err no more often than the first alone. Each share is known
        before its attempt begins.
        """
        if not self.counts_attempts or not attempts_before:
            return declared
        before = min(attempts_before, _MOST_ATTEMPTS)
        return 1 - (1 - declared) / (before * (before + 1))


_MOST_ATTEMPTS = 10_000  # of which levels differ; beyond, probabilities are lost in rounding

_FIRST = Rules(
    version=1,
    fewest_blocks=2,
    takes_position=False,
    is_reciprocal=False,
    proves_placebo=False,
    counts_failures=False,
    bears_fade=False,
    weighs_failures=False,
    is_provisional=False,
    counts_attempts=False,
    bears_late=False,
    bears_failures=False,
    bounds_interruptions=False,
    bears_late_of_control=False,
    bears_carry_over=False,
    counts_parts=False,
    bears_all_that_is_left=False,
    bears_steps=False,
    tells_orders_apart=False,
    registers_seed=False,
    reads_latencies=False,
    weighs_lone_failures=False,
    refutes_with_failures=False,
    describes_latencies=False,
    bears_alike=False,
    needs_every_value=False,
    fixes_devices=False,
)
_SECOND = Rules(
    version=2,
    fewest_blocks=6,
    takes_position=True,
    is_reciprocal=True,
    proves_placebo=True,
    counts_failures=True,
    bears_fade=False,
    weighs_failures=False,
    is_provisional=True,
    counts_attempts=False,
    bears_late=False,
    bears_failures=False,
    bounds_interruptions=False,
    bears_late_of_control=False,
    bears_carry_over=False,
    counts_parts=False,
    bears_all_that_is_left=False,
    bears_steps=False,
    tells_orders_apart=False,
    registers_seed=False,
    reads_latencies=False,
    weighs_lone_failures=False,
    refutes_with_failures=False,
    describes_latencies=False,
    bears_alike=False,
    needs_every_value=False,
    fixes_devices=False,
)
_THIRD = replace(_SECOND, version=3, weighs_failures=True, bears_fade=True)
_FOURTH = replace(_THIRD, version=4, counts_attempts=True)
_FIFTH = replace(_FOURTH, version=5, bears_late=True, bears_failures=True)
_SIXTH = replace(_FIFTH, version=6, bounds_interruptions=True)
_SEVENTH = replace(_SIXTH, version=7, bears_late_of_control=True)
_EIGHTH = replace(_SEVENTH, version=8, bears_carry_over=True)
_NINTH = replace(_EIGHTH, version=9, counts_parts=True)
_TENTH = replace(_NINTH, version=10, bears_all_that_is_left=True)
_ELEVENTH = replace(_TENTH, version=11, bears_steps=True)
_TWELFTH = replace(_ELEVENTH, version=12, tells_orders_apart=True)
_THIRTEENTH = replace(_TWELFTH, version=13, registers_seed=True)
_FOURTEENTH = replace(
    _THIRTEENTH, version=14, reads_latencies=True, weighs_lone_failures=True, refutes_with_failures=True
)
_FIFTEENTH = replace(
    _FOURTEENTH,
    version=15,
    describes_latencies=True,
    bears_alike=True,
    needs_every_value=True,
    fixes_devices=True,
)
RULES = {
    rules.version: rules
    for rules in (
        *(_FIRST, _SECOND, _THIRD, _FOURTH, _FIFTH, _SIXTH),
        *(_SEVENTH, _EIGHTH, _NINTH, _TENTH, _ELEVENTH, _TWELFTH, _THIRTEENTH, _FOURTEENTH, _FIFTEENTH),
    )
}
CURRENT = RULES[max(RULES)]
