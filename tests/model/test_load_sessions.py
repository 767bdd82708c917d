"""Names of the sessions of a load."""

from pgtrial.model.load_sessions import beginning_of_names, name_in_folder, name_on_server

OWN = beginning_of_names("a machine", "/results/one", "before")


def test_name_comes_back_as_it_was() -> None:
    assert name_in_folder(name_on_server("pgtrial/read", OWN), OWN) == "pgtrial/read"


def test_machines_experiments_and_arms_have_names_of_their_own() -> None:
    others = {
        beginning_of_names("another machine", "/results/one", "before"),
        beginning_of_names("a machine", "/results/another", "before"),
        beginning_of_names("a machine", "/results/one", "after"),
    }

    assert len({OWN, *others}) == 4
    assert all(name_in_folder(f"{other}read", OWN) == f"{other}read" for other in others)


def test_name_leaves_room_for_that_of_a_scenario() -> None:
    assert len(name_on_server("pgtrial/" + 40 * "x", OWN)) <= 63


def test_path_that_is_no_text_has_a_name() -> None:
    assert beginning_of_names("a machine", "/results/\udcff", "before").startswith("pgtrial:")
