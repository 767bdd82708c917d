"""Plain pgbench logs: what they show, and that they give no verdict."""

import math
from pathlib import Path

import numpy as np
import pytest

from pgtrial.analysis.compare.logs import compare_logs, unlike_names
from pgtrial.errors import StoreError
from pgtrial.findings.comparison import LogComparison

START = 1_795_232_577


def write_log(
    path: Path,
    *,
    seconds: int = 120,
    rate: float = 50.0,
    latency: float = 2000.0,
    start: int = START,
    seed: int = 1,
    clients: int = 2,
    slow: float = 0.0,
    trend: float = 0.0,
    rest: str = "",
) -> Path:
    """A log with Poisson arrivals; ``slow`` is the SD of slow noise of the log rate, ``trend`` its change in all."""
    rng = np.random.default_rng(seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    level, numbers, lines = 0.0, dict.fromkeys(range(clients), 0), []
    for second in range(seconds):
        level = 0.8 * level + rng.normal(0, slow * 0.6) if slow else 0.0
        count = rng.poisson(rate * math.exp(level + trend * second / seconds))
        for micro in np.sort(rng.integers(0, 1_000_000, count)).tolist():
            client = int(rng.integers(clients))
            numbers[client] += 1
            time = round(latency * rng.lognormal(0, 0.4))
            lines.append(f"{client} {numbers[client]} {time} 0 {start + second} {micro}{rest}\n")
    path.write_text("".join(lines))
    return path


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> LogComparison:
    place = tmp_path_factory.mktemp("logs")
    write_log(place / "old" / "pgbench_log.1")
    write_log(place / "new" / "pgbench_log.2", rate=60, latency=1500, seed=2, start=START + 1000)
    return compare_logs([place / "old", place / "new"])


def contrast_of(found, metric):
    return next(one for one in found.contrasts if one.metric == metric)


def codes(found):
    return {caveat.code for caveat in found.caveats}


def test_throughput_and_percentiles_are_what_was_simulated(pair):
    tps, p50, p95 = (contrast_of(pair, f"pgbench.{name}") for name in ("tps", "latency_p50", "latency_p95"))
    values = {value.metric: value.value for value in pair.sides[0].values}

    assert tps.ratio == pytest.approx(1.2, rel=0.05)
    assert p50.ratio == pytest.approx(0.75, rel=0.03)
    assert p95.ratio == pytest.approx(0.75, rel=0.05)
    assert values["pgbench.tps"] == pytest.approx(50, rel=0.05)
    assert values["pgbench.latency_p50"] == pytest.approx(0.002, rel=0.03)
    assert values["pgbench.latency_p95"] == pytest.approx(0.002 * math.exp(0.4 * 1.6449), rel=0.05)


def test_one_run_each_has_intervals_of_its_own_level_and_a_caveat_for_each_reason(pair):
    tps = contrast_of(pair, "pgbench.tps")

    assert tps.basis == "within"
    assert tps.low < 1.2 < tps.high
    # Counts of Poisson arrivals: the log ratio has the variance of the sum of both reciprocals.
    expected = math.sqrt(1 / (50 * 118) + 1 / (60 * 118))
    assert math.log(tps.high / tps.low) / (2 * 1.96) == pytest.approx(expected, rel=0.35)
    assert {"unblocked", "within-logs"} <= codes(pair)
    assert "came 14 min" in next(one.text for one in pair.caveats if one.code == "unblocked")


def test_there_is_no_verdict_anywhere_in_it(pair):
    assert "verdict" not in LogComparison.model_fields
    assert "no verdict" in next(one.text for one in pair.caveats if one.code == "unblocked")


def test_the_same_logs_give_the_same_figures(pair):
    again = compare_logs([Path(side.path) for side in pair.sides])

    assert again == pair


def test_the_json_is_read_back_as_it_was(pair):
    assert LogComparison.model_validate_json(pair.model_dump_json()) == pair


def test_several_runs_of_each_side_have_the_interval_of_their_differences(tmp_path):
    for number in range(3):
        start = START + 1000 * number
        write_log(tmp_path / "old" / f"log.{number}", seed=number, rate=50 + 4 * number, start=start)
        write_log(tmp_path / "new" / f"log.{number}", seed=9 + number, rate=60 + 4 * number, start=start + 500)

    found = compare_logs([tmp_path / "old", tmp_path / "new"])

    tps = contrast_of(found, "pgbench.tps")
    assert tps.basis == "between"
    assert len(found.sides[0].runs) == 3
    assert "within-logs" not in codes(found)
    unblocked = next(one.text for one in found.caveats if one.code == "unblocked")
    assert "took turns" in unblocked


def test_one_run_against_several_has_no_interval(tmp_path):
    write_log(tmp_path / "old" / "log.1")
    for number in range(2):
        write_log(tmp_path / "new" / f"log.{number}", seed=number, start=START + 500 * (number + 1))

    tps = contrast_of(compare_logs([tmp_path / "old", tmp_path / "new"]), "pgbench.tps")

    assert (tps.basis, tps.low) == ("none", None)
    assert tps.ratio is not None


def test_slow_noise_widens_the_interval(tmp_path):
    quiet = [write_log(tmp_path / f"quiet-{k}.1", seed=k, seconds=600, rate=20) for k in (1, 2)]
    slow = [write_log(tmp_path / f"slow-{k}.1", seed=k, seconds=600, rate=20, slow=0.2) for k in (1, 2)]
    widths = []
    for paths in (quiet, slow):
        tps = contrast_of(compare_logs(paths), "pgbench.tps")
        assert tps.low is not None
        widths.append(math.log(tps.high / tps.low))

    assert widths[1] > 2 * widths[0]


def test_a_load_that_climbs_has_no_interval_and_is_told(tmp_path):
    paths = [write_log(tmp_path / f"log-{k}.1", seed=k, trend=0.8) for k in (1, 2)]

    found = compare_logs(paths)

    assert contrast_of(found, "pgbench.tps").low is None
    assert "trend" in codes(found)


def test_a_short_log_has_no_interval_and_is_told(tmp_path):
    paths = [write_log(tmp_path / f"log-{k}.1", seed=k, seconds=20) for k in (1, 2)]

    found = compare_logs(paths)

    assert contrast_of(found, "pgbench.tps").low is None
    assert "no-interval-of-log" in codes(found)


def test_other_clients_and_another_day_are_told_first(tmp_path):
    one = write_log(tmp_path / "one.1", clients=2)
    other = write_log(tmp_path / "other.1", clients=5, start=START + 86_400, seconds=200)

    found = compare_logs([one, other])

    told = {difference.name: difference.values for difference in found.differences}
    assert told["clients"] == {"one.1": "2", "other.1": "5"}
    assert {"day", "length of a run"} <= told.keys()


def test_the_warm_up_can_be_left_out(tmp_path):
    paths = [write_log(tmp_path / f"log-{k}.1", seed=k) for k in (1, 2)]

    found = compare_logs(paths, skip=30)

    assert [side.runs[0].seconds for side in found.sides] == [88, 88]
    with pytest.raises(StoreError, match="nothing is left"):
        compare_logs(paths, skip=500)


def test_a_rate_is_a_caveat(tmp_path):
    paths = [write_log(tmp_path / f"log-{k}.1", seed=k, rest=" 250") for k in (1, 2)]

    assert "rate" in codes(compare_logs(paths))


def test_loads_at_the_same_time_are_told(tmp_path):
    paths = [write_log(tmp_path / f"log-{k}.1", seed=k) for k in (1, 2)]

    unblocked = next(one.text for one in compare_logs(paths).caveats if one.code == "unblocked")

    assert "at the same time" in unblocked


def test_a_percentile_beyond_what_the_log_holds_has_no_interval(pair):
    assert contrast_of(pair, "pgbench.latency_p95").low is not None
    assert contrast_of(pair, "pgbench.latency_p999").low is None


def test_names_are_as_long_as_it_takes_to_tell_them_apart():
    assert unlike_names([Path("/a/old"), Path("/a/new")]) == ("old", "new")
    assert unlike_names([Path("/a/x/logs"), Path("/a/y/logs")]) == ("x/logs", "y/logs")
