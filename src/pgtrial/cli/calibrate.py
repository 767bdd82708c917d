"""pgtrial calibrate: how noisy each method is on this machine."""

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgtrial.cli import options
from pgtrial.cli.terminal import echo
from pgtrial.errors import PgTrialError, WorkloadError
from pgtrial.units import format_change, format_duration, format_share

if TYPE_CHECKING:
    from pgtrial.design.calibration import CalibrationPlan, Part
    from pgtrial.engine.experiment import Permission
    from pgtrial.experiment_file.load import LoadedExperiment

from pgtrial.analysis.calibration.promise import Calibration, MethodCalibration, shown_label
from pgtrial.cli.text import fill, render_table
from pgtrial.design.calibration import slice_text


@click.command()
@options.file
@click.option(
    "--budget",
    default="10min",
    metavar="TIME",
    callback=options.parsed(options.seconds_above_zero("a budget")),
    help="Total time, including preparing the data. Default: 10min.",
)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
@options.results
@options.work_directory
@options.host_changes
@options.allow_code
@options.allow_files
@options.allow_writes
@options.quiet
def command(
    *,
    file: Path,
    budget: float,
    as_json: bool,
    results: Path,
    work_directory: Path | None,
    host_changes: bool,
    allow_code: bool,
    allow_files: tuple[Path, ...],
    allow_writes: bool,
    quiet: bool,
) -> None:
    """Compare the control of FILE with itself, by every valid method.

    Shows how noisy each is on this machine, what it can detect in how much
    time, and which is recommended. "pgtrial plan" uses it afterwards.

    \b
    Example:
      pgtrial calibrate experiment.toml --budget 30min
    """
    from pgtrial.cli.checked import check_file
    from pgtrial.cli.consent import get_consent, get_write_consent
    from pgtrial.design.calibration import plan_calibration
    from pgtrial.engine.consent import uses_of, writes_of
    from pgtrial.engine.experiment import Permission
    from pgtrial.engine.host_facts import facts_for

    checked = check_file(file, allow_code=allow_code, allow_files=allow_files)
    loaded = checked.loaded
    code = get_consent(uses_of(loaded.experiment, checked.plan.arms, loaded.folder), allowed=allow_code)
    writes = get_write_consent(
        writes_of(loaded.experiment, checked.plan.arms),
        copy_of=loaded.experiment.target.copy_of,
        allowed=allow_writes,
    )
    plan = plan_calibration(loaded.experiment, facts_for(loaded.experiment, loaded.folder), budget=budget)
    permission = Permission(
        work_base=work_directory,
        host_changes=host_changes,
        code=code,
        writes=writes,
        files=(loaded.folder, *allow_files),
    )
    _calibrate(loaded, plan, results, permission=permission, as_json=as_json, quiet=quiet)


def _calibrate(
    loaded: "LoadedExperiment",
    plan: "CalibrationPlan",
    results: Path,
    *,
    permission: "Permission",
    as_json: bool,
    quiet: bool,
) -> None:
    """Do all parts, then say what there is to say; what ended early has finished parts to show, which are not kept for
    other experiments.
    """
    # Here and not when it is needed: Ctrl-C while it is imported would leave a folder without a run.
    import pgtrial.analysis.calibration.summary  # noqa: F401
    from pgtrial.cli.console import ProgressConsole, show_progress
    from pgtrial.engine.calibration import create_calibration_folder, discard_if_empty, run_calibration

    console, created = ProgressConsole(stderr=True), time.time()
    folder = create_calibration_folder(loaded, results)

    def begin(number: int, part: "Part") -> None:
        if not quiet:
            text = f"part {number + 1} of {len(plan.parts)}: {part.name}, {part.blocks} blocks of runs of "
            text += f"{format_duration(part.candidate.duration)}, about {format_duration(round(part.seconds))}"
            console.print(text, highlight=False, markup=False, soft_wrap=True)

    try:
        with show_progress(console, quiet=quiet) as observer:
            run_calibration(loaded, plan, folder, permission=permission, tell=observer, begin=begin)
    except (PgTrialError, KeyboardInterrupt):
        discard_if_empty(folder)
        if folder.is_dir():
            with contextlib.suppress(PgTrialError):  # the first error is the one to be told
                _conclude(loaded, plan, folder, created=created, complete=False, as_json=as_json)
            echo(f'what is finished is kept in "{folder}", and not used by "pgtrial plan"', err=True)
        raise
    if not _conclude(loaded, plan, folder, created=created, complete=True, as_json=as_json):
        raise WorkloadError("no method has enough blocks that differ from each other, so the noise is not known")


def _conclude(
    loaded: "LoadedExperiment",
    plan: "CalibrationPlan",
    folder: Path,
    *,
    created: float,
    complete: bool,
    as_json: bool,
) -> bool:
    """Print the result of the finished parts and keep a complete calibration. Returns whether there was a result."""
    from pgtrial.analysis.calibration.summary import summarize_calibration
    from pgtrial.store.calibrations import calibration_key, keep_calibration, write_calibration

    found = summarize_calibration(folder, plan, complete=complete, created=created)
    if found is None:
        return False
    text = found.model_dump_json(indent=2) + "\n"
    write_calibration(folder, text)
    if complete:
        keep_calibration(calibration_key(loaded), text)
    echo(text if as_json else render_calibration(found, folder), nl=False)
    return True


# A calibration as plain text of at most 80 columns.


def render_calibration(found: Calibration, folder: Path) -> str:
    """The table, the recommendation, the lines for [design], omissions and caveats."""
    times = [format_duration(one.seconds) for one in found.methods[0].forecast.detectable]
    heads = ("method", "blocks", "block", "SD per minute", *times)
    lines = [f"Noise of the control against itself ({found.metric})", ""]
    lines += render_table(heads, [_row(one) for one in found.methods])
    texts = (fill(text, first="", indent="") for text in (_explanation(found), _recommendation(found)))
    lines += [*(line for text in texts for line in ("", text)), "", *_design(found)]
    notes = [("*", f"{shown_label(one)}: {'; '.join(one.warnings)}") for one in found.methods if one.doubtful]
    notes += [("!", f"Not calibrated: {label}: {reason}") for label, reason in found.refused.items()]
    notes += [("!", f"{caveat.text} {caveat.hint}".strip()) for caveat in found.caveats]
    if not found.complete:
        notes.append(("!", "It ended early: only finished methods are shown."))
    if notes:
        lines.append("")
    for mark, note in notes:
        lines.append(fill(note, first=f"  {mark} ", indent="    "))
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
    return f"no effect in any, with intervals inside {format_change(low, high)} to {format_change(high, low)}."


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


def _percent(share: float) -> str:
    return f"{_digits(share)} %"


def _digits(share: float) -> str:
    """Percent with two or three significant digits."""
    percent = share * 100
    return f"{percent:.2f}" if percent < 0.995 else f"{percent:.1f}" if percent < 99.5 else f"{percent:.0f}"
