"""Watched servers by way of the server: their last hour, two times side by side, alarms, and what is refused."""

from pathlib import Path

import pytest

from pgtrial.watch.layout import MINUTE
from pgtrial.watch.windows import Window
from pgtrial.web.watches import Watches
from support import incident

NOW = incident.B.end + 10.0


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
        ("/events/watches/0123456789abcdef", "this watch is not there"),
    ],
)
def test_what_cannot_be_shown_is_an_error_with_its_reason(client, address: str, said: str) -> None:
    answer = client.ask(address.format(id=id_of(client, "shop")))

    assert answer.status == 404
    assert said in answer.json["error"]


def test_nobody_without_the_cookie_sees_a_watch(client) -> None:
    place = id_of(client, "shop")
    for address in (f"/watches/{place}", f"/reports/watches/{place}", f"/events/watches/{place}"):
        assert client.ask(address, headers={"Cookie": None}).status == 401
