"""What the servers' logs tell of the measured time: kinds of events, each event, and all of an arm."""

from pgtrial.findings.catalogue.base import Entry, plural
from pgtrial.language import N_

EVENT_KINDS = {
    "log-kind.checkpoint": Entry(text=N_("checkpoint")),
    "log-kind.autovacuum": Entry(text=N_("autovacuum")),
    "log-kind.autoanalyze": Entry(text=N_("autoanalyze")),
    "log-kind.temporary-file": Entry(text=N_("temporary file")),
    "log-kind.lock-wait": Entry(text=N_("lock wait")),
    "log-kind.deadlock": Entry(text=N_("deadlock")),
    "log-kind.slow-statement": Entry(text=N_("slow statement")),
    "log-kind.error": Entry(text=N_("error")),
    "log-kind.error-of-state": Entry(text=N_("error {state}")),
    "log-kind.other-language": Entry(text=N_("not in English")),
}
LOG_EVENTS = {
    "log-event": Entry(text="{parts:list}"),
    "log-event.requested": Entry(text=N_("requested ({reason})")),
    "log-event.timed": Entry(text=N_("timed")),
    "log-event.buffers": Entry(text=N_("{number:count} buffers")),
    "log-event.writing": Entry(text=N_("{time:duration} of writing")),
    "log-event.syncing": Entry(text=N_("{time:duration} of syncing")),
    "log-event.distance": Entry(text=N_("{bytes:bytes} of WAL since the last one")),
    "log-event.not-over": Entry(text=N_("not over")),
    "log-event.duration": Entry(text="{time:duration}"),
    "log-event.size": Entry(text="{bytes:bytes}"),
    "log-event.took": Entry(text="{time:duration}: {what}"),
    "log-event.tuples-removed": Entry(text=N_("{number:count} tuples removed")),
    "log-event.pages-removed": Entry(text=N_("{number:count} pages removed")),
    "log-event.several": Entry(
        text=plural("{count} times, such as {event}", "{count} times, such as {event}"),
    ),
}
LOG_SUMMARIES = {
    "log-summary.checkpoints": Entry(text=N_("{timed} timed, {requested} requested")),
    "log-summary.all-timed": Entry(text=N_("all timed")),
    "log-summary.all-requested": Entry(text=N_("all requested")),
    "log-summary.size": Entry(text=N_("{bytes:bytes} each, on average")),
    "log-summary.other-language": Entry(
        text=N_("what these messages tell is not known; with lc_messages = 'C' the server logs in English")
    ),
    "log-summary.most-frequent": Entry(text=plural("{count} times: {words}", "{count} times: {words}")),
    "log-summary.objects": Entry(text="{objects:items}"),
    "log-summary.object-once": Entry(text=N_("{name} once, {time:duration}")),
    "log-summary.object": Entry(
        text=plural("{name} {count} times, {time:duration}", "{name} {count} times, {time:duration}")
    ),
    "log-summary.more": Entry(text=N_("{number} more")),
}
