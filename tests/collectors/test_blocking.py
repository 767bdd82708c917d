"""Who blocks whom, from rows as the server sends them."""

from pgtrial.collectors.base import Reading
from pgtrial.collectors.blocking import COLLECTOR, SESSIONS, about, read_about

COLUMNS = ["pid", "blockers", "backend_type", "state", "query"]
CLIENT = "client backend"


def test_all_that_wait_in_a_chain_wait_for_its_first_holder() -> None:
    rows = [
        ["11", "{10}", CLIENT, "active", "UPDATE item SET n = 1 WHERE id = 7"],
        ["12", "{11,10}", CLIENT, "active", "UPDATE item SET n = 2 WHERE id = 7"],
        ["10", None, CLIENT, "idle in transaction", "UPDATE item SET n = 3 WHERE id < 99"],
    ]
    pair = about("UPDATE item SET n = ? WHERE id = ?", "idle in transaction", "UPDATE item SET n = ? WHERE id < ?")
    assert list(COLLECTOR.parse(COLUMNS, rows)) == [Reading(SESSIONS, "", 2.0), Reading(SESSIONS, pair, 2.0)]


def test_nobody_waits_is_a_zero() -> None:
    assert list(COLLECTOR.parse(COLUMNS, [])) == [Reading(SESSIONS, "", 0.0)]


def test_who_has_its_lock_by_now_and_who_waits_in_a_circle_is_left_out() -> None:
    rows = [
        ["1", "{}", CLIENT, "active", "SELECT 1"],
        ["2", "{3}", CLIENT, "active", "SELECT 2"],
        ["3", "{2}", CLIENT, "active", "SELECT 3"],
    ]
    assert list(COLLECTOR.parse(COLUMNS, rows)) == [Reading(SESSIONS, "", 0.0)]


def test_holders_without_a_session_of_a_client() -> None:
    rows = [
        ["1", "{0}", CLIENT, "active", "DELETE FROM item"],
        ["2", "{9}", CLIENT, "active", "TRUNCATE item"],
        ["0", None, None, None, None],
        ["9", None, "autovacuum worker", "active", "autovacuum: VACUUM public.item"],
    ]
    readings = {each.object for each in COLLECTOR.parse(COLUMNS, rows)}
    assert about("DELETE FROM item", "prepared transaction", "") in readings
    assert about("TRUNCATE item", "autovacuum worker active", "autovacuum: VACUUM public.item") in readings


def test_an_object_is_read_back_and_a_damaged_one_is_none() -> None:
    assert read_about(about("a", "b", "c")) == ("a", "b", "c")
    assert read_about("[1, 2, 3]") is None
    assert read_about("x") is None
