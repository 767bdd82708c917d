"""The library that makes times longer: in programs whose times are known, and in a server."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pgtrial.errors import SettingError
from pgtrial.hosts.local import LocalHost
from pgtrial.hosts.operations import LOAD
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
#include <sys/types.h>
#include <unistd.h>
int fsync(int file) { (void)file; usleep(20000); return 0; }
ssize_t pread64(int file, void *to, size_t size, off64_t at)
{ (void)file; (void)to; (void)size; (void)at; usleep(20000); return 0; }
ssize_t pread(int file, void *to, size_t size, off_t at)
{ (void)file; (void)to; (void)size; (void)at; usleep(20000); return 0; }
"""
_WAIT = """
import os, sys, time
file = os.open(sys.argv[1], os.O_RDONLY)
begun = time.monotonic()
for _ in range(5):
    os.fsync(file) if sys.argv[2] == "flush" else os.pread(file, 1, 0)
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

# Two threads that want one lock all the time, and work while they hold it as a server does: copying memory. Prints the
# CPU time of the work for one lock.
_HOLD_A_LOCK = """
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static double cpu_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}
static void *work(void *held)
{
    char from[1024] = "", to[1024];
    for (int turn = 0; turn < 1500; turn++) {
        pthread_mutex_lock(&lock);
        double begun = cpu_time();
        for (int i = 0; i < 2000; i++) {
            memcpy(to, from, sizeof to - turn % 2);
            from[i % 1024] = to[turn % 1024];
        }
        *(double *)held += cpu_time() - begun;
        pthread_mutex_unlock(&lock);
        poll(NULL, 0, 0);
    }
    return NULL;
}
int main(void)
{
    double held[2] = {0, 0};
    pthread_t other;
    pthread_create(&other, NULL, work, &held[1]);
    work(&held[0]);
    pthread_join(other, NULL);
    printf("%g", (held[0] + held[1]) / 3000);
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


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return asyncio.run(build_library(LocalHost(), tmp_path_factory.mktemp("library")))


@pytest.fixture(scope="module")
def slow_calls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("calls")
    source, made = directory / "calls.c", directory / "calls.so"
    source.write_text(_SLOW_CALLS)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", made, source], check=True, timeout=60)
    return made


@pytest.fixture(scope="module")
def lock_holder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("lock")
    source, made = directory / "lock.c", directory / "lock"
    source.write_text(_HOLD_A_LOCK)
    subprocess.run(["cc", "-O1", "-fno-builtin", "-o", made, source, "-lpthread"], check=True, timeout=60)
    return made


def run(script: str, *arguments: str, preload: str, **factors: str) -> str:
    environment = {**os.environ, "LD_PRELOAD": preload, **factors}
    command = [sys.executable, "-I", "-S", "-c", script, *arguments]
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=120).stdout


@needs_compiler
@pytest.mark.parametrize(("name", "kind"), [("PGTRIAL_SLOW_FLUSH", "flush"), ("PGTRIAL_SLOW_FILES", "files")])
def test_waits_are_as_many_times_as_long(library: Path, slow_calls: Path, name: str, kind: str) -> None:
    elapsed = float(run(_WAIT, str(slow_calls), kind, preload=f"{library}:{slow_calls}", **{name: "3"}))
    assert elapsed >= 5 * 0.058  # the CPU time of a call is no waiting


@needs_compiler
def test_the_holder_of_a_lock_burns_while_others_wait_for_it(library: Path, lock_holder: Path) -> None:
    def hold(factor: str) -> float:
        environment = {**os.environ, "LD_PRELOAD": str(library), "PGTRIAL_SLOW_CPU": factor}
        return float(subprocess.run([lock_holder], env=environment, stdout=subprocess.PIPE, check=True).stdout)

    alone = min(hold("1") for _ in range(3))  # the least: a cold cache makes it longer
    assert 1.85 <= min(hold("2") for _ in range(3)) / alone <= 2.15


@needs_compiler
@pytest.mark.parametrize("whose", ["own", "kernel"])
def test_as_much_is_burned_as_is_declared(library: Path, whose: str) -> None:
    def work(factor: str) -> float:
        return min(float(run(_WORK, whose, preload=str(library), PGTRIAL_SLOW_CPU=factor)) for _ in range(4))

    assert work("1.5") / work("1") == pytest.approx(1.5, rel=0.06)


@needs_compiler
def test_cpu_time_is_burned_once_more_also_in_a_child(library: Path) -> None:
    for used, paid in json.loads(run(_BURN, preload=str(library), PGTRIAL_SLOW_CPU="1.5")):
        assert 1.45 <= paid / used <= 1.7
    for used, paid in json.loads(run(_BURN, preload=str(library))):
        assert paid / used <= 1.1


@needs_compiler
def test_cpu_time_is_burned_once_more_before_a_wait_by_select(library: Path) -> None:
    """By which servers before 16 wait for clients."""
    script = _BURN.replace("select.poll().poll(0)", "select.select([0], [], [], 0)")
    for used, paid in json.loads(run(script, preload=str(library), PGTRIAL_SLOW_CPU="1.5")):
        assert 1.45 <= paid / used <= 1.7


@needs_compiler
def test_a_select_that_only_sleeps_burns_nothing(library: Path) -> None:
    """A server sleeps so behind a lock that others wait for."""
    script = _BURN.replace("    select.poll().poll(0)\n    return", "    select.select([], [], [], 0.001)\n    return")
    for used, paid in json.loads(run(script, preload=str(library), PGTRIAL_SLOW_CPU="1.5")):
        assert paid / used <= 1.1


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
    directory = tmp_path_factory.mktemp("static")
    source, made = directory / "static.c", directory / "static"
    source.write_text(_STATIC)
    subprocess.run(["cc", "-nostdlib", "-static", "-o", made, source], check=True, timeout=60)
    return made


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
    asyncio.run(require_generator_loaded(LocalHost(), str(library), lambda: [2**22 + 1]))


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
