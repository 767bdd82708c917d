"""A calibration as plain text of at most 80 columns."""

import textwrap
from pathlib import Path

from pgtrial.analysis.calibration import Calibration, MethodCalibration, shown_label
from pgtrial.cli.table import render_table
from pgtrial.design.calibration import slice_text
from pgtrial.units import format_change, format_duration, format_share

_WIDTH = 80


def render_calibration(found: Calibration, folder: Path) -> str:
    """The table, the recommendation, the lines for [design], what was left out and what is remarkable."""
    times = [format_duration(one.seconds) for one in found.methods[0].forecast.detectable]
    heads = ("method", "blocks", "block", "SD per minute", *times)
    lines = [f"Noise of the control against itself ({found.metric})", ""]
    lines += render_table(heads, [_row(one) for one in found.methods], width=_WIDTH)
    lines += ["", *_fill(_explanation(found)), "", *_fill(_recommendation(found)), "", *_design(found)]
    notes = [("*", f"{shown_label(one)}: {'; '.join(one.warnings)}") for one in found.methods if one.doubtful]
    notes += [("!", f"Not calibrated: {label}: {reason}") for label, reason in found.refused.items()]
    notes += [("!", f"{caveat.text} {caveat.hint}".strip()) for caveat in found.caveats]
    if not found.complete:
        notes.append(("!", "It ended early: only finished methods are shown."))
    if notes:
        lines.append("")
    for mark, note in notes:
        lines += textwrap.wrap(
            note,
            _WIDTH,
            initial_indent=f"  {mark} ",
            subsequent_indent="    ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    return "\n".join([*lines, "", f"calibration: {folder}"]) + "\n"


def _row(one: MethodCalibration) -> tuple[str, ...]:
    low, high = one.sd_per_minute_low, one.sd_per_minute_high
    return (
        shown_label(one) + ("*" if one.doubtful else ""),
        str(one.blocks),
        format_duration(one.block_seconds),
        f"{_percent(one.sd_per_minute)} ({_digits(low)}–{_digits(high)})",
        *("–" if each.change is None else _percent(each.change) for each in one.forecast.detectable),
    )


def _explanation(found: Calibration) -> str:
    one = found.methods[0].forecast
    text = (
        "SD per minute: standard deviation of the log ratio for one minute of testing, all overhead included, with its "
        f"{format_share(found.confidence)} interval. Then: the change found with 80 % probability in that time, by "
        f"runs of {format_duration(one.duration)} as in the file"
    )
    if any(each.duration != one.duration for each in found.methods):
        text += "; those here were shorter, and the SD is assumed to fall with the root of the duration"
    return text + ". Control against control: " + _effects(found)


def _effects(found: Calibration) -> str:
    low = min((one.low for one in found.methods if one.low is not None), default=None)
    high = max((one.high for one in found.methods if one.high is not None), default=None)
    if low is None or high is None:
        return "not known."
    apart = [
        one for one in found.methods if one.low is not None and one.high is not None and not one.low <= 1 <= one.high
    ]
    if apart:
        return f"{', '.join(map(shown_label, apart))} not without an effect, see below."
    return f"no effect in any, with intervals inside {format_change(low)} to {format_change(high)}."


def _recommendation(found: Calibration) -> str:
    advice = found.recommendation
    chosen = next(one for one in found.methods if one.label == advice.label)
    text = f"Recommended: {shown_label(chosen)}"
    if advice.blocks is not None and advice.seconds is not None:
        text += (
            f", {advice.blocks} blocks, about {format_duration(round(advice.seconds))}, for a margin of "
            f"{format_share(found.margin)}"
        )
    text += f": {advice.reason}."
    as_good = [shown_label(one) for one in found.methods if one.label in advice.as_good]
    return text + (f" Its noise cannot be told apart from that of {', '.join(as_good)}." if as_good else "")


def _design(found: Calibration) -> list[str]:
    advice = found.recommendation
    lines = ["  [design]", f'  method = "{advice.method}"']
    if advice.slice is not None:
        lines.append(f'  slice  = "{slice_text(advice.slice)}"')
    if advice.blocks is not None:
        lines.append(f"  blocks = {advice.blocks}")
    return lines


def _fill(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)


def _percent(share: float) -> str:
    return f"{_digits(share)} %"


def _digits(share: float) -> str:
    """Percent with two or three significant digits."""
    percent = share * 100
    return f"{percent:.2f}" if percent < 0.995 else f"{percent:.1f}" if percent < 99.5 else f"{percent:.0f}"
