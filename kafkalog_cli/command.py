"""The parts of every command: exit statuses, help sections, groups that import a command when it runs.

`kafkalog --help` imports this module, so it imports no more of kafkalog than the errors.
"""

from __future__ import annotations

import gc
import re
from contextlib import nullcontext
from enum import IntEnum
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import click

from kafkalog_core.errors import (
    DeniedError,
    KafkalogError,
    RefusedError,
    StoreLostError,
    UnfinishedError,
    UnknownFileError,
    WorkerLostError,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from kafkalog_cli.short_lines import OptionLine
    from kafkalog_core.command_lines import CommandLine
    from kafkalog_core.refusals import Refusal

__all__ = [
    "EXIT_STATUS_HELP",
    "OUTPUT_FILE",
    "Command",
    "CommandGroup",
    "Example",
    "ExitStatus",
    "LazyGroup",
    "OptionalValue",
    "command_line",
    "complete",
    "error_lines",
    "one_line",
    "refusal_lines",
    "status_of",
    "version",
]

_ARGUMENTS: Final = "kafkalog.arguments"
"""Key of `click.Context.meta`: the arguments as the user typed them."""
OUTPUT_FILE: Final = "kafkalog.output-file"
"""Key of `click.Context.meta`: the FILE of -o; None: the result goes to standard output."""
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


def error_lines(error: KafkalogError) -> list[str]:
    """Return the lines that say what went wrong: a sentence, and a line for each command that leads on."""
    if error.refusal is None:
        return [f"kafkalog: {one_line(str(error))}"]
    return refusal_lines(error.refusal if error.path is None else error.refusal.after(f"{error.path}: "))


def refusal_lines(refusal: Refusal) -> list[str]:
    """Return a refusal in lines: what is unknown or in the way, and each way out, a whole command, below it."""
    return [f"kafkalog: {one_line(refusal.headline)}", *(f"  {one_line(line)}" for line in refusal.commands)]


def one_line(sentence: str) -> str:
    """Return the sentence with everything escaped that does not print: a file name must not steer the terminal."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in sentence)


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
        lines = import_module("kafkalog_cli.short_lines")  # on request: `kafkalog --help` needs none of it
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
        lines = import_module("kafkalog_cli.short_lines")  # as above
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
        """Run the command; complete the commands of an error, of which the core knows only the options."""
        if not self.reads_objects:
            _refuse_objects(ctx)
        try:
            with _output_of(ctx):
                return super().invoke(ctx)
        except KafkalogError as error:
            complete(error)
            raise


_STDOUT: Final = frozenset({"-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"})
_WRITTEN: Final = frozenset({"plan_out"})
"""Options that name a file to write, whose type is not that of a path."""


def _output_of(ctx: click.Context) -> AbstractContextManager[None]:
    """Return the context in which standard output is the FILE of -o; one that changes nothing without -o."""
    path: str | None = ctx.meta.get(OUTPUT_FILE)
    if path is None or path in _STDOUT:  # what stdout already is must not be replaced
        return nullcontext()
    file = import_module("kafkalog_cli.output_file").OutputFile(path, _paths_read(ctx))  # as below
    return cast("AbstractContextManager[None]", file.as_stdout())


def _paths_read(ctx: click.Context) -> list[str]:
    """Return the paths that a command is given, in arguments and options, but not the FILE of -o."""
    named = [each for each in ctx.command.params if isinstance(each.type, click.Path) or each.name in _WRITTEN]
    values = [ctx.params[each.name] for each in named if each.name in ctx.params]
    return [path for value in values for path in (value if isinstance(value, tuple) else (value,)) if path is not None]


def complete(error: KafkalogError) -> None:
    """Give an error the whole commands of its ways out: the refused one with other options, or as another user.

    A command line with a secret is not repeated.
    """
    ctx, line = click.get_current_context(silent=True), command_line()
    if ctx is None or line is None or any(map(_SECRET.search, ctx.meta[_ARGUMENTS])):
        return
    if isinstance(error, DeniedError):
        error.with_command(line.with_options())
    elif isinstance(error, UnknownFileError) and error.inside:
        # The value of an option takes one path; of those that are arguments there may be several.
        typed = ctx.params.get("paths") or ctx.params.get("words", ())
        instead = line.instead_of(error.path, error.inside) if error.path in typed else None
        shell_line = import_module("kafkalog_core.command_lines").shell_line  # as below
        error.with_command(instead or shell_line(["kafkalog", "verify", *error.inside]))
    elif error.refusal is not None:
        once = {
            name
            for each in ctx.command.params
            if isinstance(each, click.Option) and not each.multiple
            for name in each.opts
        }

        def with_options(options: str) -> str:
            name, blank, _ = options.partition(" ")
            replaced = line.without(name, "" if blank else None) if name in once else line
            return replaced.with_options(options)

        error.refusal = error.refusal.completed(with_options)
        error.message = str(error.refusal)


def _refuse_objects(ctx: click.Context) -> None:
    """Raise RefusedError for a path of an object store, before anything is read."""
    for value in ctx.params.values():
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, str) and each.startswith("s3://"):
                place = import_module("kafkalog_core.command_lines").shell_word(each.rstrip("/"))  # as below
                refusals = import_module("kafkalog_core.refusals")
                copy = refusals.WayOut("copy it, and run the same command again, on DIR", f"aws s3 sync {place} DIR")
                reason = f"{ctx.command_path} needs a broker's directory on a file system of this machine"
                raise RefusedError(refusals.Refusal(reason, (copy,)), path=each)


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
        meant: maps words of other tools to the command lines that their users may mean.
        sections: the names by the question that they answer, for help; empty: help has one list.
    """

    def __init__(
        self,
        *arguments: Any,
        table: Mapping[str, tuple[str, str]],
        meant: Mapping[str, Sequence[str]] | None = None,
        sections: Mapping[str, Sequence[str]] | None = None,
        **attributes: Any,
    ) -> None:
        super().__init__(*arguments, **attributes)
        self.table = table
        self.meant = meant or {}
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

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is named. Raises UsageError, with the command lines that may be meant."""
        name = args[0]
        if name in self.table or name.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        lines = self.suggestions(ctx, name)
        if not lines:
            raise click.UsageError(f"No such command {name!r}.", ctx)
        rest = import_module("kafkalog_core.command_lines").shell_line(args[1:])
        shown = "\n".join(f"  {_filled(line, rest)}" for line in lines)
        raise click.UsageError(f"No such command {name!r}. Did you mean this?\n{shown}", ctx)

    def suggestions(self, ctx: click.Context, name: str) -> list[str]:
        """Return the beginnings of command lines that may be meant by a word that this group does not know."""
        root = ctx.find_root()
        if name in self.meant:
            return [f"{root.info_name} {line}" for line in self.meant[name]]
        if isinstance(root.command, LazyGroup) and name in root.command.table:
            return [f"{root.info_name} {name}"]
        near = import_module("difflib").get_close_matches(name.lower(), self.table)
        return [f"{ctx.command_path} {each}" for each in near]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the table alone."""
        del ctx
        longest = max(map(len, self.table))
        for title, names in (self.sections or {"Commands": tuple(self.table)}).items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:{longest}}", self.table[name][1]) for name in names])


def _filled(line: str, rest: str) -> str:
    """Return a suggested command line with the arguments that were typed, the first of which may be its TEXT."""
    head, text, tail = line.partition(" TEXT")
    return f"{head} {rest}{tail}".rstrip() if text and rest else f"{line} {rest}".rstrip()


class CommandGroup(_DocumentedCommand, LazyGroup):
    """A command of kafkalog that has commands of its own."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, then the commands."""
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)
