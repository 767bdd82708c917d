"""The experiment file of one trial. Arms differ in the steps of their work, and in nothing else."""

from pathlib import Path
from typing import Any

import tomli_w

from gym.live.plan import COMMAND, PGBENCH, SYSBENCH, Kind, Trial

FOLDER = Path(__file__).parent
STEPS = {PGBENCH: 500, SYSBENCH: 1000, COMMAND: 500}  # of work in a transaction, about 5 us each
# More steps. In sysbench's transactions, of which they are a smaller part, they cost about 5 % of the throughput.
PLANTED = {PGBENCH: 0.03, SYSBENCH: 0.08, COMMAND: 0.08}
MARGIN = "1%"
BLOCKS = 6  # the fewest that may give a verdict

# A setting that nothing else in the load reads, that holds at once, and has room for a number: the script reads it.
CARRIER = "geqo_generations"
_DESIGN: dict[str, dict[str, str]] = {
    "interleaved": {"slice": "0.4s"},  # the shortest that are valid
    "blocks": {},
    "duet": {},
}
_DURATION = {"interleaved": "1s", "blocks": "2s", "duet": "2s"}  # that counts, of each arm in a block
_SYSBENCH_DURATION = "3s"  # its transactions are forty times as long
# Two clients on so few rows get into deadlocks, which sysbench passes over: a second of each for both of them, several
# times in a run, is most of the noise, and the question is not about that.
_SYSBENCH_SETTINGS = {"deadlock_timeout": "10ms"}


_WORKLOAD: dict[str, dict[str, Any]] = {
    PGBENCH: {"scenario": [{"name": "work", "file": "work.sql"}]},
    SYSBENCH: {
        "kind": "command",
        "results": "sysbench",
        "command": ["sysbench", "oltp_read_write", "--tables=1", "--table-size=10000"],
    },
    COMMAND: {
        "kind": "command",
        "command": ["python3", "own_clock.py", f"SELECT work(mod(%d, 10000), current_setting('{CARRIER}')::integer)"],
        "files": "own_clock.py",
    },
}
_EXAMPLES = FOLDER.parents[1] / "examples" / "commands"
_FILES = {
    PGBENCH: (FOLDER / "work.setup.sql", FOLDER / "work.sql"),
    SYSBENCH: (FOLDER / "work.setup.sql", FOLDER / "sysbench.setup.sql"),
    COMMAND: (FOLDER / "work.setup.sql", _EXAMPLES / "own_clock.py"),
}


def steps_of(trial: Trial, load: str = PGBENCH) -> dict[str, int]:
    """Steps by arm, the control first."""
    steps = STEPS[load]
    more = {Kind.NULL: steps, Kind.PLANTED: round(steps * (1 + PLANTED[load])), Kind.IDLE: 1, Kind.DOUBLE: 2 * steps}
    return {arm: more[trial.kind] if arm == trial.burdened else steps for arm in ("control", "treated")}


def experiment_text(trial: Trial, load: str = PGBENCH) -> str:
    """The file, which names the scripts in its own folder."""
    return tomli_w.dumps(
        {
            "format": 1,
            "experiment": {"name": trial.name},
            "hypothesis": {"claim": "the arms differ", "arm": "treated", "expect": "different", "margin": MARGIN},
            "target": {
                "postgresql": {
                    "shared_buffers": "16MB",
                    "autovacuum": False,
                    **(_SYSBENCH_SETTINGS if load == SYSBENCH else {}),
                }
            },
            "dataset": {"kind": "sql", "setup": "setup.sql"},
            "workload": {
                "clients": 2,
                "duration": _SYSBENCH_DURATION if load == SYSBENCH else _DURATION[trial.method],
                "warmup": 0,
                **_WORKLOAD[load],
            },
            "arms": {arm: {"postgresql": {CARRIER: steps}} for arm, steps in steps_of(trial, load).items()},
            "design": {
                "method": trial.method,
                "blocks": BLOCKS,
                "restore": "never",  # sysbench's transactions leave as many rows as there were; the others only read
                "seed": trial.seed,
                **_DESIGN[trial.method],
            },
        }
    )


def write_experiment(trial: Trial, place: Path, load: str = PGBENCH) -> Path:
    """Put the file and its scripts into a folder, and say where the file is."""
    place.mkdir(parents=True, exist_ok=True)
    texts = {path.name: path.read_text(encoding="utf-8") for path in _FILES[load]}
    (place / "setup.sql").write_text("\n".join(text for name, text in texts.items() if "setup" in name))
    for name, text in texts.items():
        if "setup" not in name:
            (place / name).write_text(text, encoding="utf-8")
    file = place / "experiment.toml"
    file.write_text(experiment_text(trial, load), encoding="utf-8")
    return file
