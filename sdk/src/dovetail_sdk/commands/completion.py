"""`dovetail completion`: completes commands, options and backends in a shell."""

from __future__ import annotations

import click

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print what makes SHELL complete commands, options and ids of backends.

    For bash, zsh: eval "$(dovetail completion bash)" in the shell's start-up file. For fish:
    dovetail completion fish > ~/.config/fish/completions/dovetail.fish
    """
    from click.shell_completion import get_completion_class

    from ..cli import main

    found = get_completion_class(shell)
    assert found is not None  # click has these shells
    click.echo(found(main, {}, "dovetail", "_DOVETAIL_COMPLETE").source())
