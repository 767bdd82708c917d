"""Findings to one HTML file that opens without a network, in the language in use."""

import hashlib
import json
import re
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import vl_convert
from jinja2 import BytecodeCache, Environment, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket
from markupsafe import Markup

from pgtrial.findings.findings import Findings
from pgtrial.language import ntr, spoken, tr
from pgtrial.model.caveat import Severity
from pgtrial.report.markup import code, ntr_markup, ptr_markup, tie_markup, tr_markup
from pgtrial.report.question_words import soak_head
from pgtrial.report.sections import shown_sections
from pgtrial.report.terms import hypothesis_word, script_words, severity_word
from pgtrial.report.words import SEVERITY_SYMBOLS
from pgtrial.safe_files import write_file
from pgtrial.safe_text import make_visible
from pgtrial.store.cache import cached_text, keep, load
from pgtrial.units import format_duration

_HERE = Path(__file__).parent
_SNIPPET = "window.vegaEmbed = vegaEmbed;"  # what the page needs of the script
# Where the menu of vega-embed would lead; the page has no menu, and names no site.
_EDITOR = "https://vega.github.io/editor/"


def render_html(findings: Findings) -> str:
    """The whole page, with its style, charts and scripts inside."""
    environment = template_environment()
    sections = [
        {
            "name": section.name,
            "title": tr(section.title),
            "is_open": section.is_open(findings),
            "body": Markup(environment.get_template(f"sections/{section.name}.html").render(section.build(findings))),
        }
        for section in shown_sections(findings)
    ]
    return environment.get_template("page.html").render(
        findings=findings,
        sections=sections,
        language=spoken(),
        words=script_words(),
        verdict=hypothesis_word(findings.hypothesis),
        subtitle=_subtitle(findings),
        style=page_style(),
        library=Markup(chart_library()),
        scripts=page_scripts(),
    )


def page_style() -> Markup:
    return Markup((_HERE / "style.css").read_text(encoding="utf-8"))


def page_scripts() -> list[Markup]:
    """Tables, then what charts have in common over time, then the charts: they tell the others when they are drawn."""
    return [Markup((_HERE / name).read_text(encoding="utf-8")) for name in ("tables.js", "times.js", "page.js")]


def write_html(findings: Findings, path: Path) -> None:
    """Put the page at ``path``: whole, or not at all. OSError where that cannot be written."""
    write_file(path, render_html(findings))


def script_json(value: Any) -> Markup:
    """JSON that cannot end the script element it stands in, whatever names it holds."""
    text = json.dumps(_show_controls(value), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _show_controls(value: Any) -> Any:
    """The same value with hidden characters in its strings written out; line breaks stay."""
    if type(value) is str:  # not Markup, which has been made here
        return make_visible(value, keep="\n\t")
    if isinstance(value, dict):
        return {key: _show_controls(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_show_controls(item) for item in value]
    return value


class _CompiledTemplates(BytecodeCache):
    """Templates as Python code, for the next process: putting them together takes longer than filling them in.

    The code of a template also depends on how the environment is made, which is said in this file.
    """

    def __init__(self) -> None:
        made_by = Path(__file__).read_bytes() + version("jinja2").encode()
        self._made_by = hashlib.sha256(made_by).digest()

    def load_bytecode(self, bucket: Bucket) -> None:
        kept = load(self._name_of(bucket))
        if kept is not None and kept.startswith(self._made_by):
            bucket.bytecode_from_string(kept.removeprefix(self._made_by))

    def dump_bytecode(self, bucket: Bucket) -> None:
        keep(self._name_of(bucket), self._made_by + bucket.bytecode_to_string())

    def _name_of(self, bucket: Bucket) -> str:
        return f"template-{bucket.key}"  # of its path; the bucket itself compares the text


@cache
def template_environment() -> Environment:
    """The environment of every page: texts are escaped, control characters shown; a missing name is an error."""
    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_show_controls,
        trim_blocks=True,
        lstrip_blocks=True,
        bytecode_cache=_CompiledTemplates(),
    )
    environment.globals |= {"tr": tr_markup, "ntr": ntr_markup, "ptr": ptr_markup}
    environment.filters["script_json"] = script_json
    environment.filters["tie"] = tie_markup
    environment.filters["code"] = code
    environment.filters["severity"] = lambda severity: severity_word(Severity(severity))
    environment.filters["symbol"] = lambda severity: SEVERITY_SYMBOLS[Severity(severity)]
    return environment


@cache
def chart_library() -> str:
    """Vega, Vega-Lite and vega-embed as one script; "<" before what an HTML parser would react to is escaped.

    Putting the script together takes longer than all the rest of a report.
    """
    bundle = cached_text(
        f"vega-{version('vl-convert-python')}-{hashlib.sha256(_SNIPPET.encode()).hexdigest()[:8]}.js",
        lambda: vl_convert.javascript_bundle(_SNIPPET),
    )
    return re.sub(r"<(?=/script|script|!--)", r"\\x3c", bundle.replace(_EDITOR, ""), flags=re.IGNORECASE)


def _subtitle(findings: Findings) -> str:
    experiment = findings.experiment
    parts = []
    if experiment.started is not None:
        parts.append(datetime.fromtimestamp(experiment.started, UTC).strftime("%Y-%m-%d %H:%M UTC"))
    if experiment.started is not None and experiment.ended is not None:
        parts.append(tr("took {time}", time=format_duration(experiment.ended - experiment.started)))
    parts.append(ntr("{count} arm", "{count} arms", len(experiment.arms)))
    if findings.soak is not None:
        return " · ".join((*parts, soak_head(findings.soak)))
    parts.append(
        ntr(
            "{complete} of {count} block complete",
            "{complete} of {count} blocks complete",
            experiment.blocks_planned,
            complete=experiment.blocks_complete,
        )
    )
    done = sum(arm.runs_done for arm in experiment.arms)
    parts.append(ntr("{count} run counted", "{count} runs counted", done))
    return " · ".join(parts)
