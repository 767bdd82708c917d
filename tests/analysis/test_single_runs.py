from dataclasses import replace

import pytest

from pgtrial.analysis.effects.estimate import Estimated, estimate_effects, take_single_runs
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.observations import Values


@pytest.fixture
def estimated(evidence: Evidence, values: Values) -> tuple[Estimated, ...]:
    return estimate_effects(evidence, values, scenarios=(None,))


def with_ratios(estimated: tuple[Estimated, ...], arm: str, ratios: tuple[float | None, ...]) -> tuple[Estimated, ...]:
    return tuple(
        replace(one, effect=one.effect.model_copy(update={"block_ratios": ratios})) if one.effect.arm == arm else one
        for one in estimated
    )


def test_each_block_alone_is_compared_with_the_margin(evidence: Evidence, estimated: tuple[Estimated, ...]) -> None:
    changed = with_ratios(estimated, "off", (1.06, 1.05, 0.94, 1.2, None))
    off, placebo = take_single_runs(evidence, changed)

    assert (off.arm, off.blocks, off.above, off.below) == ("off", 4, 2, 1)
    assert (off.lowest, off.highest) == (0.94, 1.2)
    assert (placebo.arm, placebo.blocks) == ("placebo", 6)


def test_an_arm_without_a_ratio_has_none(evidence: Evidence, estimated: tuple[Estimated, ...]) -> None:
    assert [found.arm for found in take_single_runs(evidence, with_ratios(estimated, "off", (None,)))] == ["placebo"]
    assert take_single_runs(evidence, ()) == ()
