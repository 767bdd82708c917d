"""pgtrial completion: what makes a shell complete commands, options and files."""

import click

from pgtrial.cli.terminal import echo


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(*, shell: str) -> None:
    """Print the completion script for a SHELL.

    \b
    Examples:
      pgtrial completion bash > ~/.local/share/bash-completion/completions/pgtrial
      pgtrial completion zsh > ~/.zfunc/_pgtrial       # a directory of fpath
      pgtrial completion fish > ~/.config/fish/completions/pgtrial.fish
    """
    from click.shell_completion import get_completion_class

    from pgtrial.cli.main import COMPLETE, group

    found = get_completion_class(shell)
    assert found is not None  # a choice of the argument
    complete = found(group, {}, "pgtrial", COMPLETE)
    # Not complete.source(): that one starts a bash to ask for its version.
    echo(complete.source_template % complete.source_vars())
