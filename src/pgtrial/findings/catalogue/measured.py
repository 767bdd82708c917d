"""Caveats noted while measuring: what the machine, the server or its role does not let be known, and what happened."""

from collections.abc import Mapping

from pgtrial.findings.catalogue.base import Entry
from pgtrial.language import N_
from pgtrial.model.caveat import NO_ALL_SETTINGS, STOPPED_FOR_HARM, Severity

_READ_ONLY = N_(
    "The load's sessions were read-only: others have done it, or a hook, or a script or program gave itself the right "
    "to."
)
_CHANGED = N_('Objects of the database "{database}" were changed during the experiment. {changes}')
_NOT_ENGLISH = N_(
    "The server's messages are not in English: of its log only checkpoints are known. Whether there was anything else "
    "(autovacuum, waits for locks, temporary files, deadlocks, errors, slow statements) is not known."
)

MEASURED_PARTS: Mapping[str, Entry] = {
    "read-only": Entry(text=_READ_ONLY),
    "read-only.looks": Entry(text=N_("In {looks} looks none of the load's sessions was writing.")),
    "read-only.others": Entry(text=N_("Others have connected to the database meanwhile.")),
    "load-stays": Entry(
        text=N_(
            "What the load and others have written stays; of what arms' SQL has written, what its undo does not put "
            "back."
        )
    ),
    "not-named": Entry(text=N_("No arm's SQL names them: others have made them, or the load. {connected}")),
    "silent-log": Entry(text="{what} ({name} = {value})"),
    "silent-autovacuum": Entry(text=N_("autovacuum of a table in less than {seconds:duration} ({name})")),
}

MEASURED_CAVEATS: Mapping[str, Entry] = {
    "load-through-ssh": Entry(
        severity=Severity.WARNING,
        text=N_(
            "The load reaches the server through an ssh connection, which costs CPU time on both machines and adds to "
            "every latency: small differences between the arms look smaller than they are."
        ),
        hint=N_("docs/remote-host.md has figures. For short transactions run pgtrial on the server's machine."),
        when="the server is on a host that pgtrial reaches by ssh, and the load goes through the connection",
    ),
    "cached-twice": Entry(
        severity=Severity.WARNING,
        text=N_(
            'The file system of "{directory}" does not let the loop device on it read and write past the page cache '
            "(direct I/O): data are cached twice, and what looks like the disk may be memory."
        ),
        hint=N_("Keep the image on a file system that can, as ext4 and xfs on a disk can."),
        when="the loop device of an image file cannot use direct I/O",
    ),
    "changed-meanwhile": Entry(
        severity=Severity.WARNING,
        text="{what}",
        hint=N_("Somebody else works on this host; the run may have had the other value for a part of its time."),
        when="what an arm had set on the host was another value when it was to be put back",
    ),
    "no-device": Entry(
        severity=Severity.INFO,
        text=N_("{reason} There are no disk metrics for it."),
        hint=N_("A network file system, tmpfs, overlay or a storage pool has no block device that could be read."),
        when="no block device lies under a directory (tmpfs, network, overlay), so there are no disk metrics for it",
    ),
    "no-source": Entry(
        severity=Severity.INFO,
        text="{what}",
        hint=N_("The metrics from there are missing; nothing else depends on them."),
        when="this kernel lacks a source, such as pressure stall information",
    ),
    "no-source.here": Entry(text=N_("On this machine pgtrial's account cannot read {source}.")),
    "no-source.there": Entry(text=N_("On the server's machine pgtrial's account cannot read {source}.")),
    "unanswered": Entry(
        severity=Severity.WARNING,
        text=N_("The server did not answer the sampler, which asks each second, three times in a row or more."),
        hint=N_(
            "What its sessions waited for then is not known. Throughput and latencies are counted by the load, and "
            "hold."
        ),
        when="the server did not answer the sampler three times in a row or more",
    ),
    "attempts-unknown": Entry(
        severity=Severity.WARNING,
        text=N_("How often this claim was tried before is not known: the list of attempts cannot be written."),
        hint=N_("Make pgtrial's state directory writable, or name another one with {variable}."),
        when="the list of the claim's attempts cannot be written",
    ),
    "load-machines-apart": Entry(
        severity=Severity.INFO,
        text=N_(
            "{level}: the machines from which load comes started {apart:duration} after each other, where "
            "{together:duration} are together; their clocks are known to {doubt:duration}."
        ),
        hint=N_("All of it lies before what is counted. A machine that is busy starts late."),
        when="the machines of `[load] hosts` started further apart than 10 ms, by more than the errors of their "
        "clocks' offsets",
    ),
    "load-machine-saturated": Entry(
        severity=Severity.WARNING,
        text=N_(
            '"{host}", from which load comes, used {share:share} of its CPU time: it may limit what was measured, and '
            "not the server."
        ),
        hint=N_("Add a machine to hosts in [load], or take clients away."),
        when="a machine of `[load] hosts` has used 95 % of its CPU time",
    ),
    STOPPED_FOR_HARM: Entry(
        severity=Severity.WARNING,
        text="{why}",
        hint=N_(
            "It is not gone on with. What was measured before that is all there is, and decides nothing for good: "
            "the block that ended it, in which an arm may have been at its worst, is not part of it."
        ),
        when="a guardrail was breached while an existing server was switched between arms, or it, the load or the "
        "file of its settings was not as it has to be. The verdict stays provisional",
    ),
    "other-collation": Entry(
        severity=Severity.WARNING,
        text=N_(
            "The database that was dumped has {wanted}. That cannot be had here ({refusal}), where text is compared "
            'and sorted by "{collation}".'
        ),
        hint=N_(
            "Sorting, comparing and searching text take other times by another collation, and plans may differ. "
            "Install it where the server runs (a package of locales, localedef, or a PostgreSQL with ICU), and begin "
            "anew."
        ),
        when="the server lacks the collation of the database that was dumped, and sorts by another one",
    ),
    "data-changed": Entry(
        severity=Severity.WARNING,
        text=N_('The database "{database}" was written to during the experiment. {changes}'),
        hint="{whose:sentences}",
        when="an existing database was written to during the experiment",
    ),
    "catalogue-changed": Entry(
        severity=Severity.WARNING,
        text=_CHANGED,
        hint="{whose:sentences}",
        when="objects of an existing database that was read-only for the load were changed meanwhile, or such as no "
        "arm's SQL names were made in one that was not",
    ),
    "shared-server": Entry(
        severity=Severity.INFO,
        text=N_("The server was there before the experiment, and whatever else it does is in the numbers."),
        hint=N_("Keep other clients away meanwhile; blocks in random order take care of the rest."),
        when="an existing server on this machine",
    ),
    "managed-server": Entry(
        severity=Severity.INFO,
        text=N_("The server looks like one of {provider}, which keeps the superuser's rights to itself."),
        hint=N_("Settings that the provider alone can change have to be the same for all arms."),
        when="an existing server has roles found only on a provider's servers",
    ),
    "no-host": Entry(
        severity=Severity.INFO,
        text=N_(
            "The server's machine is not the one that pgtrial works on, so its CPUs, memory and devices are not "
            "measured: the limiting resource, and CPU seconds and device requests per transaction, stay unknown."
        ),
        hint=N_('Run pgtrial on the server\'s machine, or name it with host = "ssh://…" in [target].'),
        when="the machine of an existing server is out of reach, so there are no metrics of it",
    ),
    "no-monitor": Entry(
        severity=Severity.INFO,
        text=N_(
            'The role "{role}" may not see what other roles and the server\'s own processes do: waits of '
            "checkpointer, WAL writer and autovacuum, and a load that is not pgtrial's, are missing from the analysis."
        ),
        hint=N_("GRANT pg_monitor TO {role_name} gives it the right."),
        when="the role on an existing server may not see what other sessions and the server's own processes do",
    ),
    NO_ALL_SETTINGS: Entry(
        severity=Severity.INFO,
        text=N_(
            'The role "{role}" may not see all settings: some are missing from the comparison of the arms, and the '
            "data directory is not known, nor the devices under it."
        ),
        hint=N_("GRANT pg_read_all_settings TO {role_name}, or pg_monitor, gives it the right."),
        when="the role on an existing server may not see all settings, nor where the data lie",
    ),
    "no-file-settings": Entry(
        severity=Severity.INFO,
        text=N_(
            'The role "{role}" may not read pg_file_settings and pg_stat_file: whether a reload would also bring in '
            "what somebody has written to the configuration files and not loaded yet cannot be said."
        ),
        hint=N_("GRANT pg_read_all_settings and EXECUTE ON FUNCTION pg_stat_file(text) TO {role_name} would tell."),
        when="the role on an existing server may not read pg_file_settings and pg_stat_file, and arms change settings",
    ),
    "no-checkpoint": Entry(
        severity=Severity.WARNING,
        text=N_(
            'The role "{role}" may not CHECKPOINT, so runs begin at different distances from the last one: full-page '
            "images and the write-back of a checkpoint fall into some runs and not into others, which makes the "
            "blocks differ more and the intervals wider."
        ),
        hint=N_(
            "GRANT pg_checkpoint TO {role_name} gives it the right. Otherwise make the runs much longer than "
            "checkpoint_timeout."
        ),
        when="the role on an existing server may not CHECKPOINT, so runs begin at different distances from the last "
        "one",
    ),
    "standby": Entry(
        severity=Severity.INFO,
        text=N_(
            "The server is a standby: replay of WAL runs beside the load, and only reading scenarios are possible."
        ),
        when="an existing server is in recovery",
    ),
    "no-server-log": Entry(
        severity=Severity.INFO,
        text=N_(
            "The server's log cannot be read: checkpoints, autovacuum by table, waits for locks, deadlocks, errors "
            "and slow statements are not in the report, but for what the server counts. {reason}"
        ),
        hint=N_("Run pgtrial as root or as the server's operating-system user on the server's machine."),
        when="the log of an existing server cannot be read",
    ),
    "server-log-language": Entry(
        severity=Severity.INFO,
        text=_NOT_ENGLISH,
        hint=N_(
            "Let the server log in English: lc_messages = 'C' needs no restart. With log_destination = 'jsonlog' or "
            "'csvlog' errors are known in any language."
        ),
        when="the log of an existing server is not in English: only checkpoints are known, and in jsonlog and csvlog "
        "errors by their SQLSTATE; `lc_messages = 'C'`",
    ),
    "server-log-language.by-code": Entry(
        text=N_(
            "The server's messages are not in English: of its log only checkpoints, and errors by their SQLSTATE, are "
            "known. Whether there was anything else (autovacuum, waits for locks, temporary files, deadlocks, errors, "
            "slow statements) is not known."
        ),
        hint=N_("Let the server log in English: lc_messages = 'C' needs no restart."),
    ),
    "server-log-silent": Entry(
        severity=Severity.INFO,
        text=N_(
            "The server does not log {silent:list}: that the report shows none of them does not mean that there were "
            "none."
        ),
        hint=N_("pgtrial does not change these settings of an existing server; its administrator can."),
        when="the log of an existing server leaves out checkpoints, autovacuum, waits for locks or temporary files by "
        "its settings",
    ),
    "server-log-zone": Entry(
        severity=Severity.INFO,
        text=N_(
            'The server logs times of the zone "{zone}", which this machine does not know: its log is not in the '
            "report unless the times say how far they are from universal time."
        ),
        hint=N_('Install the time zones (the package tzdata, or "pip install tzdata") where pgtrial runs.'),
        when="the log of an existing server has times of a zone that this machine does not know",
    ),
}
