"""The experiment file of one trial. Arms differ in the steps of their work, and in nothing else."""

from pathlib import Path

import tomli_w

from gym.live.plan import Kind, Trial

FOLDER = Path(__file__).parent
STEPS = 500  # of work in a transaction, about 2.5 ms of them
PLANTED = 0.03  # more steps
MARGIN = "1%"
BLOCKS = 6  # the fewest that may give a verdict

# A setting that nothing else in the load reads, that holds at once, and has room for a number: the script reads it.
CARRIER = "geqo_generations"
_MORE = {Kind.NULL: 1.0, Kind.PLANTED: 1 + PLANTED, Kind.IDLE: 1 / STEPS, Kind.DOUBLE: 2.0}
_DESIGN: dict[str, dict[str, str]] = {
    "interleaved": {"slice": "0.4s"},  # the shortest that are valid
    "blocks": {},
    "duet": {},
}
_DURATION = {"interleaved": "1s", "blocks": "2s", "duet": "2s"}  # that counts, of each arm in a block


def steps_of(trial: Trial) -> dict[str, int]:
    """Steps by arm, the control first."""
    more = round(STEPS * _MORE[trial.kind])
    return {arm: more if arm == trial.burdened else STEPS for arm in ("control", "treated")}


def experiment_text(trial: Trial) -> str:
    """The file, which names the scripts in its own folder."""
    return tomli_w.dumps(
        {
            "format": 1,
            "experiment": {"name": trial.name},
            "hypothesis": {"claim": "the arms differ", "arm": "treated", "expect": "different", "margin": MARGIN},
            "target": {"postgresql": {"shared_buffers": "16MB", "autovacuum": False}},
            "dataset": {"kind": "sql", "setup": "work.setup.sql"},
            "workload": {
                "clients": 2,
                "duration": _DURATION[trial.method],
                "warmup": 0,
                "scenario": [{"name": "work", "file": "work.sql"}],
            },
            "arms": {arm: {"postgresql": {CARRIER: steps}} for arm, steps in steps_of(trial).items()},
            "design": {
                "method": trial.method,
                "blocks": BLOCKS,
                "restore": "never",  # the load only reads
                "seed": trial.seed,
                **_DESIGN[trial.method],
            },
        }
    )


def write_experiment(trial: Trial, place: Path) -> Path:
    """Put the file and its scripts into a folder, and say where the file is."""
    place.mkdir(parents=True, exist_ok=True)
    for name in ("work.setup.sql", "work.sql"):
        (place / name).write_text((FOLDER / name).read_text(encoding="utf-8"), encoding="utf-8")
    file = place / "experiment.toml"
    file.write_text(experiment_text(trial), encoding="utf-8")
    return file
