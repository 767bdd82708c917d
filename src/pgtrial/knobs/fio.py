"""The tables of a load on files: what its jobs do, and what arms vary of it."""

from typing import Annotated, Literal

from pydantic import Field

from pgtrial.knobs.declaration import ALWAYS, ON_DEVICE, About, Among, EffectTiming, Knob, Rule, Scope
from pgtrial.knobs.values import Count, Flag, Positive, Size, Table

FIO = "fio"  # the kind of load, and the table of an arm
FILES = "files"  # name of the only job where the file has none of its own
DEFAULT_BLOCK_SIZE = "8kB"
DEFAULT_ENGINE = "psync"

Pattern = Literal["read", "write", "randread", "randwrite"]
Engine = Literal["psync", "libaio", "io_uring"]
Cache = Literal["as-is", "cold", "warm"]
Writes = Annotated[int, Field(strict=True, ge=0, le=1_000_000)]


class FileWork(Table):
    """What a job does with its file."""

    pattern: Pattern | None = Field(
        default=None,
        description="read, write: from beginning to end, repeatedly. randread, randwrite: blocks in random "
        "order, each once before any is repeated.",
    )
    size: Size | None = Field(default=None, description="Size of the file, which all processes of the job share.")
    block_size: Size | None = Field(
        default=None, description=f"Bytes of one request to the file. Left out: {DEFAULT_BLOCK_SIZE}."
    )
    norandommap: Flag | None = Field(
        default=None,
        description="Choose random blocks without regard to those that were chosen before, so that some are repeated "
        "and others left out. Left out: false.",
    )
    once: Flag | None = Field(
        default=None,
        description="Go through the size once and end, as a copy does; the duration is then the longest time that this "
        "may take. Left out: false, again and again for the duration.",
    )
    direct: Flag | None = Field(default=None, description="Bypass the page cache (O_DIRECT). Left out: false.")
    fsync: Writes | None = Field(
        default=None, description="Number of writes of a process between calls of fsync. Left out or 0: never."
    )
    engine: Engine | None = Field(
        default=None,
        description=f"fio's I/O engine. Left out: {DEFAULT_ENGINE}, one pread or pwrite after the other.",
    )
    depth: Count | None = Field(
        default=None, description="Requests that a process keeps in flight, for libaio and io_uring. Left out: 1."
    )


class FileJobTable(FileWork):
    """One job of a load on files: processes that do the same to one file."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,40}$")] = Field(description="Name in all tables.")
    share: Positive | None = Field(
        default=None, description="Share of the processes, relative to the other jobs. Left out: 1."
    )


class FilesTable(FileWork):
    """Settings for every job of a load on files, if arms differ in them."""

    cache: Cache | None = Field(
        default=None,
        description="State of the page cache before a run. cold: nothing of the files is in it. warm: the files have "
        "been read, as far as they fit. Left out: as cache in [design] says.",
    )


class Fio(Knob):
    name = FIO
    about = About(
        sets="the jobs of a load on files: pattern, size of the file, block size, norandommap, once, direct, fsync, "
        "engine and depth, and the state of the page cache before a run",
        takes_effect="for the load of the arm; the files are created once, at the largest size that any arm needs",
        rights="none",
        verified="each job makes a few requests before anything is measured; fio fails loudly",
        undone="the files are removed at the end of the experiment",
    )
    scope = Scope.LOAD
    among_twins = Among.OWN
    acts = (ALWAYS,)
    rules = (
        Rule(
            timing=EffectTiming.BUILDS_UP,
            reason="decides which pages are cached and dirty, for all that use the machine",
            shares=ON_DEVICE,
        ),
    )
