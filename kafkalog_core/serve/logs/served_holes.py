"""The damaged places of a log that are not served, each reported once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalog_core.serve.logs.batch_map import BatchMap

__all__ = ["HoleReports", "ServedHole"]


class ServedHole(Struct, frozen=True, kw_only=True):
    """A damaged place that is not served.

    `first_offset` is the offset that is expected there; None: unknown.
    """

    path: str
    position: int
    size_bytes: int
    reason: str
    detail: str
    first_offset: int | None


class HoleReports:
    """Reports the holes of one log as its segments are mapped.

    Attributes:
        any_found: whether a segment that was mapped so far has a hole.
    """

    def __init__(self, notify: Callable[[ServedHole], None] | None) -> None:
        """Begin. notify: receives each hole once, on the thread that meets it; None: no holes are reported."""
        self._notify = notify
        self._reported: set[tuple[str, int]] = set()
        self.any_found = False

    def report(self, path: str, batches: BatchMap) -> None:
        """Report the holes in the map of a log file. Zeros at its end are preallocated space, not a hole."""
        for damage in batches.holes:
            if damage.is_zeros:
                continue
            self.any_found = True
            if self._notify is None or (path, damage.position) in self._reported:
                continue
            self._reported.add((path, damage.position))
            self._notify(
                ServedHole(
                    path=path,
                    position=damage.position,
                    size_bytes=damage.size_bytes,
                    reason=damage.reason,
                    detail=damage.detail,
                    first_offset=damage.next_offset,
                )
            )
