"""Every command of ours that a text names is one: whoever reads it at night types it as it stands."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import click

from kafkalog_cli.main import COMMANDS, cli
from kafkalog_core.findings import FINDING_TYPES
from kafkalog_core.findings.broker_actions import AFTER_EITHER, START_ACTIONS
from kafkalog_core.findings.broker_messages import BROKER_MESSAGES
from kafkalog_core.findings.entries import ENTRY_DAMAGE
from kafkalog_core.findings.logs import LOG_DAMAGE
from kafkalog_core.ops.verify import broker_action
from tests.support.for_each import for_each

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMED = re.compile(rf"kafkalog (?:{'|'.join(COMMANDS)})(?: --[a-z][a-z-]*)*")
ANY = re.compile(r"\bkafkalog [a-z-]+(?: --[a-z-]+)?")
NO_COMMANDS = {"kafkalog can", "kafkalog reads"}


def texts() -> Iterator[str]:
    for kind in FINDING_TYPES.values():
        yield from (text for text in (kind.message, kind.broker_action, kind.cure, kind.meaning) if text)
        yield from (text for variant in kind.variants for text in (variant.broker_action, variant.cure) if text)
    for damage in (*LOG_DAMAGE.values(), *ENTRY_DAMAGE.values()):
        yield from (damage.meaning, damage.broker_action, damage.cure)
    for message in BROKER_MESSAGES.values():
        yield from (message.happened, message.why, message.broker_action, message.cure)
    for action in (*START_ACTIONS.values(), *AFTER_EITHER.values()):
        yield f"{action.text} {action.cure or ''}"
    yield from (value for value in vars(broker_action).values() if isinstance(value, str))


def commands() -> set[str]:
    """Those of messages are whole command lines, with what is put in for a message in braces."""
    named = {match for text in texts() for match in NAMED.findall(text)}
    lines = {line for message in BROKER_MESSAGES.values() for line in message.commands if line.startswith("kafkalog ")}
    return named | {re.sub(r"\{\w+\}", "7", line) for line in lines}


@for_each(commands)
def test_it_can_be_typed(line: str) -> None:
    _, name, *arguments = shlex.split(line)
    context = click.Context(cli, info_name="kafkalog")
    command = cli.get_command(context, name)
    assert command is not None
    named = click.Context(command, parent=context, info_name=name)
    command.make_parser(named).parse_args([*arguments, "."])


def test_there_is_no_other() -> None:
    """A text that says "kafkalog" and then a word means a command, or it is among those that do not."""
    words = {match for text in texts() for match in ANY.findall(text)}
    assert {word for word in words if word.split()[1] not in COMMANDS} <= NO_COMMANDS


OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
SCRIPT = re.compile(r"kafka-[a-z-]+\.sh[^.,;:]*")


def options_of(name: str) -> set[str]:
    context = click.Context(cli, info_name="kafkalog")
    command = cli.get_command(context, name)
    assert command is not None
    return {option for each in command.params for option in (*each.opts, *each.secondary_opts)}


def options_to_type() -> Iterator[tuple[str, set[str], set[str]]]:
    """The options that a cure names, those of Kafka's own scripts aside, and those of the commands that it names."""
    cures = [(code, kind.cure, (kind.next_step or "",)) for code, kind in FINDING_TYPES.items()]
    cures += [(name, message.cure, message.commands) for name, message in BROKER_MESSAGES.items()]
    for code, cure, steps in cures:
        named = set(OPTION.findall(SCRIPT.sub("", cure or "")))
        steps_of = {each.split()[1] for line in (cure or "", *steps) for each in NAMED.findall(line)}
        steps_of |= {"excise"} if code == "excise.healthy" else set()  # "repeat the command", which reports this
        if named:
            yield code, named, {option for name in steps_of for option in options_of(name)}


def test_an_option_that_a_cure_names_is_one_of_its_commands() -> None:
    assert [(code, named - known) for code, named, known in options_to_type() if known and not named <= known] == []
