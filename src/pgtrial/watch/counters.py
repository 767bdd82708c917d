"""The metrics of a watch that count, and how many seconds may lie between two of their readings."""

from pgtrial.collectors import WATCHED
from pgtrial.collectors.base import ExtensionCollector
from pgtrial.model.metric import MetricKind
from pgtrial.watch.sums import LONGEST, LONGEST_OFTEN

COUNTERS: tuple[tuple[str, float], ...] = tuple(
    (metric.name, LONGEST if isinstance(each, ExtensionCollector) else LONGEST_OFTEN)
    for each in WATCHED
    for metric in each.metrics
    if metric.kind is MetricKind.COUNTER
)
