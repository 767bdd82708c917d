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
    "dataset": About(
        sets="the scale of pgbench's tables",
        takes_effect="arms with another scale have a cluster and a snapshot of their own",
        rights="none",
        verified="pgbench makes the tables of the cluster at that scale, and fails loudly",
        undone="goes with the cluster",
    ),
    "storage": About(
        sets="the directories of the data and of the WAL, or the disk class that they are on ([disks.NAME]): a place, "
        "or an emulation, which is a filesystem and limits of a cgroup, below",
        takes_effect="arms with other directories have a cluster of their own",
        rights="the server's user may write there; an emulation needs root",
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
    "fio": About(
        sets="what the jobs of a load on files do: pattern, size of the file, block size, direct, fsync, engine and "
        "depth, and the state of the page cache before a run",
        takes_effect="for the load of the arm; the files are made once, as large as any arm needs them",
        rights="none",
        verified="each job does a few requests before anything is measured; fio fails loudly",
        undone="the files are removed at the end of the experiment",
    ),
}
