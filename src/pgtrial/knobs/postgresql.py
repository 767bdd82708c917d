"""PostgreSQL's own settings: how the effect of each settles.

Sources: PostgreSQL's documentation and source (checkpointer.c, bgwriter.c, fd.c).
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress

from pgtrial.knobs.declaration import (
    ALWAYS,
    UNKNOWN,
    About,
    Acts,
    Among,
    EffectTiming,
    Knob,
    Lasting,
    Outlook,
    Rule,
    Scope,
    Shared,
    idle_without_writes,
)
from pgtrial.knobs.extensions import Extensions
from pgtrial.units import format_bytes, format_duration, parse_bytes, parse_duration

POSTGRESQL = "postgresql"
# Settings that list libraries: each settles as its own extension does.
LIBRARIES = ("shared_preload_libraries", "session_preload_libraries", "local_preload_libraries")
# ALTER SYSTEM takes each text for one element of these and quotes it, so that 'a, b' would become one library "a, b".
# GUC_LIST_QUOTE in guc_tables.c; a test asks each server. Whether the elements are names, which are folded, or paths.
LISTS = {
    "local_preload_libraries": False,
    "oauth_validator_libraries": False,
    "output_plugin_libraries": False,
    "search_path": True,
    "session_preload_libraries": False,
    "shared_preload_libraries": False,
    "temp_tablespaces": True,
    "unix_socket_directories": False,
}

# Taken by a server or a session only when it starts, although others of their kind hold for the next statement.
_FROM_THE_START = frozenset(
    {
        *("jit_provider", "jit_debugging_support", "jit_profiling_support"),
        *("io_method", "io_max_concurrency", "io_max_combine_limit"),
    }
)

_RULES = (
    Rule(
        patterns=("checkpoint_*", "max_wal_size", "min_wal_size", "wal_recycle", "wal_keep_size", "wal_init_zero"),
        timing=EffectTiming.BUILDS_UP,
        reason="acts over a whole checkpoint cycle, which the clock paces and whose writes wait in the page cache",
        shares=(Shared.DIRTY_PAGES, Shared.DEVICE_QUEUE),
        by_clock=True,
    ),
    Rule(
        patterns=("autovacuum*", "vacuum_*", "maintenance_work_mem", "default_statistics_target", "gin_pending_*"),
        timing=EffectTiming.BUILDS_UP,
        reason="acts when autovacuum comes by, which the clock decides, on what has gathered until then",
        by_clock=True,
    ),
    Rule(
        patterns=("log_autovacuum_*", "log_lock_waits", "log_lock_failures", "log_startup_*", "log_rotation_*"),
        timing=EffectTiming.AT_ONCE,
        reason="holds for the next event that is logged",
    ),
    Rule(
        patterns=("*_timeout", "*_interval", "archive_*", "tcp_*", "*_naptime"),
        timing=EffectTiming.BUILDS_UP,
        reason="is a time by the clock",
        by_clock=True,
    ),
    Rule(
        patterns=("bgwriter_*",),
        timing=EffectTiming.SECONDS,
        reason="acts in rounds of some 100 ms, on buffers whose pages then wait in the page cache",
        seconds=2.0,
        shares=(Shared.DIRTY_PAGES,),
        at_run_time=True,
    ),
    Rule(
        patterns=("fsync", "data_sync_retry"),
        timing=EffectTiming.BUILDS_UP,
        reason="leaves writing to the kernel, which does it later, also in the slices of other arms",
        shares=(Shared.DIRTY_PAGES, Shared.DEVICE_QUEUE),
    ),
    Rule(
        patterns=("full_page_writes", "wal_compression", "wal_log_hints"),
        timing=EffectTiming.BUILDS_UP,
        reason="acts on full page images, most of which are written just after a checkpoint",
    ),
    Rule(
        patterns=("shared_buffers",),
        timing=EffectTiming.SECONDS,
        reason="fills during the warm-up and stays filled while the server is frozen, but reads from and evicts to "
        "the page cache",
        seconds=10.0,
        shares=(Shared.PAGE_CACHE, Shared.DIRTY_PAGES),
    ),
    Rule(
        patterns=("debug_io_direct", "backend_flush_after", "synchronize_seqscans", "file_*_method"),
        timing=EffectTiming.AT_ONCE,
        reason="decides what the page cache holds or hands on",
        shares=(Shared.PAGE_CACHE, Shared.DIRTY_PAGES),
    ),
    Rule(
        patterns=("*_buffers", "temp_buffers"),
        timing=EffectTiming.SECONDS,
        reason="is a cache of the server's own, filled during the warm-up and kept while it is frozen",
        seconds=5.0,
    ),
    Rule(
        patterns=("huge_page*", "*shared_memory*"),
        timing=EffectTiming.AT_ONCE,
        reason="is memory of the server's own, mapped when it starts",
    ),
    Rule(
        patterns=("synchronous_*", "commit_delay", "commit_siblings", "wal_sync_*", "wal_writer_*", "wal_skip_*"),
        timing=EffectTiming.AT_ONCE,
        reason="holds for the next commit",
        at_run_time=True,
    ),
    Rule(
        patterns=("work_mem", "hash_mem_multiplier", "logical_decoding_work_mem", "temp_*", "max_stack_depth"),
        timing=EffectTiming.AT_ONCE,
        reason="holds for the next statement, whose memory is its own",
        at_run_time=True,
    ),
    Rule(
        patterns=(
            *("enable_*", "*_cost", "jit*", "geqo*", "*_collapse_limit", "plan_cache_mode", "constraint_exclusion"),
            *("cursor_tuple_fraction", "recursive_worktable_factor", "effective_cache_size", "min_parallel_*"),
            *("parallel_*", "max_parallel_*", "debug_parallel_query", "force_parallel_mode", "*_above_cost"),
        ),
        timing=EffectTiming.AT_ONCE,
        reason="holds for the next statement that is planned",
        at_run_time=True,
    ),
    Rule(
        patterns=("io_*", "effective_io_concurrency", "maintenance_io_concurrency"),
        timing=EffectTiming.AT_ONCE,
        reason="holds for the next read",
        at_run_time=True,
    ),
    Rule(
        patterns=("wal_*", "summarize_wal", "track_commit_timestamp"),
        timing=EffectTiming.AT_ONCE,
        reason="holds for the next record of WAL",
    ),
    Rule(
        patterns=("track_*", "log_*", "logging_*", "syslog_*", "debug_*", "trace_*", "compute_query_id", "update_*"),
        timing=EffectTiming.AT_ONCE,
        reason="holds for the next statement or event",
    ),
    Rule(
        patterns=("max_*", "*_slots", "reserved_connections", "superuser_reserved_connections"),
        timing=EffectTiming.AT_ONCE,
        reason="is a limit, or a table of the server's own, from its start on",
    ),
    Rule(
        patterns=(
            *("allow_*", "*file", "*_files", "*_directory", "*_directories", "*_command", "*_path", "*_name*"),
            *("ssl*", "krb_*", "gss_*", "password_*", "scram_*", "md5_*", "oauth_*", "db_user_namespace", "bonjour"),
            *("recovery_*", "hot_standby*", "primary_*", "promote_*", "sync*_standby*", "sync_replication_slots"),
            *("default_*", "transaction_*", "transform_null_equals", "lc_*", "*_messages", "client_encoding"),
            *("DateStyle", "IntervalStyle", "TimeZone", "timezone_abbreviations", "extra_float_digits"),
            *("bytea_output", "xml*", "array_nulls", "backslash_quote", "*_strings", "*_warning", "quote_all_*"),
            *("check_function_bodies", "row_security", "search_path", "session_replication_role", "event_*"),
            *("createrole_*", "exit_on_error", "restart_after_crash", "remove_temp_*", "send_abort_*", "*_delay"),
            *("ignore_*", "zero_damaged_pages", "icu_*", "lo_compat_*", "restrict_*", "stats_fetch_consistency"),
            *("backtrace_functions", "extension_*", "unix_socket_*", "listen_addresses", "port", "gin_fuzzy_*"),
            *("old_snapshot_threshold", "output_plugin_libraries", "composite_type_mismatch"),
        ),
        timing=EffectTiming.AT_ONCE,
        reason="holds for the next session or statement",
    ),
    UNKNOWN,
)


def _idle_cache(outlook: Outlook) -> str:
    sizes = [_bytes(value, unit=_BLOCK) for value in outlook.values]
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes) or min(known) < outlook.data:
        return ""
    return f"the data, about {format_bytes(outlook.data)}, fit into the shared buffers of every arm"


def _idle_checkpoints(outlook: Outlook) -> str:
    if not outlook.writes:
        return idle_without_writes(outlook)
    times = [_seconds(value) for value in outlook.values]
    known = [time for time in times if time is not None]
    if len(known) < len(times) or min(known) <= outlook.seconds:
        return ""
    return f"no checkpoint is due in the {format_duration(outlook.seconds)} of a run"


def _idle_sorts(outlook: Outlook) -> str:
    return "" if outlook.sorts else "no statement of this load sorts or hashes more than a few rows"


def _bytes(value: str | None, *, unit: int) -> float | None:
    """Of a setting whose numbers without a unit are in ``unit`` bytes."""
    text = (value or "").strip().strip("'")
    with suppress(ValueError):
        return float(text) * unit if text.isdecimal() else parse_bytes(text)
    return None


def _seconds(value: str | None) -> float | None:
    with suppress(ValueError):
        return float(value) if value is not None and value.isdecimal() else parse_duration(value or "")
    return None


_BLOCK = 8192
_ANY = 1e-9  # more than none
HUGE_PAGES = Acts(patterns=("huge_page*",), code="huge-pages", metrics=("huge.explicit",), least=1.0)
_ACTS = (
    HUGE_PAGES,
    Acts(
        patterns=("shared_buffers",),
        code="evictions",
        metrics=("db.evictions", "db.read"),
        least=1.0,
        idle=_idle_cache,
    ),
    Acts(
        patterns=("work_mem", "hash_mem_multiplier", "temp_file_limit"),
        code="temporary-files",
        metrics=("db.temp_bytes",),
        least=_ANY,
        idle=_idle_sorts,
    ),
    Acts(
        patterns=("checkpoint_timeout",),
        code="timed-checkpoints",
        metrics=("checkpoints.timed",),
        least=_ANY,
        idle=_idle_checkpoints,
    ),
    Acts(
        patterns=("max_wal_size", "min_wal_size"),
        code="requested-checkpoints",
        metrics=("checkpoints.requested",),
        least=_ANY,
        idle=idle_without_writes,
    ),
    Acts(
        patterns=("checkpoint_*",),
        code="checkpoints",
        metrics=("checkpoints.buffers",),
        least=_ANY,
        idle=idle_without_writes,
    ),
    Acts(
        patterns=("full_page_writes", "wal_compression"),
        code="full-pages",
        metrics=("wal.fpi",),
        least=1.0,
        idle=idle_without_writes,
    ),
    Acts(
        patterns=("synchronous_commit", "commit_delay", "commit_siblings", "fsync", "wal_sync_method", "wal_writer_*"),
        code="wal-flushes",
        metrics=("wal.syncs",),
        least=1.0,
        idle=idle_without_writes,
    ),
    Acts(
        patterns=("wal_buffers",),
        code="full-wal-buffers",
        metrics=("wal.buffers_full",),
        least=_ANY,
        idle=idle_without_writes,
    ),
    Acts(
        patterns=("bgwriter_*",),
        code="background-writer",
        metrics=("bgwriter.buffers", "backend.buffers"),
        least=1.0,
        idle=idle_without_writes,
    ),
    Acts(
        patterns=("autovacuum*", "vacuum_*", "maintenance_work_mem"),
        code="autovacuum",
        metrics=("sessions.autovacuum", "vacuum.running"),
        least=_ANY,
        idle=idle_without_writes,
    ),
    Acts(
        patterns=("effective_io_concurrency", "io_*"),
        code="requests",
        metrics=("iostat.r",),
        least=1.0,
    ),
)


class Postgresql(Knob):
    name = POSTGRESQL
    about = About(
        sets="PostgreSQL settings",
        takes_effect="throw-away cluster: at server start; existing server: in the load's sessions where a session can "
        "have it, else at a reload, or at a restart by the file's command",
        rights="existing server: SET; for what no session can have ALTER SYSTEM on the setting, pg_reload_conf()",
        verified="every setting of the server is read back with its source (pg_settings)",
        undone="throw-away cluster: removed with the cluster; existing server: ends with the sessions; "
        "postgresql.auto.conf is byte for byte as before",
    )
    scope = Scope.SETTINGS
    among_twins = Among.OWN
    rules = _RULES
    acts = _ACTS
    keys_tell_all = True
    needs_server = True

    def rule_of(self, key: str) -> Rule:
        """An extension's setting ("auto_explain.log_analyze") settles as the extension does."""
        extension, dot, _ = key.partition(".")
        return Extensions().rule_of(extension) if dot else super().rule_of(key)

    def acts_of(self, key: str) -> Acts | None:
        """One with a dot is an extension's, or of nobody but the scripts that read it."""
        return ALWAYS if "." in key else super().acts_of(key)

    def can_be_switched(self, key: str) -> bool:
        return key not in _FROM_THE_START and super().can_be_switched(key)

    def make_last(self, values: Mapping[str, str]) -> Sequence[Lasting]:
        return (in_psql(values),)


def in_psql(values: Mapping[str, str]) -> Lasting:
    """Statements of an administrator; a reload applies what needs no restart, and the last one shows the rest."""
    return Lasting(
        place="psql, as a superuser",
        lines=tuple(_alter_system(name, value) for name, value in values.items()),
        then=(
            "SELECT pg_reload_conf();",
            "SELECT name, setting FROM pg_settings WHERE pending_restart;  -- these wait for a restart",
        ),
        comment="--",
    )


def _alter_system(name: str, value: str) -> str:
    target = ".".join('"{}"'.format(part.replace('"', '""')) for part in name.split("."))
    elements = split_list(name, value) if name.lower() in LISTS else [value]
    literals = ", ".join("'{}'".format(element.replace("'", "''")) for element in elements)
    return f"ALTER SYSTEM SET {target} = {literals};"


def split_list(name: str, value: str) -> list[str]:
    """Elements of a list of names or paths (SplitIdentifierString and SplitDirectoriesString in varlena.c)."""
    folded, elements, at = LISTS[name.lower()], [], 0
    while at < len(value):
        part = value[at:].lstrip()
        at = len(value) - len(part)
        if part.startswith('"'):
            end = at + 1
            while end < len(value) and (value[end] != '"' or value[end : end + 2] == '""'):
                end += 2 if value[end] == '"' else 1
            elements.append(value[at + 1 : end].replace('""', '"'))
            comma = value.find(",", end)
        else:
            comma = value.find(",", at)
            bare = value[at:] if comma < 0 else value[at:comma]
            elements.append(bare.strip().lower() if folded else bare.strip())
        at = len(value) if comma < 0 else comma + 1
    return elements
