import click
import pytest

from pgtrial.cli.main import COMMANDS, group, main

CONTEXT = click.Context(group)


def numbers() -> dict[str, click.Parameter]:
    """All options with a number that need not be whole, by command and name."""
    commands = {name: group.get_command(CONTEXT, name) for name, _ in COMMANDS}
    return {
        f"{name} --{option.name}": option
        for name, command in commands.items()
        if command is not None
        for option in command.params
        if isinstance(option.type, click.types.FloatParamType)
    }


@pytest.mark.parametrize("text", ["nan", "-nan", "inf", "-inf", "1e999"])
def test_what_is_no_finite_number_is_refused_by_each_option(text: str) -> None:
    """A NaN passes by the bounds of click's own type, for it is not below and not above."""
    found = numbers()

    assert {"replay --speed", "replay --most_differ", "limits --step"} <= {*found}
    for one in found.values():
        with pytest.raises(click.BadParameter, match="not a finite number"):
            one.type.convert(text, None, None)


def test_a_replay_at_no_speed_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "--speed", "nan", "app.csv"]) == 2

    assert '"nan" is not a finite number' in capsys.readouterr().err
