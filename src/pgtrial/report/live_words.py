"""What is said of an experiment that still runs."""

from pgtrial.report.words import change_text, interval_text, metric_label, plural
from pgtrial.units import format_share


def running_effect_text(
    *,
    arm: str,
    control: str,
    metric: str,
    ratio: float | None,
    low: float | None,
    high: float | None,
    confidence: float,
    margin: float,
    blocks: int,
) -> str:
    """The effect that the claim is about as far as it is known, in one phrase without a judgement.

    A word such as "better" would invite to stop there, and an experiment that ends when it looks good finds too much.
    """
    if low is None or high is None:
        interval = "without an interval yet"
    else:
        interval = f"{format_share(confidence)} interval {interval_text(low, high)}"
    return (
        f"{arm} against {control}, {metric_label(metric)}: {change_text(ratio)} ({interval}) after "
        f"{plural(blocks, 'block')}; margin ±{format_share(margin)}"
    )
