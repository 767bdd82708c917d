import base64
import struct
import zlib

import pytest

from pgtrial.store.command_line import LineError
from pgtrial.workloads.adapters import hdr_log

# Percentiles and mean of the captured histogram as HdrHistogram for Python 0.10.8 has them, which made it.
MEAN, MEDIAN, LARGEST, COUNT = 7.831651902439024e-3, 1.581055e-3, 250.609663e-3, 41
LINE = "1.0,1.0,250.610,{}"


@pytest.fixture
def translate():
    return hdr_log.ADAPTER.translator({})


def test_a_histogram_is_as_the_library_reads_it(translate, tell):
    (told,) = tell(translate, "hdr-log.txt")

    assert (told.t, told.seconds, told.done) == (1600000002.0, 1.0, COUNT)
    mean = sum(latency * count for latency, count in told.latencies) / told.done
    assert mean == pytest.approx(MEAN, rel=1e-6)
    latencies = [latency for latency, count in sorted(told.latencies) for _ in range(count)]
    assert latencies[20] == pytest.approx(MEDIAN, rel=0.01)
    assert latencies[-1] == pytest.approx(LARGEST, rel=0.01)


def histogram(captured) -> str:
    return captured("hdr-log.txt").splitlines()[-1].rpartition(",")[2]


@pytest.mark.parametrize(
    ("largest", "ratio"), [("250.610", 1e-9), ("250609.663", 1e-6), ("250609663", 1e-3)], ids=["ns", "us", "ms"]
)
def test_the_unit_is_known_by_the_largest_value(translate, captured, largest, ratio):
    line = translate(f"1700000000.5,1.0,{largest},{histogram(captured)}")

    assert f"{round(250085376 * ratio, 9):.9f}" in line
    assert '"t": 1700000001.5' in line  # a time since 1970 needs no base


def test_a_tag_is_passed_over(translate, captured):
    assert translate(f"Tag=reads,1700000000,1.0,250.610,{histogram(captured)}") is not None


def packed(raw: bytes) -> str:
    body = zlib.compress(raw)
    return base64.b64encode(struct.pack(">ii", 0x1C849314, len(body)) + body).decode()


HEADER, FINE = (struct.pack(">iiiiqqd", 0x1C849303, 200_000, 0, digits, 1, 2, 1.0) for digits in (2, 5))
MANY = b"\x02" * 200_000
# A value of a million bits: after 2,000,000 zeros (-2,000,000 in seven bits each, zig-zag) one is counted.
FAR = struct.pack(">iiiiqqd", 0x1C849303, 5, 0, 0, 1, 2, 1.0) + bytes([0xFF, 0x91, 0xF4, 0x01, 0x02])


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("nonsense", "none of an HdrHistogram log"),
        ("nan,1,1,AAAA", "none of an HdrHistogram log"),
        ("1,1,1,AAAA", "no BaseTime and no StartTime"),
        ("1700000000,1,1,!", "is not whole"),
        ("1700000000,1,1,é", "is not whole"),
        (f"1700000000,1,1,{packed(HEADER + MANY)}", "is not whole"),
        (f"1700000000,1,1,{packed(FINE + MANY)}", "more than 100,000 values"),
        ("1700000000,1,1,AAAA", "is not whole"),
        (f"1700000000,1,1,{packed(b'')}", "is not whole"),
        (f"1700000000,1,1,{packed(struct.pack('>iiiiqqd', 0x1C849303, 0, 0, 99, 1, 2, 1.0))}", "is not whole"),
        (f"1700000000,1,1,{packed(struct.pack('>iiiiqqd', 0x1C849303, 9, 0, 2, 1, 2, 1.0))}", "is not whole"),
        (f"1700000000,1,1,{packed(struct.pack('>iiiiqqd', 7, 0, 0, 2, 1, 2, 1.0))}", "is not of version 2"),
        (f"1700000000,1,1,{packed(FAR)}", "is not whole"),
    ],
)
def test_what_is_wrong_with_a_line_is_said(translate, line, why):
    with pytest.raises(LineError, match=why):
        translate(line)


def test_values_of_an_unknown_unit_are_refused(translate, captured):
    with pytest.raises(LineError, match="its values are no nanoseconds"):
        translate(f"1700000000,1,7,{histogram(captured)}")


def test_an_interval_without_a_request_has_none(translate):
    empty = packed(struct.pack(">iiiiqqd", 0x1C849303, 1, 0, 2, 1, 2, 1.0) + b"\x01")

    assert '"latencies": {}' in translate(f"1700000000,1,0,{empty}")
