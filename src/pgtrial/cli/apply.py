"""pgtrial apply: the settings of the arm that won, as the lines that make them last; it changes nothing."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgtrial.cli import options
from pgtrial.cli.terminal import echo
from pgtrial.errors import PgTrialError

if TYPE_CHECKING:
    from pgtrial.findings.findings import Findings
    from pgtrial.knobs.declaration import Lasting
    from pgtrial.model.arm import Arm

_SHELL = "#"  # begins a comment where commands, and not statements, follow
_ON_ONE_LINE = re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029]*")
_PLAIN = re.compile(r"[A-Za-z0-9 _.,:+%/=-]*")  # nothing that a configuration file or a shell reads as more
_ONLY_WORDS = str.maketrans("\\'$;", "⧵’＄，")  # what begins a command, a text or a statement of psql
_ANY = "--arm NAME prints the settings of any arm."


@click.command()
@options.folder
@click.option("--arm", metavar="NAME", help="Print the settings of this arm, whoever won. Default: the arm that won.")
def command(*, folder: Path, arm: str | None) -> None:
    """Print how to make the settings of the winner in result FOLDER permanent.

    It prints statements for psql and lines for sysctl.d, udev, tmpfiles.d and
    systemd, and never applies them. Without --arm, the claim must have been
    supported.

    \b
    Examples:
      pgtrial apply results/first-20260120T101500Z
      pgtrial apply results/first-20260120T101500Z --arm large
    """
    from pgtrial.store.plans import read_plan

    arms = {one.name: one for one in read_plan(folder).arms}
    if arm is not None:
        chosen = _find_arm(arms, arm)  # first: the verdict takes long
        reason = _tell_verdict(folder)
    else:
        reason, winner = _find_winner(folder)
        chosen = _find_arm(arms, winner)
    lines = [*_tell(chosen, reason)]
    for line in lines:  # a comment that goes on in the next line is one no more
        if not _ON_ONE_LINE.fullmatch(line):
            raise PgTrialError(f"the folder has a text that pgtrial does not print: {line!r}")
    echo("\n".join(lines))


def _find_arm(arms: "Mapping[str, Arm]", name: str) -> "Arm":
    if name not in arms:
        raise click.BadParameter(f'there is no arm "{name}". The arms are {", ".join(arms)}', param_hint="--arm")
    return arms[name]


def _tell_verdict(folder: Path) -> str:
    """What whoever names an arm, and does not ask who won, should know."""
    try:
        findings = _read_findings(folder)
    except PgTrialError as err:
        return f"chosen by --arm; there is no verdict: {' '.join(err.message.split())}"
    return f'chosen by --arm; the claim, about "{findings.hypothesis.arm}", is {_state(findings)}'


def _read_findings(folder: Path) -> "Findings":
    from pgtrial.cli.findings import find_findings
    from pgtrial.language import ENGLISH, find_language

    return find_findings(folder, find_language(ENGLISH))


def _state(findings: "Findings") -> str:
    from pgtrial.model.caveat import STOPPED_FOR_HARM

    claim = findings.hypothesis
    if not claim.provisional:
        return str(claim.verdict)
    was_harmed = any(caveat.code == STOPPED_FOR_HARM for caveat in findings.caveats)
    why = ", as a guardrail has ended the experiment" if was_harmed else ""
    return f"{claim.verdict}, but only provisionally{why}"


def _find_winner(folder: Path) -> tuple[str, str]:
    """Why, and the name of the arm whose settings the verdict speaks for."""
    from pgtrial.findings.message import in_english
    from pgtrial.model.observable import find_observable
    from pgtrial.model.verdict import Verdict

    findings = _read_findings(folder)
    claim = findings.hypothesis
    reason = " ".join(in_english(claim.reason).split())
    if claim.verdict is not Verdict.SUPPORTED or claim.provisional:
        raise PgTrialError(f"no arm has won: the claim is {_state(findings)}", detail=reason, hint=_ANY)
    if claim.expect == "different":
        raise PgTrialError("no arm has won: the claim is only that they differ", detail=reason, hint=_ANY)
    known = find_observable(claim.metric)
    if claim.expect in ("lower", "higher") and known is not None and known.metric.better == "neither":
        raise PgTrialError(
            "no arm has won: of the metric neither direction is the better one", detail=reason, hint=_ANY
        )
    lost = claim.expect == "worse" or (
        claim.expect in ("lower", "higher") and known is not None and claim.expect != known.metric.better
    )
    return reason, claim.control if lost else claim.arm


def _tell(arm: "Arm", reason: str) -> Iterator[str]:
    from pgtrial.knobs import KNOBS
    from pgtrial.knobs.postgresql import POSTGRESQL

    left_out: list[str] = []
    found: list[Lasting] = []
    for knob, values in {POSTGRESQL: arm.own_settings, **arm.own_knobs}.items():
        if not values:
            continue
        made = KNOBS[knob].make_last(values) if knob in KNOBS else ()
        if made:
            _check(knob, values)
        else:
            left_out.append(f"{knob} ({', '.join(values)})")
        found += made
    is_sql = all(lasting.comment != _SHELL for lasting in found)
    yield _comment(f'Arm "{arm.name}": {reason}', is_sql=is_sql)
    yield _comment("Nothing has been applied. Review each line, and note the value that it replaces.", is_sql=is_sql)
    for lasting in found:
        yield ""
        yield from _show(lasting)
    common = {name: value for name, value in arm.settings.items() if name not in arm.own_settings}
    if left_out or common:
        yield ""
    if left_out:
        listed = "; ".join(left_out)
        yield _comment(f"Not printed, because no line of a configuration makes it last: {listed}", is_sql=is_sql)
    if common:
        listed = ", ".join(f"{name} = {value}" for name, value in common.items())
        yield _comment(f"The verdict holds with what all arms had: {listed}", is_sql=is_sql)


def _comment(text: str, *, is_sql: bool) -> str:
    """A comment of psql where all is for it. It knows no other one, and would do what such a text says."""
    return f"-- {text}" if is_sql else f"{_SHELL} {text.translate(_ONLY_WORDS)}"


def _show(lasting: "Lasting") -> Iterator[str]:
    yield f"{lasting.comment} {lasting.place}"
    yield from lasting.lines
    if lasting.comment == _SHELL and lasting.then:
        yield f"# then, as root: {' && '.join(lasting.then)}"
    else:
        yield from lasting.then


def _check(knob: str, values: Mapping[str, str]) -> None:
    """Raise PgTrialError for what no experiment could have set: the folder may come from anybody."""
    from pgtrial.knobs import KNOBS
    from pgtrial.knobs.declaration import Scope

    allowed = _ON_ONE_LINE if KNOBS[knob].scope is not Scope.HOST else _PLAIN
    for name, value in values.items():
        if not (allowed.fullmatch(name) and allowed.fullmatch(value)):
            raise PgTrialError(f"{knob} has a value that pgtrial does not print: {value!r}")
        refused = KNOBS[knob].find_wrong_key(name) or KNOBS[knob].find_refused(name, value)
        if refused is not None:
            raise PgTrialError(refused[0], hint=refused[1])
