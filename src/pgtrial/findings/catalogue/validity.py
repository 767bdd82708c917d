"""Caveats about the experiment and its runs: are there enough blocks, was the load steady, was it all seen."""

from pgtrial.findings.catalogue.base import Entry, plural
from pgtrial.language import N_
from pgtrial.model.caveat import Severity

_RESUME = N_('Finish the schedule with "pgtrial resume".')
_EACH_BLOCK = N_(
    "The data were put back to the snapshot only once per block, so a run starts with what the runs before left behind."
)
_NO_DATABASE = N_("Leave database in [target] out, for one of pgtrial's own, unless the load only reads.")
_MORE_TO_COUNT = N_(
    "Measure longer at each load level, with fewer clients, or with data that make a transaction shorter."
)

VALIDITY_PARTS = {
    "in-runs": Entry(text=plural("In {found} of {count} runs", "In {found} of {count} runs")),
    "arm-count": Entry(text="{arm} {number}"),
    "arm-checkpoints": Entry(text=N_("{arm} {number:decimal1} per run")),
    "level.clients": Entry(text=plural("{count} client", "{count} clients")),
    "level.clients-by-arm": Entry(text=N_("{fewest} to {most} clients, by arm")),
    "level.rate": Entry(
        text=plural("{rate:significant6} tps, {count} client", "{rate:significant6} tps, {count} clients")
    ),
}

VALIDITY_CAVEATS = {
    "post-hoc": Entry(
        severity=Severity.INVALID,
        text=N_("The claim or the plan is not the one that was recorded before the first run."),
        hint=N_("A claim that was chosen after the data were seen needs an experiment of its own."),
        when="the claim or the plan is another than when the folder was made (its digest differs, or is not the one "
        "that the machine noted then), the folder is younger than its record says, or the record is dated more than a "
        "minute after the first run had begun",
    ),
    "post-hoc.no-record": Entry(
        text=N_(
            "This folder is younger than its record of claim and rules says, so that was altered or taken out: "
            "whatever it claims now is post hoc."
        ),
        hint=N_("Ask for the folder as it was, or run the experiment anew."),
    ),
    "post-hoc.noted": Entry(
        text=N_(
            "Claim, plan or number of earlier attempts are not those that this machine noted when the experiment was "
            "begun."
        ),
        hint=(
            N_("A claim that was chosen after the data were seen needs an experiment of its own."),
            N_("The list is attempts.jsonl in pgtrial's state directory."),
        ),
    ),
    "post-hoc.late": Entry(
        text=N_("The record of claim and plan is dated after the first run had begun."),
        hint=(
            N_("A claim that was chosen after the data were seen needs an experiment of its own."),
            N_(
                "If the machine's clock was set back by more than a minute before the first run, repeat the experiment."
            ),
        ),
    ),
    "unregistered": Entry(
        severity=Severity.WARNING,
        text=N_(
            "Whether the claim is older than the data cannot be told: the folder is from before claims were recorded "
            "in a way that can be checked here (rules {rules})."
        ),
        hint=N_("Trust it as far as whoever made the folder, or run the experiment anew."),
        when="the folder is from before claims were recorded (rules 1), or a redacted copy of one of rules 2",
    ),
    "plan-redacted": Entry(
        severity=Severity.WARNING,
        text=N_(
            "The plan of this copy was redacted: the claim's metric, margin, rules and design fit the digest that is "
            "recorded; whether the arms, their settings and scripts do, and which arm is the control, cannot be "
            "checked here."
        ),
        hint=N_("Compare the digest with the one that was published, and ask for the original folder."),
        when="the folder is a redacted copy, made without the recorded plan",
    ),
    "other-rules": Entry(
        severity=Severity.WARNING,
        text=N_("Judged by rules {rules}, not by rules {recorded}, those of the experiment's time."),
        when="--rules asks for rules of another version than the experiment's own",
    ),
    "chosen-seed": Entry(
        severity=Severity.INFO,
        text=N_("The order was not drawn: it follows from the seed {seed}, which the file names."),
        hint=N_("Whoever knows an order can choose one that suits an arm. Leave the seed out, and it is drawn."),
        when="the file has a seed, so the order could be known, and chosen, before the first run",
    ),
    "repeated-claim": Entry(
        severity=Severity.WARNING,
        text=plural(
            "The same claim was tried {count} time before on this machine: of many attempts some support a claim by "
            "chance.",
            "The same claim was tried {count} times before on this machine: of many attempts some support a claim by "
            "chance.",
        ),
        hint=N_("Report all attempts; pgtrial compare pools them."),
        when="experiments with the same claim, arms and scenarios were begun on this machine before (rules 1 to 3)",
    ),
    "another-attempt": Entry(
        severity=Severity.WARNING,
        text=N_(
            "Attempt {attempt} at this claim on this machine: decided by the {confidence:share} interval, so that all "
            "attempts after the first, however many, mislead no more often than the first alone."
        ),
        hint=N_(
            "Report all attempts. One experiment with more blocks and a rule for stopping (stop) is cheaper than "
            'another attempt; "pgtrial resume" finishes one that was interrupted.'
        ),
        when="the claim was tried on this machine before, with the same arms, server, data and load",
    ),
    "waived": Entry(
        severity=Severity.WARNING,
        text=N_("Waived in the file, because {reason}: {what}"),
        hint=N_("Whoever trusts the verdict trusts the reason, too."),
        when="a caveat about the machine that the file has under [[waive]]: a warning where it would be invalid, else "
        "info",
    ),
    "no-runs": Entry(
        severity=Severity.INVALID,
        text=N_("The experiment has no runs yet."),
        hint=N_('See why in the table of runs; "pgtrial resume" goes on with the schedule.'),
        when="no valid run at all",
    ),
    "no-runs.all-failed": Entry(
        text=plural(
            "None of the {count} runs finished with valid data.", "None of the {count} runs finished with valid data."
        ),
    ),
    "too-few-blocks": Entry(
        severity=Severity.INVALID,
        text=N_("Fewer than {fewest} blocks have a valid run of both arms ({blocks} of {planned})."),
        hint=_RESUME,
        when="fewer than 2 blocks with a valid run of both arms",
    ),
    "too-few-blocks.planned": Entry(hint=N_("Plan more blocks.")),
    "soak-interrupted": Entry(
        severity=Severity.WARNING,
        text=N_(
            "The load of {arm} was interrupted, and began anew with a new server and the data of the beginning: of "
            "{done} windows the longest stretch, {count}, is looked at."
        ),
        hint=N_("A server that was stopped has no long run behind it. What the other windows say is in the files."),
        when="a soak that was resumed, or of which a window was invalid: its data began anew",
    ),
    "placebo-effect": Entry(
        severity=Severity.WARNING,
        text=N_(
            "The placebo, a second copy of the control, differs from it by {change:change} (between {low:change} and "
            "{high:change})."
        ),
        hint=N_("Look for what differs between the runs besides the settings, and run more blocks."),
        when="the placebo's interval excludes 1",
    ),
    "placebo-effect.beyond-margin": Entry(
        severity=Severity.INVALID,
        text=N_(
            "The placebo, a second copy of the control, differs from it by {change:change} (between {low:change} and "
            "{high:change}), beyond the margin of {margin:share}."
        ),
        when="… and lies wholly beyond the margin: these runs show effects that matter where there are none",
    ),
    "placebo-unclear": Entry(
        severity=Severity.WARNING,
        text=N_(
            "The placebo, a second copy of the control, is not shown to be the same: its difference lies between "
            "{low:change} and {high:change}, and the margin is {margin:share}."
        ),
        hint=N_("Run more blocks: a bias as large as the margin would not be seen in these."),
        when="the placebo is not equivalent to the control by two one-sided tests at the margin",
    ),
    "unequal-failures": Entry(
        severity=Severity.WARNING,
        text=N_(
            "{arm} failed in {failed} of {attempts} attempts and {control} in {failed_control} of {attempts_control} "
            "(p = {p:significant3}): if these had been like the runs that were measured, the change would lie between "
            "{low:change} and {high:change}."
        ),
        hint=N_(
            "See the reasons in the table of runs: an arm that fails where it would be slow looks better than it is."
        ),
        when="one of the claim's arms failed more often than the other; the verdict has to hold with what the "
        "failures can have hidden",
    ),
    "unequal-failures.shared-time": Entry(
        text=N_(
            "{failed} of {attempts} attempts at a block failed, with both arms in it: if it was {arm} each time, and "
            "these had been like the blocks that were measured, the change would lie between {low:change} and "
            "{high:change}."
        ),
        hint=N_("See the reasons in the table of runs, and which arm they name."),
    ),
    "unequal-failures.unbounded": Entry(
        text=N_(
            "{arm} failed in {failed} of {attempts} attempts and {control} in {failed_control} of {attempts_control} "
            "(p = {p:significant3}): nothing bounds what these runs would have shown."
        ),
    ),
    "interrupted-runs": Entry(
        severity=Severity.WARNING,
        text=plural(
            "pgtrial was ended in the middle of {count} run of {control} or {arm}: if its outcome was the reason, the "
            "change would lie between {low:change} and {high:change}.",
            "pgtrial was ended in the middle of {count} runs of {control} or {arm}: if their outcome was the reason, "
            "the change would lie between {low:change} and {high:change}.",
        ),
        hint=N_(
            "Let runs end: what can be seen of a run while it lasts decides which ones count if it is stopped then."
        ),
        when="pgtrial was stopped or killed while a run of the claim's arms lasted; the verdict has to hold with what "
        "these runs can have hidden",
    ),
    "interrupted-runs.unbounded": Entry(
        text=plural(
            "pgtrial was ended in the middle of {count} run of {control} or {arm}: among so few blocks nothing bounds "
            "what it would have shown.",
            "pgtrial was ended in the middle of {count} runs of {control} or {arm}: among so few blocks nothing bounds "
            "what they would have shown.",
        ),
    ),
    "incomplete": Entry(
        severity=Severity.WARNING,
        text=N_("{missing} of {slots} planned runs have no valid data; {complete} of {blocks} blocks are complete."),
        hint=_RESUME,
        when="planned runs without valid data",
    ),
    "invalid-runs": Entry(
        severity=Severity.WARNING,
        text=N_("{invalid} of {runs} runs were invalid or interrupted and do not count ({by_arm:list})."),
        hint=N_("If one arm fails more often than the others, what is left of it may not represent it."),
        when="runs that were invalid (warning) or only interrupted (info)",
    ),
    "invalid-runs.shared-time": Entry(
        hint=N_(
            "Runs that share the time of a block are left out together, so these numbers do not tell which arm "
            "failed: see the reasons in the table of runs. If it is always the same arm, what is left of it may "
            "not represent it."
        ),
    ),
    "torn-blocks": Entry(
        severity=Severity.INFO,
        text=plural(
            "{count} block was interrupted between its runs and gone on with {pause:duration} later ({blocks:list}): "
            "what the machine changed by meanwhile is in its ratios.",
            "{count} blocks were interrupted between their runs and gone on with up to {pause:duration} later "
            "({blocks:list}): what the machine changed by meanwhile is in their ratios.",
        ),
        hint=N_("The random order lets it favour no arm, but it widens the interval: look at these blocks."),
        when="a block of runs one after the other was interrupted and gone on with much later (more than 10 min, and "
        "than three runs)",
    ),
    "level-drift": Entry(
        severity=Severity.INFO,
        text=N_("The control's own results move in one direction from block to block, by {change:change} per block."),
        hint=N_("Comparing within blocks removes the trend; the load curve and the latencies still contain it."),
        when="the control moves in one direction over the blocks (Mann–Kendall, p ≤ 0.01)",
    ),
    "rate-sets-throughput": Entry(
        severity=Severity.WARNING,
        text=N_(
            "The load arrives at a given rate, so the rate and not the server decides the throughput, about which "
            "the claim is; only a server that cannot keep up shows in it."
        ),
        hint=N_("Make the claim about a latency, or leave the rate out."),
        when="the claim is about throughput, and the load has a rate, or is a replay",
    ),
    "rate-sets-throughput.log": Entry(
        text=N_(
            "A replay sends each statement at the time of its log, so the log and not the server decides the "
            "throughput, about which the claim is; only a server that cannot keep up shows in it."
        ),
        hint=N_("Compare mean latencies, or what the server used."),
    ),
    "data-not-restored": Entry(
        severity=Severity.WARNING,
        text=N_("The data were never put back to the snapshot, so a run starts with what the runs before left behind."),
        hint=N_('Use restore = "each-run" unless the load only reads.'),
        when='`restore` is not "each-run"',
    ),
    "data-not-restored.each-block": Entry(text=_EACH_BLOCK),
    "data-not-restored.own-database": Entry(hint=_NO_DATABASE),
    "data-not-restored.own-database-each-block": Entry(text=_EACH_BLOCK, hint=_NO_DATABASE),
    "no-transactions": Entry(
        severity=Severity.INVALID,
        text=N_("At {level} no transaction ended within the measured time in {runs} of {of} runs."),
        hint=_MORE_TO_COUNT,
        when="a run of the claim's arms has a load level at which no transaction of the claim's scenario ended",
    ),
    "no-transactions.of-scenario": Entry(
        text=N_("At {level} no transaction of {scenario} ended within the measured time in {runs} of {of} runs."),
    ),
    "few-transactions": Entry(
        severity=Severity.WARNING,
        text=N_(
            "At {level} as few as {count} transactions ended within the measured time of a run: one more or less is "
            "{step:percent}."
        ),
        hint=_MORE_TO_COUNT,
        when="… at which fewer than 20 ended, of a load that is counted by ends: a throughput of so few moves in steps",
    ),
    "few-transactions.of-scenario": Entry(
        text=N_(
            "At {level} as few as {count} transactions of {scenario} ended within the measured time of a run: one "
            "more or less is {step:percent}."
        ),
    ),
    "warmup-capped": Entry(
        severity=Severity.INFO,
        text=N_(
            "{in_runs} the warm-up was ended by its cap before the load was found steady; whether that mattered "
            "shows in the measured time."
        ),
        hint=N_('Where the measured time is unsteady, give the warm-up more time: warmup = {{ cap = "5min" }}.'),
        when="a warm-up was ended by its cap before the load was found steady; `unsteady` says if it mattered",
    ),
    "unsteady": Entry(
        severity=Severity.WARNING,
        text=N_(
            "Throughput of {arm} changes inside its runs: the second half of the measured time has {change:change} "
            "against the first."
        ),
        hint=N_("A longer warm-up, or longer runs, would show the steady state."),
        when="second half of the measured time against the first: more than 5 %, and the interval over the runs "
        "excludes no change",
    ),
    "stalled": Entry(
        severity=Severity.WARNING,
        text=N_("{in_runs} no transaction ended for up to {seconds:duration}: the server or the machine stood still."),
        hint=N_(
            "See the server's log and the waits at that time. If the setting does not cause it, it is no effect of "
            "the setting either: find what does, and run again."
        ),
        when="no transaction ended in a whole second or more, where 20 or more a second do on average and the median "
        "latency is at most a tenth of that stretch",
    ),
    "load-stalled": Entry(
        severity=Severity.WARNING,
        text=N_(
            "{in_runs} no transaction ended for up to {seconds:duration}, and the server had nothing to do then: the "
            "load stood still."
        ),
        hint=N_(
            "See what the program or the script waits for, such as a sleep, a lock of its own or its garbage "
            "collector. That time is no effect of the setting."
        ),
        when="as `stalled`, while less than a tenth of the usual number of the load's sessions were active",
    ),
    "unequal-checkpoints": Entry(
        severity=Severity.WARNING,
        text=N_("The arms had different numbers of checkpoints in their measured time: {counts:list}."),
        hint=N_("Measure for several checkpoint intervals, or set max_wal_size so that none begins while measuring."),
        when="arms differ by more than 0.5 checkpoints per run",
    ),
    "failed-transactions": Entry(
        severity=Severity.WARNING,
        text=N_("{share:share} of the transactions of {arm} failed; throughput and latencies are of the others."),
        hint=N_("Set max_tries so that transactions are retried after serialization failures and deadlocks."),
        when=(
            "more than 0.1 % of an arm's transactions failed; invalid where a claim is about a latency that nothing "
            "bounds for what one arm lost more, failed or skipped, and that a longer one may turn"
        ),
    ),
    "skipped-transactions": Entry(
        severity=Severity.WARNING,
        text=N_(
            "{share:share} of the transactions of {arm} were skipped because they were too late to begin: the load "
            "that was asked for was not delivered."
        ),
        hint=N_("Latencies are of the transactions that were begun only; compare at a lower rate."),
        when="more than 1 % skipped; invalid as `failed-transactions`",
    ),
    "late-transactions": Entry(
        severity=Severity.WARNING,
        text=N_("{share:percent} of the transactions of {arm} took longer than the latency limit."),
        when="more than 5 % late",
    ),
    "no-samples": Entry(
        severity=Severity.WARNING,
        text=plural(
            "{count} runs have no {file}; what would be read from it is left out.",
            "{count} runs have no {file}; what would be read from it is left out.",
        ),
        when="a run has no samples.parquet or waits.parquet, or, with slices, no slices.parquet",
    ),
    "foreign-data": Entry(
        severity=Severity.INVALID,
        text=plural(
            "The readings of {count} run are all of another time than the run: its files are not its own.",
            "The readings of {count} runs are all of another time than the run: their files are not their own.",
        ),
        hint=N_("Ask for the folder as it was, or run the experiment anew."),
        when="no reading in samples.parquet of a run is from between the beginning of its first phase and the end of "
        "its last",
    ),
    "sampler-gaps": Entry(
        severity=Severity.WARNING,
        text=plural(
            "In {count} runs readings are missing for up to {seconds:duration}.",
            "In {count} runs readings are missing for up to {seconds:duration}.",
        ),
        hint=N_("The machine had no time to read its own counters; leave a CPU free for it."),
        when="more than 3 s between two readings inside a window",
    ),
    "cpu-steal": Entry(
        severity=Severity.WARNING,
        text=N_("{in_runs} the hypervisor gave CPU time to others, up to {share:percent}."),
        hint=N_("Run on a machine with CPUs of its own, or with more blocks."),
        when="more than 1 % of the CPU time was stolen in a run",
    ),
    "generator-saturated": Entry(
        severity=Severity.WARNING,
        text=N_(
            "{in_runs} no CPU was left while more than half of the clients had no query in the server: the load "
            "generator, or another program on this machine, holds the server up, and an effect may look smaller "
            "than it is."
        ),
        hint=N_("Use fewer clients, the prepared protocol, or heavier transactions; end other programs."),
        when="closed loop: CPUs more than 95 % busy while fewer than half of the clients, or of the sessions of their "
        "pooler, are active",
    ),
    "not-engaged": Entry(
        severity=Severity.WARNING,
        text=N_("Nothing that the arms set had anything to act on. {why:sentences}"),
        hint=N_("The verdict is about loads like this one; of one in which the setting acts it says nothing."),
        when="in no second of either arm was anything seen of what the settings act on, as the knobs declare it",
    ),
    "not-engaged.some": Entry(
        severity=Severity.INFO,
        text=N_("Some of what the arms set had nothing to act on. {why:sentences}"),
        hint=N_("The effect is that of the other settings."),
    ),
    "partial-latency": Entry(
        severity=Severity.INFO,
        hint=N_(
            "Requests per second have all of it: what is under way at a time (clients, times their depth) "
            "divided by them is the mean of the whole time."
        ),
        when="latencies of a load on files are without the flushes of `fsync`, or with `libaio` and `io_uring` and "
        "without `direct` without the handing over of a request ([files.md](files.md)), or, with `connect = "
        '"each-transaction"` and without a rate, those of pgbench are without the time to connect; a warning where the '
        "claim, or a criterion, is about a latency",
    ),
    "partial-latency.without-connecting": Entry(
        text=N_(
            "Latencies of {arms:and} begin when a client has connected: pgbench does not count the time of that in "
            "them, and each transaction has a connection of its own."
        ),
        hint=N_(
            "Transactions per second have all of it: the clients divided by them is the mean of the whole time. With a "
            "rate, latencies have it, too."
        ),
    ),
    "partial-latency.without-flushes": Entry(
        text=N_(
            "Latencies of {jobs:and} are those of the writes alone: fio does not count the time of fsync in them, in "
            "which the device is waited for."
        ),
    ),
    "partial-latency.without-submission": Entry(
        text=N_(
            "Latencies of {jobs:and} begin when the kernel has taken a request: with a buffered file and this engine "
            "it may do the work, and wait for the device, before."
        ),
    ),
    "not-of-tpc": Entry(
        severity=Severity.INFO,
        when="the mix tpcc-like, in every experiment",
        text=N_("The transactions are like those of TPC-C, but the figures are not TPC results."),
        hint=N_(
            "There are no terminals with keying and think times, no required size of the data for a rate, and no "
            "audit. Compare the arms with each other, and not with published results of TPC-C or their tpmC."
        ),
    ),
    "generator-tells": Entry(
        severity=Severity.INFO,
        when="a load of kind command whose generator tells less of its requests than pgbench does, or in another way "
        "([command.md](command.md))",
    ),
    "generator-tells.mean": Entry(
        text=N_("The load generator tells only the mean of its latencies: there are no percentiles."),
    ),
    "generator-tells.none": Entry(
        text=N_("The load generator tells no latencies: there is throughput alone."),
        hint=N_("HammerDB's counter has the commits and rollbacks of the whole server, also those of other sessions."),
    ),
    "generator-tells.at-end": Entry(
        text=N_(
            "The load generator tells all at its end: how its throughput changed from second to second is not known, "
            "and is drawn as if it had not."
        ),
    ),
    "generator-tells.iterations": Entry(
        text=N_(
            "A latency is that of an iteration of the k6 script, with all that it does; of a single query k6 tells "
            "nothing."
        ),
        hint=N_("It is that of a query where an iteration makes one query and does nothing else."),
    ),
    "generator-tells.from-execution": Entry(
        text=N_(
            "BenchBase times a transaction from when a worker takes it up; which transactions failed it does not "
            "tell, only how many."
        ),
    ),
    "generator-tells.replay": Entry(
        text=N_(
            "The throughput of a replay is that of its log, whatever the server could do. pgreplay tells its lag in "
            "whole seconds, and its mean latency in milliseconds; whether it or the server was late it does not tell."
        ),
        hint=N_("Compare mean latencies, or what the server used."),
    ),
    "other-work": Entry(
        severity=Severity.WARNING,
        text=N_(
            "A unit of work may not be the same in both: one of {arm} writes {own:decimal1} rows, one of {control} "
            "{other:decimal1}."
        ),
        hint=N_(
            "Throughput and latencies are by unit. Let a transaction, or request, do as much in all arms; unit in "
            "[workload] says what that is."
        ),
        when="arms whose scripts, variables or commands differ from the control's write five times as many rows per "
        "unit as it does, or a fifth; or ten times as much WAL, or a tenth, where one of them writes rows",
    ),
    "other-work.wal": Entry(
        text=N_(
            "A unit of work may not be the same in both: one of {arm} writes {own:bytes} of WAL, one of {control} "
            "{other:bytes}."
        ),
    ),
    "own-lag": Entry(
        severity=Severity.WARNING,
        text=N_("{share:share} of the mean latency of {arm} is the load's own delay, and no time of the server."),
        hint=N_(
            "A change of the server looks smaller by it than it is. Give the load a CPU of its own, or let it send "
            "less at a time."
        ),
        when="a replay, or a program of kind command without a rate, tells that 10 % of its latencies or more are lag",
    ),
    "own-lag.or-wait": Entry(
        text=N_(
            "{share:share} of the mean latency of {arm} passed before its requests were sent: behind slow ones, or by "
            "the load's own delay."
        ),
        hint=N_(
            "Only the program knows which. By a delay of its own, a change of the server looks smaller than it is."
        ),
    ),
    "more-clients": Entry(
        severity=Severity.WARNING,
        text=N_(
            "The latencies of {arm} are {times:decimal1} times as long together as its clients ({clients}) have time."
        ),
        hint=N_(
            "Either more of its requests are under way at a time, of which clients in [workload] can say how many, "
            "or its latencies have another unit, or the waits before the requests in them."
        ),
        when="closed loop of a program of kind command whose clients the file says: its latencies are half longer "
        "together than these have time; a hundred times as long ones, and those of intervals, are refused",
    ),
    "load-said": Entry(
        severity=Severity.INFO,
        text=N_("{in_runs} the program that is the load said something beside its results, in run {run}: “{said}”"),
        hint=N_(
            "What it left out, or did otherwise, is not in the numbers. Each run's words are in the folder's events."
        ),
        when="a program of kind command that ended well wrote to its standard error; one run's last lines are shown",
    ),
    "claimed-device": Entry(
        severity=Severity.INFO,
        text=N_("The claim names no device: {metrics:and} is of {devices:and}."),
        hint=N_('Name another device after a slash, as in "iostat.r_await/vda", before an experiment of its own.'),
        when="the claim is about a metric of devices and names none: it is of the one that the data are on, or "
        "the control's busiest where that is not one device",
    ),
    "emulated-disk": Entry(
        severity=Severity.INFO,
        text=plural(
            "{arms:and} is on an emulated disk ({classes:list}): a loop device whose requests pgtrial limits.",
            "{arms:and} are on an emulated disk ({classes:list}): a loop device whose requests pgtrial limits.",
        ),
        hint=N_(
            "Rates at the limit are those of the class. Latencies below the limit, bursts and flushes are those of "
            "the disk that holds the image file; measure the real disk before deciding on them."
        ),
        when="arms are on a disk class that pgtrial emulates: a loop device with limits ([disks.md](disks.md))",
    ),
    "emulated-disk.all-arms": Entry(
        text=N_("All arms are on an emulated disk ({classes:list}): a loop device whose requests pgtrial limits."),
    ),
}
