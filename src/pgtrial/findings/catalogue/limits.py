"""What limits a load: names of resources, what speaks for each, and the sentence about an arm at a load level."""

from pgtrial.findings.catalogue.base import Entry, plural
from pgtrial.language import N_

LIMITS = {
    "resource.cpu": Entry(text=N_("the CPU")),
    "resource.disk-throughput": Entry(text=N_("the throughput of the disk")),
    "resource.disk-iops": Entry(text=N_("the requests per second that the disk does")),
    "resource.disk-latency": Entry(text=N_("the time that the disk takes for a request")),
    "resource.write-back": Entry(text=N_("write-back throttling")),
    "resource.locks": Entry(text=N_("locks")),
    "resource.lwlocks": Entry(text=N_("LWLocks")),
    "resource.checkpoints": Entry(text=N_("checkpoints")),
    "resource.autovacuum": Entry(text=N_("autovacuum")),
    "resource.temporary-files": Entry(text=N_("temporary files")),
    "resource.load-generator": Entry(text=N_("the load generator")),
    "resource.client": Entry(text=N_("the client")),
    "resource.wal-flush": Entry(text=N_("the flush of the WAL")),
    "resource.memory": Entry(text=N_("too little memory")),
    "resource.swap": Entry(text=N_("swapping")),
    "resource.connections": Entry(text=N_("the number of connections")),
    "resource.undetermined": Entry(text=N_("nothing that could be determined")),
    "resource.detailed": Entry(text="{resource} ({detail})"),
    # The limit of an arm at a load level.
    "limit.resource": Entry(text=N_("{arm} with {level} is limited by {resource}: {reasons:items}.")),
    "limit.rate": Entry(
        text=N_("Nothing limits {arm} with {level}: it keeps up with the rate at which transactions arrive.")
    ),
    "limit.rate-with-parts": Entry(
        text=N_(
            "Nothing limits {arm} with {level}: it keeps up with the rate at which transactions arrive; the latency "
            "is mostly {parts:and}."
        )
    ),
    "limit.several": Entry(
        text=N_("What limits {arm} with {level} is undetermined: as much speaks for {suspects:and}.")
    ),
    "limit.suspect": Entry(text="{resource} ({reason})"),
    "limit.undetermined": Entry(text=N_("What limits {arm} with {level} is undetermined: {doubt}.")),
    "limit.undetermined-with-parts": Entry(
        text=N_("What limits {arm} with {level} is undetermined: {doubt}; the latency is mostly {parts:and}.")
    ),
    "limit.proved": Entry(
        text=N_(
            "{arm} with {level} is limited by {name}, as an experiment has proved: 1 % less of that time makes "
            "throughput {elasticity:decimal2} % higher."
        )
    ),
    "limit.overruled": Entry(
        text=N_(
            "{arm} with {level} is limited by {name}, as an experiment has proved: 1 % less of that time makes "
            "throughput {elasticity:decimal2} % higher. The rules would have named {by_rules}; the experiment counts."
        )
    ),
    "limit.refuted": Entry(
        text=N_(
            "What limits {arm} with {level} is undetermined: the rules would have named {by_rules}, but an experiment "
            "has shown that throughput owes more to another time."
        )
    ),
    "limit.held-for": Entry(
        text=N_(
            "What they are held for is {name}, as an experiment has proved: 1 % less of that time makes throughput "
            "{elasticity:decimal2} % higher."
        )
    ),
    "limit.costs": Entry(
        text=N_(
            "What it costs is {name}, as an experiment has proved: 1 % less of that time makes throughput "
            "{elasticity:decimal2} % higher."
        )
    ),
    "limit.part": Entry(text="{part} {share:short_percent}"),
    "limit.part-in": Entry(text=N_("{part} {share:short_percent} ({most:short_percent} of that in “{statement}”)")),
    "limit.statement": Entry(text=N_("{share:short_percent} of that time is spent in “{statement}”")),
    "doubt.weak": Entry(
        text=N_("{resource} is suspected most, but weakly ({strength:short} of 1, {decided:short} would do)")
    ),
    "doubt.unknown-sessions": Entry(text=N_("what its sessions do is not known")),
    "doubt.busy-too": Entry(text="{doubt}, {busy}"),
    "doubt.unused-cpus": Entry(text=N_("{busy}, but transactions hardly use them")),
    "doubt.nothing-short": Entry(text=N_("no resource is short")),
    "doubt.nothing-short-busy": Entry(text=N_("no resource is short, {busy}")),
    # How the limit of an arm differs from the control's.
    "limit-change.same": Entry(text=N_("{arm} is limited by {limit}, as {control} is.")),
    "limit-change.other": Entry(text=N_("{arm} is limited by {limit}, and {control} by {of_control}.")),
    "limit-change.open": Entry(
        text=N_(
            "That another limit holds for {arm} than for {control} is not shown: it is {limit} against {of_control}, "
            "but the runs do not tell the two apart."
        )
    ),
    "limit-change.by-level": Entry(text=N_("{arm} is limited {limits:items}.")),
    "limit-change.same-at": Entry(text=N_("with {levels:and} by {limit}, as {control} is")),
    "limit-change.other-at": Entry(text=N_("with {levels:and} by {limit}, and {control} by {of_control}")),
    "limit-change.open-at": Entry(
        text=N_("with {levels:and} by {limit} and {control} by {of_control}, which the runs do not tell apart")
    ),
    "level.number": Entry(text=N_("level {level}")),
    # What a resource is in particular.
    "detail.quota": Entry(text=N_("quota of the control group")),
    "detail.kept-from-cpus": Entry(text=N_("the machine has more than the server may use")),
    "detail.steal": Entry(text=N_("the hypervisor gives {share:short_percent} of it to others")),
    "detail.dirty-limit": Entry(text=N_("limit of {limit:bytes}")),
    "detail.unseen-device": Entry(text=N_("device not observed")),
    "detail.before-device": Entry(text=N_("{device}, limited before it gets there")),
    "detail.memory-limit": Entry(text=N_("limit of the control group")),
    "detail.pauses": Entry(text=N_("pauses, or the way to the server")),
    "detail.sleeps": Entry(text=N_("pg_sleep in a statement")),
    "detail.pauses-inside": Entry(text=N_("pauses inside transactions")),
    "detail.idle-holders": Entry(text=N_("{lock}, held by sessions that idle in a transaction")),
    "detail.timed": Entry(text=N_("timed")),
    "detail.requested": Entry(text=N_("requested")),
    "detail.too-frequent": Entry(text=N_("too frequent")),
}

# Clauses of a sentence, each about one number.
_CPU = {
    "cpu.busy": Entry(text=N_("the CPUs are {share:short_percent} busy")),
    "cpu.throttled": Entry(
        text=N_("its quota keeps the server's control group from CPUs for {seconds:short} s per second")
    ),
    "cpu.queued": Entry(text=N_("sessions that want a CPU wait for one {share:short_percent} of the time")),
    "cpu.latency": Entry(text=N_("{share:short_percent} of the latency is on a CPU or waiting for one")),
    "cpu.latency-with-workers": Entry(
        text=N_(
            "{share:short_percent} of the latency is on a CPU or waiting for one, that of parallel workers included"
        )
    ),
    "cpu.latency-with-clients": Entry(
        text=N_("{share:short_percent} of the latency is on a CPU or waiting for one, that of clients included")
    ),
    "cpu.of-server": Entry(text=N_("that is {share:short_percent} of what does not wait for the client")),
    "cpu.run-queue": Entry(text=N_("{tasks:short} tasks run or want to, on {cpus:short} CPUs")),
}

_DISK = {
    "disk.throttled-writers": Entry(
        text=N_(
            "in {share:short_percent} of the seconds so many pages are dirty that the kernel slows down writers "
            "(mostly {dirty:short_percent} of its limit)"
        )
    ),
    "disk.writing": Entry(text=N_("{share:short_percent} of the latency is writing, most of it {event}")),
    "disk.waiting": Entry(
        text=N_("{share:short_percent} of the latency is reading and writing data, most of it {event}")
    ),
    "disk.waiting-for-writes": Entry(
        text=N_("{share:short_percent} of the latency is waiting for writes and flushes, most of it {event}")
    ),
    "difference.saved": Entry(text=N_("{arm} spends {time:duration} less in it, {share:short_percent} of the latency")),
    "difference.of-all": Entry(text=N_("that is {share:short_percent} of all that it saves")),
    "disk.declared-limit": Entry(text=N_("{rate}, of the {limit} that its control group may have")),
    "disk.pinned": Entry(text=N_("the device stands at {rate} in {share:short_percent} of the seconds")),
    "disk.pinned-means": Entry(
        text=N_("the device stands at {rate} in {share:short_percent} of the means over {width} seconds")
    ),
    "disk.queue": Entry(text=N_("{requests:short} requests and {sessions:short} sessions wait there on average")),
    "disk.queue-of-sessions": Entry(text=N_("{sessions:short} sessions wait there on average")),
    "disk.queue-of-requests": Entry(text=N_("{requests:short} requests wait there on average")),
    "disk.growth": Entry(
        text=plural(
            "that is {share:short_percent} more than with {count} clients",
            "that is {share:short_percent} more than with {count} clients",
        )
    ),
    "disk.read-takes": Entry(text=N_("a read takes {time:duration}")),
    "disk.write-takes": Entry(text=N_("a write takes {time:duration}")),
    "disk.under-way": Entry(text=N_("{requests:short} requests are under way for {sessions:short} sessions that wait")),
    "disk.request-times": Entry(text="{parts:items}"),
}

_MEMORY = {
    "memory.pressure": Entry(text=N_("some task waits for memory {share:short_percent} of the time")),
    "memory.refaults": Entry(text=N_("{share:short_percent} of what is read had been in memory shortly before")),
    "memory.reclaim": Entry(
        text=N_("processes have to free memory themselves in {share:short_percent} of the seconds")
    ),
    "memory.group-full": Entry(text=N_("the control group has {share:short_percent} of the {limit:bytes} it may have")),
    "memory.swapped-in": Entry(text=N_("{bytes:bytes_per_second} per second are swapped in")),
    "memory.swap-time": Entry(text=N_("in {share:short_percent} of the seconds something is")),
    "memory.stalled": Entry(text=N_("{share:short_percent} of the latency is reading pages, or blocked in the kernel")),
}

_DISTURBANCES = {
    "lost.timed-checkpoints": Entry(text=N_("{share:short_percent} of the throughput is lost to timed checkpoints")),
    "lost.requested-checkpoints": Entry(
        text=N_("{share:short_percent} of the throughput is lost to requested checkpoints")
    ),
    "lost.checkpoints": Entry(text=N_("{share:short_percent} of the throughput is lost to checkpoints")),
    "lost.autovacuum": Entry(text=N_("{share:short_percent} of the throughput is lost to autovacuum workers")),
    "lost.depth": Entry(text=N_("it is {depth:short_percent} lower in their {share:short_percent} of the seconds")),
    "lost.chance": Entry(text=N_("at other moments as much would be lost with probability {chance:short}")),
    "checkpoints.rhythm": Entry(
        text=N_(
            "it goes up and down every {period:duration}, as checkpoint_timeout does (false-alarm probability "
            "{chance:short})"
        )
    ),
    "checkpoints.interval": Entry(text=N_("a checkpoint comes every {interval:duration}")),
    "checkpoints.whole-pages": Entry(
        text=N_(
            "{share:short_percent} of the WAL is whole pages, which are written when a page is first changed after a "
            "checkpoint"
        )
    ),
    "checkpoints.whole-pages-compressed": Entry(
        text=N_(
            "about {share:short_percent} of the WAL is whole pages, if wal_compression leaves a quarter of each; they "
            "are written when a page is first changed after a checkpoint"
        )
    ),
    "checkpoints.making-pages": Entry(
        text=N_(
            "about {share:short_percent} of the latency is CPU time that makes whole pages ready for the WAL, if each "
            "takes {time:duration}"
        )
    ),
    "autovacuum.cpu": Entry(text=N_("autovacuum workers use {share:short_percent} of the server's CPU time")),
}

_WAITS = {
    "client.latency": Entry(
        text=N_(
            "{share:short_percent} of the latency is spent outside the server or waiting for the client's next "
            "statement"
        )
    ),
    "client.sleeps": Entry(text=N_("statements sleep, as they are told, for {share:short_percent} of the latency")),
    "client.generator-busy": Entry(
        text=N_(
            "the load generator uses {cpus:short} CPUs, and its threads are at work {share:short_percent} of the time"
        )
    ),
    "client.generator-runs": Entry(text=N_("they have a CPU {share:short_percent} of the time that they want one")),
    "client.generator-idle": Entry(
        text=N_("the threads of the load generator are at work only {share:short_percent} of the time")
    ),
    "client.cpus-free": Entry(text=N_("the CPUs are only {share:short_percent} busy")),
    "connections.refused": Entry(
        text=plural(
            "{count} clients were refused, because there were too many",
            "{count} clients were refused, because there were too many",
        )
    ),
    "connections.used": Entry(text=N_("the load has {used:short} of {most} connections that the server allows")),
    "waiting.locks": Entry(text=N_("{share:short_percent} of the latency is waiting for locks")),
    "waiting.locks-mostly": Entry(
        text=N_("{share:short_percent} of the latency is waiting for locks, most of it {event}")
    ),
    "waiting.lock-chain": Entry(text=N_("up to {sessions:short} sessions wait in a chain")),
    "waiting.lwlocks": Entry(text=N_("{share:short_percent} of the latency is waiting for LWLocks")),
    "waiting.lwlocks-mostly": Entry(
        text=N_("{share:short_percent} of the latency is waiting for LWLocks, most of it {event}")
    ),
    "waiting.wal": Entry(
        text=N_("{share:short_percent} of the latency is waiting for the WAL to be written and flushed")
    ),
    "waiting.wal-mostly": Entry(
        text=N_(
            "{share:short_percent} of the latency is waiting for the WAL to be written and flushed, most of it {event}"
        )
    ),
    "waiting.wal-flushes": Entry(text=N_("{waiting} ({rate:decimal0} flushes per second)")),
    "waiting.wal-flushes-timed": Entry(
        text=N_("{waiting} ({rate:decimal0} flushes per second, each takes {time:duration})")
    ),
    "waiting.temporary-files": Entry(
        text=N_("{share:short_percent} of the latency is reading and writing temporary files")
    ),
    "waiting.temporary-files-mostly": Entry(
        text=N_("{share:short_percent} of the latency is reading and writing temporary files, most of it {event}")
    ),
    "waiting.temporary-rate": Entry(text=N_("{bytes:bytes_per_second} per second are written to temporary files")),
}

CLUES = {
    # A rate of a device by what it counts: requests, or bytes.
    "device-rate.reads": Entry(text=N_("{rate:per_second} reads per second")),
    "device-rate.writes": Entry(text=N_("{rate:per_second} writes per second")),
    "device-rate.requests": Entry(text=N_("{rate:per_second} requests per second")),
    "device-rate.read": Entry(text=N_("{rate:bytes_per_second} read per second")),
    "device-rate.written": Entry(text=N_("{rate:bytes_per_second} written per second")),
    "device-rate.both": Entry(text=N_("{rate:bytes_per_second} read and written per second")),
    "clue.explained": Entry(text=N_("{cause} brings this about")),
    **_CPU,
    **_DISK,
    **_MEMORY,
    **_DISTURBANCES,
    **_WAITS,
}
