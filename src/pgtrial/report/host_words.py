"""The claim on each of several hosts, in the words that the page, the terminal and a pull request share."""

from pgtrial.findings.findings import Findings
from pgtrial.findings.message import say
from pgtrial.findings.questions import HostFinding, Hosts
from pgtrial.findings.record import Estimate
from pgtrial.language import N_, tr
from pgtrial.report.terms import verdict_word
from pgtrial.report.words import change_cells, change_text, format_p
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
        *_cells(each.effect),
        verdict_word(each.verdict, provisional=findings.hypothesis.provisional),
        change_text(each.others, None, None),
        tr("{p} (another effect)", p=p) if each.differs else p,
    )


def over_hosts_rows(hosts: Hosts) -> list[tuple[str, str, str]]:
    """What is said over hosts: name, value and interval."""
    rows = [(tr("mean of hosts like these"), *_cells(hosts.mean))]
    if hosts.prediction is not None:
        rows.append((tr("a host that was not tested"), "", _cells(hosts.prediction)[1]))
    for label, spread in ((tr("SD inside a host"), hosts.within), (tr("SD between hosts"), hosts.between)):
        if spread is not None:
            rows.append((label, format_percent(spread.value), _spread(spread)))
    return rows


def prediction_text(hosts: Hosts) -> str:
    """Where the effect on a host that was not tested is expected, or why that is not known."""
    if hosts.prediction is None:
        return say(hosts.no_prediction)
    return tr("On a host that was not tested: {interval}.", interval=_cells(hosts.prediction)[1])


def _cells(found: Estimate) -> tuple[str, str]:
    return change_cells(found.value, found.low, found.high)


def _spread(found: Estimate) -> str:
    if found.low is None or found.high is None:
        return "–"
    return tr("{low} to {high}", low=format_percent(found.low), high=format_percent(found.high))
