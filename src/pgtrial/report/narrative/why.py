"""Why: where the difference lies, and what limits each arm at the highest load level."""

from collections.abc import Iterator

from pgtrial.findings.findings import Findings
from pgtrial.language import N_, tr
from pgtrial.report.cause_words import causes_of, lead_arms
from pgtrial.report.narrative.base import Sentence, Teller, cite
from pgtrial.report.narrative.phrases import close


def _tell(findings: Findings) -> Iterator[Sentence]:
    causes = causes_of(findings)
    limits = list(_limits(findings))
    if not causes.text and not limits:
        yield (tr("What was sampled does not tell why."),)
        return
    if causes.text:
        yield (cite(close(causes.text.say()), "causes.text.text"),)
    yield from limits
    yield (
        tr("That the arm makes the difference is shown by the experiment; by which way, these samples make likely."),
    )


def _limits(findings: Findings) -> Iterator[Sentence]:
    """What limits the control and the claim's arm where the load is highest."""
    found = causes_of(findings).limits
    clients = {level.index: level.clients for level in findings.experiment.levels}
    for arm in lead_arms(findings, (limit.arm for limit in found)):
        mine = [number for number, limit in enumerate(found) if limit.arm == arm]
        last = max(mine, key=lambda number: clients.get(found[number].load_level, 0))
        yield (cite(close(found[last].text.say()), f"causes.limits[{last}].text.text"),)


WHY = Teller(name="why", title=N_("Why"), tell=_tell)
