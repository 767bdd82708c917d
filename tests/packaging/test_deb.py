"""The .deb puts what every shell completes with where that shell of Debian looks for it."""

import re
from pathlib import Path

import click
import pytest

from pgtrial.cli.completion import command

ROOT = Path(__file__).parents[2]
# By the policies of bash-completion, zsh and fish; each shell looks for the program's name in its own way.
PLACES = {
    "bash": "usr/share/bash-completion/completions/pgtrial",
    "zsh": "usr/share/zsh/vendor-completions/_pgtrial",
    "fish": "usr/share/fish/vendor_completions.d/pgtrial.fish",
}


def test_every_shell_that_has_a_completion_has_a_place() -> None:
    (shell,) = command.params

    assert isinstance(shell.type, click.Choice)
    assert set(shell.type.choices) == set(PLACES)


@pytest.mark.parametrize(("shell", "place"), PLACES.items())
def test_its_completion_is_written_there_and_its_directory_is_made_first(shell: str, place: str) -> None:
    script = (ROOT / "packaging/build_deb.sh").read_text()
    written = f'pgtrial completion {shell} >"$root/{place}"\n'
    made = re.search(r"^mkdir -p (?:.*\\\n)*.*$", script, re.MULTILINE)

    assert written in script
    assert made is not None
    assert f'"$root/{Path(place).parent}"' in made.group()
    assert made.end() < script.index(written)


def test_pip_is_given_the_name_of_pgtrial_and_no_file_whose_place_it_would_record() -> None:
    script = (ROOT / "packaging/build_deb.sh").read_text()

    assert "direct_url" not in script
    assert '--find-links dist "pgtrial==$version"' in script
    assert not re.search(r"--target.*\\\n.*\.whl", script)
