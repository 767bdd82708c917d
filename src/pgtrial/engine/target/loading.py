"""Make the data of an experiment in a database of pgtrial's own.

The files of ``dataset.load`` are loaded by psql and pg_restore as the load's account. They may contain anything. Unless
the user has allowed the code that was found in them, the kernel refuses them new processes and files (RLIMIT_NPROC,
RLIMIT_FSIZE), so that nothing is executed which was not found. As root they are read from copies that the account may
read and not change: what it owns, root does not write.
"""

import json
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path

from pgtrial.design.data_size import made_data
from pgtrial.engine.events import Observer, Preparing
from pgtrial.engine.target.base import way_to_log_in
from pgtrial.errors import PreflightError, TargetError
from pgtrial.experiment_file.experiment import Experiment
from pgtrial.experiment_file.workload_table import TPCC
from pgtrial.findings.caveat import CaveatFinding, caveat
from pgtrial.hosts.base import Account, Completed, Host
from pgtrial.postgres.connect import execute, execute_script, fetch, find_roles, make_roles
from pgtrial.postgres.programs import Programs
from pgtrial.safe_files import open_file
from pgtrial.store.belongings import Belongings, Made
from pgtrial.store.plans import LOADED
from pgtrial.store.state import State
from pgtrial.workloads.data_files import DataFile, DumpFormat, data_files
from pgtrial.workloads.pgbench import initialize_argv
from pgtrial.workloads.scenarios import setup_sql
from pgtrial.workloads.tpcc import load_sql

_SAID = re.compile(r"psql:(?P<file>.+?):(?P<line>\d+): (?:ERROR|FATAL|error|fatal):\s+(?P<text>.*)")
_ROW = re.compile(r"CONTEXT:\s+COPY .+?, line (?P<row>\d+)\b")  # counted from the first line of the data
_BEGINS_DATA = re.compile(rb"\bfrom\s+stdin\b", re.IGNORECASE)
_LONGEST_PIECE = 1 << 20  # bytes of a line that are read at once
_RESTORE = re.compile(r"pg_restore: error: (?:could not execute query: )?(?:ERROR:\s+)?(?P<text>.*)")
_REFUSED = ("Cannot allocate memory", "Resource temporarily unavailable")  # psql's words where it may start nothing
# As psql takes its strings, so were they read to find what is executed, whatever the database says.
# Refused in a transaction, and therefore where a file has left one open, of which the end of psql would leave nothing.
_AT_END = "DISCARD ALL"
_OPTIONS = "-c standard_conforming_strings=on -c client_encoding=UTF8"
_MOST_SAID = 6  # lines of what a program said
_NEWER = re.compile(r'unsupported version|unrecognized configuration parameter|invalid command "\\(?:un)?restrict')

_COLLATION = "SELECT datcollate FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()"
_MOST_SHOWN = 200  # characters of an archive's value, which may be anything
_TABLESPACE = re.compile(r'default_tablespace|tablespace ".+" does not exist')


async def create_as_dumped(
    files: Sequence[DataFile], create: Callable[[Mapping[str, str]], Awaitable[None]], *, conninfo: str
) -> CaveatFinding | None:
    """Make the database for the files by ``create``, with encoding and collation of the one that the first archive is
    of; where the server lacks the collation, with another one, which the caveat tells. ``conninfo`` leads there.

    Raises TargetError, also where it cannot have the encoding.
    """
    locale = next((dict(file.locale) for file in files if file.locale), {})
    try:
        await create(locale)
    except TargetError as err:
        if not locale:
            raise
        refusal = err.message
    else:
        return None
    encoding = locale.get("ENCODING", "UTF8")
    # With C any encoding goes.
    without = {} if encoding == "UTF8" else {"LOCALE_PROVIDER": "libc", "LOCALE": "C"}
    await create({"ENCODING": encoding, **without})
    ((collation,),) = await fetch(conninfo, _COLLATION)
    wanted = ", ".join(f"{name} {_shorten(value)}" for name, value in locale.items())
    for value in locale.values():
        refusal = refusal.replace(value, _shorten(value))
    return caveat("other-collation", wanted=wanted, refusal=refusal, collation=collation)


def _shorten(value: str) -> str:
    return value if len(value) <= _MOST_SHOWN else f"{value[: _MOST_SHOWN - 1]}…"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loader:
    """Of one database, which ``conninfo`` and ``environment`` lead to; the programs run on ``host``.

    Whether the server ``is_own``, so that roles may be made there. ``copies`` is where copies of the files may lie, and
    ``may_run`` whether the code in them is allowed.
    """

    host: Host
    programs: Programs
    conninfo: str
    environment: Mapping[str, str] = field(repr=False)
    is_own: bool
    copies: Path
    account: Account | None
    belongings: Belongings
    may_run: bool
    tell: Observer

    async def make_data(
        self,
        experiment: Experiment,
        scripts: Path,
        state: State,
        *,
        scale: int | None,
        create: Callable[[Mapping[str, str]], Awaitable[None]],
    ) -> CaveatFinding | None:
        """Have the database made by ``create``, and all in it that the experiment asks for: tables at a ``scale``, if
        there is one, the files to load, and what the set-up does. The caveat is that of ``create_as_dumped``.
        """
        dataset, files = experiment.dataset, data_files(experiment, scripts)
        other_collation = await create_as_dumped(files, create, conninfo=self.conninfo)
        if scale is not None:
            self.tell(Preparing(step=f"loading {made_data(dataset.kind, [scale])}"))
            await self._make_tables(dataset.kind, scale, foreign_keys=dataset.foreign_keys)
        if files:
            await self.load(files, json.loads(state.meta().get(LOADED, "[]")))
        for name, script in setup_sql(experiment, scripts):
            self.tell(Preparing(step=f"running {name}"))
            await execute_script(self.conninfo, script, name=name)
        self.tell(Preparing(step="vacuum, analyze, checkpoint" if self.is_own else "vacuum, analyze"))
        await execute(self.conninfo, "VACUUM (ANALYZE)")
        return other_collation

    async def _make_tables(self, kind: str, scale: int, *, foreign_keys: bool) -> None:
        if kind == TPCC:
            await execute_script(
                self.conninfo, load_sql(scale, foreign_keys=foreign_keys), name=f"the tables of {TPCC}"
            )
            return
        await self.host.run(
            initialize_argv(self.programs.path("pgbench"), scale=scale, foreign_keys=foreign_keys),
            account=self.account if self.is_own else None,  # a server that was there knows whom pgtrial runs as
            environment=self.environment,
        )

    async def load(self, files: Sequence[DataFile], digests: Sequence[str]) -> None:
        """Load all files, in their order; ``digests`` are those that they had when the experiment was begun.

        Raises TargetError with the file and the line; PreflightError if a file is another one now.
        """
        digests = digests[: len(files)]
        for file, digest in zip_longest(files, digests):
            _check_digest(file, digest)
        await self._see_to_roles(files)
        for file, digest in zip(files, digests, strict=True):
            self.tell(Preparing(step=f"loading {file.path}, {file.kind}"))
            if self.account is None:
                await self._load(file, file.root)
                continue
            copy = self.copies / f"pgtrial-{secrets.token_hex(4)}"
            self.belongings.add_directory(Made(path=copy, host=self.host.name))
            try:
                await self._copy(file, copy, self.account, digest)
                await self._load(file, copy)
            finally:
                self.host.ops.remove(str(copy), partly=True)

    async def _see_to_roles(self, files: Sequence[DataFile]) -> None:
        if self.is_own:
            await make_roles(self.conninfo, sorted({role for file in files for role in file.roles}))
            return
        # pg_restore leaves owners and rights out; what psql executes cannot be told to.
        named = {role for file in files if file.kind is DumpFormat.SCRIPT for role in file.roles}
        missing = sorted(named - await find_roles(self.conninfo))
        if missing:
            raise PreflightError(
                f"the data to load name roles that the server does not have: {', '.join(missing)}",
                hint="Make the dump with --no-owner and --no-privileges, or as an archive (-Fc): pgtrial makes no "
                "roles on a server that is not its own.",
            )

    async def _copy(self, file: DataFile, copy: Path, account: Account, digest: str) -> None:
        """Copies of root's, in a directory of root's, that the account's group may read.

        It may not until they are known to be what was digested: whoever can change the files might have put links in
        their place meanwhile, to what root alone may read. Raises PreflightError then.
        """
        ops = self.host.ops
        ops.make_directory(str(copy), mode=0o700)
        for directory in dict.fromkeys(parent for each in file.files for parent in reversed(each.parents[:-1])):
            ops.make_directory(str(copy / directory), mode=0o700)
        for each in file.files:
            await self.host.run(["cp", "--reflink=auto", "--", file.root / each, copy / each])
        _check_digest(replace(file, root=copy), digest)
        await self.host.run(["chown", "-R", f"0:{account.gid}", "--", copy])
        await self.host.run(["chmod", "-R", "u=rwX,g=rX,o=", "--", copy])

    async def _load(self, file: DataFile, root: Path) -> None:
        to = f"--dbname={self.environment['PGDATABASE']}"
        argv: list[str | Path]
        if file.kind is DumpFormat.ARCHIVE:
            whose = () if self.is_own else ("--no-owner", "--no-privileges")
            options = ("--exit-on-error", "--no-password", "--no-tablespaces", *whose)
            argv = [self.programs.path("pg_restore"), *options, to, root / file.path]
        else:
            options = ("--no-psqlrc", "--quiet", "--no-password", "--set=ON_ERROR_STOP=1", "--output=/dev/null")
            argv = [self.programs.path("psql"), *options, to, f"--file={file.path}", f"--command={_AT_END}"]
        completed = await self.host.run(
            [*self._limits(), *argv],
            account=self.account,
            environment={
                **self.environment,
                "PGOPTIONS": f"{self.environment.get('PGOPTIONS', '')} {_OPTIONS}".strip(),
            },
            directory=root,
            check=False,
        )
        # A file may tell psql to go on after an error, and to end as if there had been none.
        if completed.status != 0 or any(map(_SAID.match, completed.stderr.splitlines())):
            raise _explain(file, root, completed, self.account)

    def _limits(self) -> tuple[str, ...]:
        if self.may_run:
            return ()
        prlimit = self.host.ops.which("prlimit")
        if prlimit is None:
            raise PreflightError(
                'the program "prlimit" is missing, which keeps files that are loaded from starting programs',
                hint="Install the package util-linux, which every Linux distribution has.",
            )
        return prlimit, "--nproc=0:0", "--fsize=0:0", "--"


def _check_digest(file: DataFile, digest: str | None) -> None:
    if digest != file.digest():
        raise PreflightError(
            f'"{file.name}" is not as it was when the experiment was begun',
            hint="Put the file back, or start a new experiment.",
        )


def _explain(file: DataFile, root: Path, completed: Completed, account: Account | None) -> TargetError:
    """The error in terms of the file, from what psql or pg_restore said."""
    lines = completed.stderr.strip().replace(f"{root}/", f"{file.root}/").splitlines()
    where, what, rest = str(file.path), f"the program ended with status {completed.status}", lines[-_MOST_SAID:]
    for index, line in enumerate(lines):
        if found := _SAID.match(line):
            rest = lines[index + 1 : index + 1 + _MOST_SAID]
            number = int(found["line"])
            if (row := next(filter(None, map(_ROW.match, rest)), None)) and Path(found["file"]) in file.files:
                number = _line_of_row(root / found["file"], int(row["row"]), end=number)
            where, what = f"{found['file']}, line {number}", found["text"]
            break
        elif found := _RESTORE.match(line):
            what, rest = found["text"], lines[index + 1 : index + 1 + _MOST_SAID]
            break
        elif _AT_END in line:
            what, rest = "a transaction that begins in it is not committed, and leaves nothing behind", []
            break
    hint = "Fix the file; nothing has been measured."
    if _NEWER.search(what):
        hint = "It seems to be of a newer PostgreSQL than the one it is loaded into: dump it with that one's pg_dump."
    elif _TABLESPACE.search(what):
        hint = "The server has no such tablespace: dump with --no-tablespaces, or make an archive (pg_dump -Fc)."
    elif any("connection to server" in line for line in lines):
        hint = way_to_log_in(account) if account is not None else "Try the same connection with psql."
    elif what.endswith(_REFUSED):
        hint = "It would start a program that was not found in it before. Read it, then add --allow-code."
    return TargetError(f"{where}: {what}", detail="\n".join(rest), hint=hint)


def _line_of_row(path: Path, row: int, *, end: int) -> int:
    """The line of a file on which a row of COPY stands whose data ``end`` there, which is the line that psql names."""
    number, begin = 1, None
    with suppress(OSError), open_file(path) as stream:
        # A row may look like a COPY: the last one that has so many rows before the end is meant.
        while number + row < end and (piece := stream.readline(_LONGEST_PIECE)):
            begin = number if _BEGINS_DATA.search(piece) else begin
            number += piece.endswith(b"\n")
    return end if begin is None else begin + row
