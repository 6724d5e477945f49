"""Logs of a few MB, and how often a command reads each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.storage.planned import PlannedSource
from kafkalog_core.storage.source import Source
from tests.support import build
from tests.support.excising import Written, write_batches

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

VALUE = b"v" * 25_000
BATCHES = 120
"""In each segment: 3 MB, so that looks at single batches are little of it."""
LITTLE = 0.9
"""Of a log: what may be read of it besides, for the release, the end of the log and the indexes."""


def written(root: Path, *, is_clean: bool, bases: tuple[int, ...] = (0, BATCHES)) -> Written:
    """Segments with a producer, and the snapshot that a broker writes when it begins the second one."""
    segments = {
        base: [
            build.batch_v2(
                [build.Record(offset=offset, timestamp_ms=1000 + offset, key=b"k", value=VALUE)],
                producer_id=7,
                producer_epoch=0,
                base_sequence=offset,
            )
            for offset in range(base, base + BATCHES)
        ]
        for base in bases
    }
    log = write_batches(root, segments, is_clean=is_clean)
    if len(bases) == 1:
        return log
    last = BATCHES - 1
    producer = build.Producer(producer_id=7, epoch=0, last_sequence=last, last_offset=last, timestamp_ms=1000 + last)
    log.log(BATCHES, "snapshot").write_bytes(build.snapshot([producer]))
    return log


def counted(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Bytes that are read of each log from now on, by its path."""
    counts: dict[str, int] = {}
    for kind in (Source, PlannedSource):
        monkeypatch.setattr(kind, "_read_at", counting(counts, kind._read_at))
    return counts


def counting(counts: dict[str, int], really: Callable[[Source, memoryview, int], int]) -> object:
    """A `_read_at` that counts the bytes of logs."""

    def counted(self: Source, target: memoryview, position: int) -> int:
        size = really(self, target, position)
        if self.path.endswith(".log"):
            counts[self.path] = counts.get(self.path, 0) + size
        return size

    return counted


def times(log: Written, read: dict[str, int]) -> dict[int, float]:
    """How often each segment was read, as bytes per byte."""
    sizes = {base: log.log(base).stat().st_size for base in log.segments}
    return {base: read.get(str(log.log(base)), 0) / size for base, size in sizes.items()}
