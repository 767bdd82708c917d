"""Several versions, storage of an arm's own, and what is done to the data of one arm."""

import json

VERSIONS = """
format = 1
experiment = { name = "versions" }
hypothesis = { expect = "not-worse", margin = "40%" }
[target]
postgres = "16"
[target.server]
checksums = true
[dataset]
scale = 1
[workload]
mix      = "select-only"
clients  = 1
rate     = 100
duration = "1s"
warmup   = 0
[arms.old]
[arms.new.server]
postgres = 18
[design]
blocks = 2
"""


def test_two_versions_in_one_experiment(place, embedded):
    """To a verdict, with the version of each arm wherever its settings or servers are told."""
    assert embedded
    (place.directory / "versions.toml").write_text(VERSIONS)
    result = place.run("run", "versions.toml")

    assert result.returncode == 0, result.stderr
    folder = place.only_folder()
    findings = json.loads((folder.path / "findings.json").read_text())
    assert findings["hypothesis"]["verdict"] in ("supported", "refuted", "inconclusive")
    shown = dict(
        folder.query(
            "SELECT slot.arm, setting.value FROM setting JOIN run ON run.id = setting.run "
            "JOIN slot ON slot.number = run.slot WHERE setting.name = 'server_version'"
        )
    )
    assert shown["old"].startswith("16.")
    assert shown["new"].startswith("18.")
    facts = dict(folder.query("SELECT name, value FROM fingerprint WHERE run IS NULL"))
    assert facts["PostgreSQL/version"] == f"{shown['old'].split()[0]}, {shown['new'].split()[0]}"
    assert {row[0] for row in folder.query("SELECT value FROM setting WHERE name = 'data_checksums'")} == {"on"}
    assert not any(caveat["code"] == "server-build" for caveat in findings["caveats"])
    assert "16." in (folder.path / "report.html").read_text()
    folder.assert_nothing_left()


PLACES = """
format = 1
experiment = { name = "places" }
[dataset]
scale = 1
[workload]
mix      = "simple-update"
clients  = 2
rate     = 100
duration = "1s"
warmup   = 0
[arms.here]
[arms.there.storage]
data = "DIRECTORY/data"
wal  = "DIRECTORY/wal"
[arms.there.sql]
apply = "CREATE INDEX ON pgbench_accounts (abalance); VACUUM pgbench_accounts"
[arms.there.extensions]
create = ["PG_EXTENSION"]
[design]
blocks = 1
cache  = "warm"
"""


def test_storage_sql_and_extensions_are_an_arms_own(place, enterable, programs):
    for name in ("data", "wal"):
        (enterable / name).mkdir(mode=0o755)
    text = PLACES.replace("DIRECTORY", str(enterable)).replace("PG_EXTENSION", "pg_prewarm")
    (place.directory / "places.toml").write_text(text)
    result = place.run("run", "places.toml")

    assert result.returncode == 0, result.stderr
    folder = place.only_folder()
    directories = {str(path) for path in folder.work_directories()}
    assert any(path.startswith(f"{enterable}/data/") for path in directories)
    assert any(path.startswith(f"{enterable}/wal/") for path in directories)
    assert list((enterable / "data").iterdir()) == list((enterable / "wal").iterdir()) == []
    assert len(folder.query("SELECT 1 FROM phase WHERE name = 'cache'")) == 2
    folder.assert_nothing_left()
