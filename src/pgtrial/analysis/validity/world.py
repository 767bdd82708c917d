"""Checks of the environment: settings, machine, hosts, and caveats noted while measuring."""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping

from pgtrial.analysis.effects.hosts import name_others
from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.validity.assessment import Assessment
from pgtrial.analysis.validity.machine import in_runs
from pgtrial.analysis.world.fingerprint import DifferenceKind, FactDifference, compare_facts
from pgtrial.analysis.world.settings import ABSENT, find_hidden, find_of_server, find_undeclared
from pgtrial.findings.caveat import CaveatFinding, caveat
from pgtrial.findings.findings import Difference, PlacedValue
from pgtrial.findings.message import Message, message
from pgtrial.model.arm import Arm
from pgtrial.model.caveat import Severity
from pgtrial.model.run import IS_FLEET
from pgtrial.stats.hosts import FEWEST_TO_PREDICT
from pgtrial.units import read_count

# Settings of a cluster or of a build that are no part of what a version is, and that cost or give throughput.
_OF_BUILD = frozenset(
    {"block_size", "data_checksums", "debug_assertions", "segment_size", "wal_block_size", "wal_segment_size"}
)
_SEVERAL = re.compile("[2-9]|[1-9][0-9]{1,3}")  # hosts
_VERSION = frozenset({"server_version", "server_version_num"})
_CODES = {
    DifferenceKind.ARMS: "undeclared-difference",
    DifferenceKind.RUNS: "fingerprint-differs",
    DifferenceKind.WITHIN: "fingerprint-changed",
    DifferenceKind.HOSTS: "hosts-differ",
}
_CONFIGURED, _FLAGS, _SERVER = "PostgreSQL/configured with", "PostgreSQL/compiler flags", "PostgreSQL/version"
# Feature to the option of configure that asks for it. Sources: configure --help of PostgreSQL 15 to 18, and its release
# notes: ICU is built in unless asked not to from 16 on.
_FEATURES = {
    "JIT (LLVM)": "llvm",
    "ICU": "icu",
    "LZ4": "lz4",
    "Zstandard": "zstd",
    "io_uring": "liburing",
    "NUMA": "libnuma",
    "assertions": "cassert",
    "OpenSSL": "openssl",
}
_ICU_BY_DEFAULT = 16
_LEVEL = re.compile(r"-O(\w*)")

WITH, WITHOUT = "with", "without"


def check_settings(assessment: Assessment) -> Iterator[CaveatFinding]:
    """A setting that differs without having been declared may be the cause of any effect."""
    for difference in find_undeclared(assessment.evidence):
        yield caveat("undeclared-difference.setting", setting=difference.name, values=_values(difference.values))


def check_settings_read(assessment: Assessment) -> Iterator[CaveatFinding]:
    evidence = assessment.evidence
    if evidence.is_on_files:
        return  # there is no server that has any
    unread = tuple(run.id for run in evidence.valid if run.id not in evidence.settings)
    if unread:
        yield caveat("settings-unknown", about=unread, count=len(unread))
    hidden = find_hidden(evidence)
    if hidden:
        runs = tuple(sorted({run for own in hidden.values() for run in own}))
        in_these = in_runs(len(runs), len(evidence.valid))
        yield caveat("settings-unknown.hidden", about=runs, in_runs=in_these, count=len(hidden), settings=tuple(hidden))


def check_servers(assessment: Assessment) -> Iterator[CaveatFinding]:
    """What a declared difference of servers brings along beside the version itself."""
    of_server = find_of_server(assessment.evidence)
    of_build = [difference for difference in of_server if difference.name in _OF_BUILD]
    rest = [difference for difference in of_server if difference.name not in _OF_BUILD | _VERSION]
    for difference in of_build:
        yield caveat("server-build", setting=difference.name, values=_values(difference.values))
    changed = tuple(_named(difference.name, difference.values) for difference in rest if not _is_absent(difference))
    absent = len(rest) - len(changed)
    if features := find_build_differences(assessment.evidence):
        yield caveat(
            "server-build.options",
            features=tuple(
                _named(name, [PlacedValue(where=arm, value=value) for arm, value in by_arm.items()])
                for name, by_arm in features.items()
            ),
        )
    if changed and absent:
        yield caveat("server-defaults.both", settings=changed, count=absent)
    elif changed:
        yield caveat("server-defaults", settings=changed)
    elif absent:
        yield caveat("server-defaults.absent", count=absent)


def check_assertions(assessment: Assessment) -> Iterator[CaveatFinding]:
    evidence = assessment.evidence
    runs = [
        run for run in evidence.valid if evidence.settings.get(run.id, {}).get("debug_assertions", ("",))[0] == "on"
    ]
    if runs:
        yield caveat("assertions", arms=tuple(dict.fromkeys(run.slot.arm for run in runs)))


def check_fingerprint(assessment: Assessment) -> Iterator[CaveatFinding]:
    """Facts of the world that differ without having been declared, by the published rule."""
    groups: dict[tuple[DifferenceKind, Severity], list[FactDifference]] = {}
    is_soak = assessment.evidence.is_soak  # which compares no arms
    for difference in compare_facts(assessment.evidence):
        if difference.severity is not None and not (is_soak and difference.kind is DifferenceKind.ARMS):
            groups.setdefault((difference.kind, difference.severity), []).append(difference)
    for (kind, severity), differences in groups.items():
        code = _CODES[kind]
        yield caveat(
            code,
            severity=severity,
            facts=tuple(_named(difference.phrase, difference.values()) for difference in differences),
        )


def _is_absent(difference: Difference) -> bool:
    """Whether a server has no such setting."""
    return any(placed.value == ABSENT for placed in difference.values)


def _named(name: str | Message, values: Iterable[PlacedValue]) -> Message:
    return message("named-values", name=name, values=_values(values))


def _values(values: Iterable[PlacedValue]) -> tuple[Message, ...]:
    return tuple(message("value-at", where=placed.where, value=placed.value or repr("")) for placed in values)


def check_recorded(assessment: Assessment) -> Iterator[CaveatFinding]:
    """What was noted while measuring, of the experiment as a whole and of the valid runs."""
    valid = {run.id for run in assessment.evidence.valid}
    for run, recorded in assessment.evidence.caveats:
        if run is None or run in valid:
            yield recorded if run is None else recorded.model_copy(update={"runs": (run,)})


def check_hosts(assessment: Assessment) -> Iterator[CaveatFinding]:
    """Few of them, and those on which the effect is another. What else they differ by is in the fingerprint."""
    found, evidence = assessment.hosts, assessment.evidence
    if found is None:
        listed = evidence.meta.get(IS_FLEET, "")
        names = set(evidence.hosts.values())
        if len(names) == 1 and not evidence.is_provisional and _SEVERAL.fullmatch(listed):
            yield caveat("other-hosts", host=names.pop(), count=int(listed))
        return
    if len(found.hosts) < FEWEST_TO_PREDICT:
        yield caveat("few-hosts", count=len(found.hosts), fewest=FEWEST_TO_PREDICT)
    if others := name_others(found.hosts):
        yield caveat("other-effect-on-host", hosts=others)


def find_build_differences(evidence: Evidence) -> dict[str, dict[str, str]]:
    """Feature to arm to "with" or "without", or to a value, where not all arms have the same.

    A build that does not say how it was configured, as one by meson, is not compared in that.
    """
    by_arm = {arm.name: build for arm in evidence.arms if (build := _build_of(evidence, arm))}
    names = dict.fromkeys(name for build in by_arm.values() for name in build)
    found = {name: {arm: build[name] for arm, build in by_arm.items() if name in build} for name in names}
    return {name: values for name, values in found.items() if len(set(values.values())) > 1}


def _build_of(evidence: Evidence, arm: Arm) -> dict[str, str]:
    """How the server of an arm was built, by its first valid run that tells."""
    for run in evidence.runs_of(arm.name):
        facts = evidence.fingerprints.get(run.id, {})
        if run in evidence.valid and facts.get(_CONFIGURED):
            return _read(facts)
    return {}


def _read(facts: Mapping[str, str]) -> dict[str, str]:
    try:
        words = shlex.split(facts[_CONFIGURED])
    except ValueError:
        return {}
    options = {word.partition("=")[0]: word for word in words}
    major = read_count(facts.get(_SERVER, "").partition(".")[0])
    build = {}
    for feature, option in _FEATURES.items():
        asked = any(f"--{way}-{option}" in options for way in ("with", "enable")) or f"--with-ssl={option}" in words
        refused = any(f"--{way}-{option}" in options for way in ("without", "disable"))
        by_default = option == "icu" and major is not None and major >= _ICU_BY_DEFAULT
        build[feature] = WITH if not refused and (asked or by_default) else WITHOUT
    if levels := _LEVEL.findall(facts.get(_FLAGS, "")):
        build["optimization"] = f"-O{levels[-1]}"
    return build
