"""On which hosts does the claim hold, and what of others like them?"""

from pgtrial.findings.findings import Findings
from pgtrial.findings.hosts import Hosts
from pgtrial.language import N_, tr
from pgtrial.report.charts.hosts import hosts_chart
from pgtrial.report.host_words import HOST_HEADS, host_rows, hosts_text, over_hosts_rows, prediction_text
from pgtrial.report.sections.base import Section, always
from pgtrial.units import format_decimal, format_share


def _build_hosts(findings: Findings) -> dict[str, object]:
    found = findings.hosts
    return {
        "text": hosts_text(findings),
        "chart": hosts_chart(findings),
        "heads": [tr(head) for head in HOST_HEADS],
        "rows": [
            {"cells": cells, "differs": host.differs}
            for cells, host in zip(host_rows(findings), found.hosts if found else (), strict=True)
        ],
        "over": over_hosts_rows(found) if found else [],
        "prediction": prediction_text(found) if found else "",
        "method": _method(found) if found else "",
        "confidence": format_share(findings.hypothesis.confidence),
    }


def _method(found: Hosts) -> str:
    degrees = format_decimal(found.degrees, 0 if float(found.degrees).is_integer() else 1)
    if found.method == "means":
        return tr(
            "Each host's mean is one observation: Student's t with {degrees} degrees of freedom.", degrees=degrees
        )
    return tr(
        "Hosts have unequal blocks or orders: REML with the error and the {degrees} degrees of freedom of Kenward "
        "and Roger.",
        degrees=degrees,
    )


HOSTS = Section(
    name="hosts",
    title=N_("On which hosts?"),
    build=_build_hosts,
    is_shown=lambda findings: findings.hosts is not None,
    is_open=always,
)
