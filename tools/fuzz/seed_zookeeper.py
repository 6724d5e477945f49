"""The seeds of `zookeeper`: transactions, snapshots and nodes of the real servers in `fixtures/`."""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING, Final

from kafkalog_core.format.zookeeper.layout import FILE_HEADER
from kafkalog_core.format.zookeeper.snapshots import decode_snapshot
from kafkalog_core.format.zookeeper.txn_log import LogEntry, read_entry
from tools.fuzz.targets.zookeeper import NODES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["zookeeper_seeds"]

RECORDS, SNAPSHOTS, LOGS, MEANINGS = range(4)
_SMALL: Final = 1400


def zookeeper_seeds(fixtures: Path) -> Iterator[bytes]:
    """Yield inputs: the number of the target, then what it takes."""
    for archive in sorted(fixtures.glob("zookeeper/*.tgz")):
        with tarfile.open(archive) as tar:
            for member in tar:
                file = tar.extractfile(member) if "version-2/" in member.name and member.isfile() else None
                data = b"" if file is None else file.read()
                if "/log." in member.name:
                    yield from _of_log(data)
                elif "/snapshot." in member.name and data.startswith(b"ZKSN"):
                    yield from _of_snapshot(data)


def _of_log(data: bytes) -> Iterator[bytes]:
    at = FILE_HEADER.size
    while isinstance(entry := read_entry(data, at, is_last=True), LogEntry):
        raw = data[entry.start : entry.end]
        if len(raw) < _SMALL:
            yield bytes((RECORDS,)) + raw
            yield bytes((LOGS, 0)) + raw
        at = entry.next_position
    yield bytes((LOGS, 0x80)) + data[:_SMALL]


def _of_snapshot(data: bytes) -> Iterator[bytes]:
    if len(data) < _SMALL:
        yield bytes((SNAPSHOTS, 0x80)) + data
        yield bytes((SNAPSHOTS, 0)) + data
    for path, node in decode_snapshot(data).nodes.items():
        if node.data and len(node.data) < _SMALL:
            yield bytes((MEANINGS, sum(path.encode()) % len(NODES))) + node.data
