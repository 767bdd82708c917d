import math
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from pgtrial.engine.live.follower import LatencyWindow, LogSampler, bytes_per_line


def lines_of(latencies: Sequence[int], *, client: int = 0) -> str:
    """What pgbench would log; latencies in microseconds."""
    return "".join(f"{client} {n} {latency} 0 1767225600 {n % 1000000:06d}\n" for n, latency in enumerate(latencies))


def draw(rng: random.Random, count: int, *, median: float) -> list[int]:
    return [round(median * math.exp(rng.gauss(0, 0.5))) for _ in range(count)]


def p95_of(values: Sequence[int]) -> float:
    """In seconds, by the definition: the smallest value that is at least as large as 95 % of all."""
    return sorted(values)[math.ceil(0.95 * len(values)) - 1] / 1e6


@pytest.fixture
def sampler(tmp_path: Path) -> LogSampler:
    return LogSampler(folder=tmp_path, level=0)


@pytest.fixture
def append(tmp_path: Path) -> Callable[[str, str], None]:
    def do(name: str, text: str) -> None:
        with (tmp_path / name).open("a") as file:
            file.write(text)

    return do


def test_a_small_log_is_read_whole_and_once(sampler: LogSampler, append) -> None:
    append("level0-all.100", lines_of([100, 200]))
    (part,) = sampler.look()

    assert [line.split()[2] for line in part.lines] == [b"100", b"200"]
    assert part.weight == 1
    assert sampler.look() == ()


def test_what_is_appended_is_seen_at_the_next_look(sampler: LogSampler, append) -> None:
    append("level0-all.100", lines_of([100]) + "0 1 2")
    sampler.look()
    append("level0-all.100", "00 0 1767225600 000001\n" + lines_of([300, 400]))
    (part,) = sampler.look()

    # The line that was cut by the first look is left out, never read as what it is not.
    assert [line.split()[2] for line in part.lines] == [b"300", b"400"]


def test_logs_of_other_levels_are_left_alone(sampler: LogSampler, append) -> None:
    append("level1-all.100", lines_of([100]))
    append("level00-all.100", lines_of([100]))

    assert sampler.look() == ()


def test_a_folder_that_is_gone_tells_nothing(tmp_path: Path) -> None:
    assert LogSampler(folder=tmp_path / "none", level=0).look() == ()


def test_much_is_read_in_a_few_places(sampler: LogSampler, append) -> None:
    rng = random.Random(1)
    for thread in range(20):
        append(f"level0-all.100.{thread}", lines_of(draw(rng, 5000, median=1000)))
    parts = sampler.look()

    assert len(parts) <= 8
    assert sum(len(line) + 1 for part in parts for line in part.lines) <= 8 << 10


def test_files_take_turns_to_be_read(sampler: LogSampler, append) -> None:
    seen: set[bytes] = set()
    for _ in range(3):
        for thread in range(20):
            append(f"level0-all.100.{thread:02d}", lines_of([1], client=thread))
        seen |= {line.split()[0] for part in sampler.look() for line in part.lines}

    assert len(seen) == 20


def test_the_95th_percentile_is_that_of_all_transactions(sampler: LogSampler, append) -> None:
    rng = random.Random(2)
    quick, slow = draw(rng, 18_000, median=1000), draw(rng, 2000, median=30_000)
    append("level0-read.100", lines_of(quick))
    append("level0-report.101", lines_of(slow))
    window = LatencyWindow()
    window.add(sampler.look())
    found = window.take()

    # Both logs give as many bytes to the sample; without weights it would be nearly twice as much.
    assert found == pytest.approx(p95_of([*quick, *slow]), rel=0.25)


def test_a_large_sample_of_one_log_is_near_the_true_value(sampler: LogSampler, append) -> None:
    rng = random.Random(3)
    window, latencies = LatencyWindow(), []
    for _ in range(30):
        new = draw(rng, 4000, median=2000)
        latencies += new
        append("level0-all.100", lines_of(new))
        window.add(sampler.look())

    assert window.take() == pytest.approx(p95_of(latencies), rel=0.05)


def test_fewer_than_a_hundred_transactions_tell_no_percentile(sampler: LogSampler, append) -> None:
    window = LatencyWindow()
    append("level0-all.100", lines_of([100] * 99))
    window.add(sampler.look())
    assert window.take() is None

    append("level0-all.100", lines_of([100, 100]))
    window.add(sampler.look())
    assert window.take() == pytest.approx(1e-4, rel=0.02)
    assert window.take() is None


def test_failed_and_skipped_transactions_have_no_latency(sampler: LogSampler, append) -> None:
    append("level0-all.100", lines_of([100] * 100) + "0 1 failed 0 1767225600 000001\n0 1 skipped 0 1767225600 1\nx\n")
    window = LatencyWindow()
    window.add(sampler.look())

    assert window.take() == pytest.approx(1e-4, rel=0.02)


def test_what_stood_still_is_left_out(sampler: LogSampler, append) -> None:
    append("level0-all.100", lines_of([100] * 100 + [1_000_100] * 50))
    window = LatencyWindow(limit=1.0)
    window.add(sampler.look())

    assert window.take() == pytest.approx(1e-4, rel=0.02)


def test_mean_length_counts_line_ends(sampler: LogSampler, append) -> None:
    text = lines_of([100, 2000])
    append("level0-all.100", text)

    assert bytes_per_line(sampler.look()) == len(text) / 2
    assert bytes_per_line(()) is None


def test_a_link_is_not_followed(tmp_path: Path, sampler: LogSampler) -> None:
    (tmp_path / "secret").write_text(lines_of([100] * 200))
    (tmp_path / "level0-all.100").symlink_to(tmp_path / "secret")

    assert sampler.look() == ()
