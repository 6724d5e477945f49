"""The sentences of the product's texts whose subject is a broker, consumers or a producer."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kafkalog_cli.main import cli
from kafkalog_core.findings.broker_actions import AFTER_EITHER, START_ACTIONS
from kafkalog_core.findings.broker_messages import BROKER_MESSAGES
from kafkalog_core.findings.catalog import FINDING_TYPES
from kafkalog_core.findings.entries import ENTRY_DAMAGE
from kafkalog_core.findings.logs_07 import in_07

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[2]
_SUBJECT: Final = re.compile(
    r"(?<!\bof )(?<!\bby )(?<!\bas )(?<!\bin )(?<!\bon )(?<!\bto )(?<!\bfor )"
    r"(?<!\bfrom )(?<!\bwith )(?<!\binto )(?<!\bnext to )"
    r"\b(?:an? (?:[\w.-]+ )?(?:broker|leader|consumer|producer)|consumers|producers|brokers)\b(?!')",
    re.IGNORECASE,
)
"""A subject: what no preposition makes an object."""
_END: Final = re.compile(r"(?<=[.!?])\s+")
_MARKUP: Final = re.compile(r"^\s*(?:#|```|\||<|!\[)")


def collect() -> dict[str, str]:
    """Each sentence with the place of its first use. In texts on what a broker does, the broker is every subject."""
    found: dict[str, str] = {}
    for place, text, is_about_broker in _texts():
        for sentence in _sentences(text):
            if is_about_broker or _SUBJECT.search(sentence):
                found.setdefault(sentence, place)
    return found


def _sentences(text: str) -> list[str]:
    return [each for each in _END.split(" ".join(text.split())) if each]


def _texts() -> Iterator[tuple[str, str, bool]]:
    for code, kind in FINDING_TYPES.items():
        for name in ("message", "cure", "meaning"):
            yield code, getattr(kind, name) or "", False
        for action in (kind.broker_action, *(each.broker_action for each in kind.variants)):
            yield code, action or "", True
        for variant in kind.variants:
            yield code, variant.cure or "", False
        in_old = in_07(code, kind)
        yield f"0.7 {code}", in_old.broker_action or "", in_old is not kind
    for reason, damage in ENTRY_DAMAGE.items():
        yield reason, damage.broker_action, True
        yield reason, f"{damage.meaning} {damage.cure}", False
    for name, action in (*START_ACTIONS.items(), *AFTER_EITHER.items()):
        yield f"start {name}", action.text, True
        yield f"start {name}", action.cure or "", False
    for message in BROKER_MESSAGES.values():
        yield message.name, message.broker_action, True
        yield message.name, f"{message.happened} {message.why} {message.cure}", False
    yield from ((f"{name} --help", text, False) for name, text in _help("kafkalog", cli))
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        for paragraph in _paragraphs(path.read_text(encoding="utf-8")):
            yield path.name, paragraph, False


def _help(name: str, command: click.Command) -> Iterator[tuple[str, str]]:
    yield name, command.help or ""
    for parameter in command.params:
        yield name, getattr(parameter, "help", None) or ""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for each in command.list_commands(context):
            child = command.get_command(context, each)
            if child is not None:
                yield from _help(f"{name} {each}", child)


def _paragraphs(page: str) -> Iterator[str]:
    """Paragraphs of prose: no headings, tables, or what commands print."""
    for block in re.sub(r"^```.*?^```$", "", page, flags=re.DOTALL | re.MULTILINE).split("\n\n"):
        lines = [line for line in block.splitlines() if not _MARKUP.match(line)]
        yield " ".join(line.lstrip("-* ") for line in lines)
