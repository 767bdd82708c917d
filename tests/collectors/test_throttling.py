import pytest

from pgtrial.collectors.throttling import COLLECTOR, parse

# As the kernel writes it (Documentation/trace/histogram.rst), with what this trigger has in it.
TEXT = """\
# event histogram
#
# trigger info: hist:keys=bdi:vals=hitcount,pause:sort=hitcount:size=2048 if pause > 0 [active]
#

{ bdi: 254:16                          } hitcount:          2  pause:         20
{ bdi: 254:0                           } hitcount:        317  pause:      41230

Totals:
    Hits: 319
    Entries: 2
    Dropped: 0
"""


def readings(text: str) -> dict[str, float]:
    assert {reading.object for reading in parse(text)} == {""}
    return {reading.metric: reading.value for reading in parse(text)}


def test_pauses_of_all_devices_are_added_up() -> None:
    assert readings(TEXT) == {"throttling.pauses": 319, "throttling.pause_time": pytest.approx(41.25)}


def test_as_long_as_nobody_was_paused_the_counts_are_zero() -> None:
    empty = "".join(line for line in TEXT.splitlines(keepends=True) if not line.startswith("{"))

    assert readings(empty) == {"throttling.pauses": 0, "throttling.pause_time": 0}


# The head of the file "trace", of which the rest is not read.
RING = "# entries-in-buffer/entries-written: 114/1893   #P:2\n"


def test_without_histograms_the_events_ever_written_are_counted_and_their_length_is_not_known() -> None:
    assert readings(RING) == {"throttling.pauses": 1893}


def test_every_reading_is_a_metric_of_the_collector() -> None:
    assert {metric.name for metric in COLLECTOR.metrics} == set(readings(TEXT))
    assert COLLECTOR.optional
