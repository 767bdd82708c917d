"""Names inside a result folder."""

from pathlib import Path

FORMAT = 1

EXPERIMENT = "experiment.toml"
FILES = "files"  # scripts and set-up SQL as used, copied beside the experiment
COMMAND_FILES, ARM_SCRIPTS = "command", "arms"  # below FILES: what the command needs, and scripts of arms
SETUP = "dataset.setup.sql"  # in FILES; no scenario's name has a dot
STATE = "state.sqlite"
LOCK = "lock"
LIVE = "live.json"  # only while pgtrial is at work
RUNS = "runs"
PROOFS = "limits"  # result folders of what proves the limits of arms
FINDINGS = "findings.json"
REPORT = "report.html"

TRANSACTIONS = "transactions.parquet"
SLICES = "slices.parquet"
SAMPLES = "samples.parquet"
WAITS = "waits.parquet"
STATEMENTS = "statements.parquet"
SERVER_LOG = "server.jsonl"
TRACEBACK = "traceback.txt"  # of a run that a bug in pgtrial made invalid, or of the whole that one ended


def run_folder(root: Path, name: str) -> Path:
    """The folder of a run; ``name`` is ``RunRow.folder``."""
    return root / RUNS / name


def proof_folder(root: Path, arm: str) -> Path:
    """The result folder of the experiment that proves what limits an arm; its name is that of the arm."""
    return root / PROOFS / arm


def arm_script(arm: str, scenario: str) -> str:
    """Where the script is that an arm has for a scenario, below FILES."""
    return f"{ARM_SCRIPTS}/{arm}/{scenario}.sql"
