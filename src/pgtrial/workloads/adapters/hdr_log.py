"""Read an HdrHistogram log: a line for each interval, with all its latencies as a histogram in base64.

Values are nanoseconds, as in most programs that write such logs: their third column then has the largest one in
milliseconds; microseconds and milliseconds are known by the same column. Source: HdrHistogram, HistogramLogWriter.java
(the lines), AbstractHistogram.java (encodeIntoByteBuffer, version 2) and ZigZagEncoding.java.
"""

import base64
import json
import math
import re
import struct
import zlib
from collections.abc import Iterator

from pgtrial.store.command_line import LineError
from pgtrial.workloads.adapters.base import Adapter, Files, Translate

_BASE = re.compile(r"#\[(?P<name>BaseTime|StartTime): (?P<t>\d{1,12}(?:\.\d+)?) ")
_COMPRESSED, _ENCODED = 0x1C849304, 0x1C849303
_HEADER = struct.Struct(">iiiiqqd")  # cookie, bytes, normalizing offset, digits, lowest, highest, conversion
_LARGEST = 1 << 20  # bytes, decoded
_MOST_VALUES = 100_000  # of one histogram
_MOST_NUMBERS = 2 * _MOST_VALUES  # what is between two values is one
_WIDEST = 63  # bits of a value
_TOLERANCE = 0.02  # of the largest value: a bucket may be 1 % wide
# What the largest value is divided by to be in milliseconds, and how long a value is then, in seconds.
_UNITS = {1e6: 1e-9, 1e3: 1e-6, 1.0: 1e-3}
_ABSOLUTE = 1e9  # s: a time that is larger is since 1970, and not since a base
_LEAST_COLUMNS = 4


def _translator(_files: Files) -> Translate:
    base: dict[str, float] = {}

    def translate(line: str) -> str | None:
        if line.startswith("#"):
            if (match := _BASE.match(line)) is not None:
                base[match["name"]] = float(match["t"])
            return None
        if line.startswith('"StartTimestamp"'):
            return None
        columns = [each for each in line.strip().split(",") if not each.startswith("Tag=")]
        try:
            begin, length, largest = map(float, columns[:3])
        except ValueError:
            begin = length = largest = math.nan
        if len(columns) != _LEAST_COLUMNS or not math.isfinite(begin + length + largest):
            raise LineError("it is none of an HdrHistogram log")
        if begin < _ABSOLUTE:
            if not base:
                raise LineError("the log has no BaseTime and no StartTime, so nobody knows when it was")
            begin += base.get("BaseTime", base.get("StartTime", 0.0))
        counts = decode(columns[3])
        second = _length_of_value(max(counts, default=0), largest)
        latencies = {f"{value * second:.9f}": count for value, count in counts.items()}
        return json.dumps({"t": begin + length, "seconds": length, "latencies": latencies})

    return translate


def _length_of_value(found: int, told: float) -> float:
    if found == 0:
        return 0.0
    for ratio, second in _UNITS.items():
        if abs(found / ratio - told) <= max(_TOLERANCE * told, 0.001):
            return second
    raise LineError("its values are no nanoseconds: the third column is not the largest one in milliseconds")


def decode(text: str) -> dict[int, int]:
    """How often each value was recorded; of those that share a bucket its middle. Raises LineError."""
    try:
        packed = base64.b64decode(text, validate=True)
        cookie, length = struct.unpack_from(">ii", packed)
        raw = zlib.decompressobj().decompress(packed[8 : 8 + length], _LARGEST)
        encoded, payload, offset, digits, lowest, _, _ = _HEADER.unpack_from(raw)
    except (ValueError, struct.error, zlib.error) as err:
        raise LineError("its histogram is not whole") from err
    # The lower byte of a cookie says how wide the words are, which those of version 2 do without.
    if cookie & ~0xF0 != _COMPRESSED & ~0xF0 or encoded & ~0xF0 != _ENCODED & ~0xF0 or offset != 0:
        raise LineError("its histogram is not of version 2")
    if not 0 <= digits <= 5 or not 1 <= lowest < 1 << 62 or _HEADER.size + payload > len(raw):
        raise LineError("its histogram is not whole")
    unit = int(math.log2(lowest))
    half = max(math.ceil(math.log2(2 * 10**digits)), 1) - 1
    found: dict[int, int] = {}
    for index, count in _counts(raw[_HEADER.size : _HEADER.size + payload]):
        middle = _middle(index, unit=unit, half=half)
        found[middle] = found.get(middle, 0) + count
        if len(found) > _MOST_VALUES:
            raise LineError(f"its histogram has more than {_MOST_VALUES:,} values")
    return found


def _middle(index: int, *, unit: int, half: int) -> int:
    """The middle of the values that are counted at an index."""
    bucket, sub = (index >> half) - 1, (index & ((1 << half) - 1)) + (1 << half)
    if bucket < 0:
        bucket, sub = 0, sub - (1 << half)
    shift = bucket + unit
    if shift + half >= _WIDEST:
        raise LineError("its histogram is not whole")
    return (sub << shift) + ((1 << shift) >> 1)


def _counts(payload: bytes) -> Iterator[tuple[int, int]]:
    """Index and count of all that is not zero; a negative number says how many zeros there are."""
    index = place = numbers = 0
    while place < len(payload):
        number, place = _zigzag(payload, place)
        numbers += 1
        if numbers > _MOST_NUMBERS:
            raise LineError(f"its histogram has more than {_MOST_NUMBERS:,} numbers")
        if number < 0:
            index -= number
        else:
            if number:
                yield index, number
            index += 1


def _zigzag(payload: bytes, place: int) -> tuple[int, int]:
    """A number of up to nine bytes, the last of which has all its bits, and where the next one begins."""
    value = shift = 0
    for count in range(9):
        if place >= len(payload):
            raise LineError("its histogram is not whole")
        byte = payload[place]
        place += 1
        if count == 8:
            value |= byte << shift
            break
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    return (value >> 1) ^ -(value & 1), place


ADAPTER = Adapter(name="hdr", translator=_translator)
