"""What drifts in a soak, in words."""

from pgtrial.findings.catalogue.base import Entry
from pgtrial.language import N_

SOAK = {
    "soak.drifts": Entry(text=N_("{arm} does not stay as it is: {parts:and}.")),
    "soak.grew": Entry(text=N_("{metric} grew by {change:percent}")),
    "soak.shrank": Entry(text=N_("{metric} shrank by {change:percent}")),
    "soak.stays": Entry(text=N_("Of {arm} no drift was shown.")),
    "soak.rises": Entry(text=N_("{metric} rises by {change:percent} over the soak")),
    "soak.falls": Entry(text=N_("{metric} falls by {change:percent} over the soak")),
    "verdict.soak": Entry(
        text=N_(
            "A soak tells whether each arm stays as it is. Windows of one run depend on each other, so it decides no "
            "claim about the difference of arms: that takes blocks."
        )
    ),
}
