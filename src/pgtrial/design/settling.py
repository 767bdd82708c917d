"""How the effect of everything that an arm can set settles, and what twins on one machine share of it.

It decides which methods are valid: while arms take turns in short slices, an effect that needs longer than a slice, or
that lies in something the twins have in common, is spread over all of them and looks smaller than it is.
Sources: PostgreSQL's documentation and source (checkpointer.c, bgwriter.c, fd.c), the kernel's documentation
(admin-guide/sysctl, admin-guide/mm/transhuge, block/queue-sysfs) and source (mm/page-writeback.c, mm/readahead.c).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from pgtrial.experiment_file.knob_tables import POSTGRESQL, is_list
from pgtrial.model.arm import Arm


class Settling(StrEnum):
    """How long an effect takes to be whole: none, a known time, or as long as it takes to build up state."""

    AT_ONCE = "at once"
    SECONDS = "seconds"
    BUILDS_UP = "builds up"


class Shared(StrEnum):
    """What twins on one machine have in common, and through which an effect leaks from one to the other."""

    PAGE_CACHE = "page cache"
    DIRTY_PAGES = "dirty pages"
    DEVICE_QUEUE = "device queue"
    MEMORY = "free memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How the settings that match one of ``patterns`` settle, and why, in a clause.

    ``seconds`` is how long it takes after the setting has changed, for what is not at once, or not quite. State that
    is not in ``shares`` is the cluster's own: it stays as it is while the cluster stands still. ``by_clock``: timed by
    the clock, which goes on meanwhile.
    """

    patterns: tuple[str, ...]
    settling: Settling
    reason: str
    seconds: float = 0.0
    shares: tuple[Shared, ...] = ()
    by_clock: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A setting in which arms differ. ``label`` names it; ``knob`` is the table in which it stands."""

    knob: str
    label: str
    rule: Rule


# Of the machine, and switched from one arm's value to another's between slices.
SWITCHED = ("sysctl", "block_device", "transparent_huge_pages")
# Of the machine, and there for as long as a server runs.
STANDING = ("storage", "filesystem", "huge_pages", "memory_pressure", "tracing")

_ON_DEVICE = (Shared.PAGE_CACHE, Shared.DIRTY_PAGES, Shared.DEVICE_QUEUE)
_LIBRARIES = ("shared_preload_libraries", "session_preload_libraries", "local_preload_libraries")

_POSTGRESQL = (
    Rule(
        patterns=("checkpoint_*", "max_wal_size", "min_wal_size", "wal_recycle", "wal_keep_size", "wal_init_zero"),
        settling=Settling.BUILDS_UP,
        reason="acts over a whole checkpoint cycle, which the clock paces and whose writes wait in the page cache",
        shares=(Shared.DIRTY_PAGES, Shared.DEVICE_QUEUE),
        by_clock=True,
    ),
    Rule(
        patterns=("autovacuum*", "vacuum_*", "maintenance_work_mem", "default_statistics_target", "gin_pending_*"),
        settling=Settling.BUILDS_UP,
        reason="acts when autovacuum comes by, which the clock decides, on what has gathered until then",
        by_clock=True,
    ),
    Rule(
        patterns=("log_autovacuum_*", "log_lock_waits", "log_lock_failures", "log_startup_*", "log_rotation_*"),
        settling=Settling.AT_ONCE,
        reason="holds for the next event that is logged",
    ),
    Rule(
        patterns=("*_timeout", "*_interval", "archive_*", "tcp_*", "*_naptime"),
        settling=Settling.BUILDS_UP,
        reason="is a time by the clock",
        by_clock=True,
    ),
    Rule(
        patterns=("bgwriter_*",),
        settling=Settling.SECONDS,
        reason="acts in rounds of some 100 ms, on buffers whose pages then wait in the page cache",
        seconds=2.0,
        shares=(Shared.DIRTY_PAGES,),
    ),
    Rule(
        patterns=("fsync", "data_sync_retry"),
        settling=Settling.BUILDS_UP,
        reason="leaves writing to the kernel, which does it later, also in the slices of other arms",
        shares=(Shared.DIRTY_PAGES, Shared.DEVICE_QUEUE),
    ),
    Rule(
        patterns=("full_page_writes", "wal_compression", "wal_log_hints"),
        settling=Settling.BUILDS_UP,
        reason="acts on full page images, most of which are written just after a checkpoint",
    ),
    Rule(
        patterns=("shared_buffers",),
        settling=Settling.SECONDS,
        reason="fills during the warm-up and stays filled while the server stands still, but reads from and evicts to "
        "the page cache",
        seconds=10.0,
        shares=(Shared.PAGE_CACHE, Shared.DIRTY_PAGES),
    ),
    Rule(
        patterns=("debug_io_direct", "backend_flush_after", "synchronize_seqscans", "file_*_method"),
        settling=Settling.AT_ONCE,
        reason="decides what the page cache holds or hands on",
        shares=(Shared.PAGE_CACHE, Shared.DIRTY_PAGES),
    ),
    Rule(
        patterns=("*_buffers", "temp_buffers"),
        settling=Settling.SECONDS,
        reason="is a cache of the server's own, filled during the warm-up and kept while it stands still",
        seconds=5.0,
    ),
    Rule(
        patterns=("huge_page*", "*shared_memory*"),
        settling=Settling.AT_ONCE,
        reason="is memory of the server's own, mapped when it starts",
    ),
    Rule(
        patterns=("synchronous_*", "commit_delay", "commit_siblings", "wal_sync_*", "wal_writer_*", "wal_skip_*"),
        settling=Settling.AT_ONCE,
        reason="holds for the next commit",
    ),
    Rule(
        patterns=("work_mem", "hash_mem_multiplier", "logical_decoding_work_mem", "temp_*", "max_stack_depth"),
        settling=Settling.AT_ONCE,
        reason="holds for the next statement, whose memory is its own",
    ),
    Rule(
        patterns=(
            *("enable_*", "*_cost", "jit*", "geqo*", "*_collapse_limit", "plan_cache_mode", "constraint_exclusion"),
            *("cursor_tuple_fraction", "recursive_worktable_factor", "effective_cache_size", "min_parallel_*"),
            *("parallel_*", "max_parallel_*", "debug_parallel_query", "force_parallel_mode", "*_above_cost"),
        ),
        settling=Settling.AT_ONCE,
        reason="holds for the next statement that is planned",
    ),
    Rule(
        patterns=("io_*", "effective_io_concurrency", "maintenance_io_concurrency"),
        settling=Settling.AT_ONCE,
        reason="holds for the next read",
    ),
    Rule(
        patterns=("wal_*", "summarize_wal", "track_commit_timestamp"),
        settling=Settling.AT_ONCE,
        reason="holds for the next record of WAL",
    ),
    Rule(
        patterns=("track_*", "log_*", "logging_*", "syslog_*", "debug_*", "trace_*", "compute_query_id", "update_*"),
        settling=Settling.AT_ONCE,
        reason="holds for the next statement or event",
    ),
    Rule(
        patterns=("max_*", "*_slots", "reserved_connections", "superuser_reserved_connections"),
        settling=Settling.AT_ONCE,
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
        settling=Settling.AT_ONCE,
        reason="holds for the next session or statement",
    ),
    Rule(
        patterns=("*",),
        settling=Settling.BUILDS_UP,
        reason="is not known to pgtrial, and may build up state of its own",
    ),
)
_SYSCTL = (
    Rule(
        patterns=("vm.overcommit*", "vm.max_map_count", "vm.mmap_*", "vm.oom_*", "vm.panic_on_oom"),
        settling=Settling.AT_ONCE,
        reason="holds for memory that is asked for next",
        seconds=0.2,
    ),
    Rule(
        patterns=("vm.dirty*", "vm.laptop_mode"),
        settling=Settling.BUILDS_UP,
        reason="acts on the dirty pages of all programs, which gather and are written back over tens of seconds",
        shares=(Shared.DIRTY_PAGES,),
    ),
    Rule(
        patterns=("vm.*",),
        settling=Settling.BUILDS_UP,
        reason="acts on the memory of all programs, by what is reclaimed, swapped out or kept over minutes",
        shares=(Shared.PAGE_CACHE, Shared.MEMORY),
    ),
    Rule(
        patterns=("kernel.numa_balancing*",),
        settling=Settling.BUILDS_UP,
        reason="moves pages between nodes over minutes",
        shares=(Shared.MEMORY,),
    ),
    Rule(
        patterns=("kernel.sched*", "kernel.timer_migration", "kernel.watchdog*", "kernel.nmi_watchdog", "kernel.perf*"),
        settling=Settling.AT_ONCE,
        reason="holds from the scheduler's next decision on",
        seconds=0.2,
    ),
    Rule(
        patterns=("kernel.sem", "kernel.shm*", "kernel.msg*", "kernel.*max*", "kernel.randomize_va_space", "fs.*"),
        settling=Settling.AT_ONCE,
        reason="is a limit, or holds for what is made next",
        seconds=0.2,
    ),
    Rule(
        patterns=("net.*",),
        settling=Settling.AT_ONCE,
        reason="holds for the next packet or connection",
        seconds=0.2,
    ),
    Rule(
        patterns=("*",),
        settling=Settling.BUILDS_UP,
        reason="is not known to pgtrial, and all programs share it",
        shares=(Shared.MEMORY,),
    ),
)
_BLOCK_DEVICE = (
    Rule(
        patterns=("wbt_lat_usec",),
        settling=Settling.SECONDS,
        reason="throttles the write-back of dirty pages, whosever they are",
        seconds=1.0,
        shares=(Shared.DIRTY_PAGES,),
    ),
    Rule(
        patterns=("read_ahead_kb",),
        settling=Settling.AT_ONCE,
        reason="holds for files that are opened next; sessions keep theirs open",
        seconds=0.2,
    ),
    Rule(
        patterns=("*",),
        settling=Settling.AT_ONCE,
        reason="holds for the next request, once the queue has been emptied",
        seconds=0.4,
    ),
)
_CGROUP = (
    Rule(patterns=("cpus",), settling=Settling.AT_ONCE, reason="holds in every period of 100 ms, for its own group"),
    Rule(patterns=("read_*",), settling=Settling.AT_ONCE, reason="holds for the next read of its own group"),
    Rule(
        patterns=("write_*",),
        settling=Settling.SECONDS,
        reason="delays the write-back of its own group's dirty pages, also beyond a slice",
        seconds=5.0,
        shares=(Shared.DIRTY_PAGES,),
    ),
    Rule(
        patterns=("*",),
        settling=Settling.BUILDS_UP,
        reason="acts once its own group has filled it, page cache included",
    ),
)
_EXTENSIONS = (
    Rule(
        patterns=("auto_explain", "pg_stat_statements", "pg_hint_plan", "plpgsql", "pg_trgm", "pg_buffercache"),
        settling=Settling.AT_ONCE,
        reason="holds for the next statement",
    ),
    Rule(
        patterns=("*",),
        settling=Settling.BUILDS_UP,
        reason="is not known to pgtrial, and may build up state of its own",
    ),
)

# By table of an arm; the first rule that matches holds, and the last one of each matches everything.
RULES: Mapping[str, tuple[Rule, ...]] = {
    POSTGRESQL: _POSTGRESQL,
    "server": (Rule(patterns=("*",), settling=Settling.AT_ONCE, reason="means programs and a cluster of its own"),),
    "extensions": _EXTENSIONS,
    "sql": (
        Rule(
            patterns=("*",),
            settling=Settling.BUILDS_UP,
            reason="bears on how tables and indexes grow and bloat",
        ),
    ),
    "dataset": (
        Rule(
            patterns=("*",),
            settling=Settling.BUILDS_UP,
            reason="means data of another size, of which the caches hold another part",
            shares=(Shared.PAGE_CACHE,),
        ),
    ),
    "storage": (
        Rule(
            patterns=("*",),
            settling=Settling.BUILDS_UP,
            reason="brings its own device, whose caches and waiting writes come and go over minutes",
            shares=_ON_DEVICE,
        ),
    ),
    "filesystem": (
        Rule(
            patterns=("*",),
            settling=Settling.BUILDS_UP,
            reason="has a journal and write-back, which go on while a server stands still",
            shares=_ON_DEVICE,
        ),
    ),
    "cgroup": _CGROUP,
    "sysctl": _SYSCTL,
    "block_device": _BLOCK_DEVICE,
    "transparent_huge_pages": (
        Rule(
            patterns=("*",),
            settling=Settling.SECONDS,
            reason="holds for memory that is touched first after it; a server keeps the pages that it has",
            seconds=0.4,
        ),
    ),
    "huge_pages": (
        Rule(
            patterns=("*",),
            settling=Settling.BUILDS_UP,
            reason="is a pool made for one server, of memory that all programs lack then",
            shares=(Shared.MEMORY,),
        ),
    ),
    "memory_pressure": (
        Rule(
            patterns=("*",),
            settling=Settling.BUILDS_UP,
            reason="makes the kernel reclaim memory and swap, over minutes",
            shares=(Shared.PAGE_CACHE, Shared.MEMORY),
        ),
    ),
    "tracing": (
        Rule(
            patterns=("*",), settling=Settling.AT_ONCE, reason="counts what happens on the whole machine, in all arms"
        ),
    ),
    "fio": (
        Rule(
            patterns=("*",),
            settling=Settling.BUILDS_UP,
            reason="decides which pages are cached and dirty, for all that use the machine",
            shares=_ON_DEVICE,
        ),
    ),
}


def find_rule(knob: str, name: str) -> Rule:
    """The rule of a setting; ``knob`` is its table in an arm, ``name`` its key, or for a list one of its elements.

    An extension's setting settles as the extension does.
    """
    dotted = name.replace("/", ".") if knob == "sysctl" else name
    if knob == POSTGRESQL and "." in name:
        knob, dotted = "extensions", name.partition(".")[0]
    return next(
        rule for rule in RULES[knob] if any(fnmatchcase(dotted.lower(), pattern.lower()) for pattern in rule.patterns)
    )


def find_differences(arms: Sequence[Arm]) -> tuple[Difference, ...]:
    """Every setting, of PostgreSQL and around it, that is not the same in all arms."""
    found: dict[tuple[str, str], Difference] = {}
    tables = [{POSTGRESQL: arm.settings, **arm.knobs} for arm in arms]
    for knob, key in dict.fromkeys((name, key) for table in tables for name in table for key in table[name]):
        values = [table.get(knob, {}).get(key) for table in tables]
        if len(set(values)) == 1:
            continue
        libraries = is_list(knob, key) or (knob == POSTGRESQL and key in _LIBRARIES)
        for name in _not_in_all(values) if libraries else (key,):
            table = "extensions" if libraries else knob
            label = name if table in (POSTGRESQL, "sysctl") else f"{table} {name}"
            found.setdefault((table, name), Difference(knob=table, label=label, rule=find_rule(table, name)))
    return tuple(found.values())


def _not_in_all(lists: Sequence[str | None]) -> tuple[str, ...]:
    """Elements of lists, joined by commas, that are not in every one of them; in order of appearance."""
    parts = [{part.strip(): None for part in (text or "").split(",") if part.strip()} for text in lists]
    return tuple(name for name in dict.fromkeys(n for part in parts for n in part) if any(name not in p for p in parts))
