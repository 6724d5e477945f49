"""Options of commands that read much, perhaps next to a live broker: how fast, and what remains in memory."""

from __future__ import annotations

import time
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from kafkalog_cli.options.common import option_type, parse_size, stacked
from kafkalog_core.storage.object_paths import OPTION_NAMES, REACHING, StorageOptions, require_known
from kafkalog_core.storage.reading import READING, ReadLimit

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["input_storage_option", "parse_pair", "reading_options", "storage_option"]

Decorated = TypeVar("Decorated", bound="Callable[..., object]")


def reading_options(function: Decorated) -> Decorated:
    """Add --limit-rate, --keep-cache and --low-priority, which hold for the whole process until the command ends."""

    def reading(*arguments: object, **options: Any) -> object:
        rate, keeps_cache = options.pop("limit_rate"), options.pop("keep_cache")
        before = READING.keeps_cache, READING.limit, READING.gives_way
        READING.keeps_cache, READING.gives_way = keeps_cache, options.pop("low_priority")
        if READING.gives_way:
            from kafkalog_core.engine.pool import give_way  # noqa: PLC0415 -- for such a reader alone

            give_way()
        READING.limit = None if rate is None else ReadLimit(rate, time.monotonic, time.sleep)
        try:
            return function(*arguments, **options)
        finally:
            READING.keeps_cache, READING.limit, READING.gives_way = before

    return stacked(*_OPTIONS)(cast("Decorated", update_wrapper(reading, function)))


def parse_pair(text: str) -> tuple[str, str]:
    """Return name and value of `NAME=VALUE`. Raises BadParameter, without the text, which may be secret."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.BadParameter("write NAME=VALUE")
    return name, value


@option_type
def _parse_input_option(text: str) -> tuple[str, str]:
    """Return name and value; also where no path is of an object store, a name that none knows is an error."""
    name, value = parse_pair(text)
    require_known(name, OPTION_NAMES)
    return name, value


@option_type
def _parse_option(text: str) -> tuple[str, str]:
    """As `_parse_input_option`, with the names for outputs."""
    name, value = parse_pair(text)
    require_known(name)
    return name, value


def input_storage_option(function: Decorated) -> Decorated:
    """Add --storage-option, which holds for all inputs of the command."""

    def without(*arguments: object, storage: object, **options: Any) -> object:
        del storage
        return function(*arguments, **options)

    return _input_option(_reaching(cast("Decorated", update_wrapper(without, function))))


def storage_option(function: Decorated) -> Decorated:
    """Add --storage-option for inputs and outputs; the command gets the pairs as `storage`."""
    return _output_option(_reaching(function))


def _reaching(function: Decorated) -> Decorated:
    def storing(*arguments: object, **options: Any) -> object:
        before = REACHING.options
        REACHING.options = StorageOptions(tuple(options["storage"]))
        try:
            return function(*arguments, **options)
        finally:
            REACHING.options = before

    return cast("Decorated", update_wrapper(storing, function))


def _parse_rate(text: str) -> int:
    """Return bytes per second. Raises BadParameter for none."""
    rate = parse_size(text)
    if rate < 1:
        raise click.BadParameter("nothing would ever be read; expected bytes per second, such as 200MiB")
    return rate


_OF_S3 = "s3://: AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_ALLOW_HTTP"


def _option(kind: Callable[[str], tuple[str, str]], names: str) -> Callable[[Decorated], Decorated]:
    return click.option(
        "--storage-option",
        "storage",
        type=kind,
        multiple=True,
        metavar="NAME=VALUE",
        help=(
            f"How to reach {names}. Other users of this machine see command lines: give secrets in the environment, by "
            "the same names. Repeatable."
        ),
    )


_input_option = _option(_parse_input_option, _OF_S3)
_output_option = _option(
    _parse_option,
    f"{_OF_S3}; abfss://: AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN, AZURE_TENANT_ID, AZURE_CLIENT_ID, "
    "AZURE_CLIENT_SECRET; gs://: GOOGLE_APPLICATION_CREDENTIALS",
)
_OPTIONS = (
    click.option(
        "--limit-rate",
        type=_parse_rate,
        metavar="SIZE",
        help="Read no more than this in a second, all processes together: 200MiB, 1g (powers of 1024).",
    ),
    click.option(
        "--keep-cache",
        is_flag=True,
        help=(
            "Leave what is read in the page cache. By default pages that were not there before are given back, so that "
            "a live broker keeps its own; for that, this user must own the files or may write to them."
        ),
    ),
    click.option(
        "--low-priority",
        is_flag=True,
        help="Give way to other processes: for processors, and on Linux for disks (nice -n 19 ionice -c 3).",
    ),
)
