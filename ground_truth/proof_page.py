"""What is kept of the long runs, as tables of docs/ground-truth.md."""

from collections import Counter
from collections.abc import Mapping, Sequence

from ground_truth.cases import UNSEEN, Case, read_cases
from ground_truth.kept import (
    CONTROLS,
    MEASURED,
    PROOFS,
    RULES,
    MeasuredRecord,
    ProofRecord,
    RulesRecord,
    Share,
    find_counting,
    read_counting,
    read_kept,
)
from ground_truth.page import PAGE, put_between, table
from ground_truth.predictions import NOMINAL, WISHED, Scored, coverage, read_predictions, score
from ground_truth.proving import A_THIRD_LESS, NARROW, Judgement, Proved, Sum, judge_kept, right_names, tally
from ground_truth.scoring import Outcome, State

_MISSING = "–"
_HEAD = ("change", "case", "what changes", "predicted (90 %)", "measured (95 %)", "holds")


def marks_of(option: str) -> tuple[str, str]:
    """Between which the page has what came out of a command."""
    command = f"python -m ground_truth {option}"
    return f"<!-- begin: written by {command} -->", f"<!-- end: written by {command} -->"


def publish() -> None:
    """Write the tables of all that is kept into the page."""
    PAGE.write_text(fill(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def fill(page: str) -> str:
    """The page with the tables of all that is kept."""
    seen, unseen = read_cases(), read_cases(UNSEEN)
    rules = read_kept(RULES, RulesRecord)
    proofs, controls = read_kept(PROOFS, ProofRecord), read_kept(CONTROLS, ProofRecord)
    counting = read_counting(PROOFS, ProofRecord, {case.name: case.digest for case in (*seen, *unseen)})
    scored = score(read_predictions([*seen, *unseen]), counting, read_kept(MEASURED, MeasuredRecord))
    texts = {
        "--limits": render_proofs(seen, proofs, controls),
        "--unseen": render_unseen(unseen, rules, proofs, controls),
        "--predict": render_predictions(scored),
    }
    for option, text in texts.items():
        begin, end = marks_of(option)
        page = put_between(page, text, begin=begin, end=end)
    return page


def render_proofs(
    cases: Sequence[Case], proofs: Mapping[str, Sequence[ProofRecord]], controls: Mapping[str, Sequence[ProofRecord]]
) -> str:
    """``proofs``, ``controls``: all attempts at each."""
    judged = judge_kept(cases, proofs, controls)
    if not judged:
        return f"None of the {len(cases)} cases has been judged by experiment yet."
    parts = [_proof_summary(judged, len(cases)), proof_table(judged)]
    return "\n\n".join([*parts, *_remarks(judged)])


def _remarks(judged: Sequence[Outcome | Judgement]) -> tuple[str, ...]:
    lines = [f"- {each.case.name}: {each.state}; {each.reason}" for each in judged if each.reason]
    lines += [
        f"- {each.case.name}: {each.attempts} ledgers were made of it; the first that has a result counts"
        for each in judged
        if isinstance(each, Judgement) and each.attempts > 1
    ]
    return ("\n".join(lines),) if lines else ()


def _proof_summary(judged: Sequence[Judgement], planned: int) -> str:
    varied = tally([each for each in judged if each.case.proof.is_varied])
    missing = tally([each for each in judged if not each.case.proof.is_varied])
    text = f"{len(judged)} of {planned} cases have been judged. "
    if varied.cases:
        text += (
            f"Of {varied.cases} whose time can be made longer, the right one is the largest in {varied.right}, and its "
            f"interval excludes those of the second and of what is missing in {varied.sure}. The sum covers 1 within "
            f"±{NARROW} in {varied.covered} ({varied.lacking} of these would cover {A_THIRD_LESS} as well); "
            f"{varied.wide} are wider and tell nothing. "
        )
    if missing.cases:
        text += (
            f"Of {missing.cases} whose time nothing makes longer, what is missing from 1 is the largest in "
            f"{missing.right + missing.unrefuted}. In {missing.right} of these the sum of the same load without the "
            f"cause covers 1, so that times were made longer: they are right, surely in {missing.sure}. "
        )
    return text + _places([each.record for each in judged])


def _places(records: Sequence[ProofRecord]) -> str:
    servers = sorted({record.server for record in records if record.server})
    hours = sum(record.seconds for record in records) / 3600
    machines = "; ".join(sorted({record.machine for record in records}))
    return f"PostgreSQL {' and '.join(servers) or 'unknown'}; {machines}; {hours:.1f} h."


def proof_table(judged: Sequence[Judgement]) -> str:
    head = [
        *("case", "truth", "largest", "second", "sum", "half of its interval", "covers 1"),
        *(f"and {A_THIRD_LESS}", "memory", "blocks", "result"),
    ]
    return table(head, [_proof_row(each) for each in judged])


def _proof_row(judged: Judgement) -> list[str]:
    record = judged.record
    memory = next((share for share in record.memory if share.name == judged.case.proof.memory), None)
    return [
        judged.case.name,
        right_names(judged.case)[0],
        _share(judged.largest),
        _share(judged.second),
        _interval(record.total) if record.total else _MISSING,
        _MISSING if judged.half is None else f"{judged.half:.2f}",
        _MISSING if judged.sum is None else str(judged.sum) if judged.sum is Sum.COVERS else f"**{judged.sum}**",
        _MISSING if judged.sum is not Sum.COVERS else "yes" if judged.lacks_power else "no",
        _share(memory),
        f"{record.blocks} {record.method}".strip() if record.blocks else _MISSING,
        f"**{judged.state}**" if judged.state in (Proved.WRONG, Proved.FAILED) else str(judged.state),
    ]


def _share(share: Share | None) -> str:
    return _MISSING if share is None else f"{share.name} {_interval(share)}"


def _interval(share: Share) -> str:
    if share.low is None or share.high is None:
        return f"{share.value:.2f}"
    return f"{share.value:.2f} ({share.low:.2f} to {share.high:.2f})"


def render_unseen(
    cases: Sequence[Case],
    rules: Mapping[str, Sequence[RulesRecord]],
    proofs: Mapping[str, Sequence[ProofRecord]],
    controls: Mapping[str, Sequence[ProofRecord]],
) -> str:
    """Rules and experiments side by side: how often each is right, of what has been run. All have all attempts."""
    counting = {case.name: find_counting(rules.get(case.name, ()), case.digest) for case in cases}
    outcomes = {case.name: record.outcome(case) for case in cases if (record := counting[case.name]) is not None}
    judged = {each.case.name: each for each in judge_kept(cases, proofs, controls)}
    run = [case for case in cases if case.name in outcomes or case.name in judged]
    if not run:
        return f"None of the {len(cases)} unseen cases has been run yet."
    rows = [
        [
            case.name,
            case.title,
            str(case.expected[0]),
            _by_rules(outcomes.get(case.name)),
            right_names(case)[0],
            _by_experiment(judged.get(case.name)),
        ]
        for case in run
    ]
    head = ["case", "what it is", "truth", "by rules", "time of it", "by experiment"]
    parts = [_unseen_summary(cases, run, list(outcomes.values()), list(judged.values())), table(head, rows)]
    if judged:
        parts.append(proof_table(list(judged.values())))
    return "\n\n".join([*parts, *_remarks([*outcomes.values(), *judged.values()])])


def _unseen_summary(
    cases: Sequence[Case], run: Sequence[Case], outcomes: Sequence[Outcome], judged: Sequence[Judgement]
) -> str:
    made = [each for each in outcomes if is_there(each)]
    named = sum(is_named(each) for each in made)
    (often, count), *_ = Counter(str(case.expected[0]) for case in run).most_common(1)
    found = tally(judged)
    unrefuted = f", and {found.unrefuted} are not refuted" if found.unrefuted else ""
    return (
        f"{len(run)} of {len(cases)} have been run. By rules, the right name was found in {named} of {len(made)} whose "
        f"cause was there; whoever always says “{often}” is right in {count} of {len(run)}. By experiment, the "
        f"right time is the largest in {found.right} of {found.cases}, surely in {found.sure}{unrefuted}. "
        f"{_places([each.record for each in judged])}"
    )


def is_there(outcome: Outcome) -> bool:
    """Whether the cause was there, and the analysis had its say."""
    return outcome.state not in (State.NOT_MADE, State.FAILED)


def is_named(outcome: Outcome) -> bool:
    return is_there(outcome) and outcome.found in outcome.case.expected


def _by_rules(outcome: Outcome | None) -> str:
    if outcome is None:
        return _MISSING
    if not is_there(outcome):
        return str(outcome.state)
    return str(outcome.found) if is_named(outcome) else f"**{outcome.found or _MISSING}**"


def _by_experiment(judged: Judgement | None) -> str:
    if judged is None or judged.largest is None:
        return _MISSING if judged is None else str(judged.state)
    if judged.state is Proved.WRONG:
        return f"**{judged.largest.name}**"
    doubts = {Proved.UNSURE: ", not surely", Proved.NOT_REFUTED: ", not refuted"}
    return judged.largest.name + doubts.get(judged.state, "")


def render_predictions(scored: Sequence[Scored]) -> str:
    held, judged, low, high = coverage(scored)
    said = [each for each in scored if each.said is not None]
    if not said:
        return f"Nothing has been predicted yet; {len(scored)} changes are listed."
    text = f"Of {len(scored)} listed changes {len(said)} were predicted and {judged} measured after that. "
    if judged:
        text += (
            f"{held} of {judged} {NOMINAL:.0%} intervals hold, {held / judged:.0%} ({low:.0%} to {high:.0%}); "
            f"{WISHED[0]:.0%} to {WISHED[1]:.0%} are wished."
        )
    return f"{text.strip()}\n\n{table(_HEAD, [_prediction_row(each) for each in said])}"


def _prediction_row(scored: Scored) -> list[str]:
    prediction, measured = scored.prediction, scored.measured
    factors = ", ".join(f"{name} × {factor:.3g}" for name, factor in prediction.factors.items())
    found = _MISSING
    if measured is not None:
        found = measured.reason or _ratio(measured.ratio, measured.low, measured.high)
    holds = _MISSING if scored.holds is None else "yes" if scored.holds else "**no**"
    said = scored.said
    return [
        prediction.name,
        prediction.case,
        factors,
        _MISSING if said is None else _ratio(said.value, said.low, said.high),
        found,
        holds,
    ]


def _ratio(value: float | None, low: float | None, high: float | None) -> str:
    if value is None:
        return _MISSING
    return f"{value:.3f}" if low is None or high is None else f"{value:.3f} ({low:.3f} to {high:.3f})"
