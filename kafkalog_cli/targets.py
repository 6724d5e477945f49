"""What the paths of a command line name: of several, one that cannot be read does not stop the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kafkalog_cli.render.cells import safe_text
from kafkalog_core.ops.selecting.targets import resolve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalog_core.errors import KafkalogError
    from kafkalog_core.ops.report import Report
    from kafkalog_core.ops.selecting.selection import Selection
    from kafkalog_core.ops.selecting.targets import Target

__all__ = ["resolve_readable"]


def resolve_readable(paths: Sequence[str], selection: Selection, report: Report) -> tuple[Target, ...]:
    """The targets that can be read; each of the others is said on stderr, and counts as refused in the report.

    Raises the error of the last one where there is none that can be read.
    """

    def refuse(error: KafkalogError) -> None:
        sentence = safe_text(str(error))
        report.refusals.append(sentence)
        click.echo(f"kafkalog: {sentence}", err=True)

    return tuple(resolve(paths, selection, on_refusal=refuse))
