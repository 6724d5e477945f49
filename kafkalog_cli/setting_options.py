"""Shorthands for Kafka's settings: `--retention-ms 1000` is `--set retention.ms=1000`; and `--now`.

A shorthand counts as `--set` does: for all topics, above server.properties, below `--topic-config`.
"""

from __future__ import annotations

import time
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click

from kafkalog_cli import params
from kafkalog_core.format.layout import MAX_INT64
from kafkalog_core.ops.releases.setting_table import ALWAYS, BY_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalog_core.ops.releases.setting_table import Definition

__all__ = ["now_option", "setting_options", "with_shorthands"]

Decorated = TypeVar("Decorated", bound="Callable[..., object]")

_METAVARS: Final = {"ms": "MS", "bytes": "BYTES", "ratio": "RATIO"}


def setting_options(**helps: str) -> Callable[[Decorated], Decorated]:
    """An option for each setting, named with `_` for its dots and given with its help; to stand above `kafka_options`.

    Raises click.UsageError where `--set` says another value of the same setting.
    """
    names = {name: BY_NAME[name.replace("_", ".")] for name in helps}

    def decorate(function: Decorated) -> Decorated:
        def with_settings(*arguments: object, **given: Any) -> object:
            values = {definition.name: given.pop(name) for name, definition in names.items()}
            said = {name: text for name, text in values.items() if text is not None}
            given["assignments"] = with_shorthands(given["assignments"], said)
            return function(*arguments, **given)

        wrapped = cast("Decorated", update_wrapper(with_settings, function))
        for name, definition in reversed(names.items()):
            option = f"--{name.replace('_', '-')}"
            wrapped = click.option(option, name, type=_checked(definition), metavar=_metavar(name), help=helps[name])(
                wrapped
            )
        return wrapped

    return decorate


def now_option(function: Decorated) -> Decorated:
    """--now: the command gets it as `now_ms`, by default what the clock says."""

    def with_now(*arguments: object, **given: Any) -> object:
        asked = given.pop("now")
        return function(*arguments, now_ms=time.time_ns() // 1_000_000 if asked is None else asked, **given)

    return click.option(
        "--now",
        type=params.parse_time_ms,
        metavar="T",
        help=(
            "The time that counts as now: ISO 8601, UTC unless a zone is given, or milliseconds since 1970 (12 digits "
            "and more).  [default: what the clock says]"
        ),
    )(cast("Decorated", update_wrapper(with_now, function)))


def with_shorthands(assignments: tuple[str, ...], said: Mapping[str, str]) -> tuple[str, ...]:
    """What `--set` says and what shorthands say, by the names of the settings. Raises click.UsageError."""
    kept = []
    for text in assignments:
        name, _, value = text.partition("=")
        other = said.get(name.strip())
        if other is None:
            kept.append(text)
        elif other != value.strip():
            option = f"--{name.strip().replace('.', '-')}"
            raise click.UsageError(f"{option} {other} and --set {text} contradict each other; give one of them")
    return (*kept, *map("=".join, said.items()))


def _checked(definition: Definition) -> Callable[[str], str]:
    """An option's type: the text itself, refused where no release takes it."""

    def convert(text: str) -> str:
        given = text.strip()
        if definition.kind == "double":
            _check_ratio(given)
        elif definition.kind in {"int", "long"}:
            _check_number(given, definition)
        return given

    return convert


def _check_number(text: str, definition: Definition) -> None:
    least = definition.minimum(ALWAYS)
    if definition.minimum(ALWAYS) is None:
        least = -1
    if not text.removeprefix("-").isascii() or not text.removeprefix("-").isdigit() or int(text) > MAX_INT64:
        raise click.BadParameter(f"{text!r} is no whole number from {least} to 2^63-1")
    if least is not None and int(text) < least:
        unlimited = " (-1: unlimited)" if least == -1 else ""
        raise click.BadParameter(f"{text} is out of range: nothing below {least}{unlimited} has a meaning")


def _check_ratio(text: str) -> None:
    try:
        is_in_range = 0 <= float(text) <= 1
    except ValueError:
        is_in_range = False
    if not is_in_range:
        raise click.BadParameter(f"{text!r} is no number from 0 to 1")


def _metavar(name: str) -> str:
    return _METAVARS.get(name.rpartition("_")[2], "VALUE")
