"""Files: where the speed of a load on files ends, and the numbers that say so."""

from pgtrial.findings.files import FileLimit, FileUse
from pgtrial.findings.findings import Findings
from pgtrial.findings.message import say
from pgtrial.language import N_, tr
from pgtrial.report.cause_words import causes_of, estimate_text, format_value, lead_arms, place_arm, place_level
from pgtrial.report.sections.base import Section
from pgtrial.report.terms import file_limit_word
from pgtrial.report.words import arm_label, level_label

_NOT_COUNTED = N_("not counted")
_NAMES = {
    FileLimit.MEMORY: N_("memory"),
    FileLimit.BACKGROUND: N_("memory, while the kernel writes in the background"),
    FileLimit.THROTTLE: N_("the throttle of writers"),
    FileLimit.DEVICE: N_("the device"),
    FileLimit.UNDETERMINED: N_("undetermined"),
}


def _build(findings: Findings) -> dict[str, object]:
    uses = sorted(
        causes_of(findings).files,
        key=lambda use: (place_level(findings, use.load_level), place_arm(findings, use.arm)),
    )
    return {
        "message": _message(findings, uses),
        "rows": [_row(findings, use) for use in uses],
        "thresholds": [_thresholds(findings, use) for use in uses if use.thresholds is not None],
        "texts": [say(use.text) for use in uses],
        "is_counted": any(use.pauses is not None for use in uses),
    }


def _message(findings: Findings, uses: list[FileUse]) -> str:
    """What limits the control and the claim's arm, at the first load level that both have."""
    arms = lead_arms(findings, (use.arm for use in uses))
    for level in dict.fromkeys(use.load_level for use in uses):
        found = {use.arm: use for use in uses if use.load_level == level}
        if len(arms) > 1 and all(arm in found for arm in arms):
            words = [
                tr("of “{arm}” {limit}", arm=arm_label(findings, arm), limit=tr(_NAMES[found[arm].limit]))
                for arm in arms
            ]
            return tr("What limits the speed is {limits}.", limits=", ".join(words))
    return ""


def _row(findings: Findings, use: FileUse) -> dict[str, str]:
    return {
        "arm": arm_label(findings, use.arm),
        "level": level_label(findings, use.load_level),
        "limit": file_limit_word(use.limit),
        "bandwidth": estimate_text(use.bandwidth, "B/s"),
        "latency": estimate_text(use.latency, "s"),
        "size": format_value(use.size, "B"),
        "memory": format_value(use.memory, "B"),
        "read": estimate_text(use.read_share, "share"),
        "written": estimate_text(use.write_share, "share"),
        "requests": estimate_text(use.device_requests, ""),
        "request_size": format_value(use.request_size, "B"),
        "merged": format_value(use.merged_share, "share"),
        "busy": format_value(use.utilization, "share"),
    }


def _thresholds(findings: Findings, use: FileUse) -> dict[str, str]:
    found = use.thresholds
    assert found is not None  # the caller has looked
    return {
        "arm": arm_label(findings, use.arm),
        "level": level_label(findings, use.load_level),
        "background": _range(found.background),
        "free_run": format_value(found.free_run, "B"),
        "limit": _range(found.limit),
        "dirty": format_value(use.dirty, "B"),
        "above": format_value(use.dirty_share, "share"),
        "pauses": tr(_NOT_COUNTED) if use.pauses is None else format_value(use.pauses, "1/s"),
        "paused": tr(_NOT_COUNTED) if use.paused_share is None else format_value(use.paused_share, "share"),
        "direct": format_value(use.direct_reclaim, "1/s"),
        "kswapd": format_value(use.background_reclaim, "1/s"),
    }


def _range(values: tuple[float, float, float]) -> str:
    lowest, median, highest = (format_value(value, "B") for value in values)
    return median if lowest == highest else tr("{value} ({low} to {high})", value=median, low=lowest, high=highest)


FILES = Section(
    name="files", title=N_("Files"), build=_build, is_shown=lambda findings: bool(causes_of(findings).files)
)
