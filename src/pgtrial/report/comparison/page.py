"""A comparison to one HTML file that opens without a network, in the style of an experiment's report."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from markupsafe import Markup

from pgtrial.findings.comparison import ExperimentComparison, LogComparison
from pgtrial.report.comparison.base import Part
from pgtrial.report.comparison.experiments import EXPERIMENT_PARTS
from pgtrial.report.comparison.logs import LOG_PARTS
from pgtrial.report.html import chart_library, page_scripts, template_environment
from pgtrial.report.words import plural

_REPORT = Path(__file__).parents[1]  # where style and script of the report are
Comparison = TypeVar("Comparison", ExperimentComparison, LogComparison)


def render_comparison(found: ExperimentComparison | LogComparison) -> str:
    """The whole page, with its style, charts and scripts inside."""
    if isinstance(found, ExperimentComparison):
        names = ", ".join(dict.fromkeys(one.name for one in found.experiments))
        title = f"{plural(len(found.experiments), 'experiment')} compared: {names}"
        return _render(found, EXPERIMENT_PARTS, title=title)
    title = f"pgbench logs compared: {', '.join(side.key for side in found.sides)}"
    return _render(found, LOG_PARTS, title=title)


def write_comparison(found: ExperimentComparison | LogComparison, path: Path) -> None:
    """Put the page at ``path``: whole, or not at all. OSError where that cannot be written."""
    part = path.with_name(f"{path.name}.part")
    part.write_text(render_comparison(found), encoding="utf-8")
    part.replace(path)


def _render(found: Comparison, parts: Sequence[Part[Comparison]], *, title: str) -> str:
    environment = template_environment()
    sections = [
        {
            "name": part.name,
            "title": part.title,
            "body": Markup(environment.get_template(f"comparison/{part.template}").render(part.build(found))),
        }
        for part in parts
        if part.is_shown(found)
    ]
    return environment.get_template("comparison/page.html").render(
        title=title,
        version=found.pgtrial_version,
        sections=sections,
        style=Markup((_REPORT / "style.css").read_text(encoding="utf-8")),
        library=Markup(chart_library()),
        scripts=page_scripts(),
    )
