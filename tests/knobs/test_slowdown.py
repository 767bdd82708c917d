"""The library that makes times longer: in programs whose times are known, and in a server."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pgtrial.errors import SettingError
from pgtrial.hosts.local import LocalHost
from pgtrial.hosts.operations import LOAD, Operations
from pgtrial.hosts.processes import end_process
from pgtrial.knobs import slowdown
from pgtrial.knobs.slowdown import (
    build_library,
    generator_environment,
    require_generator_loaded,
    require_loaded,
    server_environment,
)
from support.programs import needs_compiler

# Calls that take a known time of waiting, and none of the CPU. Behind the library, which finds them instead of libc's.
_SLOW_CALLS = """
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>
int fsync(int file)
{
    (void)file;
    usleep(atoi(getenv("WAIT")));
    if (getenv("STOP"))
        raise(SIGSTOP);
    return 0;
}
#define TRANSFER(name, type, offset) \\
    ssize_t name(int file, type memory, size_t size, offset at) \\
    { (void)file; (void)memory; (void)size; (void)at; usleep(atoi(getenv("WAIT"))); return 0; }
TRANSFER(pread, void *, off_t)
TRANSFER(pread64, void *, off64_t)
TRANSFER(pwrite, const void *, off_t)
TRANSFER(pwrite64, const void *, off64_t)
"""
_WAIT = """
import os, sys, time
file = os.open(sys.argv[1], os.O_RDWR | (os.O_DSYNC if "O_DSYNC" in sys.argv[2] else 0))
begun = time.monotonic()
for _ in range(int(sys.argv[3])):
    match sys.argv[2]:
        case "fsync":
            os.fsync(file)
        case "pread":
            os.pread(file, 1, 0)
        case _:
            os.pwrite(file, b"x", 0)
print(time.monotonic() - begun)
"""
# CPU time of a thread before and after a call at which it is paid for; in a child, whose clock begins at zero.
_BURN = """
import json, os, select, time
def burn():
    select.poll().poll(0)
    begun = time.thread_time()
    while time.thread_time() - begun < 0.1:
        pass
    used = time.thread_time() - begun
    select.poll().poll(0)
    return used, time.thread_time() - begun
own = burn()
read, write = os.pipe()
if os.fork() == 0:
    os.write(write, json.dumps(burn()).encode())
    os._exit(0)
os.wait()
print(json.dumps([own, json.loads(os.read(read, 1000))]))
"""

# CPU time of a process that calls nobody after it has worked, as its parent sees it.
_WORK_AND_END = """
import os, sys, time
child = os.fork()
begun = time.thread_time()
while child == 0 and time.thread_time() - begun < 0.2:
    pass
if child == 0:
    sys.exit()
used = os.wait4(child, 0)[2]
print(used.ru_utime + used.ru_stime)
"""
# CPU time of a program that has taken the place of one that worked, before and after a call at which it is paid for.
_WORK_AND_EXECUTE = """
import os, sys, time
while time.thread_time() < 0.2:
    pass
after = "import select, time; begun = time.thread_time(); select.poll().poll(0); print(time.thread_time() - begun)"
os.execv(sys.executable, [sys.executable, "-I", "-S", "-c", after])
"""

# Two threads that want one lock, and do as much while they hold it as afterwards, before they call a peer: copying
# memory, as a server does. Prints the share of their CPU time in which they held it.
_HOLD_A_LOCK = """
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static double cpu_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}
static void work(void)
{
    static __thread char from[1024], to[1024];
    for (int i = 0; i < 8000; i++) {
        memcpy(to, from, sizeof to - i % 2);
        from[i % 1024] = to[i / 8];
    }
}
static int file = -1;
static char big[65536];
static void *take_turns(void *times)
{
    double *held = times, *all = held + 1;
    for (int turn = 0; turn < 500; turn++) {
        pthread_mutex_lock(&lock);
        *held -= cpu_time();
        if (file < 0)
            work();
        else
            for (int i = 0; i < 16; i++)
                pwrite(file, big, sizeof big, 0);
        *held += cpu_time();
        pthread_mutex_unlock(&lock);
        work();
        poll(NULL, 0, 0);
    }
    *all = cpu_time();
    return NULL;
}
int main(int count, char **arguments)
{
    if (count > 1)
        file = memfd_create(arguments[1], 0);
    double own[2] = {0, 0}, others[2] = {0, 0};
    pthread_t other;
    pthread_create(&other, NULL, take_turns, others);
    take_turns(own);
    pthread_join(other, NULL);
    printf("%g", (own[0] + others[0]) / (own[1] + others[1]));
}
"""

# CPU time of a known amount of work: of the program's own, or of the kernel for it.
_WORK = """
import os, sys, time
text, (read, write) = bytes(400), os.pipe()
begun = time.thread_time()
for _ in range(200_000 if sys.argv[1] == "own" else 0):
    text[1:] + text
for _ in range(0 if sys.argv[1] == "own" else 20_000):
    os.write(write, text), os.read(read, 400), os.stat("/")
print(time.thread_time() - begun)
"""
# Clocks that go on by what is done, and not by themselves: by the time of some work, which may be the kernel's for a
# call, and by a little whenever they are asked. Behind the library. A thread may have the CPU for a part of the time.
_CLOCK = """
#define _GNU_SOURCE
#include <sys/types.h>
#include <time.h>
static long long cpu, others;
void begin(int threads) { others = threads - 1; }
void work(int ns) { cpu += ns; }
long long used(void) { return cpu; }
int clock_gettime(clockid_t id, struct timespec *t)
{
    work(25);
    long long now = cpu + (id == CLOCK_THREAD_CPUTIME_ID ? 0 : others * cpu);
    t->tv_sec = now / 1000000000;
    t->tv_nsec = now % 1000000000;
    return 0;
}
ssize_t pwrite(int file, const void *from, size_t size, off_t at)
{ (void)file; (void)from; (void)at; work(size); return size; }
"""
# CPU time in ns, by such clocks, of as much work as they count: of the program's own, or of the kernel for it.
_COUNTED_WORK = """
#define _GNU_SOURCE
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
void begin(int threads), work(int ns);
long long used(void);
int main(int count, char **arguments)
{
    static char from[64], to[64];
    begin(atoi(arguments[2]));
    for (int i = 0; i < 20000; i++) {
        int ns = 500 + i % 7 * 1000;
        if (strcmp(arguments[1], "own"))
            pwrite(1, from, ns, 0);
        else {
            work(ns);
            memcpy(to, from, sizeof to);
        }
    }
    poll(NULL, 0, 0);
    printf("%lld", used());
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return asyncio.run(build_library(LocalHost(), tmp_path_factory.mktemp("library")))


def compiled(place: pytest.TempPathFactory, name: str, text: str, *options: str | Path) -> Path:
    made = place.mktemp("compiled") / name
    source = made.with_suffix(".c")
    source.write_text(text)
    subprocess.run(["cc", "-o", made, source, *options], check=True, timeout=60)
    return made


@pytest.fixture(scope="module")
def slow_calls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory, "calls.so", _SLOW_CALLS, "-shared", "-fPIC")


@pytest.fixture(scope="module")
def lock_holder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory, "lock", _HOLD_A_LOCK, "-O1", "-fno-builtin", "-lpthread")


@pytest.fixture(scope="module")
def counted_work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    clock = compiled(tmp_path_factory, "clock.so", _CLOCK, "-shared", "-fPIC")
    return compiled(tmp_path_factory, "work", _COUNTED_WORK, "-fno-builtin", clock, f"-Wl,-rpath,{clock.parent}")


def run(script: str, *arguments: str, preload: str, **factors: str) -> str:
    environment = {**os.environ, "LD_PRELOAD": preload, **factors}
    command = [sys.executable, "-I", "-S", "-c", script, *arguments]
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=120).stdout


@needs_compiler
@pytest.mark.parametrize(
    ("name", "kind"), [("FLUSH", "fsync"), ("FLUSH", "pwrite of O_DSYNC"), ("FILES", "pread"), ("FILES", "pwrite")]
)
def test_waits_are_as_many_times_as_long(library: Path, slow_calls: Path, name: str, kind: str) -> None:
    factors = {f"PGTRIAL_SLOW_{name}": "3"}
    elapsed = float(run(_WAIT, str(slow_calls), kind, "5", preload=f"{library}:{slow_calls}", WAIT="20000", **factors))
    assert elapsed >= 5 * 0.058  # the CPU time of a call is no waiting


@needs_compiler
@pytest.mark.parametrize(("name", "kind"), [("FILES", "pwrite of O_DSYNC"), ("FLUSH", "pwrite")])
def test_a_write_that_waits_until_it_is_flushed_is_a_flush_and_no_other_is(
    library: Path, slow_calls: Path, name: str, kind: str
) -> None:
    """As by wal_sync_method = open_datasync and open_sync."""
    factors = {f"PGTRIAL_SLOW_{name}": "10"}
    elapsed = float(run(_WAIT, str(slow_calls), kind, "5", preload=f"{library}:{slow_calls}", WAIT="20000", **factors))
    assert elapsed < 0.8  # not 1


@needs_compiler
def test_a_long_wait_is_as_many_times_as_long(library: Path, slow_calls: Path) -> None:
    environment = {"preload": f"{library}:{slow_calls}", "WAIT": "300000", "PGTRIAL_SLOW_FLUSH": "3"}
    assert float(run(_WAIT, str(slow_calls), "fsync", "1", **environment)) >= 0.89


@needs_compiler
def test_the_time_for_which_a_process_is_stopped_is_no_waiting(library: Path, slow_calls: Path) -> None:
    """What it waits for goes on while another arm has its turn, and may have come to its end."""
    environment = {"LD_PRELOAD": f"{library}:{slow_calls}", "WAIT": "300000", "STOP": "1", "PGTRIAL_SLOW_FLUSH": "10"}
    command = [sys.executable, "-I", "-S", "-c", _WAIT, str(slow_calls), "fsync", "1"]
    with subprocess.Popen(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True) as process:
        os.waitpid(process.pid, os.WUNTRACED)
        process.send_signal(signal.SIGCONT)
        assert float(process.communicate(timeout=60)[0]) < 1.0  # not 3


@needs_compiler
@pytest.mark.parametrize("writes", [(), ("a file",)])
def test_the_holder_of_a_lock_burns_while_others_wait_for_it(
    library: Path, lock_holder: Path, writes: tuple[str, ...]
) -> None:
    """Its own work and, where it writes files, the kernel's for it."""

    def held(factor: str) -> float:
        environment = {**os.environ, "LD_PRELOAD": str(library), "PGTRIAL_SLOW_CPU": factor}
        run = subprocess.run([lock_holder, *writes], env=environment, stdout=subprocess.PIPE, check=True, timeout=60)
        return float(run.stdout)

    assert held("2") == pytest.approx(held("1"), abs=0.05)


@needs_compiler
@pytest.mark.parametrize("threads", ["1", "3"])
@pytest.mark.parametrize("whose", ["own", "kernel"])
def test_as_much_is_burned_as_is_declared(library: Path, counted_work: Path, whose: str, threads: str) -> None:
    """To the last slice, as many threads as share a CPU."""

    def used(factor: str) -> float:
        environment = {**os.environ, "LD_PRELOAD": str(library), "PGTRIAL_SLOW_CPU": factor}
        command = [counted_work, whose, threads]
        return float(subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, timeout=60).stdout)

    alone = used("1")
    assert alone == pytest.approx(20_000 * 3_500, rel=0.05)  # and what it takes to ask the clocks
    for factor in (1.5, 3.0):
        assert used(str(factor)) / alone == pytest.approx(factor, rel=0.002)


@needs_compiler
@pytest.mark.parametrize("whose", ["own", "kernel"])
def test_work_of_the_program_and_of_the_kernel_for_it_is_burned_again(library: Path, whose: str) -> None:
    times: dict[str, float] = {}
    for factor in ("1", "4") * 5:
        used = float(run(_WORK, whose, preload=str(library), PGTRIAL_SLOW_CPU=factor))
        times[factor] = min(times.get(factor, used), used)  # the least: a cold cache makes it longer

    assert times["4"] / times["1"] >= 2  # the CPU itself is up to half as fast again in another second


def burned(script: str, **how: str) -> list[list[float]]:
    """CPU time of work and of the call after it, as a multiple of the work's: of a process, and of its child. Five of
    each, the least first: a hypervisor that stops the machine meanwhile makes it longer.
    """
    found = [[paid / used for used, paid in json.loads(run(script, **how))] for _ in range(5)]
    return [sorted(times) for times in zip(*found, strict=True)]


@needs_compiler
def test_cpu_time_is_burned_once_more_also_in_a_child(library: Path) -> None:
    for least, _, middle, *_ in burned(_BURN, preload=str(library), PGTRIAL_SLOW_CPU="1.5"):
        assert 1.45 <= least <= middle <= 1.55
    for _, _, middle, *_ in burned(_BURN, preload=str(library)):
        assert middle <= 1.05


@needs_compiler
def test_cpu_time_is_burned_once_more_before_a_wait_by_select(library: Path) -> None:
    """By which servers before 16 wait for clients."""
    script = _BURN.replace("select.poll().poll(0)", "select.select([0], [], [], 0)")
    for least, _, middle, *_ in burned(script, preload=str(library), PGTRIAL_SLOW_CPU="1.5"):
        assert 1.45 <= least <= middle <= 1.55


@needs_compiler
def test_a_select_that_only_sleeps_burns_nothing(library: Path) -> None:
    """A server sleeps so behind a lock that others wait for."""
    script = _BURN.replace("    select.poll().poll(0)\n    return", "    select.select([], [], [], 0.001)\n    return")
    for _, _, middle, *_ in burned(script, preload=str(library), PGTRIAL_SLOW_CPU="1.5"):
        assert middle <= 1.05


@needs_compiler
def test_a_process_that_ends_burns_what_it_owes(library: Path) -> None:
    """Sessions that are closed, workers of a query and of autovacuum."""
    alone = float(run(_WORK_AND_END, preload=str(library)))
    slowed = float(run(_WORK_AND_END, preload=str(library), PGTRIAL_SLOW_CPU="2"))

    assert slowed - alone >= 0.18


@needs_compiler
def test_a_program_does_not_burn_again_what_the_one_before_it_used(library: Path) -> None:
    """The clock of a thread goes on where it executes another program."""
    assert float(run(_WORK_AND_EXECUTE, preload=str(library), PGTRIAL_SLOW_CPU="2")) < 0.15


@needs_compiler
def test_library_is_made_once(library: Path) -> None:
    before = library.stat().st_mtime_ns
    assert asyncio.run(build_library(LocalHost(), library.parent)) == library
    assert library.stat().st_mtime_ns == before


def test_missing_compiler_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for program in ("setpriv", "env"):
        found = shutil.which(program)
        assert found is not None
        (tmp_path / program).symlink_to(found)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SettingError, match='the program "cc"') as raised:
        asyncio.run(build_library(LocalHost(), tmp_path))
    assert "Install a C compiler" in (raised.value.hint or "")


def test_path_that_the_loader_would_split_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="a space or a colon"):
        asyncio.run(build_library(LocalHost(), tmp_path / "my data"))


@needs_compiler
def test_program_without_the_library_is_found_out(library: Path) -> None:
    with pytest.raises(SettingError, match="does not load the library"):
        require_loaded(LocalHost(), os.getpid(), library)


# A program without a loader, as those in Go mostly are.
_STATIC = "void _start(void) { for (;;) ; }"


@pytest.fixture(scope="module")
def static_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory, "static", _STATIC, "-nostdlib", "-static")


@needs_compiler
def test_generator_that_does_not_load_the_library_is_refused(
    library: Path, static_program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What starts it, of which it takes the place, has the library."""
    monkeypatch.setattr(slowdown, "_PATIENCE", 0.5)

    async def look(*command: Path | str) -> None:
        host = LocalHost()
        environment = generator_environment({"generator": "1.5"}, library, host)
        process = await host.start(command, role=LOAD, environment=environment)
        try:
            await require_generator_loaded(host, str(library), lambda: [process.pid])
        finally:
            await end_process(process)

    asyncio.run(look("sleep", "60"))
    with pytest.raises(SettingError, match=r'load generator cannot be varied: "static" does not load') as raised:
        asyncio.run(look(static_program))
    assert "leave out generator" in (raised.value.hint or "")


@needs_compiler
def test_generator_that_has_ended_says_itself_why(library: Path) -> None:
    looked: list[int] = []

    def find_pids() -> list[int]:
        looked.append(2**22 + 1)  # more than the kernel gives
        return looked[-1:]

    asyncio.run(require_generator_loaded(LocalHost(), str(library), find_pids))

    assert len(looked) == 1  # nobody waits for it


def test_generator_whose_memory_may_not_be_seen_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program with rights of its own, such as sudo, does not load the library."""
    monkeypatch.setattr(slowdown, "_PATIENCE", 0.0)

    class Guarded(Operations):
        def read(self, path: str, limit: int | None = None) -> str:
            if path.endswith("/maps"):
                raise PermissionError(13, "Permission denied", path)
            return super().read(path)

    host = LocalHost()
    host.ops = Guarded()
    with pytest.raises(SettingError, match="does not load the library that makes it longer"):
        asyncio.run(require_generator_loaded(host, "/x/slowdown.so", lambda: [os.getpid()]))


def test_server_and_generator_have_factors_of_their_own() -> None:
    values, library = {"cpu": "1.5", "generator": "2.0"}, Path("/x/slowdown.so")
    assert server_environment(values, library) == {"LD_PRELOAD": "/x/slowdown.so", "PGTRIAL_SLOW_CPU": "1.5"}
    assert generator_environment(values, library, LocalHost())["PGTRIAL_SLOW_CPU"] == "2.0"
    assert generator_environment({"cpu": "1.5"}, library, LocalHost()) == {}


def test_generator_on_another_machine_is_refused() -> None:
    host = LocalHost()
    host.name = "ssh://elsewhere"
    with pytest.raises(SettingError, match="only where the server is on its machine"):
        generator_environment({"generator": "1.5"}, Path("/x"), host)
