"""Tests that need a program which not every machine has: skipped without it, and counted in one line at the end."""

import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable
from typing import Any, NoReturn

import pytest

_REASON = "for want of {what}; {how}"
_PATTERN = re.compile(r"Skipped: for want of (.+); (.+)")


def skip_for_want(what: str, how: str, *, required_by: str = "") -> NoReturn:
    """Skip the test, as ``what`` is missing; ``how`` one gets it. Where the variable ``required_by`` is 1, as in CI, it
    fails instead.
    """
    reason = _REASON.format(what=what, how=how)
    if os.environ.get(required_by) == "1":
        pytest.fail(reason)
    pytest.skip(reason)


def needs_program(program: str, how: str, *, required_by: str = "") -> pytest.MarkDecorator:
    """A mark that does so for a program. Where it is required the test is run, and fails by itself."""
    is_run = shutil.which(program) is not None or os.environ.get(required_by) == "1"
    return pytest.mark.skipif(not is_run, reason=_REASON.format(what=program, how=how))


needs_pgbouncer = needs_program("pgbouncer", "apt install pgbouncer", required_by="PGTRIAL_REQUIRE_PGBOUNCER")
needs_gh = needs_program("gh", "apt install gh")
needs_compiler = needs_program("cc", "apt install gcc libc6-dev", required_by="PGTRIAL_REQUIRE_COMPILER")


def summarise_wants(reports: Iterable[Any]) -> str:
    """One line about reports of skipped tests: what was missing, for how many tests, and how to get it."""
    reasons = (report.longrepr[2] for report in reports if isinstance(report.longrepr, tuple))
    wants = Counter(found.groups() for found in map(_PATTERN.fullmatch, reasons) if found)
    texts = [f"{what} ({count} test{'s' if count > 1 else ''}; {how})" for (what, how), count in wants.most_common()]
    return f"skipped for want of: {', '.join(texts)}" if texts else ""
