"""Times of the server and of the load generator, each made longer by a factor, to see what throughput owes to it."""

import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import Annotated

from pydantic import Field

from pgtrial.errors import HostCommandError, SettingError
from pgtrial.hosts.base import LOCAL, Host
from pgtrial.knobs.declaration import ALWAYS, About, Among, EffectTiming, Knob, Rule, Scope
from pgtrial.knobs.values import Form, Table

SLOWDOWN = "slowdown"
_LIBRARY, _SOURCE = "slowdown.so", "slowdown.c"
_COMPILER = "cc"
# Without builtins: a compiler knows what memcpy does, and would not make one that does more.
_OPTIONS = ("-O2", "-fno-builtin", "-shared", "-fPIC")
_PRELOAD = "LD_PRELOAD"
_PATIENCE, _PAUSE = 5.0, 0.02  # s
_GET_COMPILER = "Install a C compiler (Debian: gcc and libc6-dev)."
_OF_SERVER: Mapping[str, str] = {"cpu": "CPU", "flush": "FLUSH", "files": "FILES"}
_OF_GENERATOR: Mapping[str, str] = {"generator": "CPU"}
KEYS = (*_OF_SERVER, *_OF_GENERATOR)

Factor = Annotated[float, Field(strict=True, ge=1, le=10), Form("a factor: `1.5`")]


class SlowdownTable(Table):
    """Times that take longer, by a factor. Left out: 1, as they are."""

    cpu: Factor | None = Field(default=None, description="CPU time of the server.")
    flush: Factor | None = Field(
        default=None, description="Waiting for a flush: fsync, fdatasync, and writes that wait for one."
    )
    files: Factor | None = Field(default=None, description="Waiting in reads from and writes to files.")
    generator: Factor | None = Field(default=None, description="CPU time of the load generator.")


class Slowdown(Knob):
    name = SLOWDOWN
    about = About(
        sets="times of the server, and the CPU time of the load generator, each made longer by a factor: a library "
        "that is compiled by cc and preloaded burns CPU time once more, and sleeps behind each wait",
        takes_effect="at the start of server and load generator",
        rights="none in a throw-away cluster; a C compiler on its machine",
        verified="the library is in the memory maps of the running server and of the load generator",
        undone="removed with the cluster",
    )
    scope = Scope.SETTINGS
    among_twins = Among.OWN
    acts = (ALWAYS,)
    rules = (Rule(timing=EffectTiming.AT_ONCE, reason="holds for the next call of each process"),)
    not_on_server = "only into a server that pgtrial starts a library can be preloaded"
    needs_server = True
    needs_socket = True


def require_compiler() -> None:
    """Raise SettingError where this machine has none: better before all runs than after them."""
    if shutil.which(_COMPILER) is None:
        raise SettingError(f'cannot make times longer here: there is no program "{_COMPILER}"', hint=_GET_COMPILER)


async def build_library(host: Host, directory: Path) -> Path:
    """The library in a directory that is not the server's own, where it is made unless it is there.

    Raises SettingError where the machine has no compiler, or no library can be preloaded from there.
    """
    library, source = directory / _LIBRARY, directory / _SOURCE
    if any(character in str(library) for character in " :\t"):
        raise SettingError(
            f'cannot preload a library from "{directory}": its path has a space or a colon',
            hint="Choose another directory in [target].",
        )
    if host.ops.is_file(str(library)):
        return library
    text = resources.files(__package__).joinpath(_SOURCE).read_text(encoding="utf-8")
    try:
        host.ops.put(str(source), text)
        await host.run([_COMPILER, *_OPTIONS, "-o", library, source, "-ldl", "-lpthread"])
    except (HostCommandError, OSError) as err:
        raise SettingError(
            f'cannot make times longer here: the program "{_COMPILER}" does not compile the library for it',
            detail=str(err),
            hint=_GET_COMPILER,
        ) from err
    return library


def require_loaded(host: Host, pid: int, library: Path) -> None:
    """Raise SettingError if the library is not in a process that was to begin with it."""
    if host.ops.resolve(str(library)) not in host.ops.read(f"/proc/{pid}/maps"):
        raise SettingError(
            "the server does not load the library that makes times longer",
            hint="A server that is linked statically, or to another C library, cannot be slowed down.",
        )


def library_of(environment: Mapping[str, str]) -> str | None:
    """That which a program finds in ``environment``; None where its times are as they are."""
    return environment.get(_PRELOAD)


async def require_generator_loaded(host: Host, library: str, find_pids: Callable[[], Iterable[int]]) -> None:
    """Raise SettingError unless the library gets into all processes of a load generator that are not at their end.

    They are looked for again until it has: a program that has just been executed loads it within milliseconds.
    """
    import asyncio  # exports of findings need knobs, and no server

    deadline = time.monotonic() + _PATIENCE
    while lacking := [pid for pid in find_pids() if not _has_loaded(host, pid, library)]:
        if time.monotonic() > deadline:
            raise SettingError(
                f"the CPU time of the load generator cannot be varied: {_name(host, lacking[0])} does not load the "
                "library that makes it longer",
                hint="A program that is linked statically, as those in Go mostly are, or to another C library, or that "
                "clears its environment, cannot be slowed down: leave out generator (--resource cpu --resource flush "
                "--resource files of pgtrial limits, or resources in [limits]).",
            )
        await asyncio.sleep(_PAUSE)


def _has_loaded(host: Host, pid: int, library: str) -> bool:
    from pgtrial.hosts.local import has_begun

    with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
        if not has_begun(pid, host.ops):
            return False
        try:
            if host.ops.resolve(library) in host.ops.read(f"/proc/{pid}/maps"):
                return True
        except PermissionError:  # of a program with rights of its own, in which it is not
            return False
        # What has ended has no memory; nor has what executes a program, for a moment.
        return host.ops.read(f"/proc/{pid}/stat").rpartition(")")[2].split()[0] in ("Z", "X")
    return True


def _name(host: Host, pid: int) -> str:
    with suppress(OSError):
        return f'"{host.ops.read(f"/proc/{pid}/comm").strip()}"'
    return "a process of it"


def server_environment(values: Mapping[str, str], library: Path) -> dict[str, str]:
    return _environment(values, _OF_SERVER, library)


def generator_environment(values: Mapping[str, str], library: Path, host: Host) -> dict[str, str]:
    """{} where the generator is as it is. SettingError if the library is on another machine than the generator."""
    if "generator" not in values:
        return {}
    if host.name != LOCAL:
        raise SettingError("the load generator is slowed down only where the server is on its machine")
    return _environment(values, _OF_GENERATOR, library)


def _environment(values: Mapping[str, str], names: Mapping[str, str], library: Path) -> dict[str, str]:
    factors = {f"PGTRIAL_SLOW_{name}": values[key] for key, name in names.items() if key in values}
    return {_PRELOAD: str(library), **factors}
