"""Short lines for `--help`, and its tables of options.

An option that many commands share has one line here in the help of each; its whole text is in kafkalog(1), under SHARED
OPTIONS. This module imports click alone, as help is shown before a command needs anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import click

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["SHARED", "OptionLine", "is_shared", "shared_lines", "write_lines"]


class OptionLine(NamedTuple):
    """A line of help: what is typed, and what for. `names`: the options that it is about."""

    names: tuple[str, ...]
    syntax: str
    text: str


def _line(syntax: str, text: str) -> OptionLine:
    return OptionLine((syntax.split(" ", 1)[0],), syntax, text)


SHARED: Final = (
    _line("--topic GLOB", "only topics that match (* ? [...]); repeatable"),
    _line("--topic-regex REGEX", "only topics whose whole name matches"),
    _line("--exclude GLOB", "no topics that match; repeatable"),
    _line("--partition N", "only partitions with this number; repeatable"),
    _line("--kafka VERSION", "release of Kafka  [default: by the files]"),
    _line("--config FILE", "the broker's server.properties"),
    _line("--set KEY=VALUE", "setting of the broker or of topics; repeatable"),
    _line("--topic-config TOPIC:KEY=VALUE", "setting of one topic; repeatable"),
    _line("--assume-defaults", "accept assumed settings and high watermarks"),
    _line("--now T", "time that is used as now  [default: the clock]"),
    _line("--apply", "apply the plan; the broker must be stopped"),
    _line("--plan-out FILE", "also write the plan, for kafkalog apply FILE"),
    _line("--undo-to DIR", "undo journal  [default: next to the files]"),
    _line("--no-undo", "keep no undo journal"),
    _line("--details", "also segments, files, findings that are normal"),
    _line("--explain", "also rules, evidence, origins of settings"),
    _line("--max-batch-bytes SIZE", "skip larger batches  [default: 256MiB]"),
    _line("--jobs N", "processes that read  [default: cores]"),
    _line("--limit-rate SIZE", "read at most this in a second: 200MiB"),
    _line("--keep-cache", "leave what is read in the page cache"),
    _line("--low-priority", "give way to other processes"),
    _line("--storage-option NAME=VALUE", "how to reach object stores; repeatable"),
    _line("--master URL", "where Spark runs  [default: this machine]"),
    _line("--driver-memory SIZE", "heap of Spark's Java process here"),
    _line("--conf KEY=VALUE", "setting of Spark; repeatable"),
    _line("--archives FILE", "archive of kafkalog spark pack, for executors"),
    _line("--bytes FORM", "keys and values: auto, base64 or hex"),
    _line("--output FORM", "table, json, ndjson or csv"),
    _line("--ndjson", "short for --output ndjson"),
    _line("-o FILE", "write the result to a file"),
)
"""In the order in which help shows them."""


def is_shared(option: click.Option, own: Iterable[str]) -> bool:
    """Return whether an option has a line of `SHARED`. `own`: names that mean something else in this command."""
    return any(each.names[0] in option.opts and each.names[0] not in own for each in SHARED)


def shared_lines(parameters: Iterable[click.Parameter], own: Iterable[str]) -> list[OptionLine]:
    """Return the lines of the shared options among the parameters of a command."""
    given = {name for each in parameters if isinstance(each, click.Option) for name in each.opts} - set(own)
    return [each for each in SHARED if each.names[0] in given]


def write_lines(formatter: click.HelpFormatter, title: str, lines: Sequence[OptionLine]) -> None:
    """Write a section with a line for each of `lines`, aligned."""
    if not lines:
        return
    longest = max(len(each.syntax) for each in lines)
    with formatter.section(title):
        indent = " " * formatter.current_indent
        for each in lines:
            formatter.write(f"{indent}{each.syntax:<{longest}}  {each.text}\n")
