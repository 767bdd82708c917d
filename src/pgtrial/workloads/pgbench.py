"""Call pgbench: one process per scenario, or one for all, with clients, rates and weights from the experiment file."""

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

from pgtrial.design.duration import longest_gap
from pgtrial.design.levels import ScenarioShare, split_clients
from pgtrial.experiment_file.workload_table import WorkloadTable
from pgtrial.model.load_sessions import LOAD, NAME
from pgtrial.model.run import LoadLevel
from pgtrial.workloads.base import Generator, Progress, Summary, derive_seed
from pgtrial.workloads.pgbench_output import OUTPUT, find_errors, parse_progress, parse_summary
from pgtrial.workloads.scenarios import Scenario

__all__ = [
    "ENVIRONMENT",
    "OUTPUT",
    "Generator",
    "Progress",
    "Summary",
    "find_errors",
    "integer_weights",
    "parse_progress",
    "parse_summary",
    "plan_generators",
    "script_option",
    "scripts_of",
    "split_rate",
]

ALL = "all"  # stands for the scenario where one process runs all of them
LARGEST_WEIGHT = 1_000_000
_RATE_STEP = Decimal("0.000001")  # 1/s

# pgbench is translated and coloured where the environment says so; its words are parsed here. Scripts are in UTF-8,
# whatever the encoding of the database.
ENVIRONMENT = {"LC_ALL": "C", "PG_COLOR": "never", "PGCLIENTENCODING": "UTF8"}


def plan_generators(
    scenarios: Sequence[Scenario],
    level: LoadLevel,
    *,
    program: Path,
    workload: WorkloadTable,
    seconds: int,
    cpus: int,
    directory: str,
    logged: bool,
    seed: int | None,
    reconnects: bool = False,
) -> tuple[Generator, ...]:
    """The processes that make a load level together, each for ``seconds``, in ``directory``.

    Their paths are relative to it: they may run as somebody who does not get there from the root. The same ``seed``
    gives every process the same random numbers again, and no two processes the same. Raises SpecError when there are
    fewer clients than scenarios.
    """
    if workload.share == "transactions":
        parts = [(ALL, tuple(scenarios), level.clients)]
        rates: Sequence[Decimal | None] = [None if level.rate is None else Decimal(repr(level.rate))]
    else:
        shares = [ScenarioShare(name=s.name, share=s.share, sessions=s.sessions) for s in scenarios]
        clients = split_clients(level.clients, shares)
        parts = [(s.name, (s,), clients[s.name]) for s in scenarios]
        rates = [None] * len(parts) if level.rate is None else split_rate(level.rate, scenarios, clients)
    return tuple(
        _generator(
            name,
            group,
            program=program,
            clients=count,
            rate=rate,
            workload=workload,
            seconds=seconds,
            threads=min(workload.threads or cpus, count),
            directory=directory,
            log_prefix=f"level{level.index}-{name}" if logged else None,
            seed=None if seed is None else derive_seed(seed, level.index, name),
            reconnects=reconnects,
        )
        for (name, group, count), rate in zip(parts, rates, strict=True)
    )


def _generator(
    name: str,
    scenarios: tuple[Scenario, ...],
    *,
    program: Path,
    clients: int,
    rate: Decimal | None,
    workload: WorkloadTable,
    seconds: int,
    threads: int,
    directory: str,
    log_prefix: str | None,
    seed: int | None,
    reconnects: bool,
) -> Generator:
    argv = [
        "--no-vacuum",  # it would empty the history table
        f"--time={seconds + (0 if rate is None or log_prefix is None else longest_gap(float(rate)))}",
        f"--client={clients}",
        f"--jobs={threads}",
        f"--protocol={workload.protocol}",
        "--progress=1",
        "--progress-timestamp",
        "--failures-detailed",
    ]
    if reconnects:
        argv.append("--connect")
    if workload.max_tries != 1:
        argv.append(f"--max-tries={workload.max_tries}")
    if rate is not None:
        argv.append(f"--rate={rate:f}")
    if workload.latency_limit is not None:
        argv.append(f"--latency-limit={workload.latency_limit * 1000:.10g}")  # ms
    if log_prefix is not None:
        argv += ["--log", f"--log-prefix={log_prefix}"]
    if seed is not None:
        argv.append(f"--random-seed={seed}")
    variables = dict(pair for scenario in scenarios for pair in scenario.variables)
    argv += [f"--define={variable}={value}" for variable, value in variables.items()]
    for scenario, weight in zip(scenarios, integer_weights([s.share or 1.0 for s in scenarios]), strict=True):
        # The weight is always given: pgbench takes what follows the last "@", also one in a name.
        argv.append(f"{script_option(scenario)}@{weight}")
    return Generator(
        program=program,
        argv_tail=tuple(argv),
        environment={**ENVIRONMENT, NAME: f"{LOAD}{name}"},
        scenario_names=tuple(scenario.name for scenario in scenarios),
        clients=clients,
        directory=directory,
        log_prefix=log_prefix,
        scripts=scripts_of(scenarios),
    )


def script_option(scenario: Scenario) -> str:
    """The option that names a scenario's script, which is in pgbench's own directory."""
    return f"--file={_script_name(scenario)}" if scenario.builtin is None else f"--builtin={scenario.builtin}"


def scripts_of(scenarios: Sequence[Scenario]) -> dict[str, str]:
    """The text of each script that pgbench does not bring along, by the name that its file has to have."""
    return {_script_name(scenario): scenario.script for scenario in scenarios if scenario.script is not None}


def _script_name(scenario: Scenario) -> str:
    return f"{scenario.name}.sql"


def integer_weights(shares: Sequence[float]) -> tuple[int, ...]:
    """The smallest whole numbers in the same ratio: 0.7, 0.2, 0.1 become 7, 2, 1.

    Where that takes numbers above LARGEST_WEIGHT they are rounded, none of them to zero.
    """
    exact = [Fraction(repr(float(share))) for share in shares]  # as it is written, not as it is stored
    common = math.lcm(*(share.denominator for share in exact))
    weights = [int(share * common) for share in exact]
    if max(weights) // math.gcd(*weights) > LARGEST_WEIGHT:
        weights = [max(1, round(LARGEST_WEIGHT * share / max(exact))) for share in exact]
    divisor = math.gcd(*weights)
    return tuple(weight // divisor for weight in weights)


def split_rate(rate: float, scenarios: Sequence[Scenario], clients: Mapping[str, int]) -> tuple[Decimal, ...]:
    """The part of ``rate`` (1/s) of each scenario; the parts add up to it exactly.

    Scenarios with constant sessions get their clients' part; the others divide the rest by their shares, which is the
    ratio the file asks for, where that of the rounded clients is not.
    """
    sharing = [s for s in scenarios if s.sessions is None]
    shared_clients = sum(clients[s.name] for s in sharing)
    shares = {s.name: Fraction(repr(float(s.share or 1.0))) for s in sharing}
    weights = [
        shared_clients * shares[s.name] / sum(shares.values()) if s.sessions is None else Fraction(s.sessions)
        for s in scenarios
    ]
    asked = Decimal(repr(rate))
    # Far below what a rate can be measured to; it shrinks with the rate, so that no part becomes zero.
    step = min(_RATE_STEP, _RATE_STEP.scaleb(asked.adjusted()))
    exact = [Fraction(asked) * weight / sum(weights) for weight in weights]
    parts = [max(step, (Decimal(part.numerator) / part.denominator).quantize(step)) for part in exact]
    largest = max(range(len(parts)), key=parts.__getitem__)
    parts[largest] += asked - sum(parts)
    return tuple(parts)


def initialize_argv(program: Path, *, scale: int, foreign_keys: bool) -> list[str | Path]:
    """Command line that makes pgbench's tables and fills them; where, its environment says."""
    steps = f"--init-steps=dtgvp{'f' if foreign_keys else ''}"
    return [program, "--initialize", steps, f"--scale={scale}", "--quiet"]
