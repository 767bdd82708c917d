"""Is the claim the one that was recorded before the first run, how often was it tried, and who chose the order?"""

import hashlib
import math
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from pgtrial.analysis.evidence import Evidence
from pgtrial.analysis.validity.assessment import Assessment
from pgtrial.design.registration import attempts_digest, digest_with, plan_digest, register
from pgtrial.findings.caveat import CaveatFinding, caveat
from pgtrial.model.rules import RULES
from pgtrial.safe_files import read_file
from pgtrial.safe_text import parse_json
from pgtrial.store import layout
from pgtrial.store.attempts import find_attempts
from pgtrial.store.plans import (
    ATTEMPTS,
    ATTEMPTS_DIGEST,
    ATTEMPTS_SINCE,
    CONTENTS,
    DIGEST,
    LOADED_DATA,
    PLAN,
    REGISTERED,
    REST,
)

_LARGEST = 1 << 28  # bytes of a script or set-up
_CLOCK_STEP = 60.0  # s by which a clock may be set back before the first run


def check_registration(assessment: Assessment) -> Iterator[CaveatFinding]:
    """Whether the claim is the one that was recorded before the first run, whether the seed was chosen, and how often
    the claim was tried.
    """
    evidence = assessment.evidence
    if evidence.lacks_record:
        yield caveat("post-hoc.no-record")
        return
    rules = int(evidence.meta.get("rules", 1))
    if not _is_as_noted(evidence):
        yield caveat("post-hoc.noted")
    elif rules == 1 or (rules < REGISTERED and PLAN not in evidence.meta):
        yield caveat("unregistered", rules=rules)
    elif not _is_as_registered(evidence, rules):
        yield caveat("post-hoc")
    elif _is_registered_late(evidence):
        yield caveat("post-hoc.late")
    elif PLAN not in evidence.meta:
        yield caveat("plan-redacted")
    if rules != evidence.rules.version:
        yield caveat("other-rules", rules=evidence.rules.version, recorded=rules)
    if evidence.experiment.design.seed is not None:
        yield caveat("chosen-seed", seed=evidence.experiment.design.seed)
    before = evidence.attempts_before
    if before and evidence.rules.counts_attempts:
        yield caveat("another-attempt", attempt=before + 1, confidence=evidence.confidence)
    elif before:
        yield caveat("repeated-claim", count=before)


def _is_as_registered(evidence: Evidence, rules: int) -> bool:
    """Whether claim, plan, rules and contents are those that the record's digest is of."""
    meta, experiment = evidence.meta, evidence.experiment
    recorded, blocks = meta.get(DIGEST), experiment.design.blocks
    if blocks is not None and len({slot.block for slot in evidence.slots}) != blocks:
        return False
    if RULES[rules].counts_attempts and not _has_attempts(meta):
        return False
    chosen = experiment.design.seed
    if RULES[rules].registers_seed and chosen is not None and meta.get("seed") != str(chosen):
        return False
    if rules < REGISTERED:
        return recorded == plan_digest(experiment, evidence.arms)
    if PLAN not in meta:
        return recorded == digest_with(experiment, rules=rules, rest=meta.get(REST, ""))
    try:
        contents = parse_json(meta.get(CONTENTS, ""))
    except ValueError:
        return False
    if not isinstance(contents, dict):
        return False
    folder = evidence.folder / layout.FILES
    return recorded == register(experiment, evidence.arms, rules=rules, contents=contents).digest and all(
        _has_digest(folder, name, str(digest)) for name, digest in contents.items() if not name.startswith(LOADED_DATA)
    )


def _is_as_noted(evidence: Evidence) -> bool:
    """Whether digest and number of attempts are those that were noted outside of the folder, if this machine did."""
    noted = find_attempts(evidence.folder, evidence.created)
    return not noted or any(
        each.digest == evidence.meta.get(DIGEST) and each.before in (None, evidence.attempts_before) for each in noted
    )


def _is_registered_late(evidence: Evidence) -> bool:
    """Whether the record is dated after a run. Hosts have clocks of their own."""
    first = min((run.started for run in evidence.runs if run.started is not None), default=math.inf)
    return evidence.created is not None and not evidence.hosts and evidence.created > first + _CLOCK_STEP


def _has_attempts(meta: Mapping[str, str]) -> bool:
    """Whether the number of attempts is the one that was known when this one began."""
    before = meta.get(ATTEMPTS)
    if before is None:
        return False
    return meta.get(ATTEMPTS_DIGEST) == attempts_digest(meta.get(DIGEST, ""), before, meta.get(ATTEMPTS_SINCE, ""))


def _has_digest(folder: Path, name: str, digest: str) -> bool:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        return False
    try:
        content = read_file(folder / path, limit=_LARGEST)
    except (OSError, ValueError):
        return False
    return hashlib.sha256(content).hexdigest() == digest
