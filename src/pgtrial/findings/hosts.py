"""The claim's effect on each of several hosts, and over hosts like them."""

from pgtrial.findings.message import MaybeMessage, Message
from pgtrial.findings.record import Estimate, Record
from pgtrial.model.verdict import Verdict


class HostFinding(Record):
    """One host, judged by its own blocks with the noise that all hosts have in common."""

    host: str
    blocks: int
    effect: Estimate  # ratio: arm / control
    verdict: Verdict  # of the claim's first metric, at its confidence; not together with the other hosts
    others: float  # ratio: mean of the other hosts, without those that differ more
    p_differs: float | None  # of the same effect as on these, adjusted for all hosts; null: the noise is not known
    differs: bool  # surely, and by more than the margin


class Hosts(Record):
    """An effect over hosts; ``mean`` and ``prediction`` are ratios, ``within`` and ``between`` SDs of log ratios."""

    arm: str
    metric: str
    scenario: str | None
    confidence: float
    method: str  # means | reml
    hosts: tuple[HostFinding, ...]
    mean: Estimate
    degrees: float  # of freedom, of the error of the mean
    within: Estimate | None  # of blocks of one host; null: each host has one block
    between: Estimate | None  # of the hosts' true effects
    prediction: Estimate | None  # where the effect on a host is expected that was not tested
    no_prediction: MaybeMessage = None
    text: tuple[Message, ...]  # on how many hosts the claim holds, and on which the effect is another
