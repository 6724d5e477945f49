"""A log file's rows from its end to its start, in the memory of one window or one batch.

A first scan notes where its runs lie; each is then read again, the last one first.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.format.layout import MAX_INT64
from kafkalog_core.storage.scan import Damage, Run, scan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalog_core.storage.scan import ScanOptions
    from kafkalog_core.storage.source import Source

__all__ = ["runs_backwards"]

_ANY_OFFSET: Final = -MAX_INT64


class _Span(NamedTuple):
    """Where a run lies, and whether it was found by a search."""

    start: int
    end: int
    resynced: bool


def runs_backwards(
    source: Source,
    items: Iterable[Run | Damage],
    *,
    is_v07: bool,
    base_offset: int | None,
    options: ScanOptions,
) -> Iterator[Run | Damage]:
    """The items of a scan in reverse; runs are read a second time."""
    noted: list[_Span | Damage] = []
    for item in items:
        if isinstance(item, Damage):
            noted.append(item)
            continue
        positions, sizes = item.batches.column("position"), item.batches.column("size_bytes")
        noted.append(_Span(positions[0], positions[-1] + sizes[-1], item.resynced))
    for span in reversed(noted):
        if isinstance(span, Damage):
            yield span
            continue
        base = base_offset if is_v07 else _ANY_OFFSET  # of 0.7 it makes the addresses; order was checked the first time
        for item in scan(source, base_offset=base, is_v07=is_v07, options=options, start=span.start, end=span.end):
            if isinstance(item, Run):
                yield replace(item, resynced=span.resynced)
            elif item.size_bytes:  # could be read the first time, not the second
                yield item
