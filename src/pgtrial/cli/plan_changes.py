"""What a plan says of the host: every change with the value now, and what cannot be had."""

import textwrap
from collections.abc import Sequence
from typing import Any

from pgtrial.engine.preview import Preview

_NOTHING = "Nothing on the host changes: no kernel, file-system, device or network setting."
_BACK = (
    "Each is written to the journal before it is made, verified, and put back after the run, also after Ctrl-C; after "
    'a kill or a reboot "pgtrial restore" puts it back. Running this needs --allow-host-changes.'
)


def host_changes(previews: Sequence[Preview], *, width: int) -> list[str]:
    """Lines of text: each change with its arms, and what cannot be had."""
    arms: dict[str, list[str]] = {}
    for preview in previews:
        if preview.change is not None:
            change = preview.change
            arms.setdefault(f"{change.name}: {change.old_text} → {change.new_text}", []).append(preview.arm)
    lines = [_fill(f"{text} (arm {', '.join(dict.fromkeys(names))})", width) for text, names in arms.items()]
    problems = dict.fromkeys(f"{preview.knob}: {preview.problem}" for preview in previews if preview.problem)
    lines += [_fill(f"cannot be had here: {problem}", width) for problem in problems]
    return [*lines, _fill(_BACK if previews else _NOTHING, width)]


def host_changes_data(previews: Sequence[Preview]) -> list[dict[str, Any]]:
    """The same for --json."""
    return [
        {
            "arm": preview.arm,
            "knob": preview.knob,
            "name": preview.change.name if preview.change else None,
            "now": preview.change.old_text if preview.change else None,
            "wanted": preview.change.new_text if preview.change else None,
            "problem": preview.problem or None,
            "for_all_runs": preview.for_all_runs,
        }
        for preview in previews
    ]


def _fill(text: str, width: int) -> str:
    return textwrap.fill(
        text, width, initial_indent="  ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
