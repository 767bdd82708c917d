from hypothesis import given
from hypothesis import strategies as st

from pgtrial.experiment_file.experiment import FactorTable
from pgtrial.experiment_file.factors import combine_factors
from pgtrial.knobs.values import value_text


def factors(**levels: tuple[object, ...]) -> dict[str, FactorTable]:
    return {name: FactorTable(levels=values) for name, values in levels.items()}


def test_every_combination_has_a_name_and_the_first_levels_come_first() -> None:
    combinations = combine_factors(factors(shared_buffers=("128MB", "1GB"), jit=(False, True)))

    assert [combination.name for combination in combinations] == [
        "shared_buffers=128MB,jit=off",
        "shared_buffers=128MB,jit=on",
        "shared_buffers=1GB,jit=off",
        "shared_buffers=1GB,jit=on",
    ]
    assert combinations[1].settings == (("postgresql", "shared_buffers", "128MB"), ("postgresql", "jit", "on"))


def test_a_factor_may_have_another_name_than_its_setting() -> None:
    combinations = combine_factors({"cache": FactorTable(setting="shared_buffers", levels=(1024, 2048))})

    assert [(c.name, c.settings) for c in combinations] == [
        ("cache=1024", (("postgresql", "shared_buffers", "1024"),)),
        ("cache=2048", (("postgresql", "shared_buffers", "2048"),)),
    ]


def test_names_that_would_be_too_long_or_alike_are_shortened() -> None:
    long = {"x" * 40: FactorTable(levels=("a", "b")), "y" * 40: FactorTable(levels=("c", "d"))}
    alike = factors(search_path=("a b", "a/b"))

    assert [combination.name for combination in combine_factors(long)] == ["a,c", "a,d", "b,c", "b,d"]
    assert [combination.name for combination in combine_factors(alike)] == ["combination-1", "combination-2"]


_TEXT = st.text(st.characters(categories=["L", "P"], include_characters=" "), max_size=40)


@given(st.lists(st.lists(_TEXT, min_size=2, max_size=3, unique=True), min_size=1, max_size=3))
def test_names_are_unique_and_fit_for_a_folder(levels: list[list[str]]) -> None:
    names = [
        combination.name
        for combination in combine_factors(factors(**{f"f{n}": tuple(values) for n, values in enumerate(levels)}))
    ]

    assert len({name.lower() for name in names}) == len(names)
    assert all(len(name) <= 63 and "/" not in name and name.isascii() and name.isprintable() for name in names)


def test_toml_values_become_the_text_that_postgresql_reads() -> None:
    assert [value_text(value) for value in (True, False, 8, 0.5, "64MB", "")] == ["on", "off", "8", "0.5", "64MB", ""]
