"""Write man/ from the command tree, the layouts, the tables and the catalog of findings.

`python -m tools.make_man` after a change of any of them; a test fails on pages that no longer match.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkalog_cli.command import EXIT_STATUS_HELP, Command, CommandGroup, ExitStatus, LazyGroup
from kafkalog_cli.main import COMMANDS, cli
from kafkalog_cli.short_lines import SHARED, is_shared, shared_lines
from tools import reference_pages, roff

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["MAN", "pages"]

MAN = Path(__file__).parent.parent / "man"
ENVIRONMENT = {"KAFKALOG_DEBUG": "1: show the traceback of every error.", "NO_COLOR": "Set: no colours in tables."}


def pages() -> dict[str, str]:
    """Every page by its file name."""
    result = {"kafkalog.1": _main_page()}
    with click.Context(cli, info_name="kafkalog", **cli.context_settings) as context:
        result |= _pages_of(cli, "kafkalog", context)
    return result | reference_pages.pages()


def _pages_of(group: LazyGroup, path: str, context: click.Context) -> dict[str, str]:
    """The pages of a group's commands, and of theirs."""
    result = {}
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if not isinstance(command, Command | CommandGroup):
            raise TypeError(f"{path} {name} is not a command with examples and exit statuses")
        full_name = f"{path} {name}"
        with click.Context(command, info_name=name, parent=context) as below:
            result[f"{_page_of(full_name)}.1"] = _command_page(full_name, group.table[name][1], command, below)
            if isinstance(command, LazyGroup):
                result |= _pages_of(command, full_name, below)
    return result


def _page_of(full_name: str) -> str:
    return full_name.replace(" ", "-")


def _main_page() -> str:
    with click.Context(cli, info_name="kafkalog", **cli.context_settings) as context:
        text = roff.heading("kafkalog", 1, str(cli.help).splitlines()[0].rstrip("."))
        text += roff.section("synopsis", f"{roff.bold('kafkalog')} [OPTIONS] COMMAND [ARGS]...\n")
        body = _paragraphs(str(cli.help).split("\b")[0].split("\n", 1)[1])
        text += roff.section("description", body)
        text += roff.section("commands", _commands("kafkalog", COMMANDS))
        text += roff.section("options", _options(cli, context))
        text += roff.section("shared options", _shared(context))
    text += _exit_statuses(tuple(ExitStatus))
    text += roff.section(
        "environment", "".join(roff.tagged(roff.bold(name), meaning) for name, meaning in ENVIRONMENT.items())
    )
    return text + roff.section("see also", _see_also(_page_names("kafkalog", COMMANDS)))


def _command_page(full_name: str, short_help: str, command: Command | CommandGroup, context: click.Context) -> str:
    text = roff.heading(_page_of(full_name), 1, short_help.rstrip("."))
    usage = " ".join(command.collect_usage_pieces(context))
    text += roff.section("synopsis", f"{roff.bold(full_name)} {roff.literal(usage)}\n")
    text += roff.section("description", _paragraphs(str(command.help)))
    below = command.table if isinstance(command, LazyGroup) else {}
    if below:
        text += roff.section("commands", _commands(full_name, below))
    text += roff.section("options", _options(command, context, command.own))
    shared = shared_lines(command.get_params(context), command.own)
    if shared:
        lines = "".join(roff.tagged(roff.bold(each.syntax), each.text) for each in shared)
        text += roff.section("shared options", roff.paragraph("kafkalog(1) explains them.") + lines)
    text += _exit_statuses(command.exit_statuses)
    text += roff.section("examples", "".join(roff.example(item.purpose, item.line) for item in command.examples))
    parent = _page_of(full_name.rpartition(" ")[0])
    return text + roff.section("see also", _see_also([f"{parent}(1)", *_page_names(full_name, below)]))


def _commands(path: str, table: Mapping[str, tuple[str, str]]) -> str:
    """A group's commands, each with its page and what it is for."""
    return "".join(
        roff.tagged(f"{roff.bold(_page_of(f'{path} {name}'))}(1)", short_help)
        for name, (_, short_help) in table.items()
    )


def _page_names(path: str, table: Mapping[str, tuple[str, str]]) -> list[str]:
    return [f"{_page_of(f'{path} {name}')}(1)" for name in table]


def _paragraphs(text: str) -> str:
    return "".join(roff.paragraph(block) for block in text.split("\n\n") if block.strip())


def _options(command: click.Command, context: click.Context, own: Sequence[str] = ()) -> str:
    """The options that are the command's own, with their whole texts."""
    parameters = [parameter for parameter in command.get_params(context) if isinstance(parameter, click.Option)]
    records = [each.get_help_record(context) for each in parameters if not is_shared(each, own)]
    return "".join(roff.tagged(roff.bold(record[0]), record[1]) for record in records if record is not None)


def _shared(context: click.Context) -> str:
    """The whole text of each shared option: of the command that says most about it."""
    texts: dict[str, tuple[str, str]] = {}
    for command, below in _commands_below(cli, context):
        for option in command.get_params(below):
            if isinstance(option, click.Option) and is_shared(option, command.own):
                record = option.get_help_record(below)
                name = next(each.names[0] for each in SHARED if each.names[0] in option.opts)
                if record is not None and len(record[1]) > len(texts.get(name, ("", ""))[1]):
                    texts[name] = record
    return "".join(roff.tagged(roff.bold(texts[each.names[0]][0]), texts[each.names[0]][1]) for each in SHARED)


def _commands_below(group: LazyGroup, context: click.Context) -> Iterator[tuple[Command | CommandGroup, click.Context]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, Command | CommandGroup):
            below = click.Context(command, info_name=name, parent=context)
            yield command, below
            if isinstance(command, LazyGroup):
                yield from _commands_below(command, below)


def _exit_statuses(statuses: tuple[ExitStatus, ...]) -> str:
    return roff.section(
        "exit status",
        "".join(roff.tagged(roff.bold(str(int(status))), EXIT_STATUS_HELP[status] + ".") for status in statuses),
    )


def _see_also(first: list[str]) -> str:
    pages = (f"{name}({section})" for name, section in reference_pages.SECTIONS.items())
    return roff.paragraph(", ".join([*first, *pages]))


def main() -> None:
    """Write the pages, and remove those that nothing describes any more."""
    wanted = pages()
    for path in MAN.glob("*.[1-9]"):
        if path.name not in wanted:
            path.unlink()
    for name, text in wanted.items():
        (MAN / name).write_text(text, encoding="utf-8")
    sys.stdout.write(f"{len(wanted)} pages in {MAN}\n")


if __name__ == "__main__":
    main()
