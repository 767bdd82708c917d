"""How far a running experiment is, in words."""

from pgtrial.engine.live.view import LiveView
from pgtrial.units import format_count, format_duration


def progress_parts(view: LiveView) -> list[str]:
    """What is being done, in a few words each: run k of n, block, arm, phase, current tps."""
    if view.state == "stopping":
        return ["stopping: ending the load and the server, removing the data …"]
    if view.run is None:
        return [f"preparing: {view.step}"]
    runs = f"run {view.run}" if view.run == view.last_run else f"runs {view.run} to {view.last_run}"
    arms = view.arms_at_work
    parts = [f"{runs} of {view.runs}", f"block {view.block}", f"arm{'' if len(arms) == 1 else 's'} {', '.join(arms)}"]
    if view.attempt > 1:
        parts.append(f"repeat {view.attempt - 1}")
    if view.phase:
        parts.append(_phase(view))
    if view.tps is not None:
        parts.append(f"{format_count(view.tps)} tps")
    return parts


def time_left(view: LiveView) -> str:
    """ "3 min 20 s left"; "" where that is not known."""
    if view.state == "stopping" or view.remaining is None:
        return ""
    return f"{format_duration(round(view.remaining))} left"


def _phase(view: LiveView) -> str:
    text = f"{view.phase} {view.level}" if view.level else view.phase
    if view.phase_length is not None:
        text += f" {min(view.phase_spent, view.phase_length):.0f}/{view.phase_length:.0f} s"
    return text
