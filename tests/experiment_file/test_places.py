from pathlib import Path

from pgtrial.experiment_file.places import expand_home, is_directory, is_file


def test_what_cannot_be_looked_at_is_neither_a_file_nor_a_directory(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 300)

    assert is_directory(tmp_path)
    assert is_file(Path(__file__))
    assert not is_directory(path)
    assert not is_file(path)


def test_home_of_nobody_stays_as_it_is_written() -> None:
    assert expand_home(Path("~/data")) == Path.home() / "data"
    assert expand_home(Path("~no such user/data")) == Path("~no such user/data")
