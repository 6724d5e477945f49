"""Options for the release and the settings of Kafka, the same on all commands."""

from __future__ import annotations

import time
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click

from kafkalog_cli.options import common
from kafkalog_core.format.layout import MAX_INT64
from kafkalog_core.format.names import ZOOKEEPER_DIR
from kafkalog_core.kafka.rules.releases import describe_known, parse_release
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest, parse_assignment, parse_topic_assignment
from kafkalog_core.kafka.rules.setting_table import BY_NAME
from kafkalog_core.storage.paths import exists, is_object

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalog_core.kafka.rules.setting_table import Definition

__all__ = ["kafka_option", "kafka_options", "kafka_start_options", "now_option", "setting_options", "with_shorthands"]


Decorated = TypeVar("Decorated", bound="Callable[..., object]")


def kafka_options(function: Decorated) -> Decorated:
    """Add --kafka, --config, --set, --topic-config and --assume-defaults: `request`, a `SettingsRequest`."""
    return _with_request(function, _OPTIONS)


def kafka_start_options(function: Decorated) -> Decorated:
    """Add the options of `kafka_options` without --assume-defaults, for a command that reports what a start does."""
    return _with_request(function, _OPTIONS[:-1])


def _with_request(function: Decorated, options: Sequence[Callable[[Decorated], Decorated]]) -> Decorated:
    names = SettingsRequest.__struct_fields__

    def with_request(*arguments: object, **given: Any) -> object:
        typed = click.get_current_context().params  # as selection options may be read before these or after
        names_topics = bool(typed.get("topics")) or typed.get("topic_regex") is not None
        values = {name: given.pop(name) for name in names if name in given}
        servers = tuple(path for path in given.get("paths", ()) if _is_of_zookeeper(path))
        if 0 < len(servers) < len(given.get("paths", ())):
            given["paths"] = tuple(path for path in given["paths"] if path not in servers)
            values["zookeeper_dirs"] = servers
        request = SettingsRequest(**values, names_topics=names_topics)
        return function(*arguments, request=request, **given)

    wrapped = cast("Decorated", update_wrapper(with_request, function))
    return common.stacked(*options)(wrapped)


def _is_of_zookeeper(path: str) -> bool:
    """Return whether a path is the dataDir of a ZooKeeper server, which has the settings of topics."""
    return not is_object(path) and exists(f"{path}/{ZOOKEEPER_DIR}")


def _checked(check: Callable[[str], object]) -> Callable[[str], str]:
    """Return an option's type: the text itself, or a usage error with the message that `check` raises."""

    def convert(text: str) -> str:
        common.option_type(check)(text)
        return text

    return convert


_OPTIONS = (
    click.option(
        "--kafka",
        type=_checked(parse_release),
        metavar="VERSION",
        help=(
            f"The release of Kafka whose rules apply, like 2.8.2: one of {describe_known()}, or a bug fix release.  "
            "[default: inferred from the files; the evidence is shown]"
        ),
    ),
    click.option(
        "--config",
        type=click.Path(readable=False),
        metavar="FILE",
        help="The broker's server.properties. Settings that do not matter for the command are ignored.",
    ),
    click.option(
        "--set",
        "assignments",
        type=_checked(parse_assignment),
        metavar="KEY=VALUE",
        multiple=True,
        help=(
            "A setting of the broker, by its name in server.properties, or a setting of topics, by its name in topic "
            "configurations; overrides --config. A setting of topics, also in its short form, does not override a "
            "topic's own value unless --topic, --topic-regex or --topic-config names the topic; roll, which only "
            "writes copies, is an exception. Repeatable."
        ),
    ),
    click.option(
        "--topic-config",
        "topic_assignments",
        type=_checked(parse_topic_assignment),
        metavar="TOPIC:KEY=VALUE",
        multiple=True,
        help=(
            "A setting of one topic; overrides all others. Repeatable. kafkalog reads the topics' configurations from "
            "the cluster metadata log, if a log directory in PATH or in --config has it, or from ZooKeeper, if PATH "
            "names the dataDir of a server too; otherwise give the settings that differ from the broker's. A TOPIC "
            "that is not in PATH is an error."
        ),
    ),
    click.option(
        "--assume-defaults",
        is_flag=True,
        help=(
            "Accept assumed values: where a topic's settings are unknown, the broker's settings and Kafka's "
            "defaults; where no checkpoint has a high watermark, the log end offset. Without this option, --apply "
            "refuses a plan that would lose records because of such a value. The output names each of them."
        ),
    ),
)


def kafka_option(function: Decorated) -> Decorated:
    """Add --kafka alone, for a command without settings: the command gets `kafka`, the text or None."""
    return _OPTIONS[0](function)


_METAVARS: Final = {"ms": "MS", "bytes": "BYTES", "ratio": "RATIO"}


def setting_options(**helps: str) -> Callable[[Decorated], Decorated]:
    """Return a decorator that adds an option for each setting, by its name with `_` for dots; above `kafka_options`.

    The values are added to the assignments of --set. Raises click.UsageError if --set has another value.
    """
    names = {name: BY_NAME[name.replace("_", ".")] for name in helps}

    def decorate(function: Decorated) -> Decorated:
        def with_settings(*arguments: object, **given: Any) -> object:
            values = {definition.name: given.pop(name) for name, definition in names.items()}
            shorthands = {name: text for name, text in values.items() if text is not None}
            given["assignments"] = with_shorthands(given["assignments"], shorthands)
            return function(*arguments, **given)

        wrapped = cast("Decorated", update_wrapper(with_settings, function))
        for name, definition in reversed(names.items()):
            option = f"--{name.replace('_', '-')}"
            wrapped = click.option(
                option, name, type=_setting_type(definition), metavar=_metavar(name), help=helps[name]
            )(wrapped)
        return wrapped

    return decorate


def now_option(function: Decorated) -> Decorated:
    """Add --now: the command gets `now_ms`, by default the time of the clock."""

    def with_now(*arguments: object, **given: Any) -> object:
        asked = given.pop("now")
        return function(*arguments, now_ms=time.time_ns() // 1_000_000 if asked is None else asked, **given)

    return click.option(
        "--now",
        type=common.parse_time_ms,
        metavar="T",
        help=(
            "The time that is used as now: ISO 8601, UTC unless a zone is given, or milliseconds since 1970 (12 digits "
            "and more).  [default: the time of the clock]"
        ),
    )(cast("Decorated", update_wrapper(with_now, function)))


def with_shorthands(assignments: tuple[str, ...], shorthands: Mapping[str, str]) -> tuple[str, ...]:
    """Return the assignments of --set and of shorthand options. Raises click.UsageError if they contradict."""
    kept = []
    for text in assignments:
        name, _, value = text.partition("=")
        other = shorthands.get(name.strip())
        if other is None:
            kept.append(text)
        elif other != value.strip():
            option = f"--{name.strip().replace('.', '-')}"
            raise click.UsageError(f"{option} {other} and --set {text} contradict each other; give one of them")
    return (*kept, *map("=".join, shorthands.items()))


def _setting_type(definition: Definition) -> Callable[[str], str]:
    """Return an option's type: the text itself, or a usage error if no release accepts it."""

    def convert(text: str) -> str:
        given = text.strip()
        if definition.kind == "double":
            _check_ratio(given)
        elif definition.kind in {"int", "long"}:
            _check_number(given, definition)
        return given

    return convert


def _check_number(text: str, definition: Definition) -> None:
    least = -1 if definition.least is None else definition.least
    if not text.removeprefix("-").isascii() or not text.removeprefix("-").isdigit() or int(text) > MAX_INT64:
        raise click.BadParameter(f"{text!r} is not a whole number from {least} to 2^63-1")
    if int(text) < least:
        unlimited = " (-1: unlimited)" if least == -1 else ""
        raise click.BadParameter(f"{text} is out of range: the minimum is {least}{unlimited}")


def _check_ratio(text: str) -> None:
    try:
        is_in_range = 0 <= float(text) <= 1
    except ValueError:
        is_in_range = False
    if not is_in_range:
        raise click.BadParameter(f"{text!r} is not a number from 0 to 1")


def _metavar(name: str) -> str:
    return _METAVARS.get(name.rpartition("_")[2], "VALUE")
