"""A model's text for people: labelled as such, every fact in it with its source, nothing in it executed."""

import re
from dataclasses import dataclass

from pgtrial.language import ntr, tr
from pgtrial.narrate.check import InsertedValue
from pgtrial.narrate.facts import ToldFact
from pgtrial.report.markdown import bullets, escape, heading
from pgtrial.report.text import wrap_lines
from pgtrial.safe_text import make_visible

_BAR = "| "
_STRUCTURE = re.compile(r"\s*(?:(?P<heading>#{1,6})\s+|(?P<item>[-*•]\s+))(?P<rest>\S.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelText:
    """What a model said, with the facts that pgtrial put into it, in their order."""

    model: str
    text: str
    placed: tuple[tuple[InsertedValue, ToldFact], ...]
    is_cut: bool = False

    @property
    def label(self) -> str:
        return tr("Text of a model ({model}), not of pgtrial", model=make_visible(self.model))

    @property
    def summary(self) -> str:
        """Who vouches for what."""
        text = ntr(
            "pgtrial put {count} computed fact into it. The words between are the model's: there are no numbers and "
            "comparisons among them, but what they say with the facts is not checked.",
            "pgtrial put {count} computed facts into it. The words between are the model's: there are no numbers and "
            "comparisons among them, but what they say with the facts is not checked.",
            len(self.placed),
        )
        if self.is_cut:
            text += " " + tr("The model's answer was cut off because it became too long.")
        return text

    @property
    def sources(self) -> tuple[str, ...]:
        """Each fact once, with its place in findings.json."""
        return tuple(dict.fromkeys(f"{fact.value} ← {fact.path}" for _, fact in self.placed))


def write_model_text(said: ModelText, *, width: int = 80, with_sources: bool = False) -> str:
    """For a terminal. Each line of the model's begins with a bar, so that none can pass for one of pgtrial's."""
    lines = [make_visible(f"== {said.label} =="), *wrap_lines(said.summary, width), ""]
    for line in said.text.splitlines():
        lines += wrap_lines(line.expandtabs(4), width, indent=_BAR) or [_BAR.rstrip()]
    if with_sources:
        lines += ["", *(part for source in said.sources for part in wrap_lines(source, width, indent="    ", first=""))]
    end = tr("End of the model's text")
    return "\n".join([*lines, f"== {end} =="])


def write_model_markdown(said: ModelText, *, with_sources: bool = False) -> str:
    """As a quotation; HTML, links and images of the model's are shown as they stand and not followed."""
    quoted = [f"> {_markdown_line(line)}".rstrip() for line in said.text.splitlines()]
    sources = bullets([escape(source) for source in said.sources]) if with_sources else []
    parts = [[heading(2, said.label)], [escape(said.summary)], quoted, sources]
    return "\n\n".join("\n".join(lines) for lines in parts if lines)


def model_data(said: ModelText) -> dict[str, object]:
    """For JSON: the finished text, with the place of each fact in it and in the findings."""
    return {
        "model": said.model,
        "is_model_text": True,
        "text": said.text,
        "is_cut": said.is_cut,
        "facts": [
            {"id": fact.id, "path": fact.path, "start": value.start, "end": value.end} for value, fact in said.placed
        ],
    }


def _markdown_line(line: str) -> str:
    """A heading of the model's is written bold, below those of the page; an item of a list stays one."""
    found = _STRUCTURE.match(line)
    if found is None:
        return escape(line)
    if found["heading"]:
        return f"**{escape(found['rest'])}**"
    return f"{found['item']}{escape(found['rest'])}"
