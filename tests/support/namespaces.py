"""Hosts that are network namespaces of this machine: each with an address, a control group and an sshd of its own."""

import contextlib
import os
import random
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.programs import skip_for_want
from support.waiting import wait_until

_PORT = 22
_FREE = "10.213"  # and two numbers more: nobody routes to it
_LOSE = """
table inet lost {
  chain arriving {
    type filter hook input priority 0; policy drop;
  }
}
"""
# What has this loaded sees a wall clock that is ahead: the kernel has one for all namespaces.
_AHEAD = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>
int clock_gettime(clockid_t id, struct timespec *t) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int found = real(id, t);
    if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE) t->tv_sec += AHEAD;
    return found;
}
int gettimeofday(struct timeval *restrict t, void *restrict zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    t->tv_sec = now.tv_sec;
    t->tv_usec = now.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *t) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (t) *t = now.tv_sec;
    return now.tv_sec;
}
"""


@dataclass(frozen=True, kw_only=True)
class NamespaceHost:
    """``name`` is that in the list of hosts; ``link`` this machine's end of the cable to it, ``group`` the directory of
    its control group, and its wall clock is ``ahead`` (s).
    """

    name: str
    namespace: str
    address: str
    link: str
    group: Path
    ahead: int = 0

    @property
    def ssh(self) -> str:
        return f"ssh://{self.address}"

    def cut(self) -> None:
        """Pull the cable."""
        _ip("link", "set", self.link, "down")

    def mend(self) -> None:
        _ip("link", "set", self.link, "up")

    @contextlib.contextmanager
    def losing_packets(self) -> Iterator[None]:
        """What is sent to it vanishes, and nobody is told: a cable that is pulled on the way. Skips the test where that
        needs more than there is.
        """
        if shutil.which("nft") is None:
            skip_for_want("nft", "apt install nftables", required_by="PGTRIAL_REQUIRE_NAMESPACES")
        self._nft(_LOSE)
        try:
            yield
        finally:
            self._nft("delete table inet lost")

    def _nft(self, rules: str) -> None:
        command = ["nsenter", f"--net=/run/netns/{self.namespace}", "nft", "-f", "-"]
        subprocess.run(command, input=rules, text=True, check=True, capture_output=True)

    def read(self, setting: str) -> str:
        """A setting of the kernel's network, of which each host has its own."""
        argv = ["nsenter", f"--net=/run/netns/{self.namespace}", "cat", f"/proc/sys/{setting.replace('.', '/')}"]
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()

    def programs(self) -> set[str]:
        """The names of all that runs on it, whoever has started it."""
        found = set()
        for path in self.group.rglob("cgroup.procs"):
            for pid in path.read_text().split():
                with contextlib.suppress(OSError):
                    found.add(Path(f"/proc/{pid}/comm").read_text().strip())
        return found


@dataclass(frozen=True, kw_only=True)
class Namespaces:
    """Hosts, and the command line by which OpenSSH's client knows them."""

    hosts: tuple[NamespaceHost, ...]
    ssh: str

    def listed(self) -> str:
        """As hosts.toml."""
        return "".join(f'[[host]]\nname = "{host.name}"\nssh = "{host.ssh}"\n\n' for host in self.hosts)


@contextlib.contextmanager
def namespaces(*names: str, ahead: Mapping[str, int] | None = None) -> Iterator[Namespaces]:
    """Make a host for each name, with a clock that is ``ahead`` (s), and remove them. Skips the test where that needs
    more than there is.
    """
    if os.geteuid() != 0:
        pytest.skip("only root can make hosts that are network namespaces")
    if shutil.which("ip") is None or shutil.which("nsenter") is None:
        how = "apt install iproute2 util-linux"
        skip_for_want("ip and nsenter", how, required_by="PGTRIAL_REQUIRE_NAMESPACES")
    program = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin")
    if program is None or shutil.which("ssh") is None:
        skip_for_want("OpenSSH", "apt install openssh-server openssh-client", required_by="PGTRIAL_REQUIRE_SSHD")
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pgtrial-test-fleet-")))
        for key in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True)
        hosts = []
        for number, name in enumerate(names):
            hosts.append(stack.enter_context(_namespace(name, number, ahead=(ahead or {}).get(name, 0))))
            stack.enter_context(_sshd(program, folder, hosts[-1]))
        key = (folder / "host.pub").read_text()
        (folder / "known_hosts").write_text("".join(f"{host.address} {key}" for host in hosts))
        (folder / "config").write_text(
            f"Host *\n  UserKnownHostsFile {folder}/known_hosts\n  GlobalKnownHostsFile none\n"
            f"  IdentityFile {folder}/user\n  IdentitiesOnly yes\n  IdentityAgent none\n"
        )
        yield Namespaces(hosts=tuple(hosts), ssh=f"ssh -F {shlex.quote(str(folder / 'config'))}")


@contextlib.contextmanager
def _namespace(name: str, number: int, *, ahead: int) -> Iterator[NamespaceHost]:
    net, last = _claim(number)
    namespace, here, there = _named(net, last), f"pgt{net}n{last}a", f"pgt{net}n{last}b"
    group = _control_groups() / namespace
    host = NamespaceHost(
        name=name, namespace=namespace, address=f"{_FREE}.{net}.{last + 2}", link=here, group=group, ahead=ahead
    )
    try:
        group.mkdir()
        _ip("link", "add", here, "type", "veth", "peer", "name", there, "netns", namespace)
        _ip("addr", "add", f"{_FREE}.{net}.{last + 1}/30", "dev", here)
        _ip("link", "set", here, "up")
        _ip("-n", namespace, "addr", "add", f"{host.address}/30", "dev", there)
        _ip("-n", namespace, "link", "set", there, "up")
        _ip("-n", namespace, "link", "set", "lo", "up")
        yield host
    finally:
        subprocess.run(["ip", "link", "del", here], check=False, capture_output=True)
        _ip("netns", "del", namespace)
        wait_until(host.programs, lambda left: not left)
        group.rmdir()


def _named(net: int, last: int) -> str:
    return f"pgtrial-test-{net}-{last}"


def _claim(number: int) -> tuple[int, int]:
    """The last two numbers of a network that no host of another test has: its namespace is made, and the kernel makes
    each name once.
    """
    last = 4 * (number % 64)
    for net in random.sample(range(256), 256):
        made = subprocess.run(["ip", "netns", "add", _named(net, last)], check=False, capture_output=True, text=True)
        if made.returncode == 0:
            return net, last
        if "File exists" not in made.stderr:
            pytest.fail(made.stderr)
    pytest.fail(f"all networks of {_FREE}.0.0/16 are in use: left by tests that were killed? (ip netns)")


@contextlib.contextmanager
def _sshd(program: str, folder: Path, host: NamespaceHost) -> Iterator[None]:
    config = folder / f"sshd-{host.name}"
    (folder / "authorized_keys").write_text((folder / "user.pub").read_text())
    config.write_text(
        f"Port {_PORT}\nListenAddress {host.address}\nHostKey {folder}/host\nPidFile none\n"
        f"AuthorizedKeysFile {folder}/authorized_keys\nStrictModes no\nUsePAM no\nPermitRootLogin prohibit-password\n"
        "PasswordAuthentication no\nKbdInteractiveAuthentication no\nKexAlgorithms curve25519-sha256\n"
        f'SetEnv SHLVL=2 "PATH={Path(sys.executable).parent}:{os.environ["PATH"]}"\n'
    )
    # Its network is another one, and nothing else: /sys stays what it is. It ends with the tests, also when they are
    # killed.
    command = ["sh", "-c", 'echo $$ >"$0" && exec "$@"', str(host.group / "cgroup.procs")]
    command += ["setpriv", "--pdeathsig", "TERM", "nsenter", f"--net=/run/netns/{host.namespace}"]
    command += [*_with_clock(folder, host), program, "-D", "-e", "-f", str(config)]
    with (
        (folder / f"log-{host.name}").open("wb") as log,
        subprocess.Popen(command, stderr=log, stdin=subprocess.DEVNULL) as process,
    ):
        try:
            wait_until(lambda: process.poll() is not None or _listens(host.address))
            if process.poll() is not None:
                pytest.fail(f"sshd does not start: {(folder / f'log-{host.name}').read_text()}")
            yield
        finally:
            process.terminate()


def _control_groups() -> Path:
    """The directory of groups that only hold processes together: of version 2, else of a controller of version 1 that
    nothing has to be set for.
    """
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    second = [Path(where) for _, where, kind, *_ in mounts if kind == "cgroup2"]
    first = [Path(where) for _, where, kind, options, *_ in mounts if kind == "cgroup" and "pids" in options.split(",")]
    if not (found := second + first):
        pytest.fail("hosts that are network namespaces need control groups: no cgroup2, and no cgroup with pids")
    return found[0]


def _with_clock(folder: Path, host: NamespaceHost) -> list[str]:
    """In front of a command: it, and all that it starts, has the host's clock. /etc is another one for that, as nothing
    in the environment reaches a program that pgtrial starts as somebody else.
    """
    if not host.ahead:
        return []
    if shutil.which("cc") is None:
        skip_for_want("cc", "apt install gcc libc6-dev", required_by="PGTRIAL_REQUIRE_COMPILER")
    own = folder / f"clock-{host.name}"
    library, upper, work = own / "ahead.so", own / "etc", own / "work"
    for path in (own, upper, work):
        path.mkdir()
    (own / "ahead.c").write_text(_AHEAD)
    argv: list[str | Path] = [
        "cc",
        "-O1",
        "-shared",
        "-fPIC",
        f"-DAHEAD={host.ahead}",
        "-o",
        library,
        own / "ahead.c",
        "-ldl",
    ]
    subprocess.run(argv, check=True)
    (upper / "ld.so.preload").write_text(f"{library}\n")
    for path in (folder, own, upper, library):  # the server's account loads it, too
        path.chmod(0o755)
    options = f"lowerdir=/etc,upperdir={upper},workdir={work}"
    script = f'mount -t overlay overlay -o {shlex.quote(options)} /etc && exec "$@"'
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh"]


def _listens(address: str) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((address, _PORT)) == 0


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
