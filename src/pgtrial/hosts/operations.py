"""What is done on a host beside running programs: files, kernel values, processes, mounts.

This file stands alone (standard library only, Python 3.8): a remote host is given its text and answers the same calls,
so that what works here works there. Arguments and results are what JSON knows; paths are texts. Every method raises
OSError as the system does.
"""

from __future__ import annotations

import ctypes
import glob
import os
import pwd
import shutil
import signal
import time

MARK = "PGTRIAL_RESULT_FOLDER"  # environment variable that every program started for an experiment carries


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
        fresh = f"{path}.new"
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(text.encode())
                file.flush()
                if owner is not None:
                    os.fchown(file.fileno(), *owner)
                os.fchmod(file.fileno(), mode)
                os.fsync(file.fileno())
            os.replace(fresh, path)
        except BaseException:
            os.unlink(fresh)
            raise

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def is_writable(self, path: str) -> bool:
        return os.access(path, os.W_OK)

    def glob(self, pattern: str) -> list[str]:
        """Sorted paths that match; none is no error."""
        return sorted(glob.glob(pattern))

    def resolve(self, path: str) -> str:
        """The path without symbolic links."""
        return os.path.realpath(path)

    def make_directory(
        self, path: str, owner: tuple[int, int] | None = None, mode: int = 0o700, parents: bool = False
    ) -> None:
        """Make a directory; FileExistsError when it is there, unless ``parents``."""
        if parents:
            os.makedirs(path, mode, exist_ok=True)
        else:
            os.mkdir(path, mode)
        if owner is not None:
            os.chown(path, *owner)

    def remove(self, path: str) -> None:
        """Remove a file, or a directory with all that is in it; what is not there is as wished."""
        try:
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)
        except FileNotFoundError:
            pass

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory, also one of the kernel's (a control group)."""
        os.rmdir(path)

    def device_of(self, path: str) -> tuple[int, int]:
        """(major, minor) of the device a path lies on, or of the block device that it names."""
        status = os.stat(path)
        device = status.st_rdev or status.st_dev
        return os.major(device), os.minor(device)

    def space(self, path: str) -> tuple[int, int]:
        """(bytes in all, bytes free for us) of the file system under a path."""
        status = os.statvfs(path)
        free = status.f_bfree if os.geteuid() == 0 else status.f_bavail
        return status.f_blocks * status.f_frsize, free * status.f_frsize

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

    def uname(self) -> dict[str, str]:
        found = os.uname()
        return {"system": found.sysname, "node": found.nodename, "release": found.release, "machine": found.machine}

    def cpus(self) -> tuple[int, int]:
        """(CPUs of the machine, CPUs that programs of this user may use)."""
        return os.cpu_count() or 1, len(os.sched_getaffinity(0))

    def clock(self) -> tuple[float, float]:
        """(seconds since the epoch, seconds of a clock that nobody can set)."""
        return time.time(), time.monotonic()

    def page_size(self) -> int:
        return os.sysconf("SC_PAGE_SIZE")

    def unmount(self, path: str, detach: bool = False) -> None:
        """Unmount; ``detach`` takes it out of sight at once although it is in use (MNT_DETACH)."""
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.umount2(os.fsencode(path), 2 if detach else 0) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), path)

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

    def find_marked(self, mark: str) -> list[tuple[int, int]]:
        """(pid, start ticks) of all processes that carry the mark in their environment."""
        wanted = f"{MARK}={mark}".encode()
        found = []
        for path in glob.glob("/proc/[0-9]*/environ"):
            try:
                with open(path, "rb") as file:
                    variables = file.read().split(b"\0")
            except OSError:
                continue  # it has ended, or is somebody else's
            if wanted in variables:
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
