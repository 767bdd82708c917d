"""The dossier: all facts that a model is told, with ids; what of them is hidden; and what its text may say."""

from dataclasses import dataclass, replace

from pgtrial.findings.findings import Findings
from pgtrial.narrate.check import Checked, Known, check_text
from pgtrial.narrate.facts import Fact, numbers_in
from pgtrial.narrate.facts_of_causes import tell_causes
from pgtrial.narrate.facts_of_design import tell_design
from pgtrial.narrate.facts_of_results import tell_results
from pgtrial.narrate.pseudonyms import Pseudonyms, choose_pseudonyms
from pgtrial.narrate.quantity import Number, Quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class Dossier:
    """``facts`` have their real names; ``hidden`` is what a model sees in their place."""

    facts: tuple[Fact, ...]
    hidden: Pseudonyms
    known: Known

    def check(self, answer: str) -> Checked:
        """A model's text with the names put back, and its numbers held against the facts."""
        return check_text(self.hidden.restore(answer), self.known)


def make_dossier(findings: Findings, *, redact: bool = True, redact_arms: bool = False) -> Dossier:
    """The facts of the findings. With ``redact`` names are hidden, and texts of users and of queries are left out."""
    told = [
        *tell_design(findings, with_texts=not redact),
        *tell_results(findings),
        *tell_causes(findings, with_queries=not redact),
    ]
    facts = tuple(replace(fact, id=f"F{number}") for number, fact in enumerate(told, start=1))
    hidden = choose_pseudonyms(findings, facts, with_arms=redact_arms) if redact else Pseudonyms()
    arms = frozenset(arm.name for arm in findings.experiment.arms)
    known = Known(
        numbers=(*(number for fact in facts for number in fact.numbers), *_numbered(findings), *_percentiles(facts)),
        names=frozenset({*arms, *findings.experiment.scenarios, findings.experiment.name, *_names(hidden)}),
        arms=arms,
        control=findings.hypothesis.control,
        fact_ids=frozenset(fact.id for fact in facts),
    )
    return Dossier(facts=facts, hidden=hidden, known=known)


def _names(hidden: Pseudonyms) -> list[str]:
    return [name for name, _ in hidden.pairs]


def _numbered(findings: Findings) -> list[Number]:
    """Runs, blocks and slots that may be called by their number."""
    numbered = {
        *(("run", run.id) for run in findings.runs),
        *(("block", run.block) for run in findings.runs),
        *(("slot", run.slot) for run in findings.runs),
    }
    return [
        Number(value=float(number), quantity=Quantity.NUMBERED, noun=noun, shown=f"{noun} {number}")
        for noun, number in sorted(numbered)
    ]


def _percentiles(facts: tuple[Fact, ...]) -> list[Number]:
    """Those that facts are about."""
    found = {number for fact in facts for number in numbers_in(fact.text) if number.quantity is Quantity.PERCENTILE}
    return sorted(found, key=lambda number: number.value)
