"""Checks of what surrounds the load: settings, machine, and what was noted while measuring."""

from collections.abc import Iterator, Mapping, Sequence

from pgtrial.analysis.caveats import as_finding
from pgtrial.analysis.findings import CaveatFinding
from pgtrial.analysis.validity.assessment import Assessment
from pgtrial.analysis.world.fingerprint import FactDifference, Kind, compare_facts
from pgtrial.analysis.world.settings import ABSENT, find_of_server, find_undeclared
from pgtrial.language import mark, ntr, tr
from pgtrial.model.caveat import Severity

_MOST_NAMED = 5  # facts or settings in one sentence; all of them are in the table of differences
# Settings of a cluster or of a build that are no part of what a version is, and that cost or give throughput.
_OF_BUILD = frozenset(
    {"block_size", "data_checksums", "debug_assertions", "segment_size", "wal_block_size", "wal_segment_size"}
)
_VERSION = frozenset({"server_version", "server_version_num"})
# What is said of facts that differ: code, sentence, hint.
_SAID = {
    Kind.ARMS: (
        "undeclared-difference",
        mark("The arms did not run under the same conditions, although none declares it: {facts}."),
        mark("Declare the difference in the arms, or undo it, and run again."),
    ),
    Kind.RUNS: (
        "fingerprint-differs",
        mark("Not the same in all runs: {facts}."),
        mark("Run again on a machine that nobody changes meanwhile."),
    ),
    Kind.WITHIN: (
        "fingerprint-changed",
        mark("Changed while the load was on: {facts}."),
        mark("Find out what changes it under load, and run again."),
    ),
}


def check_settings(assessment: Assessment) -> Iterator[CaveatFinding]:
    """A setting that differs without having been declared may be the cause of any effect."""
    for difference in find_undeclared(assessment.evidence):
        values = ", ".join(f"{arm}: {value}" for arm, value in difference.values.items())
        yield CaveatFinding(
            code="undeclared-difference",
            severity=Severity.INVALID,
            text=tr(
                "The setting {setting} differs although no arm declares it so ({values}).",
                setting=difference.name,
                values=values,
            ),
            hint=tr("Declare the setting in the arms, or give it one value in [target.postgresql], and run again."),
        )


def check_settings_read(assessment: Assessment) -> Iterator[CaveatFinding]:
    evidence = assessment.evidence
    if evidence.is_on_files:
        return  # there is no server that has any
    unread = tuple(run.id for run in evidence.valid if run.id not in evidence.settings)
    if unread:
        yield CaveatFinding(
            code="settings-unknown",
            severity=Severity.WARNING,
            text=ntr(
                "The settings of {count} runs were not recorded, so they could not be compared.",
                "The settings of {count} runs were not recorded, so they could not be compared.",
                len(unread),
            ),
            runs=unread,
        )


def check_servers(assessment: Assessment) -> Iterator[CaveatFinding]:
    """What a declared difference of servers brings along beside the version itself."""
    of_server = find_of_server(assessment.evidence)
    of_build = [found for found in of_server if found.name in _OF_BUILD]
    rest = [found for found in of_server if found.name not in _OF_BUILD | _VERSION]
    for found in of_build:
        yield CaveatFinding(
            code="server-build",
            severity=Severity.WARNING,
            text=tr(
                "The servers of the arms also differ in {setting} ({values}), which an effect contains.",
                setting=found.name,
                values=_values(found.values),
            ),
            hint=tr("What that costs is in the effect. Clusters have data checksums by default from PostgreSQL 18 on."),
        )
    if rest:
        changed = [f"{found.name} ({_values(found.values)})" for found in rest if ABSENT not in found.values.values()]
        yield CaveatFinding(
            code="server-defaults",
            severity=Severity.INFO,
            text=_tell_defaults(changed, only=len(rest) - len(changed)),
            hint=tr("To compare the versions alone, give the settings one value in [target.postgresql]."),
        )


def _tell_defaults(changed: Sequence[str], *, only: int) -> str:
    """``only`` is the number of settings that not all servers have."""
    shown = _shorten(changed)
    if not only:
        return tr(
            "The servers of the arms have other defaults of {settings}; that is part of what is compared.",
            settings=shown,
        )
    if not changed:
        return ntr(
            "The servers of the arms have {count} setting that not all of them have; that is part of what is compared.",
            "The servers of the arms have {count} settings that not all of them have; that is part of what is "
            "compared.",
            only,
        )
    return ntr(
        "The servers of the arms have other defaults of {settings} and {count} setting that not all of them have; that "
        "is part of what is compared.",
        "The servers of the arms have other defaults of {settings} and {count} settings that not all of them have; "
        "that is part of what is compared.",
        only,
        settings=shown,
    )


def check_assertions(assessment: Assessment) -> Iterator[CaveatFinding]:
    evidence = assessment.evidence
    runs = [
        run for run in evidence.valid if evidence.settings.get(run.id, {}).get("debug_assertions", ("",))[0] == "on"
    ]
    if runs:
        arms = ", ".join(dict.fromkeys(run.slot.arm for run in runs))
        yield CaveatFinding(
            code="assertions",
            severity=Severity.WARNING,
            text=tr(
                "The server of {arms} was built with assertions, which make it slower, and not everywhere alike.",
                arms=arms,
            ),
            hint=tr("Use programs that were configured without --enable-cassert."),
        )


def check_fingerprint(assessment: Assessment) -> Iterator[CaveatFinding]:
    """Facts of the world that differ without having been declared, by the published rule."""
    groups: dict[tuple[Kind, Severity], list[FactDifference]] = {}
    for difference in compare_facts(assessment.evidence):
        if difference.severity is not None:
            groups.setdefault((difference.kind, difference.severity), []).append(difference)
    for (kind, severity), differences in groups.items():
        code, text, hint = _SAID[kind]
        named = [f"{difference.phrase} ({_values(difference.values())})" for difference in differences]
        yield CaveatFinding(code=code, severity=severity, text=tr(text, facts=_shorten(named)), hint=tr(hint))


def _values(values: Mapping[str, str]) -> str:
    return "; ".join(f"{where}: {value or repr('')}" for where, value in values.items())


def _shorten(named: Sequence[str]) -> str:
    shown = ", ".join(named[:_MOST_NAMED])
    left = len(named) - _MOST_NAMED
    return shown if left <= 0 else tr("{names} and {number} more", names=shown, number=left)


def check_recorded(assessment: Assessment) -> Iterator[CaveatFinding]:
    """What was noted while measuring, of the experiment as a whole and of the valid runs."""
    valid = {run.id for run in assessment.evidence.valid}
    for run, caveat in assessment.evidence.caveats:
        if run is None or run in valid:
            yield as_finding(caveat, () if run is None else (run,))
