"""`kafkalog completion`: print the completion script for a shell."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import click
from click.shell_completion import get_completion_class

from kafkalog_cli.command import Command, Example, ExitStatus

if TYPE_CHECKING:
    from click.shell_completion import ShellComplete

__all__ = ["completion"]


@click.command(
    cls=Command,
    examples=(
        Example("source <(kafkalog completion bash)", "For the running shell only"),
        Example("kafkalog completion fish > ~/.config/fish/completions/kafkalog.fish", "For every new shell"),
    ),
    exit_statuses=(ExitStatus.CLEAN, ExitStatus.CRASH, ExitStatus.USAGE),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of SHELL: bash, zsh or fish."""
    completer = cast("type[ShellComplete]", get_completion_class(shell))
    click.echo(completer(ctx.find_root().command, {}, "kafkalog", "_KAFKALOG_COMPLETE").source())
