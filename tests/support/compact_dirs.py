"""A log directory to compact: one partition with keyed records, and its files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tests.support import build
from tests.support.logs import dump_rows
from tests.support.truncating import write_log, write_tops

if TYPE_CHECKING:
    from pathlib import Path

NOW_MS = 5_000_000
SEGMENTS = {0: "aabc", 10: "abdd", 20: "ce", 30: "ab"}
"""One record a batch, by its key; 30 is active."""


def keyed(offset: int, key: str | None, value: str | None = "v") -> bytes:
    record = build.Record(
        offset=offset,
        timestamp_ms=1000 + offset,
        key=None if key is None else key.encode(),
        value=None if value is None else f"{value}{offset}".encode(),
    )
    return build.batch_v2([record])


def write(root: Path, *, checkpoint: int = 0) -> Path:
    """A log directory with one partition, cleaned up to an offset."""
    segments = {base: [keyed(base + at, key) for at, key in enumerate(keys)] for base, keys in SEGMENTS.items()}
    partition = write_log(root / "t-0", segments)
    for offset in (10, 20, 30, 32):
        (partition / f"{offset:020d}.snapshot").write_bytes(build.snapshot([]))
    write_tops(root, is_clean=True, recovery=[("t", 0, 32)], watermarks=[("t", 0, 32)], cleaned=[("t", 0, checkpoint)])
    (root / "meta.properties").write_bytes(build.meta_properties({"version": "1", "node.id": "1"}))
    for number, path in enumerate(sorted(partition.iterdir())):
        time_ns = (NOW_MS - 1_000_000 + number) * 1_000_000
        os.utime(path, ns=(time_ns, time_ns))
    return root


def records(partition: Path) -> list[tuple[int, str]]:
    """Offsets and keys."""
    return [(row["offset"], row["key"].decode()) for row in dump_rows(partition, level="records")]
