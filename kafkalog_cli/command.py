"""Which kafkalog this is."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from kafkalog_cli.exits import EXIT_STATUS_HELP, ExitStatus
from kafkalog_cli.lazy import LazyGroup
from kafkalog_core.command_lines import CommandLine
from kafkalog_core.errors import DeniedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["Command", "CommandGroup", "Example", "Explained", "OptionalValue", "command_line", "version"]


def version() -> str:
    """The version of the installed package."""
    metadata = import_module("importlib.metadata")  # not before it is asked for: it costs as much as all of click
    try:
        return str(metadata.version("kafkalog"))
    except metadata.PackageNotFoundError:
        return "from a source tree"


_TYPED: Final = "kafkalog.typed"


class Example(NamedTuple):
    """A command line, and what it is good for."""

    line: str
    purpose: str


class OptionalValue(click.Option):
    """An option whose value may be left out: `--committed`, `--committed=high-watermark`, `--committed high-watermark`.

    click itself would take any next argument for the value, so that `--committed PATH` lost its path. Here the next
    argument is the value only if it is one of the choices, and `bare_value` stands in otherwise.
    """

    def __init__(self, declarations: Sequence[str], *, bare_value: str, **attributes: Any) -> None:
        super().__init__(declarations, **attributes)
        self.bare_value = bare_value

    def spelled_out(self, arguments: Iterable[str]) -> list[str]:
        """The arguments with every bare use of this option given its value."""
        remaining = list(arguments)
        result: list[str] = []
        while remaining:
            argument = remaining.pop(0)
            if argument == "--":
                return [*result, argument, *remaining]
            if argument in self.opts:
                follows = bool(remaining) and remaining[0] in self._choices()
                argument = f"{argument}={remaining.pop(0) if follows else self.bare_value}"
            result.append(argument)
        return result

    def _choices(self) -> Sequence[str]:
        return self.type.choices if isinstance(self.type, click.Choice) else ()


class Explained(click.Command):
    """What has an Examples and an Exit status section."""

    def __init__(
        self,
        *arguments: Any,
        examples: Sequence[Example],
        exit_statuses: Sequence[ExitStatus],
        **attributes: Any,
    ) -> None:
        super().__init__(*arguments, **attributes)
        self.examples = tuple(examples)
        self.exit_statuses = tuple(exit_statuses)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the two sections that every command has."""
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write_text(example.purpose + ":")
                formatter.indent()
                formatter.write_text(f"\b\n{example.line}")
                formatter.dedent()
        with formatter.section("Exit status"):
            formatter.write_dl([(str(int(status)), EXIT_STATUS_HELP[status]) for status in self.exit_statuses])
        super().format_epilog(ctx, formatter)


class Command(Explained):
    """A command of kafkalog."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Give options with an optional value their value, then parse as click does; keep what was typed."""
        ctx.meta[_TYPED] = tuple(args)
        for parameter in self.params:
            if isinstance(parameter, OptionalValue):
                args = parameter.spelled_out(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run it; where the system denies a file, the error names this command line."""
        try:
            return super().invoke(ctx)
        except DeniedError as error:
            line = command_line()
            if line is not None:
                error.with_command(line.with_options())
            raise


def command_line() -> CommandLine | None:
    """Return the command line that is running; `None` outside of a command."""
    ctx = click.get_current_context(silent=True)
    if ctx is None or _TYPED not in ctx.meta:
        return None
    return CommandLine(program=ctx.command_path, arguments=ctx.meta[_TYPED])


class CommandGroup(Explained, LazyGroup):
    """A command of kafkalog that has commands of its own."""
