"""Figures of a watch for Prometheus, as the parsers of its client library read them, and the dashboard."""

import json
import re
import stat
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics

from pgtrial.errors import StoreError
from pgtrial.model.metric import MetricKind, Sample
from pgtrial.store.samples import WaitRow
from pgtrial.watch.folder import Mark
from pgtrial.watch.openmetrics import METRICS, POLLS, SESSIONS, UP, Textfile, family

ROOT = Path(__file__).parents[2]
DASHBOARD = ROOT / "docs" / "assets" / "grafana-watch.json"
MARK = Mark(server="db1:5432", database='sh"op\\')
OF_SERVER = {"server": MARK.server, "database": MARK.database}
NOW = 1795824000.5
COMMITS, WAL, DEAD = "pg_stat_database.xact_commit", "pg_stat_wal.wal_bytes", "relations.dead_rows"
SAMPLES = (
    Sample(NOW - 3, COMMITS, "", 100.0),
    Sample(NOW - 2, COMMITS, "", 1.5e9),
    Sample(NOW - 2, WAL, "", 12345678901.0),
    Sample(NOW - 60, DEAD, 'odd "name"\n', 7.0),
    Sample(NOW - 60, DEAD, "item", 8.0),
    Sample(NOW - 2, "pg_stat_wal.wal_write_time", "", float("nan")),
    Sample(NOW - 2, "proc_stat.cpu_user", "", 5.0),
    Sample(NOW - 2, "sessions.polls", "", 5.0),
    Sample(NOW - 1, "sessions.polls", "", 4.0),
    Sample(NOW - 2, "blocking.sessions", "", 2.0),
    Sample(NOW - 2, "blocking.sessions", '["UPDATE …", "active", "SELECT 1"]', 2.0),
)
WAITS = tuple(
    WaitRow(NOW - 2, 5, "client backend", "app", "active", wait, event, "SELECT ?", count)
    for wait, event, count in (("", "", 3), ("Lock", "tuple", 1), ("Lock", "tuple", 2))
)


@pytest.fixture
def textfile(tmp_path: Path) -> Textfile:
    found = Textfile(tmp_path, "shop", MARK)
    found.begin(is_up=True)
    found.add(SAMPLES)
    found.add_sessions(WAITS)
    return found


def text(tmp_path: Path) -> str:
    (path,) = tmp_path.iterdir()
    assert path.name == "pgtrial-shop.prom"
    return path.read_text(encoding="utf-8")


def read(tmp_path: Path) -> dict[tuple[str, str], float]:
    """Values by name and by the label that is not the server's."""
    found = {}
    for each in openmetrics.text_string_to_metric_families(text(tmp_path)):
        for sample in each.samples:
            assert OF_SERVER.items() <= sample.labels.items()
            own = [value for name, value in sample.labels.items() if name not in OF_SERVER]
            found[sample.name, "/".join(own)] = sample.value
    return found


def test_what_was_read_last_is_told(textfile: Textfile, tmp_path: Path) -> None:
    textfile.write(NOW)

    assert read(tmp_path) == {
        (UP, ""): 1.0,
        ("pgtrial_last_reading_timestamp_seconds", ""): NOW - 2,
        ("pgtrial_session_polls_total", ""): 9.0,
        ("pgtrial_session_samples_total", "client backend/active//"): 3.0,
        ("pgtrial_session_samples_total", "client backend/active/Lock/tuple"): 3.0,
        ("pgtrial_blocking_sessions", ""): 2.0,
        ("pgtrial_pg_stat_database_xact_commit_total", ""): 1.5e9,
        ("pgtrial_pg_stat_wal_wal_bytes_total", ""): 12345678901.0,
        ("pgtrial_relations_dead_rows", 'odd "name"\n'): 7.0,
        ("pgtrial_relations_dead_rows", "item"): 8.0,
    }


def test_node_exporter_reads_it_as_well(textfile: Textfile, tmp_path: Path) -> None:
    """Its textfile collector takes Prometheus' own format, and no times."""
    textfile.write(NOW)
    samples = [each for one in parser.text_string_to_metric_families(text(tmp_path)) for each in one.samples]

    assert len(samples) == len(read(tmp_path))
    assert all(each.timestamp is None for each in samples)
    assert stat.S_IMODE((tmp_path / "pgtrial-shop.prom").stat().st_mode) == 0o644


def test_what_is_old_is_left_out_and_a_server_that_is_away_tells_nothing(textfile: Textfile, tmp_path: Path) -> None:
    textfile.write(NOW + 150)
    assert ("pgtrial_relations_dead_rows", "item") not in read(tmp_path)
    assert ("pgtrial_pg_stat_wal_wal_bytes_total", "") in read(tmp_path)

    textfile.begin(is_up=False)
    textfile.write(NOW + 151)
    assert {name for name, _ in read(tmp_path)} == {UP, f"{POLLS}_total", f"{SESSIONS}_total"}
    assert read(tmp_path)[UP, ""] == 0.0

    textfile.remove()
    assert list(tmp_path.iterdir()) == []


def test_every_metric_has_a_name_of_its_own_that_prometheus_allows() -> None:
    names = [family(metric) for metric in METRICS.values()]

    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z][a-zA-Z0-9_]*", name) for name in names)


def test_a_directory_that_is_gone_is_said(textfile: Textfile, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot write"):
        Textfile(tmp_path / "none", "shop", MARK).write(NOW)


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    return found


def test_the_dashboard_asks_for_what_there_is() -> None:
    there = {
        *(family(each) + ("_total" if each.kind is MetricKind.COUNTER else "") for each in METRICS.values()),
        *(UP, "pgtrial_last_reading_timestamp_seconds", f"{POLLS}_total", f"{SESSIONS}_total"),
    }
    asked = [target["expr"] for panel in panels() for target in panel["targets"]]

    for expression in asked:
        names = re.findall(r"\bpgtrial_\w+", expression)
        assert names
        assert set(names) <= there
        assert expression.count("(") == expression.count(")")
        assert all(f'{name}{{server="$server",database="$database"' in expression for name in names)
        # A counter is nothing before its growth is taken, and the growth of a gauge means nothing.
        is_counter = {name.endswith("_total") for name in names}
        assert ("rate(" in expression or "increase(" in expression) == (is_counter == {True})


def test_the_dashboard_has_each_panel_once_and_none_over_another() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        assert max(x for x, _ in cells) < 24
        taken |= cells
        assert panel["description"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert len({panel["id"] for panel in panels()}) == len(panels())
    assert len({panel["title"] for panel in panels()}) == len(panels())
