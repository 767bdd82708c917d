"""Host operations besides running programs: files, kernel values, processes, mounts.

This file needs only the standard library (Python 3.8): pgtrial sends its text to a remote host, which answers the same
calls, so what works locally works remotely. Arguments and results are JSON values; paths are strings. Every method
raises OSError like the system calls.
"""

from __future__ import annotations

import base64
import ctypes
import errno
import glob
import grp
import hashlib
import os
import pwd
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import IO

MARK = "PGTRIAL_RESULT_FOLDER"  # environment variable that every program started for an experiment carries
CODE = "PGTRIAL_CODE"  # one more, of those that run what the experiment brings: their role
# Groups that no system gives to anybody (systemd: "Users, Groups, UIDs and GIDs"), 2**28 of them.
_FIRST_GROUP = 0x70000000
# Of a file that takes what a program prints: never what a link leads to.
OUTPUT_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
# Of the caller's variables, those that another account's programs get: others may be secrets, or name files of his.
_HARMLESS = ("PATH", "TZ", "LD_LIBRARY_PATH")
LOAD = "load"  # role of a load generator
# Roles of programs that run what an experiment brings; see ``gains_nothing``.
_CODE_ROLES = frozenset({"server", LOAD, "initdb", "postgres", "pgbench", "fio", "psql", "pg_restore", "prlimit"})


def program_environment(mark: str, role: str = "", is_other: bool = False) -> dict[str, str]:
    """This process's environment without what would change what PostgreSQL's programs do or say, and with the marks.

    They take settings from PG* (also the server: PGPORT, PGDATESTYLE, PGCLIENTENCODING), and their words, some of which
    are parsed, are translated as LANGUAGE says even where the locale is C.UTF-8. ``is_other``: they run as another
    user, who has no home here and is told nothing else of the caller.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    marks = {MARK: mark, CODE: role} if role in _CODE_ROLES else {MARK: mark}
    if is_other:
        kept = {**{name: kept[name] for name in _HARMLESS if name in kept}, "HOME": "/nonexistent"}
    return {**kept, "LC_ALL": "C.UTF-8", "LANGUAGE": "", **marks}


def family(pid: int) -> list[int]:
    """A process and its descendants, parents first; [] when it has ended."""
    found = [pid]
    for member in found:  # grows while it is gone through
        try:
            threads = os.listdir(f"/proc/{member}/task")
        except (FileNotFoundError, ProcessLookupError):  # the second is where it ends meanwhile
            continue
        for thread in threads:
            with suppress(OSError), open(f"/proc/{member}/task/{thread}/children", encoding="ascii") as file:
                found += map(int, file.read().split())
    return found if os.path.exists(f"/proc/{pid}") else []


def session_group(mark: str) -> int | None:
    """The group that programs of another account carry in addition, so that what they start is told from all others:
    only root can join it, and nothing that may not gain rights can leave it. None where there are no such groups, as in
    some containers, and without a mark.
    """
    digest = hashlib.sha256(os.fsencode(mark)).digest()
    group = _FIRST_GROUP + (int.from_bytes(digest[:4], "big") >> 4)
    try:
        with open("/proc/self/gid_map") as file:
            ranges = [[int(number) for number in line.split()] for line in file]
    except OSError:
        return None
    return group if mark and any(first <= group < first + count for first, _, count in ranges) else None


def _trusted() -> set[int]:
    """Root, the caller, and who has become root by sudo: who may do anything may also change what is used."""
    sudo = os.environ.get("SUDO_UID", "")
    return {0, os.geteuid()} | ({int(sudo)} if os.geteuid() == 0 and sudo.isdecimal() else set())


def _others_write(status: os.stat_result) -> bool:
    """Whether a group or everybody may write what somebody trusted owns."""
    group = status.st_gid
    if status.st_mode & stat.S_IWOTH or not status.st_mode & stat.S_IWGRP or group == 0:
        return bool(status.st_mode & stat.S_IWOTH)
    is_ours = group in (os.getegid(), *os.getgroups())
    if os.geteuid() != 0 and not is_ours:
        return True
    users = pwd.getpwall()
    try:
        listed = grp.getgrgid(group).gr_mem
    except KeyError:  # as of a volume for a container
        return not is_ours
    members = {user.pw_uid for user in users if user.pw_gid == group or user.pw_name in listed}
    return not members or not members <= _trusted() or not {*listed} <= {user.pw_name for user in users}


def gains_nothing(role: str, is_other: bool) -> bool:
    """Whether a program must not get rights from programs that it starts (no_new_privs): sudo from a script."""
    return is_other or role in _CODE_ROLES


def _words(path: str) -> list[bytes]:
    """What a process has as environment or command line; [] when it has ended, or is somebody else's."""
    try:
        with open(path, "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


class Operations:
    """Of the machine on which it runs; a subclass elsewhere passes the calls on."""

    # -- files -----------------------------------------------------------------------------------------------

    def read(self, path: str, limit: int | None = None) -> str:
        """Text of a file, undecodable bytes replaced; at most ``limit`` bytes."""
        with open(path, "rb") as file:
            return file.read(-1 if limit is None else limit).decode("utf-8", "replace")

    def write(self, path: str, text: str) -> None:
        """Write to a file of the kernel, in one call and without making a file: what it refuses is an error here."""
        descriptor = os.open(path, os.O_WRONLY)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)

    def put(self, path: str, text: str, owner: tuple[int, int] | None = None, mode: int = 0o644) -> None:
        """Make or replace a file, whole or not at all, and on disk when this returns; ``owner`` is (uid, gid)."""
        place, name = os.path.split(path)
        fresh = f".{name[:100]}-{secrets.token_hex(8)}"  # nobody can put a link there that would be written through
        directory = os.open(place or ".", os.O_RDONLY | os.O_DIRECTORY)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            descriptor = os.open(fresh, flags, 0o600, dir_fd=directory)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(text.encode())
                    file.flush()
                    if owner is not None:
                        os.fchown(file.fileno(), *owner)
                    os.fchmod(file.fileno(), mode)
                    os.fsync(file.fileno())
                os.rename(fresh, name, src_dir_fd=directory, dst_dir_fd=directory)
            except BaseException:
                os.unlink(fresh, dir_fd=directory)
                raise
            os.fsync(directory)
        finally:
            os.close(directory)

    def find_unfinished(self, path: str) -> list[str]:
        """What a ``put`` that was killed has left beside ``path``."""
        place, name = os.path.split(path)
        return glob.glob(os.path.join(glob.escape(place), f".{glob.escape(name[:100])}-{'[0-9a-f]' * 16}"))

    def read_plain(self, path: str, limit: int) -> str:
        """At most ``limit`` bytes of text of a plain file in a directory in which somebody else may write.

        OSError where it is a link, has a second name, or is anything else; a pipe does not block.
        """
        with self._open_plain(path, os.O_RDONLY) as file:
            return file.read(limit).decode("utf-8", "replace")

    def read_chunk(self, path: str, offset: int, size: int, follow: bool = False, owner: int | None = None) -> str:
        """At most ``size`` bytes of a plain file from ``offset`` on, in base64; empty at its end. ``follow``: links.

        OSError where it is not the ``owner``'s (uid), if one is given.
        """
        with self._open_plain(path, os.O_RDONLY, follow) as file:
            if owner not in (None, os.fstat(file.fileno()).st_uid):
                raise OSError(errno.EPERM, "it is somebody else's", path)
            file.seek(offset)
            return base64.b64encode(file.read(size)).decode("ascii")

    def _open_plain(self, path: str, flags: int, follow: bool = False) -> IO[bytes]:
        descriptor = os.open(path, flags | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW))
        found = os.fstat(descriptor)
        # Where the kernel lets anybody give a file of somebody else's one more name (fs.protected_hardlinks = 0).
        is_linked = not follow and found.st_nlink > 1
        if is_linked or not stat.S_ISREG(found.st_mode):
            os.close(descriptor)
            reason = "it has more than one name" if is_linked else "it is not a plain file"
            raise OSError(errno.EINVAL, reason, path)
        return os.fdopen(descriptor, "rb" if flags == os.O_RDONLY else "r+b")

    def hard_link(self, path: str, name: str) -> None:
        """Give a file one more name; FileExistsError when there is something of that name."""
        os.link(path, name, follow_symlinks=False)

    def rename(self, path: str, name: str) -> None:
        """Give a file another name, in place of what has it, at once or not at all, and on disk when this returns."""
        os.rename(path, name)
        descriptor = os.open(os.path.dirname(name) or ".", os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def is_file(self, path: str) -> bool:
        return os.path.isfile(path)

    def is_link(self, path: str) -> bool:
        return os.path.islink(path)

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def is_own_directory(self, path: str) -> bool:
        """Whether this user owns it and it is no link: a directory that was made here may be somebody else's since."""
        try:
            status = os.lstat(path)
        except OSError:
            return False
        return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()

    def is_writable(self, path: str) -> bool:
        return os.access(path, os.W_OK)

    def mode(self, path: str) -> int:
        """Permission bits of a file."""
        return os.stat(path).st_mode & 0o7777

    def owner(self, path: str) -> int:
        """The uid of whom a file belongs to."""
        return os.stat(path).st_uid

    def glob(self, pattern: str) -> list[str]:
        """Sorted paths that match; none is no error."""
        return sorted(glob.glob(pattern))

    def resolve(self, path: str) -> str:
        """The path without symbolic links."""
        return os.path.realpath(path)

    def make_directory(
        self, path: str, owner: tuple[int, int] | None = None, mode: int = 0o700, parents: bool = False
    ) -> None:
        """Make a directory; FileExistsError when it is there, unless ``parents``.

        One with an ``owner`` has exactly the ``mode``, whatever the umask; what it lies in must be nobody else's.
        """
        if parents:
            os.makedirs(path, mode, exist_ok=True)
        else:
            os.mkdir(path, mode)
        if owner is not None:
            try:
                os.chmod(path, mode)
                os.chown(path, *owner, follow_symlinks=False)  # last: from then on its owner may rename it
            except OSError:
                os.rmdir(path)
                raise

    def remove(self, path: str, partly: bool = False) -> None:
        """Remove a file, or a directory with all that is in it; what is not there is as wished.

        ``partly``: what cannot be removed stays, without an error.
        """
        try:
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path, ignore_errors=partly)
            else:
                os.unlink(path)
        except FileNotFoundError:
            if os.path.lexists(path):  # somebody else removed something in it at the same time
                self.remove(path, partly)
        except OSError:
            if not partly:
                raise

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory, also one of the kernel's (a control group)."""
        os.rmdir(path)

    def find_changeable(self, path: str) -> str:
        """The part of a path that others than root, the caller and who called sudo may change, "" if there is none.

        Looked at are the file, and every directory and link on the way to it: who may change one of them decides what
        the path leads to. A directory in which only the owner of a file may rename it, such as /tmp, is no such part,
        nor is one that a group may write in which such a user is alone, as the umask of many systems has it.
        """
        here, rest, links = "/", [part for part in os.path.join(os.getcwd(), path).split("/") if part], 0
        while True:
            status = os.lstat(here)
            if status.st_uid not in _trusted():
                return here
            if stat.S_ISLNK(status.st_mode):
                links += 1
                if links > 40:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                target = os.readlink(here)
                here = "/" if target.startswith("/") else os.path.dirname(here)
                rest = [part for part in target.split("/") if part] + rest
            else:
                is_shared = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
                if _others_write(status) and not is_shared:
                    return here
                if not rest:
                    return ""
            if rest:
                here = os.path.normpath(os.path.join(here, rest.pop(0)))

    def distrust(self, program: str) -> str:
        """Why a program that was found by its name is not to be started, in a clause; "" if it may be.

        One that is named relative to where pgtrial was started, as with "." in PATH, may have come with an experiment.
        """
        if not os.path.isabs(program):
            return "it is not named by an absolute path"
        try:
            changeable = self.find_changeable(program)
        except OSError as err:
            return err.strerror or str(err)
        return f'others may change "{changeable}"' if changeable else ""

    def device_of(self, path: str) -> tuple[int, int]:
        """(major, minor) of the device a path lies on, or of the block device that it names."""
        status = os.stat(path)
        device = status.st_rdev or status.st_dev
        return os.major(device), os.minor(device)

    def space(self, path: str) -> tuple[int, int]:
        """(total bytes, bytes free for users other than root) of the file system under a path: servers never are."""
        status = os.statvfs(path)
        return status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize

    def read_all(self, patterns: list[str], limit: int = 65536) -> dict[str, str]:
        """Text of every file that matches one of the patterns, by path, at most ``limit`` bytes of each.

        What is not there or cannot be read is left out.
        """
        texts = {}
        for pattern in patterns:
            for path in sorted(glob.glob(pattern)) if glob.has_magic(pattern) else [pattern]:
                try:
                    with open(path, "rb") as file:
                        texts[path] = file.read(limit).decode("utf-8", "replace")
                except OSError:
                    continue
        return texts

    # -- the machine -----------------------------------------------------------------------------------------

    def user(self) -> int:
        """Effective user id; 0 is root."""
        return os.geteuid()

    def account(self, name: str) -> tuple[int, int] | None:
        """(uid, gid) of a user, None when there is none of that name."""
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            return None
        return entry.pw_uid, entry.pw_gid

    def which(self, program: str) -> str | None:
        return shutil.which(program)

    def variable(self, name: str) -> str | None:
        """Environment variable of the user, as programs there are started with it."""
        return os.environ.get(name)

    def python(self) -> str:
        """The Python that answers these calls."""
        return sys.executable

    def output(self, argv: list[str], patience: float = 10.0) -> str:
        """What a program that is quickly done prints; OSError if it fails or takes more than ``patience`` seconds."""
        try:
            found = subprocess.run(argv, capture_output=True, check=True, timeout=patience, stdin=subprocess.DEVNULL)
        except subprocess.SubprocessError as err:
            raise OSError(f"{argv[0]}: {err}") from err
        return found.stdout.decode("utf-8", "replace")

    def uname(self) -> dict[str, str]:
        found = os.uname()
        return {"system": found.sysname, "node": found.nodename, "release": found.release, "machine": found.machine}

    def cpus(self) -> tuple[int, int]:
        """(CPUs of the machine, CPUs that programs of this user may use)."""
        return os.cpu_count() or 1, len(os.sched_getaffinity(0))

    def clock(self) -> tuple[float, float]:
        """(seconds since the epoch, seconds of a clock that nobody can set)."""
        return time.time(), time.monotonic()

    def address_towards(self, address: str) -> str:
        """This machine's own IP address on its way to another; nothing is sent."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))
            return str(probe.getsockname()[0])

    def free_port(self) -> int:
        """A TCP port on which nobody listens, on any address."""
        with socket.create_server(("", 0)) as probe:
            return int(probe.getsockname()[1])

    def page_size(self) -> int:
        return os.sysconf("SC_PAGE_SIZE")

    def unmount(self, path: str, detach: bool = False) -> None:
        """Unmount; ``detach`` takes it out of sight at once although it is in use (MNT_DETACH)."""
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.umount2(os.fsencode(path), 2 if detach else 0) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), path)

    def libc(self) -> str:
        """Name and version of the C library, "" where it does not tell."""
        try:
            return os.confstr("CS_GNU_LIBC_VERSION") or ""
        except ValueError:
            return ""

    def is_clock_synchronized(self) -> bool | None:
        """Whether a time service keeps the clock (adjtimex(2)); None where the kernel does not tell."""
        found = (ctypes.c_int * 128)()  # struct timex; it begins with the mode: 0 changes nothing
        state: int = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(found))
        return None if state < 0 else state != 5  # TIME_ERROR

    def mount(self, source: str, path: str, kind: str, flags: int, options: str) -> None:
        """Mount a file system, or change a mount (MS_REMOUNT), by the system call, which reads no table of mounts."""
        libc = ctypes.CDLL(None, use_errno=True)
        texts = [os.fsencode(text) for text in (source, path, kind)]
        if libc.mount(*texts, ctypes.c_ulong(flags), os.fsencode(options)) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), path)

    def mount_id(self, path: str) -> int:
        """Identifier of the mount that a path lies on, the first field of its line in mountinfo."""
        descriptor = os.open(path, os.O_PATH)
        try:
            with open(f"/proc/self/fdinfo/{descriptor}") as file:
                return next(int(line.split()[1]) for line in file if line.startswith("mnt_id:"))
        finally:
            os.close(descriptor)

    # -- processes -------------------------------------------------------------------------------------------

    def boot_id(self) -> str:
        """Identifier of this boot of the machine."""
        return self.read("/proc/sys/kernel/random/boot_id").strip()

    def start_ticks(self, pid: int) -> int | None:
        """When the process with this pid was started, in clock ticks since the boot; None when there is none."""
        try:
            text = self.read(f"/proc/{pid}/stat")
        except (FileNotFoundError, ProcessLookupError):
            return None
        # The second field, in parentheses, may hold anything.
        fields = text.rpartition(")")[2].split()
        return None if fields[0] in ("Z", "X") else int(fields[19])

    def is_stopped(self, pid: int) -> bool:
        """Whether a program, or one that it has started, is stopped by a signal."""
        for member in family(pid):
            with suppress(OSError), open(f"/proc/{member}/stat", "rb") as file:  # it may just have ended
                if file.read().rpartition(b") ")[2][:1] in (b"T", b"t"):
                    return True
        return False

    def find_marked(self, mark: str, only_code: bool = False) -> list[tuple[int, int]]:
        """(pid, start ticks) of all processes that were started for a mark; ``only_code``: by what an experiment
        brings, as a program that its SQL has put into the background.

        A process of this user carries the mark in its environment, where anybody can put it; one that root started as
        somebody else is in the group of the mark, whatever it has done to its environment.
        """
        try:
            group, wanted = session_group(mark), os.fsencode(f"{MARK}={mark}")
        except UnicodeEncodeError:
            return []  # no path is so written

        def is_meant(path: str) -> bool:
            with open(path + "/status", "rb") as file:
                facts = dict(line.partition(b":")[::2] for line in file.read().splitlines())
            owner, groups = int(facts[b"Uid"].split()[0]), facts[b"Groups"].split()
            if os.geteuid() == 0 and group is not None:
                if str(group).encode() in groups:
                    return True
                is_ours = owner == 0 and not only_code
            else:
                is_ours = os.geteuid() in (0, owner)
            variables = _words(path + "/environ") if is_ours else []
            is_code = any(each.startswith(f"{CODE}=".encode()) for each in variables)
            return wanted in variables and (is_code or not only_code)

        return self._find(is_meant)

    def find_argument(self, argument: str) -> list[tuple[int, int]]:
        """(pid, start ticks) of all processes whose command line has this argument."""
        wanted = argument.encode()
        return self._find(lambda path: wanted in _words(path + "/cmdline"))

    def find_titled(self, title: str, directory: str) -> list[tuple[int, int]]:
        """(pid, start ticks) of all processes at work in a directory whose command line begins with ``title``."""
        wanted, place = title.encode(), os.path.realpath(directory)

        def is_meant(path: str) -> bool:
            with open(path + "/cmdline", "rb") as file:
                return file.read(len(wanted)) == wanted and os.readlink(path + "/cwd") == place

        return self._find(is_meant)

    def _find(self, is_meant: Callable[[str], bool]) -> list[tuple[int, int]]:
        """(pid, start ticks) of the processes that are meant, by their directories in /proc."""
        found = []
        for path in glob.glob("/proc/[0-9]*"):
            try:
                if not is_meant(path):
                    continue
            except (OSError, KeyError):
                continue  # it has ended, or is somebody else's
            pid = int(path.split("/")[2])
            ticks = self.start_ticks(pid)
            if ticks is not None:
                found.append((pid, ticks))
        return found

    def signal(self, pid: int, ticks: int, number: int) -> bool:
        """Send a signal to a process if it is still the same one; whether it was."""
        if self.start_ticks(pid) != ticks:
            return False
        try:
            os.kill(pid, signal.Signals(number))
        except ProcessLookupError:
            return False
        return True

    def cpu_times(self, mark: str) -> list[tuple[int, int, int, str, str, float]]:
        """(pid, parent, start ticks, whose, name, CPU seconds) of all processes; the seconds are with those of their
        children that have ended.

        ``whose`` is "own" for what carries the mark and for the process that answers, "kernel" for the kernel's own
        threads, else "other".
        """
        wanted, tick = f"{MARK}={mark}".encode(), os.sysconf("SC_CLK_TCK")
        found = []
        for path in glob.glob("/proc/[0-9]*"):
            try:
                with open(path + "/stat", "rb") as file:
                    text = file.read(4096).decode("utf-8", "replace")
            except OSError:
                continue  # it has ended
            pid, _, rest = text.partition(" (")
            # The name may hold anything, a closing parenthesis too.
            name, _, numbers = rest.rpartition(") ")
            fields = numbers.split()
            whose = "other"
            if int(fields[6]) & 0x00200000:  # PF_KTHREAD
                whose = "kernel"
            elif int(pid) == os.getpid() or wanted in _words(path + "/environ"):
                whose = "own"
            seconds = sum(int(field) for field in fields[11:15]) / tick
            found.append((int(pid), int(fields[1]), int(fields[19]), whose, name, seconds))
        return found
