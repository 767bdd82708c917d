"""The table of what is not the same in all that is compared."""

from collections.abc import Sequence

from pgtrial.findings.comparison import WorldDifference
from pgtrial.report.comparison.words import difference_name


def tabulate_differences(differences: Sequence[WorldDifference], keys: Sequence[str]) -> dict[str, object]:
    """What differences.html shows; ``keys`` are those of the columns."""
    return {
        "keys": keys,
        "rows": [
            {
                "name": difference_name(one),
                "values": [one.values.get(key, "not known") for key in keys],
                "severity": one.severity,
                "why": one.why,
            }
            for one in differences
        ],
    }
