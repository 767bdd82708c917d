"""In what the servers of the arms were built differently, as far as it costs or gives speed.

Sources: configure --help of PostgreSQL 15 to 18, and its release notes: ICU is built in unless asked not to from 16 on.
A build that does not say how it was configured, as one by meson, is not compared in that.
"""

import re
import shlex
from collections.abc import Mapping

from pgtrial.analysis.evidence import Evidence
from pgtrial.model.arm import Arm
from pgtrial.units import read_count

_CONFIGURED, _FLAGS, _VERSION = "PostgreSQL/configured with", "PostgreSQL/compiler flags", "PostgreSQL/version"
# Feature to the option of configure that asks for it.
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


def find_build_differences(evidence: Evidence) -> dict[str, dict[str, str]]:
    """Feature to arm to "with" or "without", or to a value, where not all arms have the same."""
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
    major = read_count(facts.get(_VERSION, "").partition(".")[0])
    build = {}
    for feature, option in _FEATURES.items():
        asked = any(f"--{way}-{option}" in options for way in ("with", "enable")) or f"--with-ssl={option}" in words
        refused = any(f"--{way}-{option}" in options for way in ("without", "disable"))
        by_default = option == "icu" and major is not None and major >= _ICU_BY_DEFAULT
        build[feature] = WITH if not refused and (asked or by_default) else WITHOUT
    if levels := _LEVEL.findall(facts.get(_FLAGS, "")):
        build["optimization"] = f"-O{levels[-1]}"
    return build
