"""A standby of an arm's server: a second server, which receives and replays all that the first one writes."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from pgtrial.knobs.declaration import (
    About,
    Acts,
    Among,
    EffectTiming,
    Knob,
    OwnSettings,
    Refusal,
    Rule,
    Scope,
    Shared,
    idle_without_writes,
)
from pgtrial.knobs.values import Table

STANDBY = "standby"
MODE = "mode"
NAME = "pgtrial_standby"  # by which the server knows it
SYNCHRONOUS_NAMES = "synchronous_standby_names"


class StandbyTable(Table):
    """A standby of the arm's own, on the same machine."""

    mode: Literal["asynchronous", "synchronous"] | None = Field(
        default=None,
        description="Whether commits wait for it; for what of it, says `synchronous_commit`. Left out: no standby.",
    )


class Standby(Knob):
    name = STANDBY
    about = About(
        sets="a second server on the same machine, with the settings of the first, that receives and replays its WAL, "
        "and whether commits wait for it (`synchronous_standby_names`)",
        takes_effect="when the server of the arm has started",
        rights="none in a throw-away cluster",
        verified="the server says that it streams, and in which mode, before the load and after it",
        undone="ended and removed with the server",
    )
    scope = Scope.SETTINGS
    among_twins = Among.OWN
    acts = (Acts(code="wal-flushes", metrics=("wal.syncs",), least=1.0, idle=idle_without_writes),)
    rules = (
        Rule(
            timing=EffectTiming.BUILDS_UP,
            reason="writes all WAL and all changed pages a second time, which the disk has to take",
            shares=(Shared.DIRTY_PAGES, Shared.DEVICE_QUEUE),
        ),
    )
    not_on_server = "pgtrial only makes standbys of servers of its own"
    needs_server = True
    needs_socket = True
    refusals = (
        Refusal(
            methods=("interleaved", "duet"),
            reason="a standby goes on while the server that it follows stands still, and on the CPUs of all arms",
        ),
    )
    own_settings = (
        OwnSettings(
            key=MODE,
            settings=(SYNCHRONOUS_NAMES,),
            hint='Leave the setting out: mode = "synchronous" sets it.',
        ),
    )


def settings_of(table: Mapping[str, str]) -> dict[str, str]:
    """What the server of an arm with that table needs of settings."""
    return {SYNCHRONOUS_NAMES: NAME} if table.get(MODE) == "synchronous" else {}
