"""Watched servers by way of the server: their last hour, two times side by side, alarms, figures for a monitor, and
what is refused.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from pgtrial.model.metric import Sample
from pgtrial.watch.folder import Ages, Mark, Rows, WatchFolder, open_folder
from pgtrial.watch.layout import MINUTE
from pgtrial.watch.openmetrics import POLLS, SESSIONS, UP
from pgtrial.watch.sums import CLOCK, COUNTERS
from pgtrial.watch.windows import Window
from pgtrial.web.watches import Watches
from support import incident

NOW = incident.B.end + 10.0
COMMITS = "pgtrial_pg_stat_database_xact_commit_total"
MONITOR = "a-token-of-more-than-32-characters-for-a-monitor"


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the folder of a watch in which something happened in the last six minutes; not to be changed."""
    root = tmp_path_factory.mktemp("watches")
    incident.write(root / "shop", incident.lock)
    return root


@pytest.fixture
def client(shelf: Path, serve):
    client = serve(shelf)
    client.server.watches.clock = lambda: NOW
    return client


def id_of(client, name: str) -> str:
    return next(one["id"] for one in client.ask("/api/experiments").json["watches"] if one["name"] == name)


def test_watches_are_listed_and_what_is_linked_or_damaged_is_not_read(tmp_path: Path, shelf: Path, serve) -> None:
    (tmp_path / "linked").symlink_to(shelf / "shop")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged/watch.json").write_text("{}")

    (listed,) = serve(tmp_path).ask("/api/experiments").json["watches"]

    assert listed["name"] == "damaged"
    assert "of a format that this pgtrial does not know" in listed["error"]


def test_a_watch_alone_is_served_as_well(shelf: Path, serve) -> None:
    (listed,) = serve(shelf / "shop").ask("/api/experiments").json["watches"]

    assert (listed["name"], listed["database"], listed["server"]) == ("shop", "shop", "db1:5432")


def test_the_last_hour_has_courses_waits_and_statements(shelf: Path) -> None:
    watches = Watches(root=shelf, clock=lambda: NOW)
    (place,) = watches.places()

    found = watches.describe(place)

    assert found["error"] == ""
    assert found["until"] == incident.B.end
    commits = next(course for course in found["courses"] if course["name"] == "commits")
    assert len(commits["values"]) == 60
    assert [value for value in commits["values"] if value is not None] == pytest.approx([50] * 12, rel=0.1)
    assert {wait["label"].partition(" ")[0] for wait in found["waits"]} == {"CPU", "Lock"}
    assert sum(wait["share"] for wait in found["waits"]) == pytest.approx(1.0)
    (told,) = [each for each in found["statements"] if incident.SELL in each["text"]]
    assert told["wait"].startswith("Lock")
    assert watches.describe(place) is found  # in the same minute nothing is read again


@pytest.mark.parametrize(("minutes", "said"), [(100, ""), (10_000, "has nothing of")])
def test_a_watch_that_ended_says_so(shelf: Path, minutes: int, said: str) -> None:
    watches = Watches(root=shelf, clock=lambda: NOW + minutes * MINUTE)
    (place,) = watches.places()

    found = watches.describe(place)

    assert said in found["error"]
    assert (found["until"], found["courses"], found["statements"]) == (None, [], [])


def test_a_time_is_shown_beside_the_one_before_it_in_a_sandbox(client) -> None:
    answer = client.ask(f"/reports/watches/{id_of(client, 'shop')}?window={incident.B}")

    assert answer.status == 200
    assert answer.headers["Content-Security-Policy"].startswith("sandbox allow-scripts; default-src 'none'")
    page = answer.body.decode()
    assert "A is the time right before B" in page
    assert "UPDATE product" in page


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("/reports/watches/{id}?window=tomorrow", "is no window of time"),
        (f"/reports/watches/{{id}}?window={Window(incident.START - 7200, incident.START - 3600)}", "nothing that"),
        ("/api/watches/{id}/alarms", "too little calm time to learn from"),
        ("/api/watches/0123456789abcdef/alarms", "this watch is not there"),
        ("/api/watches/0123456789abcdef/metrics", "this watch is not there"),
        ("/events/watches/0123456789abcdef", "this watch is not there"),
    ],
)
def test_what_cannot_be_shown_is_an_error_with_its_reason(client, address: str, said: str) -> None:
    answer = client.ask(address.format(id=id_of(client, "shop")))

    assert answer.status == 404
    assert said in answer.json["error"]


def test_nobody_without_the_cookie_sees_a_watch(client) -> None:
    place = id_of(client, "shop")
    for address in (
        f"/watches/{place}",
        f"/reports/watches/{place}",
        f"/events/watches/{place}",
        f"/api/watches/{place}/metrics",
    ):
        assert client.ask(address, headers={"Cookie": None}).status == 401


def metrics(client, name: str = "shop") -> dict[str, float]:
    """Sums of what is told, by name, as the parser of Prometheus' library reads it."""
    answer = client.ask(f"/api/watches/{id_of(client, name)}/metrics")
    assert answer.status == 200, answer.body
    assert answer.headers["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert answer.body.endswith(b"\n# EOF\n")
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(answer.body.decode()):
        for sample in family.samples:
            assert {"server": "db1:5432", "database": "shop"}.items() <= sample.labels.items()
            found[sample.name] = found.get(sample.name, 0.0) + sample.value
    return found


@contextmanager
def watching(root: Path) -> Iterator[WatchFolder]:
    with open_folder(
        root, Mark(server="db1:5432", database="shop"), ages=Ages(), counters=COUNTERS, keep_free=0
    ) as folder:
        yield folder


def tick(t: float, *, commits: float) -> Rows:
    """What a watch reads of a server that is there."""
    rows = Rows()
    rows.samples += [
        Sample(t, "pg_stat_database.xact_commit", "", commits),
        Sample(t, "sessions.polls", "", 5.0),
        Sample(t, CLOCK, "", 0.0),
    ]
    incident.wait(rows, t, "SELECT ?", "", 3)
    return rows


def test_a_monitor_gets_what_was_read_last_and_counts_that_grow(tmp_path: Path, serve) -> None:
    client = serve(tmp_path)
    client.server.watches.clock = lambda: NOW
    with watching(tmp_path / "shop") as folder:
        folder.write(tick(NOW - 9, commits=100.0))
        folder.write(tick(NOW - 4, commits=150.0))
        found = metrics(client)
        assert (found[UP], found[COMMITS]) == (1.0, 150.0)
        assert found["pgtrial_last_reading_timestamp_seconds"] == NOW - 4
        assert (found[f"{POLLS}_total"], found[f"{SESSIONS}_total"]) == (10.0, 6.0)
        assert metrics(client) == found

        folder.write(tick(NOW - 1, commits=170.0))
        later = metrics(client)
        assert (later[COMMITS], later[f"{POLLS}_total"], later[f"{SESSIONS}_total"]) == (170.0, 15.0, 9.0)


def test_what_is_old_is_not_told_as_if_it_were_new(tmp_path: Path, serve) -> None:
    client = serve(tmp_path)
    with watching(tmp_path / "shop") as folder:
        folder.write(tick(NOW, commits=100.0))
        client.server.watches.clock = lambda: NOW + 10
        assert metrics(client)[UP] == 1.0
        client.server.watches.clock = lambda: NOW + 100  # the watch is at work, and the server is away
        assert set(metrics(client)) == {UP, f"{POLLS}_total", f"{SESSIONS}_total"}
        assert metrics(client)[UP] == 0.0
    ended = client.ask(f"/api/watches/{id_of(client, 'shop')}/metrics")
    assert ended.status == 404
    assert "nothing has been read in the last minute" in ended.json["error"]

    with watching(tmp_path / "shop") as folder:
        folder.write(tick(NOW + 110, commits=120.0))
    client.server.watches.clock = lambda: NOW + 120
    assert (metrics(client)[UP], metrics(client)[COMMITS]) == (1.0, 120.0)


def test_a_server_that_is_away_tells_nothing_though_its_machine_is_read(tmp_path: Path, serve) -> None:
    client = serve(tmp_path)
    client.server.watches.clock = lambda: NOW
    with watching(tmp_path / "shop") as folder:
        folder.write(tick(NOW - 90, commits=100.0))
        folder.write(Rows(samples=[Sample(NOW - 5, "proc_stat.cpu_user", "", 1.0), Sample(NOW - 5, CLOCK, "", 0.0)]))
    assert set(metrics(client)) == {UP, f"{POLLS}_total", f"{SESSIONS}_total"}
    assert metrics(client)[UP] == 0.0


def test_a_folder_that_has_taken_the_place_of_another_begins_anew(tmp_path: Path, serve) -> None:
    client = serve(tmp_path)
    client.server.watches.clock = lambda: NOW
    for name, parts in (("first", 3), ("second", 1)):
        with watching(tmp_path / name) as folder:
            for number in range(parts):
                folder.write(tick(NOW - 9 + number, commits=float(parts)))
    (tmp_path / "first").rename(tmp_path / "shop")
    assert metrics(client)[COMMITS] == 3.0
    (tmp_path / "shop").rename(tmp_path / "first")
    (tmp_path / "second").rename(tmp_path / "shop")
    assert metrics(client)[COMMITS] == 1.0


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), -1e300])
def test_a_forged_folder_is_no_bug(tmp_path: Path, serve, value: float) -> None:
    client = serve(tmp_path)
    client.server.watches.clock = lambda: NOW
    rows = tick(NOW - 5, commits=value)
    rows.samples += [
        Sample(NOW - 4, "sessions.polls", "", value),
        Sample(NOW - 4, "relations.live_rows", 'a"\n\\\r', 5.0),
    ]
    with watching(tmp_path / "shop") as folder:
        folder.write(rows)
    found = metrics(client)
    assert (found[UP], found["pgtrial_relations_live_rows"]) == (1.0, 5.0)
    assert COMMITS not in found


def test_a_monitor_says_its_token_in_a_header_and_gets_figures_alone(shelf: Path, serve) -> None:
    client = serve(shelf, monitor=MONITOR)
    client.server.watches.clock = lambda: NOW
    place = id_of(client, "shop")

    def status(address: str, token: str | None) -> int:
        said = None if token is None else f"Bearer {token}"
        return int(client.ask(address, headers={"Cookie": None, "Authorization": said}).status)

    figures = f"/api/watches/{place}/metrics"
    assert [status(figures, token) for token in (MONITOR, client.server.access.token)] == [200, 200]
    assert [status(figures, token) for token in (None, "", "x" * 48, client.server.access.session)] == [401] * 4
    for address in ("/", "/api/experiments", f"/watches/{place}", f"/api/watches/{place}/alarms", f"{figures}/"):
        assert status(address, MONITOR) == 401
    assert status("/api/watches/0123456789abcdef/metrics", MONITOR) == 404
