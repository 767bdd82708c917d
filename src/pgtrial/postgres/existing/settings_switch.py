"""Switch an existing server between the settings of several arms, by ALTER SYSTEM and a reload at each turn.

The journal has one change for all of them, made before the first switch, with the values of every arm: whichever of
them is there when it has to be undone, also after a kill, is pgtrial's own, and what was before is put back.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from pgtrial.errors import SettingError
from pgtrial.model.change import SERVER_SWITCH, Change
from pgtrial.postgres.auto_conf import parse, setting_key
from pgtrial.postgres.existing.checks import check_files, check_names, check_sources
from pgtrial.postgres.existing.rights import Rights, probe_rights
from pgtrial.postgres.existing.server import ExistingServer
from pgtrial.postgres.existing.settings import (
    TIMELINE,
    Before,
    await_settings,
    find_lost,
    is_already,
    is_sealed,
    note_way_back,
    write_settings,
)
from pgtrial.postgres.settings import Setting, read_settings

SWITCHED = "switched"  # in ``new`` of a change: the settings by arm
_RELOADED = ("sighup", "user", "superuser", "")  # contexts, as pg_settings names them, of what a reload changes


async def plan_switch(
    server: ExistingServer, wanted: Mapping[str, Mapping[str, str]], *, database: str | None
) -> Change | None:
    """What makes the server that of the first arm, and lets it be switched to the others; None where all arms are as
    the server is. Touches nothing. An arm that does not name a setting of another one has the server's own value.

    Raises as ``plan_settings``, and SettingError for what only a restart changes.
    """
    given = {arm: {setting_key(name): value for name, value in own.items()} for arm, own in wanted.items()}
    keys = dict.fromkeys(key for own in given.values() for key in own)
    actual = await read_settings(server.conninfo(database), also=keys)
    completed = {arm: _complete(arm, own, keys, actual) for arm, own in given.items()}
    for own in completed.values():
        check_names(own, actual)
    changing = [key for key in keys if not all(is_already(own[key], actual.get(key)) for own in completed.values())]
    if not changing:
        return None
    names = {key: actual[key].name if key in actual else key for key in changing}
    rights = await probe_rights(server, list(names.values()))
    check_sources(list(names.values()), actual, in_database=database is not None)
    if fixed := [names[key] for key in changing if key in actual and actual[key].context not in _RELOADED]:
        raise SettingError(
            f"a running server cannot be switched to another {', '.join(fixed)}",
            hint='What only a restart or a new session changes needs method = "blocks" in [design].',
        )
    named = [{names[key]: own[key] for key in changing} for own in completed.values()]
    written, before = await note_way_back(server, named, actual, rights)
    shown = [actual[key].shown if key in actual else "the default" for key in changing]
    return Change(
        knob=SERVER_SWITCH,
        name=f"{', '.join(names.values())} of the server at {server.control.address.place}",
        old=before.to_items(),
        new={
            "settings": json.dumps(written[0]),
            SWITCHED: json.dumps(dict(zip(completed, written, strict=True))),
            "server": server.control.address.to_text(),
            "restart": "",
            "database": database or "",
            TIMELINE: await server.timeline(),
        },
        old_text=", ".join(text or "empty" for text in shown),
        new_text=" by turns with ".join(dict.fromkeys(", ".join(own.values()) for own in written)),
    )


def _complete(arm: str, own: Mapping[str, str], keys: Iterable[str], actual: Mapping[str, Setting]) -> dict[str, str]:
    """The settings of an arm by key, with the server's own values of those that it does not name."""
    found = {}
    for key in keys:
        if key not in own and key not in actual:
            raise SettingError(
                f'the server shows no "{key}" that arm "{arm}" could have', hint="Give it a value in every arm."
            )
        found[key] = own[key] if key in own else actual[key].shown
    return found


@dataclass(slots=True, kw_only=True)
class SettingsSwitch:
    """The server after ``apply_settings`` has made the change. ``content`` is postgresql.auto.conf as it was left, and
    ``rights`` are those of the role.
    """

    server: ExistingServer
    change: Change
    rights: Rights
    content: bytes
    _now: str | None = field(init=False)  # the arm whose settings are in the file; None: it is not known

    def __post_init__(self) -> None:
        self._now = next(iter(self.values))

    @property
    def values(self) -> Mapping[str, Mapping[str, str]]:
        """The settings by arm."""
        found: Mapping[str, Mapping[str, str]] = json.loads(self.change.new[SWITCHED])
        return found

    async def turn_to(self, arm: str) -> None:
        """Give the server an arm's settings, read back in a new session. Sessions have them from their next statement.

        Raises SettingError, also where somebody else has changed the file meanwhile, whose change is left alone, or has
        one in another file that is not loaded yet.
        """
        values = self.values
        if self._now is not None and values[arm] == values[self._now]:
            self._now = arm
            return
        content = await self.server.read_auto_conf()
        if content != self.content:
            raise SettingError(
                "somebody else has changed postgresql.auto.conf while arms took turns",
                hint="What others have set stays. Run the experiment when nobody changes settings.",
            )
        await check_files(self.server, await read_settings(self.server.conninfo()), self.rights)
        self._now, entries = None, {entry.key: entry.value for entry in parse(content)}
        differing = {name: value for name, value in values[arm].items() if entries.get(setting_key(name)) != value}
        self.content = await write_settings(self.server, content, differing)
        await self.server.control.reload()
        await await_settings(self.server, values[arm], self.change.new["database"] or None)
        self._now = arm

    async def find_lost(self) -> str:
        """Which settings are not those of the arm that has its turn, as a full sentence; "" when all are."""
        if self._now is None:
            return ""
        new = {**self.change.new, "settings": json.dumps(self.values[self._now])}
        return await find_lost(self.server, replace(self.change, new=new))


async def refuse_changed(server: ExistingServer, first: Change) -> None:
    """Raise SettingError where the server is not as it was before its ``first`` change: what somebody has set since,
    perhaps as an arm did harm, is not to be taken for the value that an arm replaces.
    """
    before = Before.from_items(first.old)
    hint = "What others have set stays. Begin a new experiment when nobody changes settings."
    content = await server.read_auto_conf()
    if content is None or not is_sealed(content, before.seal):
        raise SettingError("somebody else has changed postgresql.auto.conf since the block before", hint=hint)
    actual = await read_settings(server.conninfo(first.new["database"] or None), also=before.running)
    for name, value in before.running.items():
        setting = actual.get(setting_key(name))
        if value is not None and (setting is None or setting.value != value):
            now = "gone" if setting is None else setting.shown
            raise SettingError(f"{name} is {now}, which is not what it was before the first block", hint=hint)


async def begin_switching(server: ExistingServer, change: Change) -> SettingsSwitch:
    """The server that ``apply_settings`` has just made the first arm's. Raises TargetError."""
    content = await server.read_auto_conf()
    if content is None:
        raise SettingError("postgresql.auto.conf can no longer be read")
    return SettingsSwitch(server=server, change=change, rights=await probe_rights(server), content=content)
