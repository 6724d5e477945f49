"""The offsets that are missing in one place of a partition, without those that its logs hold in another place.

A batch with a wrong base offset leaves a gap where it should be, and so does a file that was renamed or restored over
another. Its records are there, and a broker finds them, so they are not missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import StorageError
from kafkalog_core.storage.scan import Run, ScanOptions, scan
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalog_core.format.columns import BatchColumns

__all__ = ["OffsetSpans", "held_offsets", "not_held"]

_MOST: Final = 500_000
OffsetSpans = list[tuple[int, int]]
"""Spans of offsets (first, last), ascending and apart."""


def held_offsets(paths: Iterable[str], options: ScanOptions) -> OffsetSpans:
    """Return the offsets of all whole batches in some logs, whatever their order; files that cannot be read have none.

    Reads all of the logs. Nothing where the offsets are in very many spans, as those of a large log that was compacted:
    then what is missing somewhere is not searched elsewhere.
    """
    spans: OffsetSpans = []
    for path in paths:
        try:
            with Source.open(path) as source:
                items = scan(source, base_offset=None, options=replace(options, resync=True))
                runs = (item.batches for item in items if isinstance(item, Run))
                for batches in runs:
                    spans += _of(batches)
                    if len(spans) > _MOST and len(spans := _merged(spans)) > _MOST:
                        return []
        except StorageError:
            continue
    return _merged(spans)


def _of(batches: BatchColumns) -> Iterator[tuple[int, int]]:
    """Yield the spans of a run; of batches that continue each other one. Of a compressed message only its last."""
    bases, lasts = batches.column("base_offset").tolist(), batches.column("last_offset").tolist()
    spans = [(last if base < 0 else base, last) for base, last in zip(bases, lasts, strict=True)]
    begun: tuple[int, int] | None = None
    for first, last in spans:
        if begun is not None and first == begun[1] + 1:
            begun = begun[0], last
            continue
        if begun is not None:
            yield begun
        begun = first, last
    if begun is not None:
        yield begun


def _merged(spans: Sequence[tuple[int, int]]) -> OffsetSpans:
    merged: OffsetSpans = []
    for first, last in sorted(spans):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(last, merged[-1][1])
        else:
            merged.append((first, last))
    return merged


def not_held(first: int, last: int, held: OffsetSpans) -> OffsetSpans:
    """Return the parts of a span of offsets that `held` does not have."""
    parts: OffsetSpans = []
    for begin, end in held:
        if begin > last:
            break
        if begin > first:
            parts.append((first, begin - 1))
        first = max(first, end + 1)
    return [*parts, (first, last)] if first <= last else parts
