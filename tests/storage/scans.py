"""A scan as plain values, for tests: what was found where."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkalog_core.storage.scan import Damage, ScanOptions, scan
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog_core.storage.scan import Run

__all__ = ["Found", "batches_of", "damages_of", "found_in", "scan_file", "scan_source"]


class Found(NamedTuple):
    """One batch that a scan has given out."""

    position: int
    size_bytes: int
    last_offset: int
    resynced: bool


def found_in(run: Run) -> list[Found]:
    """The batches of a run."""
    names = ("position", "size_bytes", "last_offset")
    rows = zip(*(run.batches.column(name).tolist() for name in names), strict=True)
    return [Found(at, size, last, run.resynced) for at, size, last in rows]


def scan_source(
    source: Source,
    *,
    base_offset: int | None = 0,
    is_v07: bool = False,
    resync: bool = False,
    max_batch_bytes: int = 2**28,
) -> list[Found | Damage]:
    """Everything in an open file; it must follow on each other without a gap."""
    options = ScanOptions(resync=resync, max_batch_bytes=max_batch_bytes)
    items: list[Found | Damage] = []
    for item in scan(source, base_offset=base_offset, is_v07=is_v07, options=options):
        items += [item] if isinstance(item, Damage) else found_in(item)
    at = 0
    for piece in items:
        if isinstance(piece, Damage) and piece.reason == "offset-order":
            assert piece.size_bytes == 0
            continue
        assert piece.position == at
        assert piece.size_bytes > 0
        at += piece.size_bytes
    assert at == source.size_bytes
    return items


def scan_file(path: Path, data: bytes, **options: object) -> list[Found | Damage]:
    """Everything in a file of these bytes."""
    path.write_bytes(data)
    with Source.open(path) as source:
        items = scan_source(source, **options)  # type: ignore[arg-type]
        assert source.size_bytes == len(data)
    return items


def batches_of(items: list[Found | Damage]) -> list[Found]:
    """The batches among the items."""
    return [item for item in items if isinstance(item, Found)]


def damages_of(items: list[Found | Damage]) -> list[tuple[str, int, int, int | None]]:
    """Reason, position, size and next offset of each damage."""
    return [
        (item.reason, item.position, item.size_bytes, item.next_offset) for item in items if isinstance(item, Damage)
    ]
