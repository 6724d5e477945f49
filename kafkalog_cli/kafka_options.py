"""The options that say which Kafka is meant, its release and its settings: the same on every command with them."""

from __future__ import annotations

from functools import reduce, update_wrapper
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from kafkalog_core.errors import SettingError
from kafkalog_core.ops.releases.release import describe_known, parse_release
from kafkalog_core.ops.releases.settings import SettingsRequest, parse_assignment, parse_topic_assignment

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["kafka_option", "kafka_options"]

Decorated = TypeVar("Decorated", bound="Callable[..., object]")


def kafka_options(function: Decorated) -> Decorated:
    """--kafka, --config, --set, --topic-config, --assume-defaults: the command gets a `SettingsRequest`, `request`."""

    def with_request(*arguments: object, **options: Any) -> object:
        request = SettingsRequest(
            kafka=options.pop("kafka"),
            config=options.pop("config"),
            assignments=options.pop("assignments"),
            topic_assignments=options.pop("topic_assignments"),
            assume_defaults=options.pop("assume_defaults"),
        )
        return function(*arguments, request=request, **options)

    wrapped = cast("Decorated", update_wrapper(with_request, function))
    return reduce(lambda inner, decorator: decorator(inner), reversed(_OPTIONS), wrapped)


def _checked(check: Callable[[str], object]) -> Callable[[str], str]:
    """An option's type: the text itself, refused with the sentence of the error that `check` raises."""

    def convert(text: str) -> str:
        try:
            check(text)
        except SettingError as error:
            raise click.BadParameter(error.message) from error
        return text

    return convert


_OPTIONS = (
    click.option(
        "--kafka",
        type=_checked(parse_release),
        metavar="VERSION",
        help=(
            f"The release whose rules count, like 2.8.2: one of {describe_known()}, each with its bug fixes.  "
            "[default: inferred from the files, and shown with the evidence]"
        ),
    ),
    click.option(
        "--config",
        type=click.Path(readable=False),
        metavar="FILE",
        help="The broker's server.properties. Settings that are of no use here are passed over.",
    ),
    click.option(
        "--set",
        "assignments",
        type=_checked(parse_assignment),
        metavar="KEY=VALUE",
        multiple=True,
        help=(
            "A setting for the whole broker, by the name that it has in server.properties, or for all topics by the "
            "name that topics have for it; beats --config. Repeatable."
        ),
    ),
    click.option(
        "--topic-config",
        "topic_assignments",
        type=_checked(parse_topic_assignment),
        metavar="TOPIC:KEY=VALUE",
        multiple=True,
        help=(
            "A setting of one topic; beats all others. Repeatable. What topics are configured with is read from the "
            "cluster metadata log where a log directory of the same cluster that is named, or listed in --config, has "
            "it; else give what differs from the broker's settings. A TOPIC that is not among PATH is an error."
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
    """--kafka alone, for a command to which no setting matters: the command gets the text, or null, as `kafka`."""
    return _OPTIONS[0](function)
