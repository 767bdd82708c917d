"""Messages that name things, for use inside of others."""

from pgtrial.findings.causes import BLOCKED, CPU, CPU_QUEUE, IDLE_IN_TRANSACTION, OUTSIDE, SCHEDULE_LAG
from pgtrial.findings.message import Message, message
from pgtrial.model.run import LoadLevel

UNKNOWN_STATEMENT = "(text not known)"  # in the place of a statement's text
_PARTS = {
    CPU: "part.cpu",
    CPU_QUEUE: "part.cpu-queue",
    BLOCKED: "part.blocked",
    IDLE_IN_TRANSACTION: "part.idle-in-transaction",
    OUTSIDE: "part.outside",
    f"{OUTSIDE} {SCHEDULE_LAG}": "part.schedule-lag",
}


def name_level(level: LoadLevel) -> Message:
    """ "8 clients", "500 tps, 8 clients"."""
    if level.rate is None:
        return message("level.clients", count=level.clients)
    return message("level.rate", count=level.clients, rate=level.rate)


def name_part(kind: str, event: str = "") -> Message | str:
    """A part of a transaction's time: "CPU queue" as a message, "IO WALSync" as the server has it."""
    name = part_id(kind, event)
    return message(_PARTS[name]) if name in _PARTS else name


def name_statement(text: str) -> Message | str:
    return message("statement.unknown") if text == UNKNOWN_STATEMENT else text


def part_id(kind: str, event: str) -> str:
    """The same in English, for what has to be the same in all languages."""
    return f"{kind} {event}".strip()
