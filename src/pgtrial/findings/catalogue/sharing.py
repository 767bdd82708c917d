"""Caveats about arms that shared the time of a block: did the turns go as planned, do the arms disturb each other."""

from pgtrial.findings.catalogue.base import Entry, plural
from pgtrial.language import N_
from pgtrial.model.caveat import Severity

_USE_BLOCKS = N_('Use method = "blocks", where each arm has its time to itself.')

SHARING_PARTS = {
    "in-some-runs": Entry(text=plural("in {count} run", "in {count} runs")),
    "of-some-runs": Entry(text=plural("of {count} run", "of {count} runs")),
    "arm-waits": Entry(text=N_("{arm} {share:percent} of its active sessions")),
    "arm-gains": Entry(text=N_("{arm} {change:change}")),
    "block-arms": Entry(text=N_("block {block}: {arms:and}")),
}

SHARING_CAVEATS = {
    "no-host-costs": Entry(
        severity=Severity.INFO,
        text=N_(
            "The arms of a block shared its time, so what only the machine as a whole counts (CPU time, context "
            "switches, requests to devices) cannot be told apart by arm: these costs are left out."
        ),
        hint=N_('To compare them, use method = "blocks".'),
        when="arms took turns on twin servers, so costs that only the machine counts are left out",
    ),
    "no-server-counts": Entry(
        severity=Severity.INFO,
        text=N_(
            "What the server counts (buffers, WAL, rows) is left out {in_runs}: sessions add to it every "
            "{seconds:duration}, and most washouts of the slices are shorter, so the other arm's part would be in it."
        ),
        hint=N_('Set slice = "4s" or more to have it. Waits, statements and the machine are known by arm.'),
        when="switchback: most washouts are shorter than 1 s, so what the server counts is left out",
    ),
    "uneven-slices": Entry(
        severity=Severity.WARNING,
        text=plural(
            "{count} slice {in_runs} was shorter or longer than planned, by up to {seconds:duration}: the machine "
            "stalled, or its clock was set.",
            "{count} slices {in_runs} were shorter or longer than planned, by up to {seconds:duration}: the machine "
            "stalled, or its clock was set.",
        ),
        hint=N_(
            "Look at these blocks in the list of effects; run on a machine that does not pause, with a clock that "
            "is steered instead of set."
        ),
        when="a slice was shorter or longer than planned by more than 20 % and 0.1 s: the machine stalled, or its "
        "clock was set",
    ),
    "slow-slices": Entry(
        severity=Severity.INFO,
        text=plural(
            "In {count} slice {of_runs} throughput was below {share:percent} of the median of the run's slices: the "
            "machine was disturbed for moments. The slices count; the short turns let such moments fall on all arms.",
            "In {count} slices {of_runs} throughput was below {share:percent} of the median of the run's slices: the "
            "machine was disturbed for moments. The slices count; the short turns let such moments fall on all arms.",
        ),
        when="throughput of slices was below a quarter of the median of their run; they count",
    ),
    "one-sided-work": Entry(
        severity=Severity.WARNING,
        when="arms shared a block's time, and only some of their servers had a checkpoint, or autovacuum at work, in "
        "it",
    ),
    "one-sided-work.checkpoints": Entry(
        text=plural(
            "In {found} of {count} block only some of the servers had a checkpoint in their measured time "
            "({blocks:first}).",
            "In {found} of {count} blocks only some of the servers had a checkpoint in their measured time "
            "({blocks:first}).",
        ),
        hint=N_("Make checkpoint_timeout and max_wal_size large enough that no checkpoint begins inside a block."),
    ),
    "one-sided-work.autovacuum": Entry(
        text=plural(
            "In {found} of {count} block only some of the servers had autovacuum at work in their measured time "
            "({blocks:first}).",
            "In {found} of {count} blocks only some of the servers had autovacuum at work in their measured time "
            "({blocks:first}).",
        ),
        hint=N_("Set autovacuum = off in [target.postgresql] for short experiments, or measure for longer."),
    ),
    "unequal-cpus": Entry(
        severity=Severity.INFO,
        text=N_(
            "One of the two sets of CPUs that the arms exchange is faster by {change:change} in the typical block, or "
            "the other one is disturbed. As each arm has each set for the same time, that cancels."
        ),
        hint=N_("Without it fewer blocks would do: look for interrupts and other programs on these CPUs."),
        when="duet: one of the two sets of CPUs is more than 5 % faster in the typical block",
    ),
    "shared-device": Entry(
        severity=Severity.WARNING,
        text=N_(
            "The arms ran at the same time, and much of the load waited for the device that they share "
            "({shares:list}): each arm held the other up, and an effect looks smaller than it is."
        ),
        hint=N_('Use method = "interleaved" or "blocks" for a load that is bound by the device.'),
        when="duet: more than 25 % of an arm's active sessions waited for the device that the arms share",
    ),
    "goes-on": Entry(
        severity=Severity.INVALID,
        text=N_(
            "Statements sleep (pg_sleep), and their sleep goes on while their arm stands still for the others: that "
            "makes arms look faster than they are ({gains:list}, at most)."
        ),
        hint=N_('Use method = "blocks", or slices of {length:duration} or more.'),
        when="interleaved: sessions were found asleep in pg_sleep so often, in transactions so long beside a slice, "
        "that an arm may look faster by more than half of the margin; a warning where that cannot turn the verdict",
    ),
    "goes-on.sessions": Entry(
        severity=Severity.WARNING,
        text=N_(
            "A statement that is at work when the turn of its arm ends goes on, and is further at the next one: that "
            "makes arms look faster than they are ({gains:list}, at most)."
        ),
        hint=N_('Use method = "blocks", or slices of {length:duration} or more.'),
        when="turns on an existing server: transactions are so long beside a slice that an arm may look faster by more "
        "than half of the margin; invalid where arms differ in that by as much, and it may turn the verdict",
    ),
    "effect-grows-with-slices": Entry(
        severity=Severity.WARNING,
        text=N_(
            "In the blocks whose slices are twice as long the ratio of {arm} to the control is another by "
            "{change:change} (between {low:change} and {high:change}): the effect builds up over more than a slice, "
            "or what a slice leaves behind outlasts half of the next one, and its true size is not known."
        ),
        hint=_USE_BLOCKS,
        when="the ratio is another one in the blocks whose slices are twice as long, by more than half of the margin, "
        "and the interval excludes no change: the effect builds up over more than a slice, or what a slice leaves "
        "behind outlasts half of the next one",
    ),
    "effect-grows-with-slices.turns": Entry(
        severity=Severity.INVALID,
        text=N_(
            "{arm} is better in slices of one length and worse in those of the other: in the blocks whose slices are "
            "twice as long its ratio to the control is another by {change:change} (between {low:change} and "
            "{high:change}). What its slices leave behind falls into those of the other arm, so that a cost looks like "
            "a gain."
        ),
        hint=_USE_BLOCKS,
    ),
    "left-behind": Entry(
        severity=Severity.INFO,
        text=N_(
            "At the start of a slice, which does not count, the other arm is still felt: from there to the part that "
            "counts the ratio of {arm} to the control changes by {change:change} (between {low:change} and "
            "{high:change})."
        ),
        hint=N_(
            "Compare with longer slices where the change is large: what outlasts half a slice would be in the effect."
        ),
        when="the ratio in the first half of the slices, which does not count, differs from that in the second by more "
        "than half of the margin, and the interval excludes no change",
    ),
    "comes-late": Entry(
        severity=Severity.INFO,
        text=N_(
            "Part of what {arm} does may come later than in its own slices, and hit those of the other arms as well. "
            "The interval of its throughput, or of the latency that is claimed, is extended for that, by {down:change} "
            "and {up:change}."
        ),
        hint=_USE_BLOCKS,
        when="arms take turns: throughput, or the latency if one is claimed, goes with how much of the time some "
        "slices ago was the arm's (over all shapes together, 80 %), and by more than half of the margin",
    ),
    "left-behind.duet": Entry(
        severity=Severity.WARNING,
        text=N_(
            "After the moment at the start of each slice that does not count the ratio of {arm} to the control is "
            "another by {change:change} (between {low:change} and {high:change}): transactions about as long as a "
            "slice fall in step with the exchanges of the CPUs, and what counts is not a fair part of the time."
        ),
        hint=(N_("Use slices many times as long as a transaction."), _USE_BLOCKS),
        when="duet: the ratio differs likewise; the verdict is invalid where that may be all of the effect",
    ),
    "effect-grows-inside-slices": Entry(
        severity=Severity.WARNING,
        text=N_(
            "From the first half of a slice to the second the ratio of {arm} to the control changes by "
            "{change:change} (between {low:change} and {high:change}): what an arm leaves behind, such as pages in the "
            "cache or dirty pages, reaches into the next one's turn, and longer slices would show another effect."
        ),
        hint=(
            N_('Try longer slices, slice = "{longer:file_duration}", and see whether the effect is another.'),
            _USE_BLOCKS,
        ),
        when="the ratio changes from the first half of the slices to the second by more than half of the margin, and "
        "the interval excludes no change: one arm's state leaks into the other's turn",
    ),
    "effect-grows-inside-slices.duet": Entry(
        text=N_(
            "From the first half of a slice to the second the ratio of {arm} to the control changes by "
            "{change:change} (between {low:change} and {high:change}): after their exchange of CPUs the arms do not "
            "find their speed at once, and longer slices would show another effect."
        ),
        hint=_USE_BLOCKS,
    ),
    "blocks-differ": Entry(
        severity=Severity.INFO,
        text=N_(
            "The ratios of {arm} differ from block to block (SD {found:percent}) by more than the slices inside the "
            "blocks explain ({expected:percent}): each block has something of its own, such as where the servers' "
            "memory and data lie."
        ),
        hint=N_("More blocks narrow the interval, longer blocks hardly do."),
        when="blocks differ by more than the noise of their slices explains (analysis of variance, p ≤ 0.01)",
    ),
}
