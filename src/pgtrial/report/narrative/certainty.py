"""How sure it is: the interval, what these blocks could see, the placebo, one run alone, and what limits trust."""

from collections.abc import Iterator

from pgtrial.findings.findings import Findings
from pgtrial.language import N_, ntr, tr
from pgtrial.model.caveat import Severity
from pgtrial.report.narrative.base import Sentence, Teller, cite, find_primary, keep, say, source
from pgtrial.report.narrative.phrases import cite_change, cite_interval, close, placebo_change
from pgtrial.report.trust_words import placebo_text, single_runs_text
from pgtrial.report.words import LEAST_P, detectable_text, format_p, p_of
from pgtrial.units import format_decimal, format_share

MOST_CAVEATS = 3  # that are told in full; the section of caveats has all


def _tell(findings: Findings) -> Iterator[Sentence]:
    yield from _interval(findings)
    if findings.noise.detectable is not None:
        yield say(
            tr("With this noise and so many blocks, a change of {detectable} is found four times in five."),
            detectable=cite(detectable_text(findings), "noise.detectable"),
        )
    placebo = placebo_change(findings)
    if placebo is not None and placebo.effect.ratio is not None:
        yield say(tr("The placebo shows {change}."), change=cite_change(placebo))
    yield (placebo_text(findings),)
    single = single_runs_text(findings)
    if single:
        fields = ("blocks", "above", "below", "lowest", "highest")
        numbers = range(len(findings.single_runs))
        yield (cite(single, *(f"single_runs[{number}].{field}" for number in numbers for field in fields)),)
    if findings.adjusted is not None:
        yield (cite(close(findings.adjusted.text.say()), "adjusted.text.text"),)
    if findings.stopping is not None:
        yield (cite(close(findings.stopping.text.say()), "stopping.text.text"),)
    yield from _caveats(findings)


def _interval(findings: Findings) -> Iterator[Sentence]:
    primary = find_primary(findings)
    if primary is None or primary.effect.ratio is None:
        return
    effect, interval = primary.effect, cite_interval(primary)
    blocks = source(f"{primary.path}.blocks")
    if not interval and any(caveat.code == "zero-variance" for caveat in effect.caveats):
        told = ntr(
            "There is no interval: the ratio is the same in <blocks>{count} block</blocks>, so the noise is not known.",
            "There is no interval: the ratio is the same in <blocks>{count} blocks</blocks>, so the noise is not "
            "known.",
            effect.blocks,
        )
        yield say(told, blocks=blocks)
        return
    if not interval:
        told = ntr(
            "There is no interval: <blocks>{count} block</blocks> is too few.",
            "There is no interval: <blocks>{count} blocks</blocks> are too few.",
            effect.blocks,
        )
        yield say(told, blocks=blocks)
        return
    yield say(
        ntr(
            "From <blocks>{count} block</blocks>, the {confidence} interval of the change is {interval}; of intervals "
            "made this way, that share holds the true change.",
            "From <blocks>{count} blocks</blocks>, the {confidence} interval of the change is {interval}; of intervals "
            "made this way, that share holds the true change.",
            effect.blocks,
            **keep("confidence", "interval"),
        ),
        blocks=blocks,
        confidence=primary.cite(format_share(effect.confidence), "confidence"),
        interval=interval,
    )
    p_value = p_of(effect)
    # It is that of a number of blocks that was fixed beforehand, which a rule for stopping has not.
    if p_value is not None and (findings.stopping is None or len(findings.stopping.looks) == 1):
        field = "p_value" if effect.p_adjusted is None else "p_adjusted"
        if p_value < LEAST_P:
            told = tr(
                "If there were no difference, one as large would come up by chance with a probability of "
                "<p>less than {least}</p>.",
                least=format_decimal(LEAST_P, 4),
            )
            yield say(told, p=source(f"{primary.path}.{field}"))
        else:
            yield say(
                tr("If there were no difference, one as large would come up by chance with a probability of {p}."),
                p=primary.cite(format_p(p_value), field),
            )


def _caveats(findings: Findings) -> Iterator[Sentence]:
    grave = [(number, caveat) for number, caveat in enumerate(findings.caveats) if caveat.severity is not Severity.INFO]
    grave.sort(key=lambda item: item[1].severity is not Severity.INVALID)
    if not grave:
        yield (tr("No caveat speaks against relying on it."),)
        return
    for number, caveat in grave[:MOST_CAVEATS]:
        yield say(tr("Caveat: {text}"), text=cite(close(caveat.text), f"caveats[{number}].text"))
    rest = grave[MOST_CAVEATS:]
    if rest:
        told = ntr(
            "There is <rest>{count} further caveat</rest>.",
            "There are <rest>{count} further caveats</rest>.",
            len(rest),
        )
        yield say(told, rest=source(*(f"caveats[{number}].severity" for number, _ in rest)))


CERTAINTY = Teller(name="certainty", title=N_("How sure it is"), tell=_tell)
