"""What is said about the disk of each arm, and about loads on files."""

from pgtrial.findings.catalogue.base import Entry, plural
from pgtrial.language import N_

# --- The disk of an arm ---------------------------------------------------------------------------------------------

STORAGE = {
    "disk-load.enforced": Entry(
        text=N_("With {level} the disk stands at the limit that pgtrial enforces: {rate} {how}; {off}.")
    ),
    "disk-load.provided": Entry(
        text=N_("With {level} the disk stands at the limit that its provider declares: {rate} {how}; {off}.")
    ),
    "disk-load.above-declared": Entry(
        text=N_(
            "With {level} the disk stands at a limit above the declared {declared}, of the device or of the way to it: "
            "{rate} {how}."
        )
    ),
    "disk-load.below-declared": Entry(
        text=N_(
            "With {level} the disk stands at a limit below the declared {declared}, of the device or of the way to it: "
            "{rate} {how}."
        )
    ),
    "disk-load.undeclared": Entry(
        text=N_(
            "With {level} the disk stands at a limit that the file does not declare, of the device or of its provider: "
            "{rate} {how}."
        )
    ),
    "disk-load.slow": Entry(text=N_("With {level} the disk is slow, not at a limit: {reasons:items}.")),
    "disk-load.at-limit": Entry(text=N_("With {level} the disk is at a limit: {reasons:items}.")),
    "disk-load.not-limiting": Entry(text=N_("With {level} the disk is not what limits.")),
    "disk-load.far-from-limit": Entry(text=N_("With {level} the disk is not what limits: {below}.")),
    "disk-load.unknown": Entry(text=N_("With {level} it is not known what limits.")),
    # Parts of such sentences.
    "disk-rate.reads": Entry(text=N_("{rate:per_second} reads per second")),
    "disk-rate.writes": Entry(text=N_("{rate:per_second} writes per second")),
    "disk-rate.requests": Entry(text=N_("{rate:per_second} requests per second")),
    "disk-rate.read": Entry(text=N_("{rate:bytes_per_second} read per second")),
    "disk-rate.written": Entry(text=N_("{rate:bytes_per_second} written per second")),
    "disk-rate.read-and-written": Entry(text=N_("{rate:bytes_per_second} read and written per second")),
    "disk-steadiness": Entry(text=N_("in {share:short_percent} of the seconds")),
    "disk-steadiness.compared": Entry(
        text=N_(
            "in {share:short_percent} of the seconds, varying by {steady:short_percent} where free demand would vary "
            "by {free:short_percent}"
        )
    ),
    "disk-declared.requests": Entry(text=N_("{rate:per_second} per second")),
    "disk-declared.bytes": Entry(text=N_("{rate:bytes_per_second} per second")),
    "disk-distance.none": Entry(text=N_("that is just the declared {declared}")),
    "disk-distance.above": Entry(text=N_("that is {share:short_percent} above the declared {declared}")),
    "disk-distance.below": Entry(text=N_("that is {share:short_percent} below the declared {declared}")),
    "disk-times.read": Entry(text=N_("a read takes {time:duration}")),
    "disk-times.write": Entry(text=N_("a write takes {time:duration}")),
    "disk-times": Entry(text="{takes:and}"),
    "disk-times.queue": Entry(text=N_("with {requests:short} requests under way")),
    "disk-times.with-queue": Entry(text=N_("{takes:and} with {requests:short} requests under way")),
    "disk-allowed": Entry(text=N_("{share:short_percent} of the {limit} that are allowed")),
    "disk-below": Entry(text=N_("it does {rates:and}")),
    "disk-below.slower": Entry(text=N_("it does {rates:and}, so the disk below the limit is the slower one")),
    # An arm at all load levels.
    "disk-use.emulated": Entry(text=N_("An emulated disk: a loop device with limits, not a disk of that class.")),
    "disk-use.same-ceiling": Entry(
        text=plural(
            "The ceiling is the same at {count} load levels, within {share:short_percent}, while the clients grow: "
            "that is a limit, not a slow disk.",
            "The ceiling is the same at {count} load levels, within {share:short_percent}, while the clients grow: "
            "that is a limit, not a slow disk.",
        )
    ),
    "disk-use.ceiling-differs": Entry(
        text=plural(
            "At {count} load levels the ceiling differs by {share:short_percent}.",
            "At {count} load levels the ceiling differs by {share:short_percent}.",
        )
    ),
    # The size of server that the disk can feed.
    "server-size": Entry(
        text=plural(
            "At its limit, with {level}, this disk keeps {cpus} busy: enough for a server of {count} CPU, and further "
            "CPUs would wait.",
            "At its limit, with {level}, this disk keeps {cpus} busy: enough for a server of {count} CPUs, and further "
            "CPUs would wait.",
        )
    ),
    "server-size.not-limiting": Entry(
        text=N_("This disk keeps at least {cpus} busy, with {level}: it was not what limited.")
    ),
    "server-size.slow": Entry(
        text=N_(
            "This disk keeps at least {cpus} busy, with {level}: it is slow rather than limited, so more clients may "
            "get more out of it."
        )
    ),
    "server-cpus": Entry(text=N_("{cpus:short} CPUs")),
    "server-cpus.with-interval": Entry(text=N_("{cpus:short} CPUs ({low:short} to {high:short})")),
    "cpu-source.processes": Entry(text=N_("the kernel's accounts of the server's processes")),
    "cpu-source.control-group": Entry(text=N_("the kernel's account of the server's control group")),
    "cpu-source.machine": Entry(text=N_("CPU time of the machine less that of the load generator")),
    # A load on files.
    "file-use": Entry(text="{end}."),
    "file-use.explained": Entry(text="{end}: {facts:items}."),
    "file-name.with-level": Entry(text=N_("{arm} with {level}")),
    "file-speed.unknown": Entry(text=N_("an unknown speed")),
    "file-speed": Entry(text="{bandwidth:byte_rate}"),
    "file-speed.with-latency": Entry(text=N_("{speed}, {time:duration} per request")),
    "file-end.memory": Entry(text=N_("{name} reaches {speed} and ends in memory")),
    "file-end.background": Entry(
        text=N_("{name} reaches {speed} and is written in the background, and does not wait for it")
    ),
    "file-end.throttle": Entry(
        text=N_("{name} reaches {speed} and is held back by the throttle of writers to what the device writes")
    ),
    "file-end.device": Entry(text=N_("{name} reaches {speed} and waits for the device")),
    "file-end.undetermined": Entry(text=N_("{name} reaches {speed} and has no limit that could be determined")),
    # Facts of a load on files.
    "file-fact.read": Entry(text=N_("the device read {share:short_percent} of what was read from the files")),
    "file-fact.written": Entry(
        text=N_("the device wrote {share:short_percent} of what was written to the files meanwhile")
    ),
    "file-fact.asleep": Entry(
        text=N_("writers were made to sleep {times:significant3} times a second, {share:short_percent} of their time")
    ),
    "file-fact.pauses": Entry(text=N_("writers were made to sleep {times:significant3} times a second")),
    "file-fact.dirty": Entry(
        text=N_("in {share:short_percent} of the seconds more than {limit:bytes} were dirty, where the throttle begins")
    ),
    "file-fact.busy": Entry(text=N_("the device had a request {share:short_percent} of the time")),
    "file-fact.at-device": Entry(text=N_("{share:short_percent} of the requests under way were at the device")),
}
