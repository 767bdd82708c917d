"""A model's text for people: labelled as such, every doubtful number marked and explained, nothing in it executed."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from pgtrial.narrate.check import Checked
from pgtrial.report.markdown import bullets, escape, heading
from pgtrial.report.text import wrap_lines
from pgtrial.report.words import make_visible, plural

_OPEN = "[?"  # begins a mark; a model's own is spelled otherwise
_BAR = "| "
_STRUCTURE = re.compile(r"\s*(?:(?P<heading>#{1,6})\s+|(?P<item>(?:[-*•]|\d{1,2}[.)])\s+))(?P<rest>\S.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelText:
    """What a model said, and how it was checked."""

    model: str
    checked: Checked
    is_cut: bool = False

    @property
    def label(self) -> str:
        return f"Text of a model ({make_visible(self.model)}), not of pgtrial"

    @property
    def summary(self) -> str:
        """How many numbers were looked at, and how many are marked."""
        marked = len(self.checked.marks)
        verb = "was" if self.checked.count == 1 else "were"
        text = f"{plural(self.checked.count, 'number')} in it {verb} checked against the computed facts: "
        if not marked:
            text += "all are there." if self.checked.count else "there is none."
        else:
            text += f"{marked} {'is' if marked == 1 else 'are'} not borne out, and marked {_OPEN}]."
        if self.is_cut:
            text += " The model's answer was cut off because it became too long."
        return f"{text} Only numbers are checked, not what is said with them."

    @property
    def reasons(self) -> tuple[str, ...]:
        """One line for each mark, in the order of their numbers."""
        return tuple(
            f"{_OPEN}{number}] {mark.mention.text.strip()}: {mark.reason}"
            for number, mark in enumerate(self.checked.marks, start=1)
        )


def write_model_text(said: ModelText, *, width: int = 80) -> str:
    """For a terminal. Each line of the model's begins with a bar, so that none can pass for one of pgtrial's."""
    marked = _mark(said.checked, lambda number: f" {_OPEN}{number}]")
    lines = [make_visible(f"== {said.label} =="), *wrap_lines(said.summary, width), ""]
    for line in marked.splitlines():
        lines += wrap_lines(line.expandtabs(4), width, indent=_BAR) or [_BAR.rstrip()]
    lines += ["", *(part for reason in said.reasons for part in wrap_lines(reason, width, indent="    ", first=""))]
    return "\n".join([*lines, "== End of the model's text =="])


def write_model_markdown(said: ModelText) -> str:
    """As a quotation; HTML, links and images of the model's are shown as they stand and not followed."""
    marked = _mark(said.checked, lambda number: f" {_OPEN}{number}]")
    quoted = [f"> {_markdown_line(line)}".rstrip() for line in marked.splitlines()]
    parts = [[heading(2, said.label)], [escape(said.summary)], quoted, bullets([escape(text) for text in said.reasons])]
    return "\n\n".join("\n".join(lines) for lines in parts if lines)


def model_data(said: ModelText) -> dict[str, object]:
    """For JSON: the text as it came, with the place and reason of each mark."""
    return {
        "model": said.model,
        "is_model_text": True,
        "text": said.checked.text,
        "is_cut": said.is_cut,
        "numbers": said.checked.count,
        "marks": [
            {
                "text": mark.mention.text,
                "start": mark.mention.start,
                "end": mark.mention.end,
                "reason": mark.reason,
            }
            for mark in said.checked.marks
        ],
    }


def _mark(checked: Checked, write: Callable[[int], str]) -> str:
    """The text with a mark behind each doubtful number."""
    parts, at = [], 0
    for number, mark in enumerate(checked.marks, start=1):
        end = at + len(checked.text[at : mark.mention.end].rstrip())
        parts += [_spell(checked.text[at:end]), write(number)]
        at = end
    return "".join([*parts, _spell(checked.text[at:])])


def _spell(text: str) -> str:
    """Without anything that looks like a mark."""
    return text.replace(_OPEN, "[ ?")


def _markdown_line(line: str) -> str:
    """A heading of the model's is written bold, below those of the page; an item of a list stays one."""
    found = _STRUCTURE.match(line)
    if found is None:
        return escape(line)
    if found["heading"]:
        return f"**{escape(found['rest'])}**"
    return f"{found['item']}{escape(found['rest'])}"
