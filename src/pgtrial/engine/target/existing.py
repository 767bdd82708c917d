"""An existing server as the target, with a database made by pgtrial or one that was there, which is read-only."""

import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pgtrial.design.variants import host_knobs
from pgtrial.engine.changes import HostChanges
from pgtrial.engine.events import Preparing, Waiting
from pgtrial.engine.fingerprint.read import VERSION_FACT
from pgtrial.engine.sampler.control import find_server
from pgtrial.engine.target.base import (
    IN_DATABASE,
    Preparation,
    RunningServer,
    alter_database,
    executable_client,
    undo_sql,
    wanted_settings,
)
from pgtrial.engine.target.loading import Loader
from pgtrial.engine.target.server_survey import refuse_changing, refuse_no_room, survey_server
from pgtrial.errors import PreflightError, TargetError, WrittenError
from pgtrial.experiment_file.experiment import SCALED, Experiment
from pgtrial.findings.caveat import CaveatFinding, caveat
from pgtrial.findings.message import Message, message
from pgtrial.hosts.base import Host
from pgtrial.hosts.linux.control_groups import own_groups
from pgtrial.hosts.local import server_account
from pgtrial.knobs.base import KnobContext
from pgtrial.model.arm import Arm
from pgtrial.model.change import JournalEntry, Outcome, Undone
from pgtrial.postgres.existing.arm_sql import MAYBE_OF_OTHERS, are_of_others
from pgtrial.postgres.existing.checks import refuse_missing
from pgtrial.postgres.existing.database import check_may_create, data_database, run_database
from pgtrial.postgres.existing.inventory import (
    Inventory,
    compare_catalogues,
    compare_data,
    data_to_json,
    find_added,
    find_written,
    read_inventory,
    with_data,
)
from pgtrial.postgres.existing.knobs import ServerDatabase, ServerRole, ServerSettings, ServerSql, ServerSwitch
from pgtrial.postgres.existing.log import LogMark, keep_since, mark_log
from pgtrial.postgres.existing.log_place import log_caveats
from pgtrial.postgres.existing.rights import Rights
from pgtrial.postgres.existing.server import ExistingServer, open_server
from pgtrial.postgres.existing.session import READ_ONLY, options_of, read_session
from pgtrial.postgres.existing.write_watch import Seen, WriteWatch
from pgtrial.postgres.programs import Programs, find_programs
from pgtrial.store.state import State

_FOUND = "found-data"  # kind of event: what the data of a database that was there before were
_MOST_FOUND = 20_000  # tables, indexes and sequences, of which a result folder can keep what was found
# Who can have changed a database nevertheless.


@dataclass(slots=True, kw_only=True)
class ServerTarget:
    """A server that keeps running; ``database`` is the load's, made anew from ``prepared`` ("": it was there before).

    ``before`` is what was in a database that was there before, and ``note`` records a caveat about the whole. ``own``
    are the settings of the load's sessions, ``shared`` those of the whole server, by arm, and ``scripts`` what the SQL
    of arms does in such a database. ``load_sessions`` are how the names of the load's sessions begin, once it is to be
    measured.
    """

    experiment: Experiment
    host: Host
    here: Host
    server: ExistingServer
    rights: Rights
    client: Programs
    changes: HostChanges
    token: str
    database: str
    prepared: str
    caveats: Sequence[CaveatFinding]
    note: Callable[[CaveatFinding], None]
    own: Mapping[str, Mapping[str, str]]
    shared: Mapping[str, Mapping[str, str]]
    scripts: Sequence[Mapping[str, str]]
    before: Inventory | None = None
    made: list[JournalEntry] = field(default_factory=list, init=False)  # the prepared database
    copied: Sequence[JournalEntry] = field(default=(), init=False)  # the load's database
    running: Arm | None = field(default=None, init=False)
    changed: Sequence[JournalEntry] = field(default=(), init=False)  # for the arm that runs
    is_trial: bool = field(default=False, init=False)
    altered: bool = field(default=False, init=False)  # the arm's SQL has changed the data
    confirmed: frozenset[tuple[str, str]] = field(default=frozenset(), init=False)  # as of RunningServer
    found: Inventory | None = field(default=None, init=False)  # of a read-only database when the arm was started
    load_sessions: Sequence[str] = field(default=(), init=False)
    watch: WriteWatch | None = field(default=None, init=False)  # while an arm runs in a read-only database
    looks: int = field(default=0, init=False)  # that found none of the load's sessions writing
    others: bool = field(default=False, init=False)  # have connected to a read-only database while it was loaded
    log_mark: LogMark | None = field(default=None, init=False)  # the end of the server's log when the arm was started
    log_end: LogMark | None = field(default=None, init=False)  # the end of what has been copied of it

    @property
    def is_read_only(self) -> bool:
        return not self.prepared and not self.experiment.target.writes

    @property
    def by_role(self) -> bool:
        """Whether the load's sessions have their settings from its role, and not from libpq's options."""
        return self.experiment.target.settings == "role"

    def session(self, arm: Arm) -> dict[str, str]:
        """Settings of the load's sessions."""
        return {**self.own[arm.name], **({READ_ONLY: "on"} if self.is_read_only else {})}

    def facts(self) -> Mapping[str, str]:
        facts = self.server.facts
        return {
            VERSION_FACT: facts.version,
            "PostgreSQL/found by": "the connection string",
            "PostgreSQL/place": self.server.control.address.place,
            "PostgreSQL/pgbench": self.client.version,
            **({"storage/data directory": facts.data_directory} if facts.data_directory else {}),
        }

    async def restore(self, arm: Arm) -> None:
        if not self.prepared:
            return
        await self.changes.undo(self.copied)
        self.copied = await self._create(self.database, template=self.prepared)

    async def _create(self, name: str, *, template: str) -> tuple[JournalEntry, ...]:
        return await self._make_database({"name": name, "template": template})

    async def create_prepared(self, locale: Mapping[str, str]) -> None:
        """The database for the prepared data, with this encoding and collation."""
        self.made += await self._make_database({"name": self.prepared, "locale": json.dumps(dict(locale))})

    async def _make_database(self, wanted: Mapping[str, str]) -> tuple[JournalEntry, ...]:
        return await self.changes.make(self._context(), {ServerDatabase.name: wanted}, run=None)

    def _context(self, settings: Mapping[str, str] | None = None) -> KnobContext:
        directories = self.server.directories
        return KnobContext(
            host=self.host,
            token=self.token,
            directory=directories[0] if directories else "/",
            data=directories[0] if directories else None,
            wal=directories[-1] if directories else None,
            settings=settings or {},
            groups=self._groups(),
        )

    async def start(self, arm: Arm, *, run: int | None) -> RunningServer:
        return await self.start_with(arm, {ServerSettings.name: self.shared[arm.name]}, run=run)

    async def start_with(self, arm: Arm, shared: Mapping[str, Mapping[str, str]], *, run: int | None) -> RunningServer:
        """``start`` where ``shared`` is what is set for the whole server, as a knob of its takes it."""
        if self.prepared and not self.copied:
            await self.restore(arm)
        settings = wanted_settings(arm)
        self.running, self.is_trial = arm, run is None
        script = {} if self.prepared else _sql_of(arm)
        wanted = {**shared, **host_knobs(arm), ServerSql.name: script}
        if self.by_role:
            wanted[ServerRole.name] = self.session(arm)
        self.changed = await self.changes.make(self._context(settings), wanted, run=run)
        self.altered = bool(script)
        if self.prepared:
            self.altered = await alter_database(arm, self.server.conninfo(self.database))
        self.log_mark = await mark_log(self.server)
        if self.is_read_only:
            self.found = await read_inventory(self.server.control, self.database, catalogue=False)
            self._begin_to_watch(run)
        self.confirmed = IN_DATABASE | self.changes.confirmed(wanted)
        return await self.serve(arm)

    def _begin_to_watch(self, run: int | None) -> None:
        if self.load_sessions:
            self.watch = WriteWatch(
                control=self.server.control,
                database=self.database,
                names=self.load_sessions,
                seed=f"{self.experiment.experiment.name}/{run}",
                role=self.server.control.address.user if self.by_role else None,
            )
            self.watch.start()

    async def _end_watching(self) -> Seen:
        watch, self.watch = self.watch, None
        return Seen() if watch is None else await watch.stop()

    async def serve(self, arm: Arm) -> RunningServer:
        """The server as the sessions of an arm find it; what is changed for them all was changed by ``start``."""
        settings, session, conninfo = wanted_settings(arm), self.session(arm), self.server.conninfo
        facts = self.server.facts
        return RunningServer(
            settings=await read_session(self.server, self.database, session, also=settings, by_role=self.by_role),
            changes=tuple(self.changed),
            version=facts.version,
            version_num=facts.version_num,
            database=self.database,
            control=conninfo(),
            conninfo=conninfo,
            environment=self.server.environment(self.database, "" if self.by_role else options_of(session)),
            directories=self.server.directories,
            groups=self._groups(),
            confirmed=self.confirmed,
            on_host=facts.local,
            altered=self.altered,
            is_foreign=not self.prepared,
            # On somebody else's server nothing is written back for a load that only reads.
            process=await self.server.find_process(),
            may_checkpoint=self.rights.checkpoint and not facts.in_recovery and not self.is_read_only,
        )

    def _groups(self) -> tuple[str, ...]:
        """Control groups of the server's own, as a service has: one with pgtrial in it tells of the load as well."""
        with suppress(OSError):
            process = find_server(self.host.ops, self.server.directories)
            return () if process is None else own_groups(self.host.ops, process)
        return ()

    async def find_lost(self) -> str:
        return await self.changes.find_lost(self.changed)

    def has_died(self) -> bool:
        return False  # it has no process of ours; the load and the sampler notice

    def go_on(self) -> None:
        self.log_mark = self.log_end

    async def keep_log(self, destination: Path) -> None:
        """As that of any target; the server goes on writing to its log."""
        self.log_end = None
        if self.log_mark is not None:
            # A server that is gone makes the run invalid by itself.
            with suppress(TargetError):
                await keep_since(self.server, self.log_mark, destination)
                self.log_end = await mark_log(self.server)

    async def stop(self, *, immediate: bool) -> Sequence[tuple[JournalEntry, Undone]]:
        if self.running is None:
            return ()
        arm, seen = self.running, await self._end_watching()
        try:
            if self.prepared and not immediate:
                await undo_sql(arm, self.server.conninfo(self.database))
        finally:
            # Whoever ends a run once more does not wait for the same lock once more.
            changed, self.running, self.changed, self.log_mark = self.changed, None, (), None
            undone = await self.changes.undo(changed)
        if self.is_trial and (refusal := _refuse_undo(arm, undone)):
            self.before = None  # what is different is told by this
            raise refusal
        if self.found is not None:
            found, self.found = self.found, None
            await self._refuse_writing(found, seen)
        return undone

    async def _refuse_writing(self, found: Inventory, seen: Seen) -> None:
        """A session can give itself the right to write. Where nobody else can have been there, whoever wrote was of the
        load; otherwise it was where one of its sessions was ``seen`` writing to what was written to.
        """
        now = await read_inventory(self.server.control, self.database, catalogue=False)
        written = compare_data(found, now)
        own = seen.written & find_written(found, now)
        if now.defined > found.defined:
            own |= seen.altered
        if now.defined > found.defined and self.before is not None:
            now = await read_inventory(self.server.control, self.database)
            differs = compare_catalogues(self.before.catalogue, now.catalogue)
            written = f"{differs or 'Objects were made, altered or dropped.'} {written}".rstrip()
        # That nobody is there before and after the load says nothing of those who come for a moment.
        was_alone = not found.others and not now.others and seen.others is False
        if written and (own or was_alone):
            seen_at = f" Sessions of the load were seen at it: {', '.join(sorted(own))}." if own else ""
            raise WrittenError(
                f'the load has written to database "{self.database}", which is read-only',
                detail=f"{written}{seen_at}",
                hint="A script or program, or a function that it calls, gives its session the right to write, or does "
                "what the server lets read-only transactions do. If it may, write writes = true in [target] and run "
                'with --allow-writes; "pgtrial copy" makes a copy to try it on.',
            )
        self.looks += seen.looks
        self.others = self.others or bool(seen.others)

    async def remove(self) -> None:
        try:
            await self.stop(immediate=True)
        finally:
            await self.changes.undo(self.copied)
            await self.changes.undo(self.made)
            self.copied, self.made = (), []
        before, self.before = self.before, None
        if before is not None:
            await self._compare(before)

    def _who_may_have(self) -> tuple[Message, ...]:
        """Who can have changed a database whose load may only read."""
        return (
            message("read-only"),
            *([message("read-only.looks", looks=self.looks)] if self.looks else []),
            *([message("read-only.others")] if self.others else []),
        )

    async def _compare(self, before: Inventory) -> None:
        after = await read_inventory(self.server.control, self.database)
        if written := compare_data(before, after):
            whose = self._who_may_have() if self.is_read_only else (message("load-stays"),)
            self.note(caveat("data-changed", database=self.database, changes=written, whose=whose))
        differs = compare_catalogues(before.catalogue, after.catalogue)
        if differs and self.is_read_only:
            whose = self._who_may_have()
            self.note(caveat("catalogue-changed", database=self.database, changes=differs, whose=whose))
        elif differs and (not self.scripts or are_of_others(before.catalogue, after.catalogue, self.scripts)):
            whose = (message("not-named", connected=_connected(before, after)),)
            self.note(caveat("catalogue-changed", database=self.database, changes=differs, whose=whose))
        elif differs:
            maybe = f" {MAYBE_OF_OTHERS} {_connected(before, after)}"
            raise TargetError(
                f'database "{self.database}" is not as it was found',
                detail=f"{differs}{maybe if find_added(before.catalogue, after.catalogue) else ''}",
            )


def _connected(before: Inventory, after: Inventory) -> str:
    if others := max(before.others, after.others):
        return f"Other sessions were connected at its beginning or end, up to {others}."
    return "At its beginning and end nobody else was connected."


def _sql_of(arm: Arm) -> dict[str, str]:
    """What an arm does in an existing database, for the journal; empty if it does nothing."""
    table, create = arm.knobs.get("sql", {}), arm.knobs.get("extensions", {}).get("create", "")
    if not table.get("apply") and not create:
        return {}
    return {
        "arm": arm.name,
        "apply": table.get("apply", ""),
        "apply_name": arm.origin("sql", "apply"),
        "undo": table.get("undo", ""),
        "undo_name": arm.origin("sql", "undo"),
        "extensions": create,
        "extensions_name": arm.origin("extensions", "create"),
    }


def _refuse_undo(arm: Arm, undone: Sequence[tuple[JournalEntry, Undone]]) -> TargetError | None:
    """Before anything is measured, an arm's undo has to put back what its SQL has changed."""
    for entry, result in undone:
        if entry.change.knob == ServerSql.name and result.outcome is Outcome.CHANGED:
            return TargetError(
                f'the undo of arm "{arm.name}" does not put the database back as it was',
                detail=result.text,
                hint=f"Complete {arm.origin('sql', 'undo')}, and put back by hand what is named here.",
            )
    return None


async def prepare_server(task: Preparation) -> ServerTarget:
    """Reach the server and make its data, if they are to be pgtrial's own.

    Raises ConnectError, ConsentError, PreflightError, TargetError; what was made then is removed.
    """
    plan, host, caller, changes = task.plan, task.host, task.caller, task.changes
    experiment, wanted, tell = plan.experiment, plan.experiment.target, task.tell
    tell(Preparing(step="looking at the server"))
    server = await open_server(host, wanted.connection, database=wanted.database, restart=wanted.restart, caller=caller)
    _check_version(task.state, server)
    survey = await survey_server(server, experiment, plan.arms, task.scripts)
    if not task.may_change:
        refuse_changing(survey.changing)
    if survey.missing:
        raise refuse_missing(survey.rights, survey.missing)
    await refuse_no_room(server, experiment, plan.arms)
    rights = survey.rights
    token = secrets.token_hex(4)
    target = ServerTarget(
        experiment=experiment,
        host=host,
        here=task.here,
        server=server,
        rights=rights,
        client=find_programs(wanted.postgres, may_run=task.may_run),
        changes=changes,
        token=token,
        database=wanted.database or run_database(token),
        prepared="" if wanted.database else data_database(token),
        note=task.state.add_caveat,
        own=survey.own,
        shared=survey.shared,
        scripts=tuple(script for arm in plan.arms if (script := _sql_of(arm))),
        caveats=(
            *rights.caveats(writes=wanted.database is None or wanted.writes),
            *await log_caveats(server),
            *_own_caveats(server, task.here),
        ),
    )
    changes.knobs = (
        ServerDatabase(server=server, caller=caller),
        ServerSettings(server=server, database=target.database, caller=caller),
        ServerSwitch(server=server, database=target.database, caller=caller),
        *changes.knobs,
        ServerSql(server=server, database=target.database, caller=caller, say=lambda text: tell(Waiting(text=text))),
        ServerRole(server=server, database=target.database, caller=caller),
    )
    if wanted.database is not None:
        target.before = since_first_begun(task.state, await read_inventory(server.control, wanted.database))
        return target
    check_may_create(rights)
    try:
        await _load(target, task)
    except BaseException:
        await target.remove()
        raise
    return target


def since_first_begun(state: State, found: Inventory) -> Inventory:
    """With the data as they were when the experiment was begun at first: what was written before a kill is its as well.

    The catalogue is that of now. What an arm had made was undone, and what somebody else has made since may stay.
    """
    for _, kind, data in state.events():
        if kind == _FOUND:
            return with_data(found, data)
    if len(found.tables) + len(found.indexes) + len(found.sequences) <= _MOST_FOUND:
        state.add_event(time.time(), _FOUND, run=None, **data_to_json(found))
    return found


def _check_version(state: State, server: ExistingServer) -> None:
    now = server.facts.version
    before = state.fingerprints().get(None, {}).get(VERSION_FACT, now)
    if before != now:
        raise PreflightError(
            f"the experiment was started with PostgreSQL {before}, but the server is now {now}",
            hint="Start a new experiment; runs of different versions cannot be compared.",
        )


def _own_caveats(server: ExistingServer, here: Host) -> Sequence[CaveatFinding]:
    if not server.facts.local or server.host.name != here.name:
        return ()
    return (caveat("shared-server"),)


async def _load(target: ServerTarget, task: Preparation) -> None:
    """Make the database from which those of the load are copied."""
    experiment, prepared = target.experiment, target.prepared
    dataset, account, programs = experiment.dataset, server_account(target.here.ops), target.client
    if dataset.load:  # what else makes data runs as pgtrial itself
        programs = await executable_client(programs, account, task.belongings, here=target.here)
    loader = Loader(
        host=target.here,
        programs=programs,
        conninfo=target.server.conninfo(prepared),
        environment=target.server.environment(prepared),
        is_own=False,
        copies=Path("/var/tmp"),
        account=account,
        belongings=task.belongings,
        may_run=task.may_run,
        tell=task.tell,
    )
    scale = dataset.scale if dataset.kind in SCALED else None
    other_collation = await loader.make_data(
        experiment, task.scripts, task.state, scale=scale, create=target.create_prepared
    )
    if other_collation is not None:
        target.caveats = (*target.caveats, other_collation)
