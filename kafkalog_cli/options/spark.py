"""Options that all jobs on Spark share: the master, Java's memory, settings and archives."""

from __future__ import annotations

import os
import re
import time
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from kafkalog_core.spark.session.errors import SparkError, check_master
from kafkalog_core.spark.session.session import SessionSettings

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["new_run_id", "session_options"]

_MEMORY = re.compile(r"[1-9][0-9]*[kmgt]", re.IGNORECASE)

Decorated = TypeVar("Decorated", bound="Callable[..., object]")


def session_options(function: Decorated) -> Decorated:
    """Add --master, --driver-memory, --conf and --archives; the command receives them as `session`."""

    def with_session(*arguments: object, **options: Any) -> object:
        session = SessionSettings(
            master=options.pop("master"),
            driver_memory=options.pop("driver_memory"),
            confs=dict(map(_parsed, options.pop("confs"))),
            archives=options.pop("archives"),
            is_light=True,
            shows_log=os.environ.get("KAFKALOG_DEBUG") == "1",
        )
        return function(*arguments, session=session, **options)

    decorated: Any = update_wrapper(with_session, function)
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return cast("Decorated", decorated)


def _master(ctx: click.Context, parameter: click.Parameter, text: str) -> str:
    del ctx, parameter
    try:
        check_master(text)
    except SparkError as error:
        raise click.BadParameter(error.message) from None
    return text


def _memory(ctx: click.Context, parameter: click.Parameter, text: str) -> str:
    del ctx, parameter
    if _MEMORY.fullmatch(text) is None:
        raise click.BadParameter(f"{text!r} is not a size as Java writes it; write 512m or 4g")
    return text


_OPTIONS = (
    click.option(
        "--master",
        default="local[*]",
        callback=_master,
        show_default=True,
        metavar="URL",
        help=(
            "Where Spark runs: local[N] on N cores of this machine, spark://HOST:7077 on a cluster whose machines see "
            "all paths under the same names."
        ),
    ),
    click.option(
        "--driver-memory",
        default="1g",
        callback=_memory,
        show_default=True,
        metavar="SIZE",
        help="Heap of Spark's Java process on this machine, as Java writes it: 512m, 4g.",
    ),
    click.option(
        "--conf",
        "confs",
        multiple=True,
        metavar="KEY=VALUE",
        help="A setting of Spark, such as spark.executor.memory=4g. Repeatable.",
    ),
    click.option(
        "--archives",
        multiple=True,
        metavar="FILE",
        help="An archive of `kafkalog spark pack`, for executors where kafkalog is not installed. Repeatable.",
    ),
)


def _parsed(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.startswith("spark."):
        raise click.BadParameter(f"{text!r} is not a setting of Spark; write spark.NAME=VALUE", param_hint="'--conf'")
    return key, value


def new_run_id(now_ms: int) -> str:
    """Return a unique name for a run that writes: its time, for people who list the directory, and random digits."""
    return f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime(now_ms // 1000))}-{os.urandom(4).hex()}"
