"""The command that avoids a predicted loss. All of them are here, so that they are changed in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.command_lines import shell_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalog_core.kafka.sim.start.disk import Fate
    from kafkalog_core.ops.preflight.partition_starts import PartitionStart

__all__ = ["way_of"]

_RECOVER: Final = "kafkalog recover {}"
"""The least loss by which the broker starts."""
_OF_HIDDEN: Final = "kafkalog verify {}"
_OF_LOSS: Final = {
    "truncated": _RECOVER,
    # the log start offset beyond the end of the log is removed, because of which the start deletes all segments
    "below-start": _RECOVER,
    # a replacement that lacks records of the segments that it replaces is given up
    "replaced": _RECOVER,
}
_OF_FATE: Final[Mapping[Fate, str]] = {"refused": _RECOVER, "unknown": "kafkalog truncate {} --as-broker"}


def way_of(start: PartitionStart) -> str | None:
    """Return the command line that avoids what a start does to a partition; None: there is none."""
    template = _OF_FATE.get(start.fate)
    if start.cut is not None:
        template = _OF_LOSS[start.cut]
    elif start.hidden_offsets:
        template = _OF_HIDDEN
    return None if template is None else template.format(shell_path(start.place.path))
