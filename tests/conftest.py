"""What tests on real servers share. A test that uses one of these fixtures is marked "pg" by that alone."""

import asyncio
import atexit
import errno
import fcntl
import gc
import hashlib
import os
import pickle
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler.loadscope import LoadScopeScheduling

from pgtrial.errors import PreflightError
from pgtrial.hosts.local import LocalHost, server_account
from pgtrial.hosts.operations import Operations
from pgtrial.postgres.programs import Programs, find_programs, reachable_programs
from pgtrial.postgres.throwaway import ThrowawayCluster
from pgtrial.postgres.work_directory import prepare_directories, remove_directories
from pgtrial.store.journal_file import VARIABLE
from support.programs import skip_for_want, summarise_wants

ROOT = Path(__file__).parents[1]
VERSIONS = ("15", "16", "17", "18")

# Property tests follow a fixed seed, as simulations do, and have no deadline: machines are shared.
settings.register_profile("reproducible", deadline=None, derandomize=True, max_examples=30)
settings.load_profile("reproducible")


# Processes that tests start: what a library of linear algebra does with threads, or Python with a module that it could
# keep compiled, costs them more than their work.
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

os.environ.pop("PGTRIAL_LANG", None)  # tests are in English, whatever their developer reads

# A shell that starts the tests in the background lets them, and all that they start, ignore these two.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)


@cache
def _find(wanted: str | None) -> Programs | None:
    try:
        return find_programs(wanted)
    except PreflightError:
        return None


def _require(programs: Programs | None) -> Programs:
    """Programs, or the test is skipped; where PostgreSQL is required, as in CI, it fails instead."""
    if programs is None:
        skip_for_want("PostgreSQL", "make setup-test", required_by="PGTRIAL_REQUIRE_PG")
    return programs


def pytest_report_header() -> str:
    found = {programs.version: programs.directory for version in VERSIONS if (programs := _find(version))}
    return "PostgreSQL: " + (", ".join(f"{version} in {place}" for version, place in found.items()) or "none")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Thousands of tests are collected, all of which stay: what looks for garbage among them, then and later, takes
    longer the more there are.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        # At the end all of it is garbage again, of which libraries would otherwise complain that it was not freed; not
        # before pytest has looked for garbage, which it does several times.
        atexit.register(gc.unfreeze)


# Folders whose tests one process does one after the other, where several are at work; elsewhere it is files.
_SERIAL = {
    "tests/knobs": "kernel",  # settings of the kernel, and what there is of something, such as loop devices
    "tests/e2e/test_crash.py": "kernel",
    "tests/collectors": "collectors",  # they share servers, one of each version
    "tests/postgres/existing": "existing",
}
# Pages of the documentation take long, and have nothing to do with each other.
_APART = "tests/docs/test_transcripts.py::test_commands_do"


@pytest.hookimpl(tryfirst=True)  # before the marks are used to select
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if {"programs", "each_programs"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.pg)
    # What waits for servers takes longest and is begun first.
    marked = (item for item in items if item.get_closest_marker("pg") or item.get_closest_marker("browser"))
    waiting = {_file(item.nodeid) for item in marked}
    items.sort(key=lambda item: _file(item.nodeid) not in waiting)


class SerialGroups(LoadScopeScheduling):
    """Gives all tests of a group to one process.

    ``--dist=loadgroup`` of xdist 3.8 does not: it writes groups into node ids, which pytest 9.2 does not read there.
    """

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(_APART):
            return nodeid
        return next((group for start, group in _SERIAL.items() if nodeid.startswith(start)), _file(nodeid))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> SerialGroups:
    return SerialGroups(config, log)


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if text := summarise_wants(terminalreporter.stats.get("skipped", ())):
        terminalreporter.write_line(text)


_settled: list[bool] = []  # what this process holds of the kernel: whether it may change it, outermost first


@contextmanager
def _kernel(*, changing: bool) -> Iterator[None]:
    """Wait until no other process of the tests changes the kernel's settings; or, to change them, until none relies on
    them: the verdict of an experiment is "invalid" if its world was not the same in all runs.

    Who waits holds the door, so that nobody who comes later goes first.
    """
    if _settled:
        assert _settled[-1] or not changing, "what relies on the kernel cannot begin to change it"
        yield
        return
    lock, door = (
        Path(tempfile.gettempdir()) / f"pgtrial-test-{name}-{os.geteuid()}.lock" for name in ("kernel", "door")
    )
    with lock.open("a") as held:
        with door.open("a") as first:
            fcntl.flock(first, fcntl.LOCK_EX)
            fcntl.flock(held, fcntl.LOCK_EX if changing else fcntl.LOCK_SH)
        _settled.append(changing)
        try:
            yield
        finally:
            _settled.pop()


@pytest.fixture
def hangups() -> Iterator[None]:
    """SIGHUP is heard, also where nohup has begun the tests: what is ignored, programs inherit."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture(scope="session")
def settled_kernel() -> Callable[..., AbstractContextManager[None]]:
    """Context manager ``settled_kernel(changing=...)``."""
    return _kernel


# Experiments are run in them, from the file to the findings.
_EXPERIMENTS = ("tests/e2e/", "tests/postgres/existing/", "tests/attacks/")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """The kernel stays as it is while a test and its fixtures run experiments, unless the test itself changes it."""
    changing = item.get_closest_marker("changes_kernel") is not None
    if changing or item.nodeid.startswith(_EXPERIMENTS):
        with _kernel(changing=changing):
            return (yield)
    return (yield)


@pytest.fixture(scope="session")
def programs() -> Programs:
    """The programs pgtrial itself would choose."""
    return _require(_find(None))


def _versions() -> list[object]:
    """The oldest and the newest version there are; those between are for the slow tests."""
    first, *others = [version for version in VERSIONS if _find(version)] or ["any"]
    return [first, *(pytest.param(version, marks=pytest.mark.slow) for version in others[:-1]), *others[-1:]]


@pytest.fixture(scope="session", params=_versions())
def each_programs(request: pytest.FixtureRequest) -> Programs:
    """The programs of every supported major version that there is, one after the other."""
    return _require(_find(None if request.param == "any" else request.param))


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    """An event loop for fixtures and test together: ``runner.run(coroutine)``."""
    with asyncio.Runner() as running:
        yield running


_ENOUGH = 8 << 30  # bytes, for all processes of the tests together


def _choose_storage() -> Path:
    memory, free = Path("/dev/shm"), 0
    with suppress(OSError):
        of_memory = os.statvfs(memory)
        (available,) = re.findall(r"^MemAvailable: *(\d+) kB$", Path("/proc/meminfo").read_text(), re.MULTILINE)
        if os.access(memory, os.W_OK) and not of_memory.f_flag & os.ST_NOEXEC:
            free = min(of_memory.f_bavail * of_memory.f_frsize, int(available) * 1024)
    return memory if free > _ENOUGH else Path(tempfile.gettempdir())


# A directory of this run of the tests, which all its processes inherit from the one that makes it.
_PLACE = "PGTRIAL_TEST_PLACE"
if _PLACE not in os.environ:
    os.environ[_PLACE] = tempfile.mkdtemp(prefix="pgtrial-test-run-", dir=_choose_storage())
    atexit.register(shutil.rmtree, os.environ[_PLACE], ignore_errors=True)
PLACE = Path(os.environ[_PLACE])
PLACE.chmod(0o711)  # servers' programs are reached in it
STORAGE = PLACE.parent

# Tests' own directories too: a journal or a result that is written there lastingly would have them wait for the disk.
os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(STORAGE))
# Neither the journal nor the calibrations of whoever runs the tests are theirs.
os.environ[VARIABLE] = str(PLACE / f"state-{os.getpid()}")


@pytest.fixture(scope="session")
def storage() -> Path:
    """Where tests put what need not be on a disk, for which they would mostly wait: in memory, if there is enough."""
    return STORAGE


def _make_data(cluster: ThrowawayCluster, runner: asyncio.Runner) -> None:
    """A new cluster's data: by initdb the first time, then, in all processes of the tests, by a copy of that, which
    costs a tenth.

    Its WAL is in files of 1 MB, not 16: half of what is to be copied.
    """
    template = PLACE / str(cluster.programs.directory).strip("/").replace("/", "-")
    with template.with_name(f"{template.name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not template.exists():
            runner.run(cluster.initdb())
            resetwal = [cluster.programs.path("pg_resetwal"), "--wal-segsize=1", "-D", cluster.data]
            runner.run(cluster.host.run(resetwal, account=cluster.account, directory=cluster.directory))
            part = template.with_name(f"{template.name}.part")
            shutil.rmtree(part, ignore_errors=True)
            subprocess.run(["cp", "-a", "--reflink=auto", cluster.data, part], check=True)
            part.rename(template)
            return
    subprocess.run(["cp", "-a", "--reflink=auto", template, cluster.data], check=True)


@pytest.fixture(scope="session")
def kept() -> Callable[[str, Callable[[Path], Any]], Any]:
    """``kept(name, make)`` is what ``make(folder)`` gives, called once for all processes of the tests, each of which
    has a copy of its own. What ``make`` writes into the new folder all of them see, and nobody may change.
    """

    def keep(name: str, make: Callable[[Path], Any]) -> Any:
        result = PLACE / f"{name}.pickle"
        with (PLACE / f"{name}.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not result.exists():
                shutil.rmtree(PLACE / name, ignore_errors=True)
                result.with_suffix(".part").write_bytes(pickle.dumps(make(PLACE / name)))
                result.with_suffix(".part").rename(result)
        return pickle.loads(result.read_bytes())

    return keep


@pytest.fixture(scope="module")
def analysed_once() -> Iterator[None]:
    """For tests of what is around the analysis: where a folder has the same in it as one that was analysed before for a
    test of the same file, in the same language, it has the same findings.
    """
    from pgtrial.analysis import analyze
    from pgtrial.analysis.calibration import summary
    from pgtrial.analysis.compare import subjects
    from pgtrial.export import bundle, notebook
    from pgtrial.language import spoken
    from pgtrial.store import layout

    really, known = analyze.analyze, {}

    def analyze_once(folder: Path, *, rules: int | None = None, of_any_size: bool = False) -> object:
        content = hashlib.sha256()
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            if path.name not in {layout.FINDINGS, layout.REPORT}:
                content.update(f"{path.relative_to(folder)} {path.stat().st_size} ".encode() + path.read_bytes())
        key = content.hexdigest(), spoken(), rules, of_any_size
        if key not in known:
            known[key] = really(folder, rules=rules, of_any_size=of_any_size)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        for module in (analyze, summary, notebook, subjects, bundle):
            patch.setattr(module, "analyze", analyze_once)
        yield


@contextmanager
def _run_cluster(
    programs: Programs,
    runner: asyncio.Runner,
    *,
    settings: Mapping[str, str] | None = None,
    place: Path | None = None,
) -> Iterator[ThrowawayCluster]:
    host, account = LocalHost(), server_account()
    # Not tmp_path: that is closed to the user whom the server runs as.
    work, socket_directory = prepare_directories(
        host, place or STORAGE, f"pgtrial-test-{uuid.uuid4().hex[:8]}", account
    )
    try:
        cluster = ThrowawayCluster(
            host=host,
            programs=runner.run(reachable_programs(host, programs, work=work, account=account)),
            directory=work,
            socket_directory=socket_directory,
            account=account,
        )
        _make_data(cluster, runner)
        cluster.write_settings({"fsync": "off", **(settings or {})})
        try:
            runner.run(cluster.start())
            yield cluster
        finally:
            runner.run(cluster.stop(immediate=True))
    finally:
        remove_directories(host, work, socket_directory)


@pytest.fixture(scope="session")
def run_cluster() -> Callable[..., AbstractContextManager[ThrowawayCluster]]:
    """Context manager ``run_cluster(programs, runner, settings={}, place=None)``: a cluster that runs, then removed."""
    return _run_cluster


@pytest.fixture(scope="module")
def served(programs: Programs) -> Iterator[ThrowawayCluster]:
    """A cluster that runs, for all tests of a file that neither stop it nor set anything."""
    with asyncio.Runner() as runner, _run_cluster(programs, runner) as cluster:
        yield cluster


@pytest.fixture
def throwaway(programs: Programs, runner: asyncio.Runner) -> Iterator[ThrowawayCluster]:
    """A cluster that runs; stopped and removed after the test."""
    with _run_cluster(programs, runner) as cluster:
        yield cluster


_FORCED = {
    "no_python": 'command="exec env -i PATH=/nowhere /bin/sh -c \\"$SSH_ORIGINAL_COMMAND\\""',
    "old_python": 'command="exec env -i PATH={folder}/old /bin/sh -c \\"$SSH_ORIGINAL_COMMAND\\""',
    "forced": 'command="echo This account is for mail only."',
    "restricted": "restrict",
    "user": "",
}
_OLD_PYTHON = """#!/bin/sh
exec {python} -I -S -c "import sys; sys.version_info = (3, 6, 8); $4"
"""


@dataclass(frozen=True, kw_only=True)
class Sshd:
    """A real sshd on loopback with its own keys. ``ssh`` is a command line by which OpenSSH's client knows it."""

    folder: Path
    port: int

    @property
    def address(self) -> str:
        return f"ssh://127.0.0.1:{self.port}"

    def ssh(self, *, key: str = "user", known_hosts: str = "known_hosts") -> str:
        """``key`` is one of _FORCED, or "stranger"; ``known_hosts`` the name of a file in the folder."""
        config = self.folder / f"config-{key}-{known_hosts}"
        config.write_text(
            f"Host *\n  UserKnownHostsFile {self.folder / known_hosts}\n  GlobalKnownHostsFile none\n"
            f"  IdentityFile {self.folder / key}\n  IdentitiesOnly yes\n  IdentityAgent none\n"
        )
        return f"ssh -F {shlex.quote(str(config))}"


def _find_sshd() -> str:
    """The program, or the test is skipped; where it is required, as in CI, it fails instead."""
    found = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin")
    if found is None or shutil.which("ssh") is None:
        how = "apt install openssh-server openssh-client"
        skip_for_want("OpenSSH", how, required_by="PGTRIAL_REQUIRE_SSHD")
    return found


def _write_sshd_files(folder: Path, port: int) -> None:
    for name in ("host", "stranger", *_FORCED):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    keys = {name: (folder / f"{name}.pub").read_text() for name in ("host", "stranger", *_FORCED)}
    (folder / "authorized_keys").write_text(
        "".join(f"{options.replace('{folder}', str(folder))} {keys[name]}" for name, options in _FORCED.items())
    )
    for known_hosts, key in (("known_hosts", keys["host"]), ("other_known_hosts", keys["stranger"])):
        (folder / known_hosts).write_text(f"[127.0.0.1]:{port} {key}")
    (folder / "no_known_hosts").touch()
    (folder / "old").mkdir()
    (folder / "old/python3").write_text(_OLD_PYTHON.replace("{python}", sys.executable))
    (folder / "old/python3").chmod(0o755)
    (folder / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nPidFile none\n"
        f"AuthorizedKeysFile {folder}/authorized_keys\nStrictModes no\nUsePAM no\nPermitRootLogin prohibit-password\n"
        "PasswordAuthentication no\nKbdInteractiveAuthentication no\n"
        # The default may be one that costs either end 0.2 s of CPU time for each connection.
        "KexAlgorithms curve25519-sha256\n"
        # A shell that is not the first does not read ~/.bashrc, which may do things that take longer than a test.
        f'SetEnv SHLVL=2 "PATH={Path(sys.executable).parent}:{os.environ["PATH"]}"\n'
    )


@pytest.fixture(scope="session")
def sshd() -> Iterator[Sshd]:
    """An sshd that lets the user of the tests in, ended after all of them."""
    program = _find_sshd()
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # where its unprivileged half is locked up
    with tempfile.TemporaryDirectory(prefix="pgtrial-test-sshd-") as name:
        folder = Path(name)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        _write_sshd_files(folder, port)
        with (
            (folder / "log").open("wb") as log,
            subprocess.Popen(
                # It ends with the tests, also when they are killed.
                ["setpriv", "--pdeathsig", "TERM", program, "-D", "-e", "-f", folder / "sshd_config"],
                stderr=log,
                stdin=subprocess.DEVNULL,
            ) as process,
        ):
            try:
                deadline = time.monotonic() + 10
                while not _listens(port):
                    if process.poll() is not None or time.monotonic() > deadline:
                        pytest.fail(f"sshd does not start: {(folder / 'log').read_text()}")
                    time.sleep(0.02)
                yield Sshd(folder=folder, port=port)
            finally:
                process.terminate()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
# Of a window nobody sees: its address bar is two pages of their own, which cost 0.7 s of CPU time for each window. The
# others are those of the features that Playwright turns off which matter here; what is said last is what counts.
_WITHOUT = (
    "WebUIOmniboxPopup",
    "WebUIOmniboxAimPopup",
    "AimEnabled",
    "AvoidUnnecessaryBeforeUnloadCheckSync",
    "DestroyProfileOnBrowserClose",
    "HttpsFirstBalancedModeAutoEnable",
    "HttpsUpgrades",
    "MediaRouter",
    "NetworkTimeServiceQuerying",
    "OptimizationHints",
    "PaintHolding",
    "PreconnectToSearch",
)
_CHROMIUM_OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    f"--disable-features={','.join(_WITHOUT)}",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Chromium, by Playwright, for the tests of one file: longer than that the loop of the one is in the others' way.

    Without either, tests are skipped; where a browser is required, as in CI, they fail instead.
    """
    if CHROMIUM is None:
        skip_for_want("Chromium", "apt install chromium", required_by="PGTRIAL_REQUIRE_BROWSER")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        skip_for_want("Playwright", "make setup-test", required_by="PGTRIAL_REQUIRE_BROWSER")
    with (
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=CHROMIUM, args=_CHROMIUM_OPTIONS) as browser,
    ):
        yield browser


class FakeTree(Operations):
    """A host whose files lie in a directory: captured /proc and /sys.

    ``numbers`` are devices (major, minor) of paths and all that is below them, ``closed`` are paths that nobody may
    write. ``on_write`` is what the kernel does with a text that is written to a path, in place of keeping it.
    """

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self.numbers: dict[str, tuple[int, int]] = {}
        self.closed: set[str] = set()
        self.on_write: dict[str, Callable[[str], None]] = {}
        self.boot = "this boot"
        self.uid = 0

    def at(self, path: str) -> Path:
        return Path(f"{self.root}{path}")

    def add(self, files: Mapping[str, str]) -> None:
        for path, text in files.items():
            self.at(path).parent.mkdir(parents=True, exist_ok=True)
            self.at(path).write_text(text)

    def link(self, path: str, target: str) -> None:
        self.at(path).parent.mkdir(parents=True, exist_ok=True)
        self.at(path).symlink_to(os.path.relpath(self.at(target), self.at(path).parent))

    def read(self, path: str, limit: int | None = None) -> str:
        return super().read(f"{self.root}{path}", limit)

    def write(self, path: str, text: str) -> None:
        if path in self.closed:
            raise PermissionError(errno.EACCES, "Permission denied", path)
        self.on_write.get(path, lambda value: self.add({path: f"{value}\n"}))(text.strip())

    def exists(self, path: str) -> bool:
        return super().exists(f"{self.root}{path}")

    def is_directory(self, path: str) -> bool:
        return super().is_directory(f"{self.root}{path}")

    def is_writable(self, path: str) -> bool:
        return path not in self.closed and self.uid == 0

    def mode(self, path: str) -> int:
        return super().mode(f"{self.root}{path}")

    def glob(self, pattern: str) -> list[str]:
        return [path.removeprefix(self.root) for path in super().glob(f"{self.root}{pattern}")]

    def read_all(self, patterns: list[str], limit: int = 65536) -> dict[str, str]:
        found = super().read_all([f"{self.root}{pattern}" for pattern in patterns], limit)
        return {path.removeprefix(self.root): text for path, text in found.items()}

    def resolve(self, path: str) -> str:
        return super().resolve(f"{self.root}{path}").removeprefix(self.root) or "/"

    def device_of(self, path: str) -> tuple[int, int]:
        real = self.at(self.resolve(path))
        real.stat()
        for place in (real, *real.parents):
            number = self.numbers.get(str(place).removeprefix(self.root) or "/")
            if number is not None:
                return number
        return 0, 99

    def boot_id(self) -> str:
        return self.boot

    def user(self) -> int:
        return self.uid


@pytest.fixture
def tree(tmp_path: Path) -> FakeTree:
    """A host without any files yet."""
    return FakeTree(tmp_path)


@pytest.fixture(scope="session")
def make_tree(storage: Path) -> Iterator[Callable[[], FakeTree]]:
    """More of them."""
    with tempfile.TemporaryDirectory(prefix="pgtrial-test-trees-", dir=storage) as place:
        yield lambda: FakeTree(Path(tempfile.mkdtemp(dir=place)))
