"""What is set in and around a server without changing its host, in the words of the documentation's table."""

from collections.abc import Mapping

from pgtrial.knobs.base import About

CLUSTER_KNOBS: Mapping[str, About] = {
    "postgresql": About(
        sets="PostgreSQL settings",
        takes_effect="throw-away cluster: at the server's start; existing server: at a reload, or at the restart that "
        "the file's command makes",
        rights="existing server: ALTER SYSTEM on the setting, pg_reload_conf()",
        verified="every setting of the server is read back with its source (pg_settings)",
        undone="throw-away cluster: goes with it; existing server: postgresql.auto.conf is byte for byte as before",
    ),
    "server": About(
        sets="the server's programs: version or build",
        takes_effect="arms with other programs have a cluster of their own, from their own initdb",
        rights="none",
        verified="the version is asked of the running server",
        undone="goes with the cluster",
    ),
    "storage": About(
        sets="the directories of the data and of the WAL",
        takes_effect="arms with other directories have a cluster of their own",
        rights="the server's user may write there",
        verified="data_directory and the link pg_wal are read back",
        undone="goes with the cluster",
    ),
    "extensions": About(
        sets="shared_preload_libraries, and extensions in the load's database",
        takes_effect="libraries at the server's start, extensions before the load",
        rights="none in a throw-away cluster; else those of CREATE EXTENSION",
        verified="settings are read back; CREATE EXTENSION fails loudly",
        undone="the data are put back before the next run",
    ),
    "sql": About(
        sets="whatever SQL can: indexes, fillfactor, table options, statistics targets",
        takes_effect="before the load, after the data are put back",
        rights="those of the statements",
        verified="each statement fails loudly",
        undone="the data are put back before the next run, or by its own undo statements",
    ),
}
