"""The server, its data and their location in a plan, for either kind of target."""

from collections.abc import Iterator, Sequence
from typing import Any

from pgtrial.cli import plan_files
from pgtrial.cli.checked import ArmServer, Checked
from pgtrial.cli.plan_method import soak_schedule
from pgtrial.cli.text import fill
from pgtrial.design.data_size import arm_scales, cluster_size, made_data
from pgtrial.design.slices import LENGTH_SPREAD
from pgtrial.design.variants import may_count_statements, stays_as_prepared
from pgtrial.engine.preview import Preview
from pgtrial.experiment_file.experiment import SCALED, Experiment
from pgtrial.experiment_file.load import AS_WRITTEN
from pgtrial.experiment_file.workload_table import COMMAND
from pgtrial.hosts.linux.flushes import lost_flushes
from pgtrial.hosts.linux.mounts import existing
from pgtrial.hosts.local import LocalHost
from pgtrial.knobs.standby import STANDBY
from pgtrial.model.arm import Arm
from pgtrial.postgres.existing.session import READ_ONLY, split_settings
from pgtrial.postgres.programs import has_library
from pgtrial.postgres.throwaway import DEFAULT_SETTINGS, OWN_SETTINGS, STATEMENTS
from pgtrial.units import format_bytes, format_duration
from pgtrial.workloads.data_files import data_files

# What a plan says of the host: every change with the value now, and what cannot be had.


_NOTHING = "Nothing on the host changes: no kernel, file-system, device or network setting."
_BACK = (
    "Each is written to the journal before it is made, verified, and put back after the run, also after Ctrl-C; after "
    'a kill or a reboot "pgtrial restore" puts it back. Running this needs --allow-host-changes.'
)


def host_changes(checked: Checked, previews: Sequence[Preview] | None) -> list[str]:
    """Lines of text: each change with its arms, and what cannot be had; of a host that was not asked what is wanted."""
    if previews is None:
        from pgtrial.engine.experiment import host_changes as wanted_changes

        name, of_fleet = checked.loaded.experiment.target.host, checked.place != AS_WRITTEN
        wanted = "; ".join(wanted_changes(checked.loaded.experiment, checked.plan.arms)) or "nothing"
        return [
            fill(f"On {'each host' if of_fleet else name} it sets: {wanted}."),
            fill(
                "The hosts were not asked."
                if of_fleet
                else f"That host was not asked; --host {name} asks it, and shows its values now."
            ),
        ]
    arms: dict[str, list[str]] = {}
    for preview in previews:
        if preview.change is not None:
            change = preview.change
            arms.setdefault(f"{change.name}: {change.old_text} → {change.new_text}", []).append(preview.arm)
    lines = [fill(f"{text} (arm {', '.join(dict.fromkeys(names))})") for text, names in arms.items()]
    problems = dict.fromkeys(f"{preview.knob}: {preview.problem}" for preview in previews if preview.problem)
    lines += [fill(f"not possible here: {problem}") for problem in problems]
    return [*lines, fill(_BACK if previews else _NOTHING)]


def host_changes_data(previews: Sequence[Preview] | None) -> list[dict[str, Any]] | None:
    """The same for --json; None of a host that was not asked."""
    return (
        None
        if previews is None
        else [
            {
                "arm": preview.arm,
                "knob": preview.knob,
                "name": preview.change.name if preview.change else None,
                "now": preview.change.old_text if preview.change else None,
                "wanted": preview.change.new_text if preview.change else None,
                "problem": preview.problem or None,
                "for_all_runs": preview.for_all_runs,
            }
            for preview in previews
        ]
    )


_LOGGED = 40  # bytes of pgbench's log, of a transaction
_USUAL_RATE = 1000  # transactions per second
_READ = 14_000  # bytes of the sampler's readings, of a second; more with more sessions
_KEPT = 1500  # bytes of the result folder, of a second of load
_RESTORES = {
    "each-run": "restored before each run",
    "each-block": "restored before each block",
    "never": "never restored",
}


def server_text(checked: Checked) -> str:
    """Which server it is."""
    target = checked.loaded.experiment.target
    is_elsewhere = checked.there.target.host is not None or not checked.place.is_here
    where = f" on {target.host}" if target.host else " on each host" if is_elsewhere else ""
    if target.kind == "host":
        return plan_files.program_text(checked)
    if target.kind == "server":
        return f"existing, connected by {target.connection or 'the PG* variables'}{where}"
    return "; ".join(_throwaway_text(server, where, of_all=len(checked.servers) == 1) for server in checked.servers)


def _throwaway_text(server: ArmServer, where: str, *, of_all: bool) -> str:
    whose = "" if of_all else f" ({', '.join(server.arms)})"
    if where:
        return f"throw-away PostgreSQL {server.majors}{where}{whose}"
    if server.is_unknown:
        return f"throw-away PostgreSQL {server.majors}{whose}: {server.missing}"
    if server.programs is None:
        return f"PostgreSQL {server.version}{whose}, which this machine does not have: {server.missing}"
    return f"throw-away PostgreSQL {server.exact} from {server.programs.directory}{whose}"


def data_text(checked: Checked) -> str:
    """The data, and how many copies exist."""
    experiment, size = checked.loaded.experiment, format_bytes(checked.plan.data_size)
    dataset = experiment.dataset
    if experiment.target.kind == "host":
        return plan_files.files_text(checked)
    if dataset.kind == "existing":
        return f'the data in database "{experiment.target.database}"'
    parts = [made_data(dataset.kind, arm_scales(checked.plan.arms))] if dataset.kind in SCALED else []
    parts += [f"{file.name} ({file.kind})" for file in data_files(experiment, checked.loaded.folder)]
    made = ", ".join([*parts, *([] if dataset.setup is None else [dataset.setup])])
    clusters = len({arm.variant for arm in checked.plan.arms})
    if checked.plan.steps:
        snapshots = "the snapshot, its source" if clusters == 1 else f"{clusters} snapshots, their sources"
        times = 2 * clusters + len(checked.plan.arms)
        return f"{made}: about {size}, stored {times} times ({snapshots} and a copy for each arm)"
    twice = "the prepared database and its copy" if experiment.target.kind == "server" else "snapshot and copy"
    standby = ", and once more for a standby" * any(STANDBY in arm.knobs for arm in checked.plan.arms)
    each = f", for each of {clusters} clusters" * (clusters > 1)
    return f"{made}: about {size}, stored twice ({twice}){each}{standby}"


def own_settings(experiment: Experiment) -> dict[str, str]:
    """Those by which a server of pgtrial's own is reached and observed, as far as they are known before it starts."""
    entrance = () if experiment.load is None else ("listen_addresses", "port")
    return {name: value for name, value in OWN_SETTINGS.items() if name not in entrance}


def own_settings_text(checked: Checked) -> str:
    """Settings beside those of the file, "" if there are none."""
    experiment = checked.loaded.experiment
    if experiment.target.kind != "throwaway":
        return ""
    declared = {name for arm in checked.plan.arms for name in arm.settings}
    own = own_settings(experiment) | {name: value for name, value in DEFAULT_SETTINGS.items() if name not in declared}
    listed = ", ".join(f"{name} = {value or repr('')}" for name, value in own.items())
    return f"In addition, to reach and observe the server: {listed}. {_counting_text(checked)}".rstrip()


def counts_statements(checked: Checked) -> bool | None:
    """Whether pg_stat_statements is loaded in all arms alike; None where that is not known of the host."""
    if not may_count_statements(checked.loaded.experiment, checked.plan.arms):
        return False
    if not all(server.is_here and server.programs for server in checked.servers):
        return None
    ops = LocalHost().ops
    return all(has_library(ops, server.programs, STATEMENTS) for server in checked.servers if server.programs)


def _counting_text(checked: Checked) -> str:
    off = "count_statements = false in [target] leaves it out"
    found = counts_statements(checked)
    if found is None:
        return f"{STATEMENTS} is loaded in all arms alike, if the server has it; {off}."
    if found:
        return f"{STATEMENTS} is loaded in all arms alike, to count what statements do; {off}."
    if may_count_statements(checked.loaded.experiment, checked.plan.arms):
        return f"Statements are not counted: the server has no {STATEMENTS}."
    return ""


def starts_text(checked: Checked) -> str:
    """How often the server starts, and when the data are restored."""
    experiment, plan = checked.loaded.experiment, checked.plan
    runs = len(plan.slots)
    if experiment.design.soak is not None:
        return soak_schedule(checked)
    if experiment.target.kind == "host":
        return plan_files.runs_text(checked)
    if experiment.target.kind == "server":
        restart = experiment.target.restart
        by_turns = ", all of a block at once" if plan.method.method == "switchback" else ""
        started = f"{runs} runs{by_turns}. The server is " + (
            f'restarted by "{" ".join(restart)}" before and after runs whose settings need it'
            if restart
            else "never restarted"
        )
    else:
        how = "each with its own server start"
        if plan.method.method == "switchback":
            how = "all of a block on one server, which is switched between the arms while it runs"
        elif plan.steps:
            how = f"each with its own server start: in a block {len(plan.arms)} servers are up at the same time"
        started = f"{runs} runs, {how}; {plan.trials} more starts while preparing"
    restore = experiment.restore
    kept = "are only read, so nothing is put back"
    if not stays_as_prepared(experiment, plan.arms):
        kept = f"are {_RESTORES['each-block' if plan.steps and restore == 'each-run' else restore]}"
    return f"{started}. The data {kept}. {plan_files.order_text(experiment)}"


def _lost_flush_texts(arms: Sequence[Arm]) -> Iterator[str]:
    """Where data or WAL will lie on this machine and flushes reach no disk, each place once."""
    ops = LocalHost().ops
    variants = [arm.variant for arm in arms]
    places = [place for each in variants for place in (each.data or "/var/tmp", each.wal) if place is not None]
    for place in dict.fromkeys(places):
        lost = lost_flushes(ops, existing(ops, place))
        if lost is not None:
            yield f"Flushes {lost.lost} in {place} ({lost.by}): a commit waits for no disk there."


def place_texts(checked: Checked) -> Iterator[str]:
    """Temporary data outside the result folder."""
    experiment, size = checked.loaded.experiment, format_bytes(2 * checked.plan.data_size)
    target = experiment.target
    if target.kind == "host":
        yield from plan_files.place_texts(checked)
        return
    if target.kind == "throwaway":
        yield (
            "The server listens on a socket in a private directory; it and its data are removed at the end, and no "
            "other PostgreSQL is touched."
        )
        if experiment.load is not None:
            by_tls = ", over TLS" if experiment.load.tls else ""
            yield (
                f"The load comes from {', '.join(experiment.load.hosts)}. For these machines alone the server also "
                "listens on TCP, at the address at which they reach it and on a free port, and asks them for a "
                f"password (SCRAM{by_tls}) that is drawn for the experiment and is in no file."
            )
        arms = checked.plan.arms
        for variant in dict.fromkeys(arm.variant for arm in arms):
            has_twins = checked.plan.method.method in ("interleaved", "duet")
            copies = sum(arm.variant == variant for arm in arms) if has_twins else 1
            copies += any(STANDBY in arm.knobs and arm.variant == variant for arm in arms)
            size = format_bytes((1 + copies) * cluster_size(experiment.dataset.kind, variant.scale))
            yield f"Data: below {variant.data or '/var/tmp'}/pgtrial-<random>, about {size} while it runs."
        if checked.there.target.host is None:
            yield from _lost_flush_texts(arms)
        if experiment.design.soak is not None:
            window = checked.plan.experiment.workload.duration
            log, kept = _LOGGED * _USUAL_RATE * window, _KEPT * window * len(checked.plan.slots)
            yield (
                "In a soak data grow as the load makes them. In the result folder lies pgbench's log of one window at "
                f"a time, {format_bytes(log)} at {_USUAL_RATE:,} transactions a second, with the sampler's readings, "
                f"about {format_bytes(_READ * window)}; what stays there is about {format_bytes(kept)}."
            )
        return
    yield _database_text(experiment, size)
    if target.database is None and experiment.dataset.load:
        names = ", ".join(experiment.dataset.load)
        yield (
            f"The statements of {names} are executed on the server with the rights of the role, which makes no roles, "
            "and of archives no owners and rights. Running this needs --allow-writes."
        )
    shared, own = set(), set()
    for arm in checked.plan.arms:
        by_session, by_server = split_settings(arm.settings)
        own |= set(() if target.settings == "server" else by_session)
        shared |= set(arm.settings if target.settings == "server" else by_server)
    if target.settings == "role":
        read_only = set() if target.writes or target.database is None else {READ_ONLY}
        yield (
            f"Every session of the load's role in its database feels the arm's {', '.join(sorted(own | read_only))}, "
            "which the role gets by ALTER ROLE … IN DATABASE for the time of a run, and loses after it; its idle "
            "sessions are ended for that, so use a role that no other application has. Running this needs "
            "--allow-host-changes."
        )
    elif own:
        yield f"Only the load's sessions have the arm's {', '.join(sorted(own))}; no other application feels it."
    if shared and experiment.guardrails is not None:
        longest = checked.plan.method.slice_in(2) * (1 + LENGTH_SPREAD)
        yield (
            f"Every application of the server feels {', '.join(sorted(shared))}, which is switched back and forth by "
            f"ALTER SYSTEM and a reload at each turn, the longest of about {format_duration(longest)}; read back, and "
            "undone after each block: postgresql.auto.conf is then byte for byte as before. Where a guardrail is "
            "breached it is put back first, and the experiment ends. Running this needs --allow-host-changes."
        )
    elif shared:
        yield (
            f"Every application of the server feels the arm's {', '.join(sorted(shared))}, which it gets by ALTER "
            "SYSTEM and a reload for the time of a run; read back, and undone after it: postgresql.auto.conf is then "
            "byte for byte as before. Running this needs --allow-host-changes."
        )


def _database_text(experiment: Experiment, size: str) -> str:
    target = experiment.target
    if target.database is None:
        return f"Two databases pgtrial_<random>, about {size} together, are created, and dropped at the end."
    compared = "Its catalogue, what is written to its tables and sequences, and its size are compared before and after."
    if target.writes:
        a_copy = "" if target.copy_of is None else f', by the file a copy of "{target.copy_of}",'
        safer = 'A copy is safer: "pgtrial copy" makes one.' if target.copy_of is None else ""
        return (
            f'Database "{target.database}"{a_copy} is changed: the arms\' SQL runs in it, and the scripts may write to '
            f"it. {compared} Running this needs --allow-writes. {safer}".rstrip()
        )
    is_program = experiment.workload.kind == COMMAND
    who = "The program" if is_program else "A function that a script calls"
    elsewhere = " What the program does in other databases nobody looks at." if is_program else ""
    hooks = " Hooks may write." if experiment.hooks.programs() else ""
    return (
        f'Database "{target.database}" is read-only for the load\'s sessions. {compared} {who} may switch that off for '
        "itself: only a role that may not write is certain not to. What is written nevertheless stays; it ends the "
        "experiment where nobody else is connected, or where sessions of the load are seen writing, and is a caveat "
        f"otherwise.{elsewhere}{hooks}"
    )
