"""The command that avoids a predicted loss. All of them are here, so that they are changed in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.command_lines import shell_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalog_core.ops.preflight.partition_starts import PartitionStart

__all__ = ["way_of", "ways_of_all"]

_OF_HIDDEN: Final = "kafkalog verify {}"
_OF_UNKNOWN: Final = "kafkalog truncate {} --as-broker"
_STEPS: Final = ("kafkalog checkpoint ", "kafkalog reindex ")
"""Repairs of single files, which are parts of the plan of `kafkalog recover`."""


def way_of(start: PartitionStart, log_dirs: Sequence[str]) -> str | None:
    """Return the command line that avoids what a start does to a partition; None: there is none.

    Args:
        start: of the partition.
        log_dirs: of the broker: recover also writes their checkpoints and clean shutdown files, and the one with the
            metadata log shows which other replicas there are.
    """
    if start.cut is not None or start.fate == "refused":
        return _recovery(log_dirs)
    if start.hidden_offsets:
        return _OF_HIDDEN.format(shell_path(start.place.path))
    is_unsimulated = start.fate == "unknown" and start.result is None
    return _OF_UNKNOWN.format(shell_path(start.place.path)) if is_unsimulated else None


def ways_of_all(commands: Iterable[str], log_dirs: Sequence[str]) -> Iterator[str]:
    """Yield command lines without repetition; in place of all repairs of single files that of the broker, last."""
    rest = []
    for command in dict.fromkeys(commands):
        if command.startswith(_STEPS) or command == _recovery(log_dirs):
            rest = [_recovery(log_dirs)]
        else:
            yield command
    yield from rest


def _recovery(log_dirs: Sequence[str]) -> str:
    return f"kafkalog recover {' '.join(map(shell_path, log_dirs))}"
