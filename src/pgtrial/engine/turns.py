"""How the arms of a block share its time, as it was planned when the result folder was made."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pgtrial.design.methods import MethodChoice, plan_steps
from pgtrial.design.slices import Step, split_cpus
from pgtrial.engine.method_facts import read_facts
from pgtrial.errors import PreflightError
from pgtrial.hosts.base import Host


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """With ``cpu_sets``, one per arm, all arms are at work at once, else one at a time."""

    choice: MethodChoice
    cpu_sets: tuple[tuple[int, ...], ...] = ()

    def steps(self, arms: Sequence[str], *, seconds: float, seed: str, block: int) -> tuple[Step, ...]:
        """As the plan has them."""
        return plan_steps(self.choice, arms, seconds=seconds, seed=seed, block=block)


def total_length(steps: Sequence[Step]) -> float:
    """Seconds of all steps."""
    return math.fsum(step.length for step in steps)


def plan_turns(choice: MethodChoice, *, arms: int, host: Host) -> Turns | None:
    """None where each run has the machine to itself.

    Raises PreflightError when this machine has too few CPUs for a duet that was planned on another one.
    """
    if choice.method == "blocks":
        return None
    cpu_sets = split_cpus(read_facts(host).cores, arms) if choice.method == "duet" else ()
    if cpu_sets is None:
        raise PreflightError(f"a duet of {arms} arms needs as many CPUs, and this machine has fewer")
    return Turns(choice=choice, cpu_sets=cpu_sets)
