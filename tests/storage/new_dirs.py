"""A new directory tree with files, made on a given disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.storage.changing.new_dir import NewDir

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog_core.storage.changing.writer import Disk

MTIME_NS = 1_700_000_000_123_456_789


def make(path: Path, disk: Disk) -> None:
    with NewDir(str(path), disk=disk, like=str(path.parent), needs_bytes=100) as new:
        new.directory("t-0")
        with new.file("t-0/0.log", mtime_ns=MTIME_NS) as file:
            for _ in range(3):
                file.write(b"log")
        new.add("t-0/0.index", b"")
        new.add("top", [b"a", memoryview(b"b")])
        new.commit()
