"""The rules of guc.c, and whether a real server agrees with them."""

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgtrial.postgres.catalogue import read_catalogue
from pgtrial.postgres.programs import find_programs
from pgtrial.postgres.settings import find_fault, read_number

# A setting of every kind, with values that are accepted and values that are not.
VALUES: dict[str, tuple[str, ...]] = {
    "shared_buffers": (
        "128MB",
        "16384",
        " 1 GB ",
        "0.5GB",
        "1e5",
        "0x4000",
        "040000",
        "15",
        "1",
        "120kB",
        "1mb",
        "1MiB",
        "-1",
        "x",
        "",
        "GB",
        "1.5.5",
        "9999TB",
        "1 2",
    ),
    "work_mem": ("64kB", "63kB", "65536B", "1TB", "2TB", "on", "1.0001MB", ".5MB", "5.", "5.MB"),
    "checkpoint_timeout": ("30s", "1d", "1.1d", "29s", "5min", "0.5h", "30000ms", "5 minutes", "1M"),
    "max_connections": ("100", "100.4", "1e2", "0", "1", "1000", "262144", "10kB", "1s"),
    "autovacuum_vacuum_scale_factor": ("0.01", "100", "101", "-0.1", "1e-3", "10%", "nan"),
    "random_page_cost": ("1.1", "0", "-1", "4 "),
    "jit": ("on", "OFF", "t", "yes", "of", "o", "ye", "2", "1", "", "enabled"),
    "synchronous_commit": ("on", "remote_apply", "LOCAL", "true", "0", "maybe", ""),
    "wal_level": ("minimal", "Replica", "on", "full"),
    "huge_pages": ("try", "yes", "no", "always"),
    "search_path": ("a, b", "anything"),
    "temp_file_limit": ("-1", "1GB", "-2"),
    "vacuum_cost_delay": ("2ms", "0.5ms", "500us", "101ms"),
}
CASES = [(name, value) for name, values in VALUES.items() for value in values]


@pytest.fixture(scope="module")
def work() -> Iterator[Path]:
    """A directory open to other users, unlike pytest's own."""
    with tempfile.TemporaryDirectory(prefix="pgtrial-test-values-", dir="/tmp") as name:
        yield Path(name)


@pytest.fixture(scope="module")
def verdicts(work: Path) -> dict[tuple[str, str], bool]:
    """Whether a server in single-user mode takes each of CASES with ALTER SYSTEM."""
    programs = find_programs()
    account = "postgres" if os.geteuid() == 0 else None
    if account is not None:
        work.chmod(0o777)

    def run(*command: str | Path, text: str = "") -> str:
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, check=True, timeout=60, cwd=work, user=account,
            env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"},
        )  # fmt: skip
        return done.stdout + done.stderr

    run(programs.path("initdb"), "--no-sync", "--username=postgres", "--pgdata", work / "data")
    refused: dict[tuple[str, str], bool] = {}
    statements = []
    for name, value in CASES:
        quoted = value.replace("'", "''")
        statements.append(f"ALTER SYSTEM SET {name} = '{quoted}'")
    answer = run(
        programs.path("postgres"), "--single", "-D", work / "data", "postgres", text="\n".join(statements) + "\n"
    )
    failed = set(re.findall(r"STATEMENT:  (ALTER SYSTEM .*)", answer))
    for case, statement in zip(CASES, statements, strict=True):
        refused[case] = statement in failed
    return refused


@pytest.mark.pg
def test_a_real_server_refuses_the_same_values(verdicts: dict[tuple[str, str], bool]) -> None:
    catalogue = read_catalogue(find_programs().major)
    ours = {(name, value): find_fault(catalogue[name], value) is not None for name, value in CASES}

    assert ours == verdicts
    assert 30 < sum(verdicts.values()) < len(CASES) - 30


@pytest.mark.parametrize(
    ("name", "value", "message", "hint"),
    [
        ("shared_buffers", "4", '4 is outside the valid range for setting "shared_buffers" (128kB .. 8TB)', "8kB"),
        ("work_mem", "32 megabytes", 'invalid value for setting "work_mem": "32 megabytes"', "B, kB, MB, GB, TB"),
        ("checkpoint_timeout", "10s", "(30s .. 1d)", ""),
        ("max_connections", "10kB", "invalid value", "without a unit"),
        ("wal_level", "full", 'invalid value for setting "wal_level": "full"', "minimal, replica, logical"),
        ("jit", "maybe", 'invalid value for setting "jit": "maybe"', "on, off"),
    ],
)
def test_a_fault_says_what_is_allowed(name: str, value: str, message: str, hint: str) -> None:
    fault = find_fault(read_catalogue(18)[name], value)

    assert fault is not None
    assert message in fault[0]
    assert hint in fault[1]


def test_numbers_are_read_in_the_settings_own_unit() -> None:
    catalogue = read_catalogue(17)

    assert read_number(catalogue["shared_buffers"], "1GB") == 131072
    assert read_number(catalogue["checkpoint_timeout"], "5min") == 300
    assert read_number(catalogue["max_connections"], "1e2") == 100
    assert read_number(catalogue["max_connections"], "many") is None


@pytest.mark.parametrize("digits", ["0x" + "f" * 300, "0" + "7" * 400, "9" * 5000])
def test_numbers_beyond_all_bounds_are_out_of_range(digits):
    message, _ = find_fault(read_catalogue(15)["work_mem"], digits) or ("", "")

    assert "is outside the valid range" in message
