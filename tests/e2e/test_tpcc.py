"""The mix tpcc-like as a user runs it: its data are checked after each run."""

import json
from importlib import resources

import pytest

EXPERIMENT = """
format = 1
experiment = {{ name = "orders" }}
[dataset]
scale = 1
[workload]
mix      = "tpcc-like"
clients  = 2
duration = "2s"
warmup   = 0
[arms.on.postgresql]
synchronous_commit = "on"
[arms.off.postgresql]
synchronous_commit = "off"
{more}
[design]
blocks  = 1
repeats = 0
{method}
"""
WORDS = "The transactions are like those of TPC-C, but the figures are not TPC results."


@pytest.mark.parametrize("method", ["", 'method = "interleaved"'])
def test_a_run_is_checked_and_its_figures_are_not_called_results_of_tpc(place, method):
    (place.directory / "orders.toml").write_text(EXPERIMENT.format(more="", method=method))

    plan = place.call("plan", "orders.toml")
    result = place.run("run", "orders.toml")

    assert "the figures are not TPC results" in " ".join(plan.stdout.split())
    assert "warehouses: 1" in plan.stdout
    assert result.returncode == 0, result.stderr
    assert WORDS in " ".join(result.stdout.split())
    folder = place.only_folder()
    findings = json.loads((folder.path / "findings.json").read_text())
    assert [one["code"] for one in findings["caveats"]].count("not-of-tpc") == 1
    assert WORDS in (folder.path / "report.html").read_text()
    assert set(findings["experiment"]["scenarios"]) == {
        "new-order",
        "payment",
        "order-status",
        "delivery",
        "stock-level",
    }
    phases = {name for (name,) in folder.query("SELECT DISTINCT name FROM phase")}
    assert "check" in phases
    # Outside of what is measured.
    assert folder.query(
        "SELECT count(*) FROM phase AS checked JOIN phase AS measured USING (run) "
        "WHERE checked.name = 'check' AND measured.name = 'measure' AND checked.started < measured.ended"
    ) == [(0,)]


def test_a_rewritten_transaction_that_forgets_a_table_makes_the_run_invalid(place):
    """The plant: an arm's own payment, which leaves out the district."""
    mixes = resources.files("pgtrial.workloads") / "mixes"
    payment = (mixes / "tpcc-like" / "payment.sql").read_text()
    begin, end = payment.index("UPDATE district"), payment.index("\\if")
    (place.directory / "payment.sql").write_text(payment[:begin] + payment[end:])
    more = '[arms.off.workload]\nscripts = { payment = "payment.sql" }'
    (place.directory / "orders.toml").write_text(EXPERIMENT.format(more=more, method=""))

    result = place.run("run", "orders.toml", "--allow-code")

    assert result.returncode == 1
    ((reason,),) = place.only_folder().query("SELECT reason FROM run WHERE state = 'invalid'")
    assert reason.startswith(
        "the data are inconsistent after the load (clause 3.3.2.1 of TPC-C): warehouse 1 has W_YTD"
    )
    assert "the data are inconsistent after the load" in result.stderr


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('mix      = "tpcc-like"', 'mix = "tpcc-like"\nshare = "sessions"', "are of transactions, not of sessions"),
        ("scale = 1", 'kind = "pgbench"\nscale = 1', 'needs tables that kind = "pgbench" does not make'),
        (
            "scale = 1",
            'kind = "sql"\nsetup = "orders.toml"',
            'mix "tpcc-like" needs its own tables, which kind = "sql" does not make',
        ),
        (
            'scale = 1\n[workload]\nmix      = "tpcc-like"',
            'kind = "tpcc-like"\n[workload]\nmix = "oltp"',
            'mix "oltp" needs tables',
        ),
        (
            'scale = 1\n[workload]\nmix      = "tpcc-like"',
            'kind = "tpcc-like"\n[workload]\nscenario = [{ name = "a", builtin = "select-only" }]',
            '"select-only" needs pgbench\'s tables',
        ),
    ],
)
def test_what_does_not_fit_together_is_refused(place, old, new, message):
    text = EXPERIMENT.format(more="", method="")
    assert old in text
    (place.directory / "orders.toml").write_text(text.replace(old, new))

    result = place.call("check", "orders.toml")

    assert result.returncode == 2
    assert message in " ".join(result.stderr.split())
