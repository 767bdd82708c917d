"""The claim on each of several hosts, in the words that the page, the terminal and a pull request share."""

from pgtrial.findings.findings import Findings
from pgtrial.findings.hosts import HostFinding, Hosts
from pgtrial.findings.message import say
from pgtrial.findings.record import Estimate
from pgtrial.language import N_, tr
from pgtrial.report.terms import verdict_word
from pgtrial.report.words import change_text, format_p, interval_text
from pgtrial.units import format_percent

HOST_HEADS = (
    N_("host"),
    N_("blocks"),
    N_("change"),
    N_("interval"),
    N_("claim"),
    N_("other hosts"),
    N_("p of the same"),
)


def hosts_text(findings: Findings) -> str:
    """On how many hosts the claim holds, and on which the effect is another; empty where there is one host."""
    return " ".join(map(say, findings.hosts.text)) if findings.hosts else ""


def host_rows(findings: Findings) -> list[tuple[str, ...]]:
    """Cells under HOST_HEADS, one row for each host."""
    found = findings.hosts
    return [] if found is None else [_row(findings, each) for each in found.hosts]


def _row(findings: Findings, each: HostFinding) -> tuple[str, ...]:
    p = format_p(each.p_differs)
    return (
        each.host,
        str(each.blocks),
        _change(each.effect),
        _interval(each.effect),
        verdict_word(each.verdict, provisional=findings.hypothesis.provisional),
        change_text(each.others, None, None),
        tr("{p} (another effect)", p=p) if each.differs else p,
    )


def over_hosts_rows(hosts: Hosts) -> list[tuple[str, str, str]]:
    """What is said over hosts: name, value and interval."""
    rows = [(tr("mean of hosts like these"), _change(hosts.mean), _interval(hosts.mean))]
    if hosts.prediction is not None:
        rows.append((tr("a host that was not tested"), "", _interval(hosts.prediction)))
    for label, spread in ((tr("SD inside a host"), hosts.within), (tr("SD between hosts"), hosts.between)):
        if spread is not None:
            rows.append((label, _percent(spread.value), _spread(spread)))
    return rows


def prediction_text(hosts: Hosts) -> str:
    """Where the effect on a host that was not tested is expected, or why that is not known."""
    if hosts.prediction is None:
        return say(hosts.no_prediction)
    return tr("On a host that was not tested: {interval}.", interval=_interval(hosts.prediction))


def _change(found: Estimate) -> str:
    return change_text(found.value, found.low, found.high)


def _interval(found: Estimate) -> str:
    return interval_text(found.low, found.high, found.value)


def _spread(found: Estimate) -> str:
    if found.low is None or found.high is None:
        return "–"
    return tr("{low} to {high}", low=_percent(found.low), high=_percent(found.high))


def _percent(spread: float) -> str:
    return format_percent(spread)
