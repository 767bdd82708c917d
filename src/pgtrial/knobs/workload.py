"""What the load does, where arms differ in it: the same work in another way."""

import json
import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from pgtrial.knobs.declaration import ALWAYS, About, Among, EffectTiming, Knob, Rule, Scope
from pgtrial.knobs.values import Command, Count, Form, Table, refuse, value_text

WORKLOAD = "workload"
SCRIPTS, VARIABLES = "scripts.", "variables."  # what the keys of these tables begin with, followed by the name
PROTOCOL, CONNECT, COMMAND, CLIENTS, PAUSES = "protocol", "connect", "command", "clients", "pauses"
EACH_TRANSACTION = "each-transaction"  # when a client connects
UNIT = "a transaction of a scenario"


def _script(value: str) -> str:
    return value if value and value.isprintable() else refuse("a file has a printable name")


def _variable(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int | float):  # true would become 1.0
        refuse("expected a text or a number")
    if isinstance(value, float) and not math.isfinite(value):
        refuse("expected a finite number")
    return value if str(value).isprintable() else refuse("a variable has a printable value")


class ArmLoadTable(Table):
    """The load of an arm, as far as it is another one than that of [workload]."""

    scripts: dict[str, Annotated[str, AfterValidator(_script)]] = Field(
        default={},
        description='Other pgbench scripts for the scenarios, by name: { read = "rewritten.sql" }, relative to the '
        "experiment file.",
    )
    variables: dict[
        Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")],
        Annotated[str | Annotated[int, Field(strict=True)] | float, BeforeValidator(_variable)],
    ] = Field(default={}, description="Variables of the pgbench scripts: { batch = 100 }.")
    protocol: Literal["simple", "extended", "prepared"] | None = Field(
        default=None, description="Query protocol, instead of that of [workload]."
    )
    connect: Literal["once", "each-transaction"] | None = Field(
        default=None,
        description="When a client connects. each-transaction: anew for each, as applications without a pool do. Left "
        "out: once.",
    )
    command: Command | None = Field(
        default=None, description="Another command for the load of kind command, such as another version of a program."
    )
    clients: Count | None = Field(
        default=None,
        description="Another number of clients than that of [workload], where this has a single one and no rate.",
    )
    pauses: Annotated[float, Field(strict=True, ge=0.1, le=10), Form("a factor: `1.5`")] | None = Field(
        default=None,
        description="How many times as long each \\sleep of the pgbench scripts is. Left out: 1, as they say.",
    )
    unit: str | None = Field(
        default=None,
        description="What one transaction, or request, does. Arms are compared by it, so all have the same. Left out: "
        "as unit of [workload] says.",
    )

    def texts(self) -> dict[str, str]:
        """Key to value as text, only what was given; the unit is no setting, and a command has its words in quotes."""
        found = {f"{SCRIPTS}{name}": file for name, file in self.scripts.items()}
        found |= {f"{VARIABLES}{name}": value_text(value) for name, value in self.variables.items()}
        if self.protocol is not None:
            found[PROTOCOL] = self.protocol
        if self.connect is not None:
            found[CONNECT] = self.connect
        if self.command is not None:
            found[COMMAND] = write_command(self.command)
        if self.clients is not None:
            found[CLIENTS] = str(self.clients)
        if self.pauses is not None:
            found[PAUSES] = value_text(self.pauses)
        return found


def read_texts(table: Mapping[str, str]) -> dict[str, Any]:
    """What ``LoadTable.texts`` gave, as the file has it."""
    found: dict[str, Any] = {}
    for key, text in table.items():
        outer, dot, name = key.partition(".")
        if dot:
            found.setdefault(outer, {})[name] = text
        else:
            found[key] = _READ.get(key, str)(text)
    return found


_READ: Mapping[str, Callable[[str], Any]] = {CLIENTS: int, PAUSES: float, COMMAND: lambda text: [*read_command(text)]}


def own_clients(table: Mapping[str, str]) -> int | None:
    """The clients that an arm has of its own, by the texts of its load; None: those of the load level."""
    return int(table[CLIENTS]) if CLIENTS in table else None


def write_command(words: tuple[str, ...]) -> str:
    """A command as the text of a setting."""
    return json.dumps(list(words), ensure_ascii=False)


def read_command(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))


class Workload(Knob):
    name = WORKLOAD
    about = About(
        sets="how the load does its work: scripts, their variables and pauses, query protocol, a connection for each "
        "transaction, another command, or another number of clients",
        takes_effect="for the load of the arm",
        rights="none",
        verified="each script, or the command, is tried before anything is measured, as the arm has it",
        undone="nothing is left of it",
    )
    scope = Scope.LOAD
    among_twins = Among.OWN
    acts = (ALWAYS,)
    rules = (Rule(timing=EffectTiming.AT_ONCE, reason="is what the clients of an arm do, from their first query on"),)
    unvaried_keys: ClassVar = {"unit": "Arms are compared by it: say in unit of [workload] what that of all arms is."}
    needs_server = True
