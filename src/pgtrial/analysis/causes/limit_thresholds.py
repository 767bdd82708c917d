"""From where on a number speaks for a resource as the limit: the thresholds of all rules, in one place.

They are conventions, not laws. A share of the latency is what a transaction would gain if the wait were gone, so those
follow from what is worth naming; the others follow from how the kernel and PostgreSQL work, as the comments say.
"""

from dataclasses import dataclass

KILOBYTE = 1024.0
MEGABYTE = 1024.0**2


@dataclass(frozen=True, slots=True, kw_only=True)
class Ramp:
    """``low`` says nothing, ``high`` all that the number can say, and in between it is in proportion.

    Where small numbers are the suspicious ones, ``low`` is the larger of the two.
    """

    low: float
    high: float

    @property
    def half(self) -> float:
        """The value that speaks just strongly enough."""
        return (self.low + self.high) / 2

    def weigh(self, value: float) -> float:
        """Between 0 and 1."""
        return min(1.0, max(0.0, self.reach(value)))

    def reach(self, value: float) -> float:
        """The same without an end: below 0 and above 1 as well."""
        return (value - self.low) / (self.high - self.low)


# --- The answer -----------------------------------------------------------------------------------------------------

DECIDED = 0.5  # strength from which a suspect can be the limit
APART = 0.1  # by which the second one must stay behind
WORTH_LISTING = 0.05  # strength from which a suspect is listed at all
KEPT_UP = 0.98  # of the rate of an open loop: nothing limits then, …
LITTLE_LAG = 0.05  # … if clients were free for as good as all transactions (share of the latency)
EXPLAINED = 0.5  # part of its strength that a suspect loses to a cause beyond doubt that explains it

# --- Shares of the mean latency -------------------------------------------------------------------------------------

WAIT_SHARE = Ramp(low=0.2, high=0.5)  # locks, flushes of the WAL, reads and writes of data
LWLOCK_SHARE = Ramp(low=0.15, high=0.4)  # who waits for one is soon on a CPU again, which hides part of its cost
TEMPORARY_SHARE = Ramp(low=0.05, high=0.25)  # the same: writing to the page cache is mostly CPU time
WRITE_SHARE = Ramp(low=0.1, high=0.3)  # waits that a slowed-down writer can be in
STALLED_SHARE = Ramp(low=0.1, high=0.3)  # what a want of memory makes wait
OUTSIDE_SHARE = Ramp(low=0.35, high=0.65)  # a fast transaction spends much of its time on the way, and nothing is wrong
CPU_SHARE = Ramp(low=0.15, high=0.35)  # of all the latency, of which much can be outside the server …
CPU_OF_SERVER = Ramp(low=0.4, high=0.7)  # … and of that inside

SAVED = Ramp(low=0.1, high=0.3)  # what another arm saves of one kind of wait, measured and not inferred
SAVED_OF_ALL = Ramp(low=0.3, high=0.6)  # the same, of all that it saves

# --- CPU ------------------------------------------------------------------------------------------------------------

CPU_BUSY = Ramp(low=0.85, high=0.95)  # us + sy + st
CPU_WAITING = Ramp(low=0.1, high=0.4)  # of the time in which sessions want a CPU, when the machine was not seen …
CPU_KEPT_FROM = Ramp(low=0.5, high=0.8)  # … and where it has CPUs that are free: chance alone makes half of it wait
NAMED_CLIENTS = 0.2  # of that, from where on it is said that much of it is of waiting clients
RUN_QUEUE = Ramp(low=0.8, high=1.5)  # tasks that run or want to, per CPU
QUOTA = Ramp(low=0.02, high=0.1)  # s per s for which a control group was kept from its CPUs
STEAL = 0.1  # share of CPU time from which it is said that others have it
GENERATOR_BUSY = Ramp(low=0.75, high=0.92)  # of the time, in which the load generator's threads are at work
GENERATOR_RUNS = Ramp(low=0.4, high=0.7)  # of that time, in which they have a CPU
GENERATOR_IDLE = Ramp(low=0.9, high=0.5)  # the same: a client that pauses, or is far away, hardly works
CPU_FREE = Ramp(low=0.95, high=0.7)  # us + sy + st: on a busy machine the client waits for its CPU, not we for it

# --- Devices --------------------------------------------------------------------------------------------------------

DECLARED = Ramp(low=0.8, high=0.95)  # of a limit that is known, that the rate is on average
PINNED = Ramp(low=0.15, high=0.4)  # of the time, in which a series is at its ceiling
PLATEAU_CHANCE = Ramp(low=0.01, high=0.0)  # probability that as much lies in a narrow band where nothing limits
PLATEAU_STEAL = 0.05  # share of CPU time; seconds with more, taken by the hypervisor, say nothing of a ceiling
SERIES_SHARE = 0.3  # of all requests or bytes, that a kind of them needs for its ceiling to matter
PLATEAU_QUEUE = Ramp(low=1.0, high=3.0)  # requests, or sessions, that wait for the device all the time
GROWTH = Ramp(low=0.8, high=0.3)  # by how much requests grow with clients (elasticity); at a ceiling they do not
REACHES_DEVICE = Ramp(low=0.1, high=0.3)  # requests under way per session that waits; the rest came from the page cache
LARGE_REQUEST = 64 * KILOBYTE  # from where on a limit of bytes is reached before one of requests
UNSEEN_DEVICE = 0.6  # most that is believed of a device whose figures are not known

# --- Write-back -----------------------------------------------------------------------------------------------------

# Of the time, with more dirty pages than the kernel lets anyone write freely. Writing back makes room again and again,
# so with small limits it is a part of the time also where writers do nothing but wait.
THROTTLED_TIME = Ramp(low=0.1, high=0.4)
FREE_RUN = 0.75  # of the limit, where the background limit, half of it by default, is not known

# --- Memory ---------------------------------------------------------------------------------------------------------

MEMORY_PRESSURE = Ramp(low=0.05, high=0.25)  # of the time, in which some task waits for memory (PSI)
REFAULTS = Ramp(low=0.3, high=0.7)  # of the bytes that are read, which had been in memory shortly before
RECLAIM_TIME = Ramp(low=0.1, high=0.5)  # of the time, in which processes free memory themselves
DIRECT_SCAN = 100.0  # pages/s, from which on they do
GROUP_FULL = Ramp(low=0.9, high=0.98)  # of the memory that a control group may have
SWAP_IN = Ramp(low=0.25 * MEGABYTE, high=2 * MEGABYTE)  # B/s; out alone is of pages that nobody needs
SWAP_TIME = Ramp(low=0.2, high=0.6)  # of the time, in which anything is swapped in
WITHOUT_PRESSURE = 0.7  # most that is believed of memory where the kernel does not tell of pressure (PSI)
AT_DEVICE_LIMIT = 0.45  # most that is believed of it where the reads have to wait for a limit that is known

# --- What comes and goes --------------------------------------------------------------------------------------------

LOST = Ramp(low=0.05, high=0.2)  # of the throughput, that is missing because of it
DEPTH = Ramp(low=0.2, high=0.5)  # by how much throughput is lower while it lasts
CHANCE = Ramp(low=0.3, high=0.1)  # probability of such a difference at moments picked at random
FEWEST_SECONDS = 3  # with it, and …
FEWEST_OTHER_SECONDS = 10  # … without
AFTER_CHECKPOINT = 5.0  # s from the start of a checkpoint, in which most pages are written to the WAL as a whole
CHECKPOINT_INTERVAL = Ramp(low=60.0, high=15.0)  # s; checkpoint_warning is 30 s by default
WHOLE_PAGES = Ramp(low=0.3, high=0.7)  # of the WAL
WITHOUT_WHOLE_PAGES = 0.8  # most that is believed of the interval alone
WHOLE_PAGES_COST = Ramp(low=0.1, high=0.3)  # of the latency, that is waiting for the WAL or making pages ready for it
# CPU time in s of a page that goes to the WAL whole: its copies and checksum; by far the most is compressing it, which
# depends on what the page holds.
PAGE_TIME = {"off": 10e-6, "pglz": 100e-6, "on": 100e-6, "lz4": 20e-6, "zstd": 50e-6}
VACUUM_CPU = Ramp(low=0.15, high=0.4)  # of the server's CPU time, that autovacuum workers have

# --- Temporary files and connections --------------------------------------------------------------------------------

TEMPORARY_RATE = Ramp(low=0.5 * MEGABYTE, high=4 * MEGABYTE)  # B/s
CONNECTIONS_USED = Ramp(low=0.9, high=1.0)  # of max_connections
NEARLY_FULL = 0.4  # most that is believed where nobody was refused
TOO_MANY_CONNECTIONS = "53300"  # SQLSTATE
