"""Change settings of an existing server by ALTER SYSTEM and a reload or restart, and journal how to undo it.

The journal never has the value of a setting that the arm does not set: postgresql.auto.conf may contain passwords.
Where pgtrial reaches the server's files, the file itself is kept beside its place under a second name (a hard link),
which ALTER SYSTEM leaves alone, and later takes its place again. Elsewhere ALTER SYSTEM has to write the same
bytes again, which it can if it wrote them before; then the order of names is noted, and the old values of the settings
that change.
"""

import asyncio
import base64
import hashlib
import json
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from psycopg import Error

from pgtrial.errors import SettingError
from pgtrial.knobs.postgresql import LISTS
from pgtrial.model.change import SERVER_SETTINGS, Change
from pgtrial.postgres.auto_conf import Entry, alter, is_canonical, parse, render, setting_key, steps_between
from pgtrial.postgres.connect import connect
from pgtrial.postgres.existing.checks import (
    check_files,
    check_names,
    check_restart,
    check_rights,
    check_sources,
    setting_refused,
)
from pgtrial.postgres.existing.database import alter_system, as_written
from pgtrial.postgres.existing.rights import Rights, probe_rights
from pgtrial.postgres.existing.server import ExistingServer
from pgtrial.postgres.settings import Setting, is_alike, is_same, read_settings

_WORK = 2**14  # of scrypt, for each password that somebody tries: about 50 ms and 16 MB
SETTLED = 10.0  # s for all of the server's processes to have loaded its configuration
_STEP = 0.05
_NONE = "the default"
TIMELINE = "timeline"  # in ``new`` of a change: that of the server which was changed, "" where it is not known


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """``old`` of a change. ``seal`` tells the file as it was; ``kept`` is its second name, "" where it has none.

    Without ``kept``: ``names`` are all settings in the file, in order, ``values`` those that it has of the settings
    that change. ``running`` is what pg_settings shows of these, in their own units, None for none.
    """

    seal: str
    kept: str
    names: Sequence[str]
    values: Mapping[str, str]
    running: Mapping[str, str | None]

    def to_items(self) -> dict[str, str]:
        return {
            "seal": self.seal,
            "kept": self.kept,
            "names": json.dumps(list(self.names)),
            "values": json.dumps(dict(self.values)),
            "running": json.dumps(dict(self.running)),
        }

    @classmethod
    def from_items(cls, items: Mapping[str, str]) -> "Before":
        return cls(
            seal=items["seal"],
            kept=items["kept"],
            names=json.loads(items["names"]),
            values=json.loads(items["values"]),
            running=json.loads(items["running"]),
        )


def seal(content: bytes, salt: bytes | None = None) -> str:
    """What tells a file's content again without showing it: a password in it could not be found by trying many."""
    salt = salt or secrets.token_bytes(16)
    return f"{base64.b64encode(salt).decode()}:{base64.b64encode(_digest(content, salt, _WORK)).decode()}"


@lru_cache(maxsize=4)  # a change and its undoing ask several times whether one file is as it was
def _digest(content: bytes, salt: bytes, work: int) -> bytes:
    return hashlib.scrypt(content, salt=salt, n=work, r=8, p=1, maxmem=2**26)


def is_sealed(content: bytes, sealed: str) -> bool:
    """Whether the content is the one of which ``sealed`` was made."""
    return seal(content, base64.b64decode(sealed.partition(":")[0])) == sealed


async def plan_settings(server: ExistingServer, wanted: Mapping[str, str], *, database: str | None) -> Change | None:
    """What brings the settings to what is ``wanted``; None when they are all so. Touches nothing.

    ``database`` is the load's, if it already exists. Raises SettingError for what cannot be changed or not be put
    back, TargetError when the server cannot be asked.
    """
    actual = await read_settings(server.conninfo(database), also=wanted)
    check_names(wanted, actual)
    changing = {name: value for name, value in wanted.items() if not is_already(value, actual.get(setting_key(name)))}
    names = [actual[key].name if (key := setting_key(name)) in actual else name for name in changing]
    rights = await probe_rights(server, names)
    check_sources(names, actual, in_database=database is not None)
    if not changing:
        return None
    restart = check_restart(names, server, actual)
    named = dict(zip(names, changing.values(), strict=True))
    (settings,), before = await note_way_back(server, [named], actual, rights)
    shown = [actual[key].shown if (key := setting_key(name)) in actual else _NONE for name in names]
    return Change(
        knob=SERVER_SETTINGS,
        name=f"{', '.join(names)} of the server at {server.control.address.place}",
        old=before.to_items(),
        new={
            "settings": json.dumps(settings),
            "server": server.control.address.to_text(),
            "restart": server.control.restart_text() if restart else "",
            "database": database or "",
            TIMELINE: await server.timeline(),
        },
        old_text=", ".join(text or "empty" for text in shown),
        new_text=", ".join(changing.values()),
    )


async def apply_settings(server: ExistingServer, change: Change) -> Mapping[str, str]:
    """Make the change, and read back what the settings are. Raises SettingError, TargetError; then undo it."""
    settings: dict[str, str] = json.loads(change.new["settings"])
    before = Before.from_items(change.old)
    content = await server.read_auto_conf()
    if content is None or not is_sealed(content, before.seal):
        raise SettingError("somebody else has just changed postgresql.auto.conf", hint="Try again.")
    if before.kept:
        try:
            server.host.ops.hard_link(server.auto_conf, before.kept)
        except OSError as err:
            raise SettingError(
                f'cannot keep "{server.auto_conf}": {err.strerror}',
                detail="pgtrial gives it a second name, a hard link, so that it can put it back as it was.",
            ) from err
    await write_settings(server, content, settings)
    if change.new["restart"]:
        await server.control.restart()
    else:
        await server.control.reload()
    database = change.new["database"] or None
    shown = await await_settings(server, settings, database)
    return {**change.new, "settings": json.dumps(shown)}


async def write_settings(server: ExistingServer, content: bytes, settings: Mapping[str, str]) -> bytes:
    """Write settings into postgresql.auto.conf, which has this ``content``; what it has then. Nothing is loaded yet.

    Raises SettingError for what the server refuses, and where somebody else writes to the file at the same moment.
    """
    entries = parse(content)
    async with connect(server.conninfo()) as connection:
        for name, value in settings.items():
            try:
                await connection.execute(alter_system(name, value))
            except Error as err:
                raise setting_refused(name, value, err) from err
            entries = alter(entries, name, value)
    written = render(entries) if settings else content
    if await server.read_auto_conf() != written:
        raise SettingError("somebody else has changed postgresql.auto.conf at the same moment", hint="Try again.")
    return written


async def find_lost(server: ExistingServer, change: Change) -> str:
    """Which of the settings are no longer as the change left them, as a full sentence; "" when all are."""
    settings: dict[str, str] = json.loads(change.new["settings"])
    actual = await read_settings(server.conninfo(change.new["database"] or None), also=settings)
    lost = _differing(settings, actual)
    return f"{'; '.join(lost)}: somebody else has changed it meanwhile." if lost else ""


def is_already(value: str, setting: Setting | None) -> bool:
    """Whether there is nothing to do; a value that the server worked out (wal_buffers = -1) is not one that was set."""
    return setting is not None and setting.source not in ("override", "dynamic default") and is_same(value, setting)


async def note_way_back(
    server: ExistingServer, arms: Sequence[Mapping[str, str]], actual: Mapping[str, Setting], rights: Rights
) -> tuple[list[dict[str, str]], Before]:
    """The settings of arms, which have the same names, as the server writes them, and what undoes those of the first.

    Raises SettingError where they may not be set, or where the file could not be put back.
    """
    check_rights(list(arms[0]), rights)
    await check_files(server, actual, rights)
    content = await server.read_auto_conf()
    assert content is not None  # check_rights
    async with connect(server.conninfo()) as connection:
        written = [{name: await as_written(connection, name, value) for name, value in arm.items()} for arm in arms]
    before = _note_before(server, content, written[0], actual)
    if not before.kept:
        await _check_way_back(server, content, written[0])
    return written, before


def _note_before(
    server: ExistingServer, content: bytes, settings: Mapping[str, str], actual: Mapping[str, Setting]
) -> Before:
    """What undoes a change of these settings. Raises SettingError where the file could not be put back."""
    try:
        entries = parse(content)
    except ValueError as err:
        raise SettingError(
            f"postgresql.auto.conf cannot be changed and put back: {err}",
            hint="Move what was written into it by hand to postgresql.conf.",
        ) from err
    keys = set(map(setting_key, settings))
    kept = f"{server.auto_conf}.pgtrial-{secrets.token_hex(8)}" if server.facts.files else ""
    found = {name: actual.get(setting_key(name)) for name in settings}
    return Before(
        seal=seal(content),
        kept=kept,
        names=() if kept else [entry.name for entry in entries],
        values={} if kept else {entry.key: entry.value for entry in entries if entry.key in keys},
        running={name: None if setting is None else setting.value for name, setting in found.items()},
    )


async def _check_way_back(server: ExistingServer, content: bytes, settings: Mapping[str, str]) -> None:
    """Raise SettingError if ALTER SYSTEM alone could not write the file again as it is."""
    if not is_canonical(content):
        raise SettingError(
            "postgresql.auto.conf has been edited by hand, so ALTER SYSTEM could not put it back as it was",
            hint="Run pgtrial as root or as the server's operating-system user on the server's machine, or name the "
            'machine with host = "ssh://…" in [target]; or move the edits to postgresql.conf.',
        )
    entries = parse(content)
    changed: tuple[Entry, ...] = entries
    for name, value in settings.items():
        changed = alter(changed, name, value)
    again = [(name, value) for name, value in steps_between(changed, entries) if value is not None]
    rights = await probe_rights(server, [name for name, _ in again])
    async with connect(server.conninfo()) as connection:
        for name, value in again:
            is_exact = setting_key(name) not in LISTS or await as_written(connection, name, value) == value != ""
            if not (rights.settings[name] and value.isascii() and name.isascii() and is_exact):
                raise SettingError(
                    f'postgresql.auto.conf could not be put back as it was: "{name}" in it could not be set again',
                    detail="ALTER SYSTEM appends what it sets; the settings that followed it must be set again too.",
                    hint="Run pgtrial as root or as the server's operating-system user on the server's machine.",
                )


async def await_settings(server: ExistingServer, settings: Mapping[str, str], database: str | None) -> dict[str, str]:
    """What the settings are, once they are as wanted; SettingError if they do not become so."""
    deadline = time.monotonic() + SETTLED
    while True:
        actual = await read_settings(server.conninfo(database), also=settings)
        differing = _differing(settings, actual)
        if not differing:
            return {name: actual[setting_key(name)].shown for name in settings}
        if time.monotonic() > deadline:
            raise SettingError(
                f"{differing[0]} after {SETTLED:g} s",
                detail="; ".join(differing[1:]),
                hint="The server's own log says what kept it from loading the setting.",
            )
        await asyncio.sleep(_STEP)


def _differing(settings: Mapping[str, str], actual: Mapping[str, Setting]) -> list[str]:
    """What is not as wanted, in words without a full stop."""
    found = []
    for name, value in settings.items():
        setting = actual.get(setting_key(name))
        if setting is None:
            found.append(f'setting "{name}" is one that the server does not show, expected {value}')
        elif not is_alike(value, setting):
            found.append(f'setting "{name}" is {setting.shown} (source: {setting.source}), expected {value}')
    return found
