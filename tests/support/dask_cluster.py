"""A cluster of dask.distributed as a user has it: a scheduler and workers with certificates, on loopback."""

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from pgtrial.fleet.cluster import Certificate, make_certificate
from support.programs import skip_for_want
from support.waiting import wait_until

# Stands in front of what a process runs that shall not have pgtrial.
_WITHOUT_PGTRIAL = "import sys; sys.modules['pgtrial'] = None; from dask.__main__ import main; main()"


@dataclass(kw_only=True)
class DaskCluster:
    """``environment`` is what a client needs; ``workers`` are processes by the first resource that they offer."""

    directory: Path
    certificate: Certificate
    environment: dict[str, str]
    address: str = ""
    scheduler: "subprocess.Popen[bytes] | None" = None
    workers: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def add_worker(
        self, *resources: str, options: Sequence[str] = ("--no-nanny",), has_pgtrial: bool = True, **variables: str
    ) -> "subprocess.Popen[bytes]":
        argv = ["worker", self.address, "--nthreads", "1", "--no-dashboard", "--host", "127.0.0.1", *options]
        argv += ["--local-directory", str(self.directory)]
        if resources:
            argv += ["--resources", " ".join(f"{each}=1" for each in resources)]
        process = self._start(*argv, has_pgtrial=has_pgtrial, variables=variables)
        self.workers[next(iter(resources), "")] = process
        return process

    def start_scheduler(self, *, has_pgtrial: bool = True) -> None:
        file = self.directory / "scheduler.json"
        file.unlink(missing_ok=True)
        argv = ["scheduler", "--host", "127.0.0.1", "--port", "0", "--protocol", "tls", "--no-dashboard"]
        self.scheduler = self._start(*argv, "--scheduler-file", str(file), has_pgtrial=has_pgtrial, variables={})
        self.address = str(json.loads(wait_until(lambda: _content(file), _is_json))["address"])

    def _start(self, *argv: str, has_pgtrial: bool, variables: Mapping[str, str]) -> "subprocess.Popen[bytes]":
        start = ["-m", "dask"] if has_pgtrial else ["-c", _WITHOUT_PGTRIAL]
        log = (self.directory / f"log-{len(self.workers)}-{argv[0]}").open("wb")
        with log:
            return subprocess.Popen(
                [sys.executable, *start, *argv],
                env={**os.environ, **self.environment, **variables},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def end(self) -> None:
        for process in (*self.workers.values(), *filter(None, [self.scheduler])):
            process.terminate()
        for process in (*self.workers.values(), *filter(None, [self.scheduler])):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(30)
            process.kill()
            process.wait()


def tls_environment(certificate: Certificate, *, trusts: Path | None = None) -> dict[str, str]:
    """Variables by which dask has a certificate, and whom it trusts."""
    prefix = "DASK_DISTRIBUTED__COMM__TLS"
    found = {f"{prefix}__CA_FILE": str(trusts or certificate.certificate)}
    for side in ("CLIENT", "SCHEDULER", "WORKER"):
        found[f"{prefix}__{side}__CERT"] = str(certificate.certificate)
        found[f"{prefix}__{side}__KEY"] = str(certificate.key)
    return found


def make_own_certificate(directory: Path) -> Certificate:
    if importlib.util.find_spec("distributed") is None:
        skip_for_want("dask.distributed", "pip install distributed cryptography", required_by="PGTRIAL_REQUIRE_FLEET")
    directory.mkdir(mode=0o700)
    return make_certificate(directory, now=datetime.now(UTC))


@contextlib.contextmanager
def dask_cluster(directory: Path, *, scheduler_has_pgtrial: bool = True) -> Iterator[DaskCluster]:
    """A scheduler; workers are to be added. All of it ends with the context."""
    own = directory / "dask"
    certificate = make_own_certificate(own)
    cluster = DaskCluster(directory=own, certificate=certificate, environment=tls_environment(certificate))
    try:
        cluster.start_scheduler(has_pgtrial=scheduler_has_pgtrial)
        yield cluster
    finally:
        cluster.end()


def _content(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def _is_json(text: str) -> bool:
    try:
        return bool(json.loads(text))
    except ValueError:
        return False
