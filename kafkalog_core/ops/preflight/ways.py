"""The command that avoids a predicted loss. All of them are here, so that they are changed in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.command_lines import shell_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalog_core.kafka.sim.start.disk import Fate

__all__ = ["way_of_fate", "way_of_loss"]

_TRUNCATED: Final = "kafkalog reindex {} --as-broker"
"""Truncates the one damaged segment before the start, which then keeps the segments after it."""
_OF_LOSS: Final = {
    "truncated": _TRUNCATED,
    "emptied": _TRUNCATED,
    "hidden": "kafkalog verify {}",
    "below-start": "kafkalog verify {}",
}
_OF_FATE: Final[Mapping[Fate, str]] = {"refused": "kafkalog verify {}", "unknown": "kafkalog verify {}"}
"""What verify finds there names the next command."""


def way_of_loss(kind: str, path: str) -> str | None:
    """Return the command line that avoids a loss in the directory of a partition; None: there is none."""
    template = _OF_LOSS.get(kind)
    return None if template is None else template.format(shell_path(path))


def way_of_fate(fate: Fate, path: str) -> str | None:
    """Return the command line that comes next for a partition that is not loaded; None: there is none."""
    template = _OF_FATE.get(fate)
    return None if template is None else template.format(shell_path(path))
