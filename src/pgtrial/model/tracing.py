"""Where the kernel counts writer pauses, for the knob that enables this and the collector that reads it."""

TRACEFS = "/sys/kernel/tracing"
INSTANCE = f"{TRACEFS}/instances/pgtrial"
EVENT = "events/writeback/balance_dirty_pages"
# The tracepoint also tells when a writer may go on; its pause is 0 or less then.
FILTER = "pause > 0"
# Of each device that is written to, how often a writer was made to sleep and for how many milliseconds in all.
TRIGGER = f"hist:keys=bdi:vals=pause if {FILTER}"
