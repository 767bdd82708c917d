"""What an effect over several hosts is, and on which of them it is another."""

from pgtrial.findings.catalogue.base import Entry, plural
from pgtrial.language import N_
from pgtrial.model.caveat import Severity

HOSTS = {
    "hosts.supported": Entry(
        text=plural(
            "Each host taken alone, the claim is supported on {found} of {count} host.",
            "Each host taken alone, the claim is supported on {found} of {count} hosts.",
        )
    ),
    "hosts.kinds": Entry(
        text=N_(
            "It is on all hosts of {found} of {count} kinds of machine, which are told apart by model, CPUs and memory."
        )
    ),
    "hosts.refuted": Entry(text=N_("Refuted on {hosts:and}.")),
    "hosts.open": Entry(text=N_("Not decided on {hosts:and}.")),
    "hosts.without": Entry(text=N_("No block with both arms on {hosts:and}.")),
    "hosts.other": Entry(text=N_("Another effect than on the rest: {hosts:list}.")),
    "hosts.other-change": Entry(text=N_("{host} ({change:change}, the rest {rest:change})")),
    "hosts.no-prediction": Entry(
        text=N_(
            "To tell where the effect on a host that was not tested is to be expected takes {fewest} hosts, and there "
            "are {count}."
        )
    ),
    "hosts.no-spread": Entry(text=N_("All hosts have the same effect to the last digit, so nothing is predicted.")),
    "hosts.still-to-come": Entry(text=N_("Blocks are still to come, so there are no intervals yet.")),
}

HOST_CAVEATS = {
    "few-hosts": Entry(
        severity=Severity.WARNING,
        text=N_(
            "Only {count} hosts: the interval is as wide as so few make it, and says nothing of a single host that was "
            "not tested."
        ),
        hint=N_("Run on {fewest} hosts or more."),
        when="blocks ran on two to four hosts",
    ),
    "one-host": Entry(
        severity=Severity.WARNING,
        text=plural(
            "All of the {blocks} complete block ran on one host of several, so nothing is known of others.",
            "All of the {blocks} complete blocks ran on one host of several, so nothing is known of others.",
            by="blocks",
        ),
        hint=N_("Finish the blocks of the other hosts with pgtrial resume."),
        when="an experiment was spread over hosts, and only one has complete blocks",
    ),
    "other-hosts": Entry(
        severity=Severity.WARNING,
        text=N_("All blocks ran on {host}, one of {count} hosts that were listed: nothing is known of the others."),
        hint=N_("See in the messages of the run why they had none, or claim it of this host alone."),
        when="an experiment was given to several hosts, and one has run all blocks",
    ),
    "other-effect-on-host": Entry(
        severity=Severity.WARNING,
        text=N_("The effect is not the same on all hosts: {hosts:list}."),
        hint=N_("Look at what these hosts differ by in the section on the machine, or claim less of them."),
        when="the effect on a host differs from that on the others by more than the margin, and by more than the noise "
        "inside hosts explains (5 % over all hosts)",
    ),
    "hosts-differ": Entry(
        severity=Severity.INFO,
        text=N_("The hosts are not alike: {facts:first}."),
        hint=N_("The interval is for hosts as different as these."),
        when="facts of the machine, the kernel or the server differ between hosts, and are the same in all runs of a "
        "host",
    ),
    "hosts-unfinished": Entry(
        severity=Severity.INFO,
        text=plural(
            "After {blocks} block on several hosts there is no interval, because none is known that may be looked at "
            "while hosts still have blocks to run.",
            "After {blocks} blocks on several hosts there is no interval, because none is known that may be looked at "
            "while hosts still have blocks to run.",
            by="blocks",
        ),
        hint=N_("Let the experiment finish."),
        when="an experiment that was spread over hosts is not finished",
    ),
}
