"""Text to Markdown that shows it as it is: escapes, code, tables and lists, for whatever renders GitHub's Markdown.

Names and texts of an experiment are somebody's input. In what is made here they start no markup and no HTML, link to
nothing, mention nobody, and leave no cell of a table. Source: CommonMark 0.31.2, sections 2.4 and 2.5 (escapes and
entities); GitHub Flavored Markdown 0.29, sections 4.10 (tables) and 6.9 (addresses that become links by themselves).

The summary of findings in it is for the page of a pipeline's run, a pull request or a chat.
"""

import re
from collections.abc import Collection, Sequence

from pgtrial.findings.findings import Effect, Findings
from pgtrial.findings.message import say
from pgtrial.model.caveat import Severity
from pgtrial.report.cause_words import causes_of
from pgtrial.report.gate import as_gated, gate_word, unfinished_text
from pgtrial.report.narrative.worst import worst_text
from pgtrial.report.question_words import (
    ACCEPTANCE_HEADS,
    HOST_HEADS,
    acceptance_rows,
    acceptance_text,
    host_rows,
    hosts_text,
    prediction_text,
    soak_head,
    soak_texts,
)
from pgtrial.report.summary_words import effects_by_level, overall_effects, placebo_text
from pgtrial.report.words import (
    SEVERITY_SYMBOLS,
    VERDICT_SYMBOLS,
    arm_label,
    build_text,
    change_cells,
    claim_text,
    control_of,
    detectable_text,
    effect_word,
    format_p,
    goes_on,
    level_label,
    metric_label,
    p_of,
    plural,
    scenario_latencies,
    sort_caveats,
)
from pgtrial.safe_text import make_visible
from pgtrial.units import format_duration, format_share

# Entities where a backslash would not do everywhere: it does not hide a bar inside code from a table.
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "&#124;"}
_SPECIAL = re.compile(r"[\\`*{}\[\]#~$]|(?<![^\W_])_|_(?![^\W_])")
_ENTITY = re.compile(r"[&<>|]")
# What makes a list, a rule or a heading at the beginning of a line.
_FIRST = re.compile(r"^(\d{1,9}(?=[.)])|[-+=]*(?=[-+=]))(.)(?=\s|$)")
# Where mentions and addresses are cut. They are looked for in the finished text, where a backslash is gone.
_LINKED = re.compile(r"(?<=@)(?=\w)|(?<=[A-Za-z]:)(?=//)|(?<=www)(?=\.)", re.IGNORECASE)
_JOINER = "&#8288;"  # of no width


def escape(text: str) -> str:
    """Inline Markdown that shows ``text`` on one line; hidden characters are written out, line breaks are blanks."""
    line = make_visible(" ".join(text.split()))
    line = _SPECIAL.sub(lambda found: f"\\{found[0]}", line)
    line = _ENTITY.sub(lambda found: _ENTITIES[found[0]], line)
    line = _FIRST.sub(r"\1\\\2", line)
    return _LINKED.sub(_JOINER, line)


def code(text: str) -> str:
    """``text`` in the type of code, on one line."""
    line = make_visible(" ".join(text.split()))
    if not line or re.search(r"[`|]", line):  # a bar would end a cell of a table, a grave accent the code
        return f"<code>{escape(line)}</code>"
    return f"`{line}`"


def heading(level: int, text: str) -> str:
    """A heading of a level from 1 to 6."""
    return f"{'#' * level} {escape(text)}"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, right: Collection[int] = ()) -> list[str]:
    """Lines of a table; cells are Markdown already. The columns whose numbers are in ``right`` are set to the right."""
    widths = [max(3, *(len(row[column]) for row in (heads, *rows))) for column in range(len(heads))]
    rule = ["-" * (width - 1) + ":" if column in right else "-" * width for column, width in enumerate(widths)]
    return [_row(heads, widths, right), _row(rule, widths, right), *(_row(row, widths, right) for row in rows)]


def _row(cells: Sequence[str], widths: Sequence[int], right: Collection[int]) -> str:
    padded = (
        cell.rjust(width) if column in right else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return f"| {' | '.join(padded)} |"


def bullets(items: Sequence[str]) -> list[str]:
    """Lines of a list; items are Markdown already."""
    return [f"- {item}" for item in items]


_RIGHT = (2, 3, 4)  # the columns of numbers


def render_summary(findings: Findings, *, gate: str = "") -> str:
    """Verdict, effects and caveats; ends in a line feed. Names and texts of the experiment are escaped.

    ``gate`` is told where it has a name of its own.
    """
    of_gate = [f"Gate: {code(gate)}"] if gate else []
    if findings.soak is not None:
        texts = [escape(text) for text in soak_texts(findings)]
        head = heading(2, f"{findings.experiment.name}: {soak_head(findings.soak)}")
        parts = [[head], of_gate, bullets(texts), _unfinished(findings), _caveats(findings)]
        return "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"
    findings = as_gated(findings)  # the table says of the claim what the heading does
    verdict = findings.hypothesis.verdict
    parts = [
        [heading(2, f"{VERDICT_SYMBOLS[verdict]} {findings.experiment.name}: {gate_word(findings)}")],
        of_gate,
        [f"**{escape(say(findings.hypothesis.reason))}**"],
        [escape(worst_text(findings))],
        [escape(build_text(findings))],
        [f"Claim: {escape(claim_text(findings))}"],
        _unfinished(findings),
        _hosts(findings),
        _acceptance(findings),
        _effects(findings),
        _by_level(findings),
        _why(findings),
        _trust(findings),
        _caveats(findings),
    ]
    return "\n\n".join("\n".join(lines) for lines in parts if any(lines)) + "\n"


def _unfinished(findings: Findings) -> list[str]:
    missing = unfinished_text(findings)
    if not missing:
        return []
    how = f"{code('pgtrial resume')} goes on" if goes_on(findings) else "a guardrail has ended it"
    return [f"Not finished: {missing}; {how}."]


def _hosts(findings: Findings) -> list[str]:
    if findings.hosts is None:
        return []
    rows = [[escape(cell) for cell in row] for row in host_rows(findings)]
    lines = [f"| {' | '.join(row)} |" for row in (HOST_HEADS, ["---"] * len(HOST_HEADS), *rows)]
    return [escape(hosts_text(findings)), "", *lines, "", escape(prediction_text(findings.hosts))]


def _acceptance(findings: Findings) -> list[str]:
    if not findings.acceptance:
        return []
    rows = [[escape(cell) for cell in row] for row in acceptance_rows(findings)]
    heads = (ACCEPTANCE_HEADS, ["---"] * len(ACCEPTANCE_HEADS))
    lines = [f"| {' | '.join(row)} |" for row in (*heads, *rows)]
    return [escape(acceptance_text(findings)), "", *lines]


def _effects(findings: Findings) -> list[str]:
    effects = overall_effects(findings)
    if not effects:
        return ["No effect could be estimated."]
    asked = findings.hypothesis
    head = f"Effects against {code(control_of(findings))}, margin ±{format_share(asked.margin)}:"
    names = [_metric(effect) for effect in effects]
    lines = [head, "", *_table(findings, "metric", effects, names)]
    if not (by_scenario := scenario_latencies(findings)):
        return lines
    title = "Mean latency by scenario (throughput is the same of all, because their shares are fixed):"
    scenarios = [code(effect.scenario or "") for effect in by_scenario]
    return [title, "", *_table(findings, "scenario", by_scenario, scenarios), "", *lines]


def _metric(effect: Effect) -> str:
    label = escape(metric_label(effect.metric))
    return label if effect.scenario is None else f"{label} of {code(effect.scenario)}"


def _by_level(findings: Findings) -> list[str]:
    effects = effects_by_level(findings)
    if len(findings.experiment.levels) < 2 or not effects:
        return []
    names = [escape(level_label(findings, effect.load_level)) for effect in effects]
    head = f"By load level, {_metric(effects[0])}:"
    return [head, "", *_table(findings, "load", effects, names)]


def _table(findings: Findings, what: str, effects: list[Effect], names: list[str]) -> list[str]:
    share = format_share(findings.hypothesis.confidence)
    rows = [
        (
            code(arm_label(findings, effect.arm)),
            name,
            *map(escape, change_cells(effect.ratio, effect.low, effect.high)),
            escape(format_p(p_of(effect))),
            escape(effect_word(findings, effect)),
        )
        for effect, name in zip(effects, names, strict=True)
    ]
    return table(("arm", what, "change", f"{share} interval", "p", "decision"), rows, right=_RIGHT)


def _why(findings: Findings) -> list[str]:
    text = causes_of(findings).text
    return [f"Why: {escape(say(text))}"] if text else []


def _trust(findings: Findings) -> list[str]:
    experiment = findings.experiment
    said = [plural(experiment.blocks_complete, "block")]
    if experiment.started is not None and experiment.ended is not None:
        said.append(format_duration(experiment.ended - experiment.started))
    if findings.noise.detectable is not None:
        said.append(f"detectable effect {detectable_text(findings)}")
    return [f"{escape(', '.join(said))}. {escape(placebo_text(findings))}"]


def _caveats(findings: Findings) -> list[str]:
    """The grave ones; how many others there are."""
    caveats = sort_caveats(findings.caveats)
    grave = [caveat for caveat in caveats if caveat.severity is not Severity.INFO]
    items = [
        f"{SEVERITY_SYMBOLS[caveat.severity]} **{caveat.severity}**: {escape(caveat.text)}"
        + (f" *{escape(caveat.hint)}*" if caveat.hint else "")
        for caveat in grave
    ]
    if len(caveats) > len(grave):
        items.append(f"{plural(len(caveats) - len(grave), 'remark')} more in the report")
    return ["Caveats:", "", *bullets(items)] if items else []
