"""Seeded log dirs for the pipeline: batches of 200 records, keys of 15 bytes, values of 64, one header each.

Keys are drawn evenly from a million for each partition; half of the records have one and the same key where a hot key
is asked for. Values are random bytes, so that no dictionary helps a file format that nobody's data would help. A
partition is cut into closed segments of equal size, each with both of its indexes, and an active one of a single batch,
which no cleaner touches. Kept directories are used again when the numbers agree.
"""

from __future__ import annotations

import json
import random
from itertools import islice
from typing import TYPE_CHECKING, Final

from benchmarks.keyed import NewBatch, SegmentFiles, batch_bytes, varint
from kafkalog_core.format.names import FileKind, fixed_file_name
from kafkalog_core.ops.bench import FIRST_TIMESTAMP_MS
from kafkalog_core.structs import Struct, asdict

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Disk", "write_disk"]

RECORDS_A_BATCH: Final = 200
_KEYS: Final = 1_000_000
_KEY_BYTES: Final = 15
_VALUE_BYTES: Final = 64
_TOPIC: Final = "events"
_SEED: Final = 20_261_121
_ENDS: Final = varint(1) + varint(6) + b"source" + varint(6) + b"sensor"
"""The headers, which are the end of a record: one, `source: sensor`."""


class Disk(Struct, frozen=True, kw_only=True):
    """A written log dir, and what a reader must find in it."""

    path: str
    size_bytes: int
    records: int
    partitions: int
    segments: int
    """Closed ones of a partition."""
    hot_key: bool


def write_disk(directory: Path, records: int, *, partitions: int, segments: int, hot_key: bool = False) -> Disk:
    """A log dir of so many records, or the one that is there."""
    home = directory / f"events-{records}-{partitions}x{segments}{'-hot' if hot_key else ''}"
    note = directory / f"{home.name}.json"
    if note.exists() and home.exists():
        return Disk(**json.loads(note.read_text()))
    size_bytes = 0
    for partition in range(partitions):
        place = home / f"{_TOPIC}-{partition}"
        place.mkdir(parents=True, exist_ok=True)
        size_bytes += _write_partition(place, partition, records // partitions, segments, hot_key=hot_key)
        (place / fixed_file_name(FileKind.LEADER_EPOCH)).write_bytes(b"0\n1\n0 0\n")
    disk = Disk(
        path=str(home),
        size_bytes=size_bytes,
        records=records // partitions * partitions,
        partitions=partitions,
        segments=segments,
        hot_key=hot_key,
    )
    note.write_text(json.dumps(asdict(disk)))
    return disk


def _write_partition(place: Path, partition: int, records: int, segments: int, *, hot_key: bool) -> int:
    """Bytes of its logs. The last batch is in the active segment."""
    batches = _batches(random.Random(_SEED + partition), records, hot_key=hot_key)
    closed = records // RECORDS_A_BATCH - 1
    step = -(-closed // segments)
    size_bytes = offset = 0
    for count in [*(min(step, closed - first) for first in range(0, closed, step)), 1]:
        files = SegmentFiles(place, offset)
        for batch in islice(batches, count):
            files.add(batch)
        size_bytes += files.close()
        offset += count * RECORDS_A_BATCH
    return size_bytes


def _batches(chance: random.Random, records: int, *, hot_key: bool) -> Iterator[NewBatch]:
    names = [b"%015d" % number for number in range(_KEYS)]
    if hot_key:
        names += [b"hot-%011d" % 0] * _KEYS
    rest_bytes = len(varint(_VALUE_BYTES)) + _VALUE_BYTES + len(_ENDS)
    heads = [_head(delta, rest_bytes) for delta in range(RECORDS_A_BATCH)]
    starts = range(0, RECORDS_A_BATCH * _VALUE_BYTES, _VALUE_BYTES)
    middle = varint(_VALUE_BYTES)
    for first in range(0, records, RECORDS_A_BATCH):
        keys = chance.choices(names, k=RECORDS_A_BATCH)
        values = chance.randbytes(RECORDS_A_BATCH * _VALUE_BYTES)
        body = b"".join(
            [
                head + key + middle + values[start : start + _VALUE_BYTES] + _ENDS
                for head, key, start in zip(heads, keys, starts, strict=True)
            ]
        )
        time_ms = FIRST_TIMESTAMP_MS + first // 100
        last = first + RECORDS_A_BATCH - 1
        yield NewBatch(batch_bytes(first, RECORDS_A_BATCH, time_ms, body), last, time_ms)


def _head(delta: int, rest_bytes: int) -> bytes:
    """A record up to its key."""
    start = b"\0\0" + varint(delta) + varint(_KEY_BYTES)
    return varint(len(start) + _KEY_BYTES + rest_bytes) + start
