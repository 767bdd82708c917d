"""Data of a stranger, loaded for real into a database of a throw-away cluster."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pgtrial.engine.events import ignore
from pgtrial.engine.target.base import DATABASE
from pgtrial.engine.target.loading import Loader
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.hosts.base import Host
from pgtrial.postgres.connect import execute
from pgtrial.postgres.throwaway import ThrowawayCluster
from pgtrial.store.belongings import Belongings
from pgtrial.workloads.data_files import DataFile, data_files


@contextmanager
def empty_database(cluster: ThrowawayCluster) -> Iterator[str]:
    """Connection to an empty database, in which the data belong."""
    asyncio.run(execute(cluster.conninfo(), f"CREATE DATABASE {DATABASE}"))
    yield cluster.conninfo(DATABASE)
    asyncio.run(execute(cluster.conninfo(), f"DROP DATABASE {DATABASE} WITH (FORCE)"))


def read_files(folder: Path, *names: str) -> tuple[DataFile, ...]:
    """Files of a folder, as an experiment file names them."""
    tables = {"format": 1, "experiment": {"name": "x"}, "workload": {"mix": "select-only"}, "arms": {"a": {}, "b": {}}}
    return data_files(Experiment.model_validate(tables | {"dataset": {"kind": "sql", "load": names}}), folder)


def load(
    cluster: ThrowawayCluster,
    folder: Path,
    *names: str,
    may_run: bool = False,
    digest: str = "",
    host: Host | None = None,
) -> None:
    """Load files of a folder. ``digest``: what theirs was when the experiment began; "": what it is.

    The programs run on the ``host``, if there is one, instead of the cluster's.
    """
    files = read_files(folder, *names)
    loader = Loader(
        host=host or cluster.host,
        programs=cluster.programs,
        conninfo=cluster.conninfo(DATABASE),
        environment=cluster.host_environment(DATABASE),
        is_own=True,
        copies=cluster.directory.parent,
        account=cluster.account,
        belongings=Belongings.of(folder),
        may_run=may_run,
        tell=ignore,
    )
    asyncio.run(loader.load(files, [digest or file.digest() for file in files]))
