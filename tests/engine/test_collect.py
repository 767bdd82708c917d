import pytest

from pgtrial.engine.collect import InvalidRunError, check_presence, check_run
from pgtrial.engine.folder import discard_raw, make_raw_folders
from pgtrial.engine.loads.generators import LoadOutcome
from pgtrial.engine.sampler.control import Gap, SamplerReport
from pgtrial.errors import StoreError
from pgtrial.model.run import LoadLevel
from pgtrial.store.pgbench_log import LevelLog
from pgtrial.store.transactions import IngestReport
from pgtrial.workloads.pgbench import parse_summary

LEVEL = LoadLevel(index=0, clients=2)


def check(*, processed=10, failed=0, logged=10, errors=(), gaps=(), clock_step=0.0, ended=True):
    """A run with a measured window from 100 s to 110 s."""
    text = f"number of transactions actually processed: {processed}\nnumber of failed transactions: {failed} (0.000%)\n"
    outcome = LoadOutcome(
        started=99.0, all_started=99.0, first_ended=110.5, summaries=(parse_summary(text if ended else ""),), errors=()
    )
    log = LevelLog(
        level=0, scenarios=("a",), files=(), window=(100.0, 110.0), latency_limit=None, has_rate=False, max_tries=1
    )
    check_run(
        [(LEVEL, outcome)],
        [log],
        sampler=SamplerReport(gaps=gaps, errors=errors, ticks=10, late=0, caveats=()),
        ingested=IngestReport(
            transactions=logged, outside_window=0, counted=logged, failed=0, skipped=0, first=None, last=None
        ),
        clock_step=clock_step,
    )


def test_run_without_fault_counts():
    check()
    check(clock_step=0.01, gaps=(Gap(source="x", start=90.0, end=99.9), Gap(source="x", start=110.1, end=120.0)))


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ({"failed": 3}, "2 clients: 3 transactions failed"),
        ({"logged": 9}, "pgbench did 10 transactions but its log has 9"),
        ({"ended": False}, "2 clients: pgbench ended without a summary"),
        ({"errors": ("no space",)}, "sampler: no space"),
        ({"gaps": (Gap(source="x", start=99.0, end=103.5),)}, "sampler: no sample of x for 4.5 s"),
        ({"clock_step": -3600.0}, "the machine's clock jumped by -3600.0 s"),
    ],
)
def test_whatever_makes_the_numbers_untrue_makes_the_run_invalid(fault, reason):
    with pytest.raises(InvalidRunError) as caught:
        check(**fault)

    assert str(caught.value).startswith(reason)


def test_raw_files_are_removed_and_the_rest_stays(tmp_path):
    spool, logs = make_raw_folders(tmp_path / "run")
    (spool / "sampler.jsonl").write_text("x")
    (logs / "level0-a.1").write_text("x")
    (tmp_path / "run" / "transactions.parquet").write_text("x")

    discard_raw(tmp_path / "run")

    assert [path.name for path in (tmp_path / "run").iterdir()] == ["transactions.parquet"]


def test_folder_that_cannot_be_made_is_an_error_that_names_it(tmp_path):
    (tmp_path / "run").mkdir()

    with pytest.raises(StoreError, match="File exists"):
        make_raw_folders(tmp_path / "run")


def presence(*, first_ended=112.0, silences=(), takes_turns=False):
    """A load that was measured from 100 s to 110 s."""
    outcome = LoadOutcome(
        started=99.0, all_started=99.0, first_ended=first_ended, silences=silences, summaries=(), errors=()
    )
    check_presence("2 clients", outcome, window=(100.0, 110.0), program="pgbench", takes_turns=takes_turns)


def test_generator_that_works_through_the_whole_window_counts():
    presence()
    presence(first_ended=110.0)
    presence(silences=((95.0, 100.9), (109.1, 115.0)))  # not yet, or no longer, measured
    presence(silences=((101.0, 105.0),), takes_turns=True)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ({"first_ended": 105.5}, "2 clients: pgbench ended 4.5 s before the end of its time"),
        ({"first_ended": 105.5, "takes_turns": True}, "2 clients: pgbench ended 4.5 s before the end of its time"),
        ({"silences": ((101.0, 104.0),)}, "2 clients: pgbench stood still for 3.0 s"),
        ({"silences": ((95.0, 103.0),)}, "2 clients: pgbench stood still for 8.0 s"),
    ],
)
def test_generator_that_ends_or_halts_inside_the_window_makes_the_run_invalid(fault, reason):
    with pytest.raises(InvalidRunError) as caught:
        presence(**fault)

    assert str(caught.value) == reason
