"""Findings with names and texts that would like to be something else."""

import pytest

from pgtrial.findings.caveat import caveat_in_words
from pgtrial.findings.findings import Findings
from pgtrial.findings.message import verbatim

FORMULA = "=cmd|'/C calc'!A0"
MARKUP = "<script>alert(1)</script>|`x` [a](http://evil.example) @team"
ESCAPE = "\x1b[31m\u202ered\nline"


@pytest.fixture(scope="session")
def hostile(sample: Findings) -> Findings:
    """The sample with hostile arms, claim, reason, settings and caveats; what refers to an arm does so by its name."""
    names = {"on": FORMULA, "off": MARKUP, "placebo": ESCAPE}
    text = sample.model_dump_json()
    for old, new in names.items():
        # Names of arms stand as values and, in settings, as keys.
        text = text.replace(f'"arm":"{old}"', f'"arm":{_json(new)}').replace(
            f'"control":"{old}"', f'"control":{_json(new)}'
        )
    found = Findings.model_validate_json(text)
    arms = tuple(arm.model_copy(update={"name": names[arm.name]}) for arm in found.experiment.arms)
    settings = tuple(
        one.model_copy(update={"values": {names[arm]: value for arm, value in one.values.items()}})
        for one in found.settings
    )
    asked = found.hypothesis.model_copy(update={"claim": MARKUP, "reason": verbatim(f"{FORMULA}\n{ESCAPE}")})
    caveats = tuple(
        caveat_in_words(one.code, one.severity, f"+1+2 {MARKUP}", ESCAPE).model_copy(update={"runs": one.runs})
        for one in found.caveats
    )
    return found.model_copy(
        update={
            "experiment": found.experiment.model_copy(update={"arms": arms, "name": FORMULA}),
            "hypothesis": asked,
            "settings": settings,
            "caveats": caveats,
        }
    )


def _json(text: str) -> str:
    import json

    return json.dumps(text)
