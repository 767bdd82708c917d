"""What the benchmark of the reference channel computes is what it says."""

import numpy as np

from benchmarks import reference_channel as channel


def _recording(ticks: int, rng: np.random.Generator) -> channel.Recorded:
    """Throughput that two channels determine, one of them twice as much as the other; the rest is noise of its own."""
    sums = rng.normal(size=(len(channel.CHANNELS), ticks))
    counts = 1000 * np.exp(-0.010 * sums[3] - 0.005 * sums[6])
    return channel.Recorded(counts=counts, sums=sums, readings=np.ones_like(sums))


def test_what_the_channels_determine_is_taken_out() -> None:
    rng = np.random.default_rng(1)
    slices, after, ticks = channel.Design(run=15, slice=1).slices(seed=1, blocks=12)
    blocks = channel.cut(_recording(ticks, rng), slices, 12)
    rid = blocks.log_ratios - channel.predicted(blocks, (3, 6))

    assert rid.std() < 0.05 * blocks.log_ratios.std()
    assert after.sum() in range(2, 11)


def test_the_slope_is_that_of_least_squares_over_the_slices_of_the_other_blocks() -> None:
    rng = np.random.default_rng(2)
    slices, _, ticks = channel.Design(run=15, slice=5).slices(seed=2, blocks=6)
    recorded = _recording(ticks, rng)
    blocks = channel.cut(recorded, slices, 6)
    left_out = 4
    xs, ys = [], []
    for block in set(range(6)) - {left_out}:
        for arm in (0, 1):
            mine = [(round(begin), round(end)) for b, a, begin, end in slices if (b, a) == (block, arm)]
            x = np.array([recorded.sums[[0, 3], begin:end].mean(axis=1) for begin, end in mine])
            y = np.array([recorded.counts[begin:end].mean() for begin, end in mine])
            xs.append(x - x.mean(axis=0))
            ys.append(y / y.mean() - 1)
    slope = np.linalg.lstsq(np.concatenate(xs), np.concatenate(ys))[0]

    expected = slope @ blocks.shifts[left_out, [0, 3]]
    np.testing.assert_allclose(channel.predicted(blocks, (0, 3))[left_out], expected, rtol=1e-4)


def test_parts_of_a_tick_have_that_part_of_it() -> None:
    values = np.array([1.0, 10.0, 100.0])

    assert channel._between(values, 0.5, 2.25) == 0.5 + 10 + 25
