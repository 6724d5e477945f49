"""What the paths of a command line name: of several, one that cannot be read does not stop the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kafkalog_cli.render.cells import safe_text
from kafkalog_core.ops.selecting.targets import LogDirTarget, resolve, where_to_look

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalog_core.errors import KafkalogError
    from kafkalog_core.ops.report import Report
    from kafkalog_core.ops.selecting.selection import Selection
    from kafkalog_core.ops.selecting.targets import Target

__all__ = ["resolve_all", "resolve_readable"]


def resolve_all(paths: Sequence[str], selection: Selection) -> tuple[Target, ...]:
    """Return what the paths name; raises the error of the first one that names nothing."""
    return _with_empty_ones(tuple(resolve(paths, selection)))


def resolve_readable(paths: Sequence[str], selection: Selection, report: Report) -> tuple[Target, ...]:
    """The targets that can be read; each of the others is said on stderr, and counts as refused in the report.

    Raises the error of the last one where there is none that can be read.
    """

    def refuse(error: KafkalogError) -> None:
        sentence = safe_text(str(error))
        report.refusals.append(sentence)
        click.echo(f"kafkalog: {sentence}", err=True)

    return _with_empty_ones(tuple(resolve(paths, selection, on_refusal=refuse)))


def _with_empty_ones(targets: tuple[Target, ...]) -> tuple[Target, ...]:
    """Return the targets; report each log directory that holds no partition, which rows alone do not show."""
    for target in targets:
        if isinstance(target, LogDirTarget) and not target.log_dir.partitions:
            sentence = f"{target.path}: a log directory without partitions; {where_to_look(target.path)}"
            click.echo(f"kafkalog: {safe_text(sentence)}", err=True)
    return targets
