"""The parts of every command: exit statuses, help sections, groups that import a command when it runs.

`kafkalog --help` imports this module, so it imports no more of kafkalog than the errors.
"""

from __future__ import annotations

import gc
import re
from enum import IntEnum
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast  # noqa: TID251 -- `--help` needs no msgspec

import click

from kafkalog_core.errors import (
    DeniedError,
    KafkalogError,
    RefusedError,
    StoreLostError,
    UnfinishedError,
    WorkerLostError,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafkalog_cli.options.short_lines import OptionLine
    from kafkalog_core.command_lines import CommandLine

__all__ = [
    "EXIT_STATUS_HELP",
    "Command",
    "CommandGroup",
    "Example",
    "ExitStatus",
    "LazyGroup",
    "OptionalValue",
    "command_line",
    "status_of",
    "version",
]

_ARGUMENTS: Final = "kafkalog.arguments"
"""Key of `click.Context.meta`: the arguments as the user typed them."""
_SECRET: Final = re.compile("AWS_SECRET|AWS_SESSION")
"""An argument that no message repeats."""


# --- exit statuses ----------------------------------------------------------------------------------------------------
class ExitStatus(IntEnum):
    """Exit statuses of all commands. 1 and 2 are also Python's and click's own."""

    CLEAN = 0
    CRASH = 1
    USAGE = 2
    REFUSED = 3
    DAMAGE = 4


EXIT_STATUS_HELP: Final = {
    ExitStatus.CLEAN: "the command is done and found no error",
    ExitStatus.CRASH: "the command crashed or was interrupted: the result is not complete",
    ExitStatus.USAGE: "wrong options or arguments",
    ExitStatus.REFUSED: (
        "the command could not operate: no such file, no permission, a lock that another process holds, a refused "
        "plan; or this user may not read one of the PATHs or a file in it: the result covers the rest, and the status "
        "is 3 even if the rest is damaged; or undo --partial left files as they are"
    ),
    ExitStatus.DAMAGE: (
        "the command is done and reports damage or another finding of severity error; or a repair that is planned but "
        "not applied loses data"
    ),
}


def status_of(error: KafkalogError) -> ExitStatus:
    """Return the exit status of a command that ends with this error."""
    return (
        ExitStatus.CRASH
        if isinstance(error, UnfinishedError | WorkerLostError | StoreLostError)
        else ExitStatus.REFUSED
    )


# --- options and help -------------------------------------------------------------------------------------------------
def version() -> str:
    """Return the version of the installed package."""
    metadata = import_module("importlib.metadata")  # imported on request: it costs as much as all of click
    try:
        return str(metadata.version("kafkalog"))
    except metadata.PackageNotFoundError:
        return "from a source tree"


class Example(NamedTuple):
    """A command line, and what it is good for."""

    line: str
    purpose: str


class OptionalValue(click.Option):
    """An option whose value is optional: `--committed`, `--committed=high-watermark`, `--committed high-watermark`.

    click itself takes any next argument as the value, so that `--committed PATH` would lose its path. Here the next
    argument is the value only if it is one of the choices; otherwise the value is `bare_value`.
    """

    def __init__(self, declarations: Sequence[str], *, bare_value: str, **attributes: Any) -> None:
        super().__init__(declarations, **attributes)
        self.bare_value = bare_value

    def with_values(self, arguments: Iterable[str]) -> list[str]:
        """Return the arguments with a value for every bare use of this option."""
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


class _DocumentedCommand(click.Command):
    """A click command with the sections "Examples" and "Exit status" at the end of its help.

    Shared options have a short line each. own: names of shared options that mean something else in this command.
    """

    def __init__(
        self,
        *arguments: Any,
        examples: Sequence[Example],
        exit_statuses: Sequence[ExitStatus],
        own: Sequence[str] = (),
        **attributes: Any,
    ) -> None:
        super().__init__(*arguments, **attributes)
        self.examples = tuple(examples)
        self.exit_statuses = tuple(exit_statuses)
        self.own = tuple(own)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's own options in full, and a line for each shared one."""
        lines = import_module("kafkalog_cli.options.short_lines")  # on request: `kafkalog --help` needs none of it
        options = [each for each in self.get_params(ctx) if isinstance(each, click.Option)]
        records = [each.get_help_record(ctx) for each in options if not lines.is_shared(each, self.own)]
        with formatter.section("Options"):
            formatter.write_dl([record for record in records if record is not None])
        title = "Shared options, which man kafkalog explains"
        lines.write_lines(formatter, title, lines.shared_lines(options, self.own))

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


class Command(_DocumentedCommand):
    """A command of kafkalog.

    Args:
        reads_objects: whether its paths may be those of an object store, `s3://BUCKET/PREFIX`.
        lines: short lines of its own options, `OptionLine`s, for a command with so many that help would be too long;
            the man page has the whole texts, examples and exit statuses then.
    """

    def __init__(
        self, *arguments: Any, reads_objects: bool = False, lines: Sequence[OptionLine] = (), **attributes: Any
    ) -> None:
        super().__init__(*arguments, **attributes)
        self.reads_objects = reads_objects
        self.lines = tuple(lines)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the description; of a command with lines its first two paragraphs."""
        if not self.lines:
            super().format_help_text(ctx, formatter)
            return
        for paragraph in (self.help or "").split("\n\n")[:2]:
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text(" ".join(paragraph.split()))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in full, or as lines."""
        if not self.lines:
            super().format_options(ctx, formatter)
            return
        lines = import_module("kafkalog_cli.options.short_lines")  # as above
        lines.write_lines(formatter, "Options", self.lines)
        lines.write_lines(formatter, "Shared options", lines.shared_lines(self.params, self.own))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write examples and exit statuses, or where they are."""
        if self.lines:
            formatter.write_paragraph()
            formatter.write_text(
                f"man {ctx.command_path.replace(' ', '-')} has the whole texts, examples, exit statuses."
            )
        else:
            super().format_epilog(ctx, formatter)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Give each option with an optional value its value, then parse as click does; keep the typed arguments."""
        ctx.meta[_ARGUMENTS] = tuple(args)
        for parameter in self.params:
            if isinstance(parameter, OptionalValue):
                args = parameter.with_values(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; add its command line to the error where the system denies access to a file."""
        if not self.reads_objects:
            _refuse_objects(ctx)
        try:
            return super().invoke(ctx)
        except DeniedError as error:
            line = command_line()
            if line is not None and not any(map(_SECRET.search, ctx.meta[_ARGUMENTS])):
                error.with_command(line.with_options())
            raise


def _refuse_objects(ctx: click.Context) -> None:
    """Raise RefusedError for a path of an object store, before anything is read."""
    for value in ctx.params.values():
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, str) and each.startswith("s3://"):
                place = import_module("kafkalog_core.command_lines").shell_word(each.rstrip("/"))  # as below
                raise RefusedError(
                    f"{ctx.command_path} needs a broker's directory on a file system of this machine; copy it with "
                    f"`aws s3 sync {place} DIR`, and run the same command again, on DIR",
                    path=each,
                )


def command_line() -> CommandLine | None:
    """Return the command line that is running; `None` outside a command."""
    ctx = click.get_current_context(silent=True)
    if ctx is None or _ARGUMENTS not in ctx.meta:
        return None
    module = import_module("kafkalog_core.command_lines")  # a running command needs it, --help does not
    return cast("CommandLine", module.CommandLine(program=ctx.command_path, arguments=ctx.meta[_ARGUMENTS]))


# --- groups -----------------------------------------------------------------------------------------------------------
class LazyGroup(click.Group):
    """A group that lists its commands without importing them.

    Args:
        table: maps the name of a command to (`module:attribute`, short help).
        sections: the names by the question that they answer, for help; empty: help has one list.
    """

    def __init__(
        self,
        *arguments: Any,
        table: Mapping[str, tuple[str, str]],
        sections: Mapping[str, Sequence[str]] | None = None,
        **attributes: Any,
    ) -> None:
        super().__init__(*arguments, **attributes)
        self.table = table
        self.sections = sections or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the command names in the order of the table."""
        del ctx
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command of that name; `None` for an unknown name."""
        del ctx
        if cmd_name not in self.table:
            return None
        module_name, _, attribute = self.table[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module_name), attribute)
        if not gc.isenabled():  # as `__main__` left it: modules are kept until the end, and not searched for cycles
            gc.freeze()
            gc.enable()
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the table alone."""
        del ctx
        longest = max(map(len, self.table))
        for title, names in (self.sections or {"Commands": tuple(self.table)}).items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:{longest}}", self.table[name][1]) for name in names])


class CommandGroup(_DocumentedCommand, LazyGroup):
    """A command of kafkalog that has commands of its own."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, then the commands."""
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)
