"""Comparisons of arms whose intervals a test chooses."""

from pgtrial.stats.base import Comparison


def make_comparison(ratio: float, low: float, high: float, *, sd: float, blocks: int) -> Comparison:
    """An effect with its 95 % interval; ``sd``: of the log ratio, between blocks."""
    return Comparison(
        ratio=ratio,
        low=low,
        high=high,
        confidence=0.95,
        p_value=0.5,
        p_sign_flip=0.5,
        hodges_lehmann=ratio,
        hl_low=None,
        hl_high=None,
        blocks=blocks,
        sd_log_ratio=sd,
        information=blocks,
        degrees=blocks - 1,
    )
