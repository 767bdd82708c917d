"""Settings as read back: which differ between arms, and whether the experiment declared it."""

from collections.abc import Mapping

from pgtrial.analysis.evidence import Evidence
from pgtrial.findings.findings import Difference, PlacedValue, SettingFinding
from pgtrial.knobs import KNOBS
from pgtrial.model.arm import Arm

ABSENT = "(absent)"  # the server of that run has no such setting

# Settings that may differ from run to run, and why that cannot change what is measured.
VOLATILE: Mapping[str, str] = {
    "application_name": "a name of the session that read the settings",
    "config_file": "a path of the throw-away cluster",
    "data_directory": "a path of the throw-away cluster",
    "external_pid_file": "a path of the throw-away cluster",
    "hba_file": "a path of the throw-away cluster",
    "ident_file": "a path of the throw-away cluster",
    "hosts_file": "a path of the throw-away cluster",
    "log_directory": "a path of the throw-away cluster",
    "log_filename": "a path of the throw-away cluster",
    "port": "only part of the name of the socket",
    "unix_socket_directories": "a path of the throw-away cluster",
    "cluster_name": "a label in process titles",
    "num_os_semaphores": "the sum of what other settings ask for, each of which is compared itself",
    "shared_memory_size": "the sum of what other settings ask for, each of which is compared itself",
    "shared_memory_size_in_huge_pages": "the sum of what other settings ask for, each of which is compared itself",
}

# Settings that the server computes from others; they may differ where those were declared to differ.
DERIVED: Mapping[str, tuple[str, ...]] = {
    "archive_command": ("archive_mode",),
    "autovacuum_worker_slots": ("autovacuum_max_workers",),
    "commit_timestamp_buffers": ("shared_buffers",),
    "huge_pages_status": ("huge_pages", "shared_buffers", "huge_page_size"),
    "io_combine_limit": ("io_max_combine_limit",),
    "io_max_concurrency": ("shared_buffers", "max_connections"),
    "subtransaction_buffers": ("shared_buffers",),
    "transaction_buffers": ("shared_buffers",),
    "wal_buffers": ("shared_buffers",),
    "transaction_deferrable": ("default_transaction_deferrable",),
    "transaction_isolation": ("default_transaction_isolation",),
    "transaction_read_only": ("default_transaction_read_only",),
}

# Settings that a knob sets beside what it does on the host, or that tell of it.
KNOB_SETTINGS: Mapping[str, tuple[str, ...]] = {
    name: tuple(setting for own in knob.own_settings for setting in (*own.settings, *own.shown))
    for name, knob in KNOBS.items()
    if knob.own_settings
}
# A library has settings of its own, "name.setting", which are there as long as it is loaded.
_LOADING = ("shared_preload_libraries", "session_preload_libraries", "local_preload_libraries")

_DEFAULTS = ("default", "override", "")  # sources of values that nobody wrote down; "" where there is no such setting


def compare_settings(evidence: Evidence) -> tuple[SettingFinding, ...]:
    """Settings that were declared, differ between arms, or do not have the server's default; by name."""
    common = {name.lower() for name in evidence.experiment.target.postgresql}
    by_knobs = {name for arm in evidence.arms for knob in arm.knobs for name in KNOB_SETTINGS.get(knob, ())}
    declared = common.union(by_knobs, *(_declared(arm) for arm in evidence.arms))
    settings = []
    for name, by_run in _read_back(evidence).items():
        values = {arm: " / ".join(sorted(texts)) for arm, texts in _by_arm(evidence, by_run).items()}
        sources = sorted({_source(evidence, run, name) for run in by_run} - {""})
        is_declared, differs = name.lower() in declared, len(set(values.values())) > 1
        if is_declared or differs or any(source != "default" for source in sources):
            settings.append(
                SettingFinding(
                    name=name,
                    values=values,
                    source=", ".join(sources),
                    declared=is_declared,
                    differs=differs,
                )
            )
    return tuple(settings)


def find_undeclared(evidence: Evidence) -> tuple[Difference, ...]:
    """Settings that differ between runs although their arms declare the same.

    Runs whose arms declare the same value of a setting, or none, must have read back one value. A derived setting
    may also differ where a setting that it depends on was declared differently, and what nobody set where the arms
    declare different servers.
    """
    return _find_differences(evidence, with_server=True)


def find_hidden(evidence: Evidence) -> dict[str, tuple[int, ...]]:
    """Setting to the valid runs in which an existing server did not show it although it has it: some it shows only to
    roles with certain rights, which can be taken away meanwhile. The server is the same, so it has the same settings;
    those of libraries are not among them, since an arm may load more.
    """
    if evidence.experiment.target.kind != "server":
        return {}
    found = {}
    for name, by_run in _read_back(evidence).items():
        runs = tuple(run for run, value in by_run.items() if value == ABSENT)
        if runs and "." not in name:
            found[name] = runs
    return found


def find_of_server(evidence: Evidence) -> tuple[Difference, ...]:
    """Settings that differ only because the arms declare different servers: other defaults, settings of one only."""
    undeclared = {difference.name for difference in find_undeclared(evidence)}
    return tuple(
        difference.model_copy(update={"declared": True})
        for difference in _find_differences(evidence, with_server=False)
        if difference.name not in undeclared
    )


def _find_differences(evidence: Evidence, *, with_server: bool) -> tuple[Difference, ...]:
    """``with_server``: the servers that arms declare explain what nobody set."""
    arms = {arm.name: arm for arm in evidence.arms}
    run_arms = {run.id: arms[run.slot.arm] for run in evidence.valid}
    declared = {arm.name: (_declared(arm), arm.knobs) for arm in evidence.arms}
    hidden = find_hidden(evidence)
    hosts = {run.id: evidence.hosts.get(run.slot.block) for run in evidence.valid}
    differences = []
    for name, by_run in _read_back(evidence).items():
        if name in VOLATILE:
            continue
        explains = with_server and _is_of_server(evidence, name, by_run)
        keys = {arm: _key(*own, name, with_server=explains) for arm, own in declared.items()}
        groups: dict[tuple[object, ...], set[str]] = {}
        for run, value in by_run.items():
            if run not in hidden.get(name, ()):
                # On another host a server may compute other values for what nobody set.
                groups.setdefault((hosts.get(run), keys[run_arms[run].name]), set()).add(value)
        if any(len(values) > 1 for values in groups.values()):
            values = {arm: " / ".join(sorted(texts)) for arm, texts in _by_arm(evidence, by_run).items()}
            placed = tuple(PlacedValue(where=arm, value=value) for arm, value in values.items())
            differences.append(Difference(name=name, values=placed, declared=False))
    return tuple(differences)


def _key(
    settings: Mapping[str, str], knobs: Mapping[str, Mapping[str, str]], name: str, *, with_server: bool
) -> tuple[object, ...]:
    """What of an arm's settings and knobs may change a setting."""
    names = (name.lower(), *DERIVED.get(name, ()), *(_LOADING if "." in name else ()))
    causes = [knob for knob, changed in KNOB_SETTINGS.items() if not {*changed}.isdisjoint(names)]
    server = [tuple(knobs.get("server", {}).items())] if with_server else []
    return (
        *(settings.get(setting) for setting in names),
        *(tuple(knobs.get(knob, {}).items()) for knob in causes),
        *server,
    )


def _is_of_server(evidence: Evidence, name: str, by_run: Mapping[int, str]) -> bool:
    """Whether somewhere nobody wrote the value down: it is the server's default, or there is no such setting.

    A setting that is in the configuration everywhere, and yet differs, is no matter of the server's version.
    """
    return any(_source(evidence, run, name) in _DEFAULTS for run in by_run)


def _declared(arm: Arm) -> dict[str, str]:
    return {name.lower(): value for name, value in arm.own_settings.items()}


def _read_back(evidence: Evidence) -> dict[str, dict[int, str]]:
    """Setting to valid run to value, of the runs whose settings were recorded."""
    recorded = [run.id for run in evidence.valid if run.id in evidence.settings]
    names = sorted({name for run in recorded for name in evidence.settings[run]})
    return {name: {run: evidence.settings[run].get(name, (ABSENT, ""))[0] for run in recorded} for name in names}


def _by_arm(evidence: Evidence, by_run: Mapping[int, str]) -> dict[str, set[str]]:
    """Arm, the control first, to the values of its runs."""
    values: dict[str, set[str]] = {arm.name: set() for arm in evidence.arms}
    for run in evidence.valid:
        if run.id in by_run:
            values[run.slot.arm].add(by_run[run.id])
    return {arm: texts for arm, texts in values.items() if texts}


def _source(evidence: Evidence, run: int, name: str) -> str:
    return evidence.settings[run].get(name, ("", ""))[1]
