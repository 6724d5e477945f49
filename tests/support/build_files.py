"""Builders of the small files of a partition and a log directory; `tests.support.build` offers them with the rest."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import crc32c

from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


def offset_index(entries: Iterable[tuple[int, int]]) -> bytes:
    """`.index`: (relative offset, position in the log)."""
    return b"".join(struct.pack(">ii", *entry) for entry in entries)


def time_index(entries: Iterable[tuple[int, int]]) -> bytes:
    """`.timeindex`: (timestamp, relative offset)."""
    return b"".join(struct.pack(">qi", *entry) for entry in entries)


def txn_index(entries: Iterable[tuple[int, int, int, int]], *, version: int = 0) -> bytes:
    """`.txnindex`: (producer id, first offset, last offset, last stable offset) of aborted transactions."""
    return b"".join(struct.pack(">hqqqq", version, *entry) for entry in entries)


class Producer(Struct, frozen=True, kw_only=True):
    """One producer's state in a snapshot."""

    producer_id: int
    epoch: int = 0
    last_sequence: int = -1
    last_offset: int = -1
    offset_delta: int = 0
    timestamp_ms: int = -1
    coordinator_epoch: int = -1
    current_txn_first_offset: int = -1


def snapshot(
    producers: Sequence[Producer], *, version: int = 1, count: int | None = None, crc: int | None = None
) -> bytes:
    """`.snapshot`: the producers' state."""
    parts = [struct.pack(">i", len(producers) if count is None else count)]
    for p in producers:
        parts.append(struct.pack(">qhiqi", p.producer_id, p.epoch, p.last_sequence, p.last_offset, p.offset_delta))
        parts.append(struct.pack(">qiq", p.timestamp_ms, p.coordinator_epoch, p.current_txn_first_offset))
    covered = b"".join(parts)
    return struct.pack(">hI", version, crc32c.crc32c(covered) if crc is None else crc) + covered


def offset_checkpoint(entries: Sequence[tuple[str, int, int]], *, version: int = 0, count: int | None = None) -> bytes:
    """Recovery points, high watermarks, log starts, cleaner offsets: (topic, partition, offset)."""
    return _checkpoint([f"{topic} {partition} {offset}" for topic, partition, offset in entries], version, count)


def epoch_checkpoint(entries: Sequence[tuple[int, int]], *, version: int = 0, count: int | None = None) -> bytes:
    """`leader-epoch-checkpoint`: (epoch, start offset)."""
    return _checkpoint([f"{epoch} {offset}" for epoch, offset in entries], version, count)


def _checkpoint(lines: Sequence[str], version: int, count: int | None) -> bytes:
    head = [str(version), str(len(lines) if count is None else count)]
    return "".join(line + "\n" for line in [*head, *lines]).encode()


def partition_metadata(topic_id: str, *, version: int = 0) -> bytes:
    """`partition.metadata`: the topic id is base64url of 16 bytes, without padding."""
    return f"version: {version}\ntopic_id: {topic_id}".encode()


def meta_properties(properties: Mapping[str, str]) -> bytes:
    """`meta.properties` as java.util.Properties stores it, its date line included."""
    lines = ["#", "#Thu Jan 01 00:00:00 UTC 1970", *(f"{key}={value}" for key, value in properties.items())]
    return "".join(line + "\n" for line in lines).encode()
