"""What all jobs on Spark share: the options of the session, the name of a run, and the run itself."""

from __future__ import annotations

import os
import re
import sys
import time
from contextlib import closing
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from kafkalog_cli.commands.running import watched
from kafkalog_cli.options.common import option_type, stacked
from kafkalog_core.ops.verify.engine import log_bytes
from kafkalog_core.spark.session.errors import check_master
from kafkalog_core.spark.session.session import SessionSettings, spark_session
from kafkalog_core.spark.session.workers import SparkWorkers

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from kafkalog_core.engine.targets import Target
    from kafkalog_core.progress import Progress

__all__ = ["new_run_id", "run_on_spark", "session_options"]

_MEMORY = re.compile(r"[1-9][0-9]*[kmgt]", re.IGNORECASE)

Decorated = TypeVar("Decorated", bound="Callable[..., object]")
Item = TypeVar("Item")


def session_options(function: Decorated) -> Decorated:
    """Add --master, --driver-memory, --conf and --archives; the command receives them as `session`."""

    def with_session(*arguments: object, **options: Any) -> object:
        session = SessionSettings(
            master=options.pop("master"),
            driver_memory=options.pop("driver_memory"),
            confs=dict(options.pop("confs")),
            archives=options.pop("archives"),
            is_light=True,
            shows_log=os.environ.get("KAFKALOG_DEBUG") == "1",
        )
        return function(*arguments, session=session, **options)

    return stacked(*_OPTIONS)(cast("Decorated", update_wrapper(with_session, function)))


def _parse_master(text: str) -> str:
    option_type(check_master)(text)
    return text


def _parse_memory(text: str) -> str:
    if _MEMORY.fullmatch(text) is None:
        raise click.BadParameter(f"{text!r} is not a size as Java writes it; write 512m or 4g")
    return text


def _parse_conf(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.startswith("spark."):
        raise click.BadParameter(f"{text!r} is not a setting of Spark; write spark.NAME=VALUE")
    return key, value


_OPTIONS = (
    click.option(
        "--master",
        default="local[*]",
        type=_parse_master,
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
        type=_parse_memory,
        show_default=True,
        metavar="SIZE",
        help="Heap of Spark's Java process on this machine, as Java writes it: 512m, 4g.",
    ),
    click.option(
        "--conf",
        "confs",
        type=_parse_conf,
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


def new_run_id(now_ms: int) -> str:
    """Return a unique name for a run that writes: its time, for people who list the directory, and random digits."""
    return f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime(now_ms // 1000))}-{os.urandom(4).hex()}"


def run_on_spark(
    session: SessionSettings,
    job: Callable[[SparkWorkers, Progress], Generator[Item, None, None]],
    *,
    targets: Iterable[Target] = (),
    shares_terminal: bool = False,
) -> Generator[Item, None, None]:
    """Yield what a job yields; its Spark session ends with it.

    Args:
        session: settings of the session.
        job: returns the items; it gets the executors, and a progress listener that raises Stopped after Ctrl-C.
        targets: targets whose logs the progress bar expects to be read.
        shares_terminal: whether the rows appear on the terminal of the progress bar, which is then not shown.
    """
    with spark_session(session) as spark, watched(shares_terminal=shares_terminal) as progress:
        if sys.stderr.isatty() and not shares_terminal:
            progress.expect(log_bytes(targets))
        with closing(job(SparkWorkers(spark, progress), progress)) as items:
            yield from items
