import pytest

from pgtrial.nearest import hint_name, nearest_name


@pytest.mark.parametrize(
    ("wrong", "names", "near"),
    [
        ("shared_bufers", ["shared_buffers", "temp_buffers"], "shared_buffers"),
        ("not_worse", ["worse", "not-worse"], "not-worse"),
        ("DATESTYLE", ["DateStyle"], "DateStyle"),
        ("tps", ["pgbench.tps", "pgbench.latency_p95"], "pgbench.tps"),
        ("p95", ["pgbench.tps", "pgbench.latency_p95"], "pgbench.latency_p95"),
        ("zzz", ["work_mem"], None),
    ],
)
def test_the_nearest_name_is_found_without_regard_to_case_and_hyphens(
    wrong: str, names: list[str], near: str | None
) -> None:
    assert nearest_name(wrong, names) == near


def test_many_names_are_not_all_listed() -> None:
    assert hint_name("x", [f"name{n}" for n in range(50)]) == ""
    assert hint_name("a", ["b", "c"]) == "Available values: b, c."
