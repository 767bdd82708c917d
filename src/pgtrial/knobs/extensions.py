"""Libraries that the server loads, and extensions in the load's database."""

from collections.abc import Mapping, Sequence

from pydantic import Field

from pgtrial.knobs.declaration import (
    ALWAYS,
    UNKNOWN,
    About,
    Among,
    EffectTiming,
    Knob,
    Lasting,
    OwnSettings,
    Rule,
    Scope,
)
from pgtrial.knobs.values import Name, Table

_RULES = (
    Rule(
        patterns=("auto_explain", "pg_stat_statements", "pg_hint_plan", "plpgsql", "pg_trgm", "pg_buffercache"),
        timing=EffectTiming.AT_ONCE,
        reason="holds for the next statement",
    ),
    UNKNOWN,
)


class ExtensionsTable(Table):
    """Libraries and extensions."""

    preload: tuple[Name, ...] = Field(default=(), description="Libraries for shared_preload_libraries.")
    create: tuple[Name, ...] = Field(default=(), description="Extensions to create in the load's database.")


class Extensions(Knob):
    name = "extensions"
    about = About(
        sets="shared_preload_libraries, and extensions in the load's database",
        takes_effect="libraries at the server's start, extensions before the load",
        rights="none in a throw-away cluster; otherwise those of CREATE EXTENSION",
        verified="settings are read back; CREATE EXTENSION fails loudly",
        undone="the data are restored before the next run",
    )
    scope = Scope.DATABASE
    among_twins = Among.OWN
    acts = (ALWAYS,)
    rules = _RULES
    needs_server = True
    writing_keys = ("create",)
    restart_keys = ("preload",)
    own_settings = (
        OwnSettings(
            key="preload",
            settings=("shared_preload_libraries",),
            hint="List all libraries in one of the two places.",
        ),
    )

    def make_last(self, values: Mapping[str, str]) -> Sequence[Lasting]:
        names = [name.strip() for name in values.get("create", "").split(",") if name.strip()]
        libraries = values.get("preload")
        lines = ['CREATE EXTENSION IF NOT EXISTS "{}";'.format(name.replace('"', '""')) for name in names]
        if libraries:
            lines.insert(0, f"-- Add to shared_preload_libraries, and restart the server: {libraries}")
        return (Lasting(place="psql, in the database of the load", lines=tuple(lines), comment="--"),)
