"""Caveats about what surrounds the load: settings, servers, the machine, and what else it did during the runs."""

from pgtrial.findings.catalogue.base import Entry, plural
from pgtrial.language import N_
from pgtrial.model.caveat import Severity

_MORE_MEMORY = N_("Leave more memory free: smaller shared_buffers or work_mem, fewer clients, fewer other programs.")

WORLD_PARTS = {
    "value-at": Entry(text="{where}: {value}"),  # of an arm, or of some runs
    "run": Entry(text=N_("run {runs}")),
    "runs": Entry(text=N_("runs {runs}")),
    "fact.limit": Entry(text=N_("limit of {name}")),
    "fact.changed": Entry(text=N_("{before}, then {after}")),  # while the load was on
    "fact.several": Entry(text="{values:beside}"),
    "named-values": Entry(text="{name} ({values:items})"),
    "flushed.data": Entry(text=N_("the data")),
    "flushed.both": Entry(text=N_("data and WAL")),
    "flushed.wal": Entry(text=N_("the WAL")),
}

WORLD_CAVEATS = {
    "undeclared-difference": Entry(
        severity=Severity.INVALID,
        text=N_("The arms did not run under the same conditions, although none declares it: {facts:first}."),
        hint=N_("Declare the difference in the arms, or undo it, and run again."),
        when="a fact of the world differs between arms that declare the same, in half of the blocks or more: invalid "
        "or a warning, by the rules of [fingerprint.md](fingerprint.md)",
    ),
    "undeclared-difference.setting": Entry(
        text=N_("The setting {setting} differs although no arm declares it so ({values:list})."),
        hint=N_("Declare the setting in the arms, or give it one value in [target.postgresql], and run again."),
        when="a setting differs between runs whose arms declare the same; paths and names of the throw-away cluster "
        "are excepted, settings that the server derives from declared ones, and where arms declare different servers "
        "what nobody set",
    ),
    "fingerprint-differs": Entry(
        severity=Severity.WARNING,
        text=N_("Not the same in all runs: {facts:first}."),
        hint=N_("Run again on a machine that nobody changes meanwhile."),
        when="a fact of the world was not the same in all runs, without parting the arms: warning or info, by the same "
        "rules",
    ),
    "fingerprint-changed": Entry(
        severity=Severity.WARNING,
        text=N_("Changed while the load was on: {facts:first}."),
        hint=N_("Find out what changes it under load, and run again."),
        when="… changed while the load was on, in every run in the same way",
    ),
    "settings-unknown": Entry(
        severity=Severity.WARNING,
        text=plural(
            "The settings of {count} runs were not recorded, so they could not be compared.",
            "The settings of {count} runs were not recorded, so they could not be compared.",
        ),
        when="settings of a run were not recorded",
    ),
    "settings-unknown.hidden": Entry(
        text=plural(
            "{in_runs} the server did not show {count} setting that it shows in others, so it could not be compared: "
            "{settings:first}.",
            "{in_runs} the server did not show {count} settings that it shows in others, so they could not be "
            "compared: {settings:first}.",
        ),
        hint=N_(
            "A right of the role was given or taken away meanwhile, such as pg_monitor or pg_read_all_settings. Leave "
            "its rights as they are while an experiment runs."
        ),
        when="… or an existing server showed some in other runs only: the rights of the role were changed",
    ),
    "server-build": Entry(
        severity=Severity.WARNING,
        text=N_("The servers of the arms also differ in {setting} ({values:items}), which an effect contains."),
        hint=N_("What that costs is in the effect. Clusters have data checksums by default from PostgreSQL 18 on."),
        when="servers that arms declare differ in block or segment sizes, data checksums or assertions",
    ),
    "server-build.options": Entry(
        text=N_("The servers of the arms were built in different ways, which an effect contains: {features:items}."),
        hint=N_(
            "Take servers of one origin, all of the distribution or all embedded: name their versions, or their "
            "directories, as postgres of the arms."
        ),
        when="… or were configured with and without LLVM (JIT), ICU, compression, io_uring, assertions, or optimized "
        "at another level",
    ),
    "server-defaults": Entry(
        severity=Severity.INFO,
        text=N_("The servers of the arms have other defaults of {settings:first}; that is part of what is compared."),
        hint=N_("To compare the versions alone, give the settings one value in [target.postgresql]."),
        when="… in other defaults, or in settings that only one of them has",
    ),
    "server-defaults.absent": Entry(
        text=plural(
            "The servers of the arms have {count} setting that not all of them have; that is part of what is compared.",
            "The servers of the arms have {count} settings that not all of them have; that is part of what is "
            "compared.",
        ),
    ),
    "server-defaults.both": Entry(
        text=plural(
            "The servers of the arms have other defaults of {settings:first} and {count} setting that not all of them "
            "have; that is part of what is compared.",
            "The servers of the arms have other defaults of {settings:first} and {count} settings that not all of them "
            "have; that is part of what is compared.",
        ),
    ),
    "assertions": Entry(
        severity=Severity.WARNING,
        text=N_("The server of {arms:list} was built with assertions, which make it slower, and not everywhere alike."),
        hint=N_("Use programs that were configured without --enable-cassert."),
        when="a server was built with assertions",
    ),
    "other-programs": Entry(
        severity=Severity.WARNING,
        text=N_("{in_runs} other programs used more than {limit:share} of the CPU time, up to {share:percent}."),
        hint=N_("End them for the time of the experiment, or give it a machine of its own."),
        when="other programs used more than 3 % of the CPU time between start and end of a run",
    ),
    "other-programs.named": Entry(
        text=N_(
            "{in_runs} other programs used more than {limit:share} of the CPU time, up to {share:percent} (run {run}: "
            "{programs})."
        ),
    ),
    "unseen-load": Entry(
        severity=Severity.WARNING,
        text=N_(
            "{in_runs} up to {share:percent} of the CPU time was used by processes that cannot be seen from here, such "
            "as those of other containers."
        ),
        hint=N_("Give the experiment a machine of its own, or CPUs of its own (cpuset)."),
        when="more than 10 % of it was used by processes that cannot be seen from here",
    ),
    "swapping": Entry(
        severity=Severity.WARNING,
        text=N_("{in_runs} the machine swapped, up to {bytes:bytes} in and out."),
        hint=_MORE_MEMORY,
        when="more than 16 MB were swapped in and out during a run",
    ),
    "swapping.intended": Entry(severity=Severity.INFO, when="… in an experiment with memory pressure or vm.swappiness"),
    "thermal-throttling": Entry(
        severity=Severity.WARNING,
        text=N_("{in_runs} CPUs were slowed down because they were hot."),
        hint=N_("Switch turbo off, so that the speed can be kept, or cool the machine better."),
        when="CPUs were slowed down because they were hot",
    ),
    "cpu-quota": Entry(
        severity=Severity.WARNING,
        text=N_("{in_runs} a CPU quota of a control group stopped the server, for up to {seconds:duration}."),
        hint=N_("Raise the quota of the container or the service, or remove it."),
        when="a CPU quota that the arm does not declare stopped the server for more than 0.1 s of a run",
    ),
    "out-of-memory": Entry(
        severity=Severity.INFO,
        text=N_(
            "{in_runs} the kernel ended processes for want of memory, on the machine or in a control group: none of "
            "the server or the load, which went on."
        ),
        hint=_MORE_MEMORY,
        when="the kernel ended processes for want of memory, and the server has no limit of memory of its own",
    ),
    "little-space": Entry(
        severity=Severity.WARNING,
        text=N_(
            "{in_runs} less than {limit:share} of the file system was free, down to {share:percent}: a file system "
            "that is nearly full is slower."
        ),
        hint=N_("Free space, or put the data elsewhere."),
        when="less than 5 % of the file system of data or WAL was free after a run",
    ),
    "flushes-lost": Entry(
        severity=Severity.WARNING,
        text=N_("Flushes of {what} do not reach a disk: what is written stays in memory ({by})."),
        hint=N_(
            "A commit waits for no disk here, so whatever makes these waits fewer or shorter shows no effect. Put data "
            "and WAL where flushes reach a disk (directory in [target])."
        ),
        when="flushes do not reach a disk, as far as mount options and devices tell: data or WAL in memory, an overlay "
        "that is mounted volatile, a file system without barriers above a disk with a write cache",
    ),
    "flushes-lost.left-out": Entry(
        text=N_("Flushes of {what} do not reach a disk: the file system leaves them out ({by})."),
    ),
    "flushes-lost.cache": Entry(
        text=N_("Flushes of {what} do not reach a disk for good: they leave its write cache as it is ({by})."),
    ),
    "flushes-lost.some-arms": Entry(
        severity=Severity.INFO,
        text=N_("Flushes of {what} do not reach a disk in {arms:list} ({by}); that is part of what is compared."),
        hint=N_("Take the answer for servers that are without flushes in the same way."),
        when="… in some arms only",
    ),
}
