"""Where the kernel counts the pauses of writers, for the knob that has it done and the collector that reads it."""

INSTANCE = "/sys/kernel/tracing/instances/pgtrial"
EVENT = "events/writeback/balance_dirty_pages"
# Of each device that is written to, how often a writer was made to sleep and for how many milliseconds in all. The
# tracepoint also tells when a writer may go on; its pause is 0 or less then.
TRIGGER = "hist:keys=bdi:vals=pause if pause > 0"
