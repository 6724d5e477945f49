"""What the commands share that show verdicts: options, and the way from verdicts to rows and an exit status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from kafkalog_cli.ending import early_end
from kafkalog_core.ops.verify.rows import count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kafkalog_cli.render import VerdictWriter
    from kafkalog_core.ops.report import Report
    from kafkalog_core.ops.verify.verdict import PartitionVerdict, PlaceVerdict

__all__ = ["level_option", "verdict_options", "write_all"]

Decorated = TypeVar("Decorated", bound="Callable[..., Any]")

level_option = click.option(
    "--level",
    type=click.Choice(("headers", "checksums", "records")),
    default="records",
    show_default=True,
    help=(
        "How deep to look: headers reads batch headers, indexes and small files; checksums every byte; records also "
        "decodes every record."
    ),
)
_fail_on_option = click.option(
    "--fail-on",
    type=click.Choice(("error", "warning")),
    default="error",
    show_default=True,
    help="The least severity of a finding that makes the exit status 4.",
)
_quiet_option = click.option("--quiet", is_flag=True, help="Only the summary line, on stderr, and the exit status.")


def verdict_options(function: Decorated) -> Decorated:
    """--level, --fail-on, --quiet."""
    return level_option(_fail_on_option(_quiet_option(function)))


def write_all(
    writers: Sequence[VerdictWriter],
    verdicts: Iterable[PartitionVerdict | PlaceVerdict],
    report: Report,
) -> None:
    """Write every verdict; where the next one cannot be had, what is known is shown before that is said."""
    shown = writers[0]  # a page of half of it would look like one of all
    with early_end(shown, report):
        for verdict in verdicts:
            count(verdict, report)
            for writer in writers:
                writer.write(verdict)
