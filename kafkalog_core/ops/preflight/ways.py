"""The command that avoids a predicted loss. All of them are here, so that they are changed in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.command_lines import shell_path

if TYPE_CHECKING:
    from kafkalog_core.ops.preflight.partition_starts import PartitionStart

__all__ = ["way_of"]

_OF_LOSS: Final = "kafkalog recover {}"
"""Of the whole log directory: recover also writes its checkpoints and its clean shutdown file."""
_OF_HIDDEN: Final = "kafkalog verify {}"
_OF_UNKNOWN: Final = "kafkalog truncate {} --as-broker"


def way_of(start: PartitionStart) -> str | None:
    """Return the command line that avoids what a start does to a partition; None: there is none."""
    if start.cut is not None or start.fate == "refused":
        return _OF_LOSS.format(shell_path(start.log_dir))
    if start.hidden_offsets:
        return _OF_HIDDEN.format(shell_path(start.place.path))
    return _OF_UNKNOWN.format(shell_path(start.place.path)) if start.fate == "unknown" else None
