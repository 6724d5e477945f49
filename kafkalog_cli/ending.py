"""How a command ends that shows rows as they come, and cannot go on to the last of them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from kafkalog_cli.exits import ExitStatus, status_of
from kafkalog_cli.interrupt import Stopped
from kafkalog_core.errors import KafkalogError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkalog_core.ops.report import Report

__all__ = ["early_end"]


class Finishing(Protocol):
    """Any writer of rows."""

    def finish(self, summary: Mapping[str, object]) -> None:
        """Show the summary behind all rows."""


@contextmanager
def early_end(writer: Finishing, report: Report) -> Iterator[None]:
    """Where the body ends by Ctrl-C or an error of ours, what is known by then gets its summary before that is said.

    An error before the first row has none: there is nothing to sum up. Behind the body the caller writes the summary of
    a whole result.
    """
    try:
        yield
    except Stopped:
        unfinished = {"unfinished_bytes": report.unfinished_bytes}  # not a column: only the last line shows it
        writer.finish(report.summary_row() | {"interrupted": True, "exit_status": int(ExitStatus.CRASH)} | unfinished)
        raise
    except KafkalogError as error:
        if report.rows:
            writer.finish(report.summary_row() | {"exit_status": int(status_of(error))})
        raise
