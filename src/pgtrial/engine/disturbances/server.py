"""What would disturb a measurement: the server's programs, and settings without which results mean little."""

from collections.abc import Iterator, Mapping

from pgtrial.engine.disturbances.base import Disturbance, Situation
from pgtrial.model.caveat import Severity

_OFF = {"off", "false", "no", "0", "f", "n"}
_SAFETY = {
    "fsync": "Nothing waits for the disk, and whatever waits for it elsewhere looks free here.",
    "full_page_writes": "The server writes much less WAL than one whose data have to survive a power cut.",
}


def check_programs(situation: Situation) -> Iterator[Disturbance]:
    for message in situation.missing:
        yield Disturbance(
            code="no-programs",
            severity=Severity.WARNING,
            text=f"{message[:1].upper()}{message[1:]}.",
            why="Without initdb, postgres and pgbench of one installation no experiment can run here.",
            remedy="Install PostgreSQL with its pgbench, or name its directory as postgres in [target].",
        )


def check_assertions(situation: Situation) -> Iterator[Disturbance]:
    for directory in situation.with_assertions:
        yield Disturbance(
            code="assertions",
            severity=Severity.WARNING,
            text=f"The server in {directory} was built with assertions.",
            why="They make it slower, and not everywhere alike.",
            remedy="Use programs that were configured without --enable-cassert.",
        )


def check_safety(situation: Situation) -> Iterator[Disturbance]:
    """In every arm it is a mistake or a short cut; in some it is what is measured."""
    arms = situation.intent.knobs
    for name, why in _SAFETY.items():
        unsafe = [arm for arm, knobs in arms.items() if _value(knobs.get("postgresql", {}), name) in _OFF]
        if unsafe and len(unsafe) == len(arms):
            yield Disturbance(
                code=f"{name.replace('_', '-')}-off",
                severity=Severity.WARNING,
                text=f"The file sets {name} = off in all arms.",
                why=why,
                remedy="Leave it on, unless the servers that the result is for have it off too.",
            )


def _value(settings: Mapping[str, str], name: str) -> str:
    return next((value.strip().lower() for key, value in settings.items() if key.lower() == name), "")


CHECKS = (check_programs, check_assertions, check_safety)
