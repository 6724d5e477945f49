"""Help: commands by the question, a line for each shared option, and two screens for the command with most options."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import takewhile
from typing import TYPE_CHECKING

import click
from click.testing import CliRunner

from kafkalog_cli.command import Command, LazyGroup
from kafkalog_cli.main import COMMANDS, SECTIONS, cli
from kafkalog_cli.short_lines import SHARED, is_shared

if TYPE_CHECKING:
    from collections.abc import Iterator

SCREEN = (24, 80)


def commands(group: LazyGroup = cli, path: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield f"{path} {name}".strip(), command
        if isinstance(command, LazyGroup):
            yield from commands(command, f"{path} {name}")


ALL = dict(commands())


def options(command: click.Command) -> list[click.Option]:
    return [each for each in command.params if isinstance(each, click.Option)]


def help_of(name: str) -> list[str]:
    result = CliRunner(env={"COLUMNS": str(SCREEN[1])}).invoke(cli, [*name.split(), "--help"])
    assert result.exit_code == 0
    return result.stdout.splitlines()


def test_every_command_is_in_one_section() -> None:
    assert sorted(name for names in SECTIONS.values() for name in names) == sorted(COMMANDS)
    lines = CliRunner().invoke(cli, ["--help"]).stdout.splitlines()
    assert [f"{title}:" for title in SECTIONS] == [line for line in lines if line.removesuffix(":") in SECTIONS]


def test_help_of_dump_fits_two_screens() -> None:
    lines = help_of("dump")
    assert len(lines) <= 2 * SCREEN[0]
    assert max(map(len, lines)) <= SCREEN[1]
    assert any('"3/0 #12" is producer id 3, producer epoch 0' in line for line in lines)


def test_short_lines_are_about_the_options_there_are() -> None:
    for name, command in ALL.items():
        if isinstance(command, Command) and command.lines:
            own = [each.opts[0] for each in options(command) if not is_shared(each, command.own)]
            assert Counter(option for line in command.lines for option in line.names) == Counter(own), name


def test_a_shared_option_means_the_same_in_every_command() -> None:
    texts = defaultdict(set)
    for command in ALL.values():
        for option in options(command):
            if is_shared(option, getattr(command, "own", ())):
                texts[option.opts[0]].add(str(option.help))
    reaching = texts.pop("--storage-option")  # of commands that write, it also names other stores
    assert len({text.partition("; abfss")[0].partition(". Other")[0] for text in reaching}) == 1
    texts.pop("--output")  # records are JSON lines on a pipe, reports are text
    assert {name: len(found) for name, found in texts.items() if len(found) != 1} == {}
    assert {each.names[0] for each in SHARED} == {*texts, "--storage-option", "--output"}


def test_a_shared_option_takes_one_line() -> None:
    for name, command in ALL.items():
        lines = help_of(name)
        start = next((at for at, line in enumerate(lines) if line.startswith("Shared options")), len(lines))
        shared = [*takewhile(bool, lines[start:]), ""]
        assert max(map(len, shared)) <= SCREEN[1], name
        for option in options(command):
            if is_shared(option, getattr(command, "own", ())):
                starts = f"  {option.opts[0]} "
                (at,) = [number for number, line in enumerate(shared) if line.startswith(starts)]
                assert not shared[at + 1].startswith("   "), shared[at + 1]
