"""What the formats of results can tell, which a load generator writes: what they cannot tell is refused as a metric."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from pgtrial.model.metrics import LATENCY_MEAN, QUANTILES, STEADINESS

FormatName = Literal["json", "hdr", "openmetrics", "sysbench", "hammerdb", "benchbase", "go-tpc", "k6", "pgreplay"]


class Latencies(StrEnum):
    """What is known of the latencies: of each request, or of many their mean, or nothing."""

    EACH = "each"
    MEAN = "mean"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFormat:
    """``no_rate`` says why a load with it cannot have a rate, "" if it can. One that ``is_told_at_end`` says nothing of
    any one second; one that ``tells_each`` can say of each request when it ended. One that ``keeps_clients`` works with
    as many at a time as the file says, and not with those of a script or log; one that ``may_correct`` its latencies
    may tell of some that no request had. With a ``program`` it is of this one alone, which ``needs_port`` if it cannot
    reach a server by a Unix socket.
    """

    latencies: Latencies = Latencies.EACH
    no_rate: str = ""
    is_told_at_end: bool = False
    tells_each: bool = False
    keeps_clients: bool = True
    may_correct: bool = False
    program: str = ""
    needs_port: bool = False

    def lacks(self, metric: str) -> str:
        """Why a metric cannot be had, "" if it can."""
        quantiles = {each.name for each, _ in QUANTILES}
        if self.latencies is Latencies.NONE and metric in {LATENCY_MEAN.name, *quantiles}:
            return "it tells no latency"
        if self.latencies is Latencies.MEAN and metric in quantiles:
            return "it tells only the mean of its latencies"
        if self.is_told_at_end and metric in {each.name for each in STEADINESS}:
            return "it tells all at its end, and nothing of any one second"
        return ""


FORMATS: dict[str, ResultFormat] = {
    "json": ResultFormat(tells_each=True),
    "hdr": ResultFormat(may_correct=True, no_rate="a histogram does not say when its requests were due"),
    "openmetrics": ResultFormat(
        latencies=Latencies.MEAN, is_told_at_end=True, no_rate="a sum does not say when its requests were due"
    ),
    "sysbench": ResultFormat(
        program="sysbench", tells_each=True, no_rate="sysbench does not say when a request was due"
    ),
    "hammerdb": ResultFormat(program="HammerDB", latencies=Latencies.NONE, no_rate="HammerDB knows no rate"),
    "benchbase": ResultFormat(
        program="BenchBase",
        needs_port=True,
        no_rate="BenchBase times a transaction from when it is taken up, and drops what queues beyond 10,000",
    ),
    "go-tpc": ResultFormat(program="go-tpc", needs_port=True, latencies=Latencies.MEAN, no_rate="go-tpc knows no rate"),
    "k6": ResultFormat(program="k6", keeps_clients=False, no_rate="k6 has the rate that its script says"),
    "pgreplay": ResultFormat(
        program="pgreplay",
        latencies=Latencies.MEAN,
        is_told_at_end=True,
        keeps_clients=False,
        no_rate="a replay has the rate of its log",
    ),
}
