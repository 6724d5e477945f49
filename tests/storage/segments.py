"""Small segments of every format, inside a partition directory with all its companion files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.support.build import (
    ABORT,
    COMMIT,
    GZIP,
    LZ4,
    NONE,
    SNAPPY,
    ZSTD,
    Producer,
    Record,
    batch_v2,
    empty_batch,
    epoch_checkpoint,
    message_v0,
    message_v07,
    message_v1,
    offset_index,
    partition_metadata,
    snapshot,
    time_index,
    txn_index,
    txn_marker,
    wrapper_v0,
    wrapper_v07,
    wrapper_v1,
)

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["SEGMENTS", "Segment", "write_partition"]

BASE_OFFSET = 300  # two bytes that are not zero: a flip of either one is seen on its own
CODEC_NAMES = {NONE: "none", GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """The entries of a log file, one after another. `aborted`: producer id, first and last offset of transactions."""

    format: str
    entries: tuple[bytes, ...]
    base_offset: int = BASE_OFFSET
    end_offset: int = BASE_OFFSET + 6
    aborted: tuple[tuple[int, int, int], ...] = ()

    @property
    def data(self) -> bytes:
        """The bytes of the file."""
        return b"".join(self.entries)

    @property
    def starts(self) -> list[int]:
        """Where each entry starts, and where the last one ends."""
        starts = [0]
        for entry in self.entries:
            starts.append(starts[-1] + len(entry))
        return starts

    @property
    def name(self) -> str:
        """Name of the log file."""
        return f"{self.base_offset:020d}.{'kafka' if self.format == 'v07' else 'log'}"


def _records(first: int, count: int = 2) -> list[Record]:
    return [
        Record(offset=first + n, timestamp_ms=1_700_000_000_000 + n, key=b"key", value=b"v", headers=((b"h", b"x"),))
        for n in range(count)
    ]


def _legacy(first: int, count: int = 2) -> list[Record]:
    return [
        Record(offset=r.offset, timestamp_ms=r.timestamp_ms, key=r.key, value=r.value) for r in _records(first, count)
    ]


def _v2(codec: int) -> Segment:
    firsts = range(BASE_OFFSET, BASE_OFFSET + 6, 2)
    entries = [batch_v2(_records(first), codec=codec, producer_id=4, producer_epoch=0) for first in firsts]
    return Segment(format="v2", entries=tuple(entries))


def _transactions() -> Segment:
    at = BASE_OFFSET
    ids = {"producer_id": 7, "producer_epoch": 1}
    return Segment(
        format="v2",
        entries=(
            batch_v2(_records(at), is_transactional=True, base_sequence=0, **ids),  # type: ignore[arg-type]
            txn_marker(COMMIT, offset=at + 2, **ids),
            batch_v2(_records(at + 3), is_transactional=True, base_sequence=2, codec=GZIP, **ids),  # type: ignore[arg-type]
            txn_marker(ABORT, offset=at + 5, **ids),
        ),
        aborted=((7, at + 3, at + 5),),
    )


def _compacted() -> Segment:
    """Gaps between the batches, and one that compaction has emptied."""
    at = BASE_OFFSET
    return Segment(
        format="v2",
        entries=(
            batch_v2(_records(at + 1), base_offset=at, last_offset=at + 9),
            empty_batch(at + 300, at + 400, producer_id=4, producer_epoch=0, base_sequence=0),
            batch_v2(_records(at + 1000, 1), delete_horizon_ms=1_700_000_000_000),
        ),
        end_offset=at + 1001,
    )


def _plain_legacy(magic: int) -> Segment:
    message = message_v1 if magic else message_v0
    entries = [message(record) for record in _legacy(BASE_OFFSET, 3)]
    return Segment(format=f"v{magic}", entries=tuple(entries), end_offset=BASE_OFFSET + 3)


def _wrappers(magic: int, codec: int) -> Segment:
    wrapper = wrapper_v1 if magic else wrapper_v0
    entries = [wrapper(_legacy(first), codec=codec) for first in range(BASE_OFFSET, BASE_OFFSET + 6, 2)]
    return Segment(format=f"v{magic}", entries=tuple(entries))


def _v07() -> Segment:
    entries = (
        message_v07(b"first"),
        message_v07(b""),
        message_v07(b"", magic=0),
        message_v07(b"fourth", magic=0),
        message_v07(b"last"),
    )
    return Segment(format="v07", entries=entries)


def _v07_wrappers() -> Segment:
    inner = wrapper_v07([message_v07(b"deep"), message_v07(b"deeper", magic=0)], codec=SNAPPY)
    entries = (
        wrapper_v07([message_v07(b"a"), inner, message_v07(b"b")], codec=GZIP),
        wrapper_v07([message_v07(b"c")], codec=SNAPPY),
    )
    return Segment(format="v07", entries=entries)


SEGMENTS: dict[str, Segment] = {
    "v07": _v07(),
    "v07-wrappers": _v07_wrappers(),
    "v0": _plain_legacy(0),
    "v1": _plain_legacy(1),
    **{f"v0-{CODEC_NAMES[codec]}": _wrappers(0, codec) for codec in (GZIP, SNAPPY, LZ4)},
    **{f"v1-{CODEC_NAMES[codec]}": _wrappers(1, codec) for codec in (GZIP, SNAPPY, LZ4)},
    **{f"v2-{CODEC_NAMES[codec]}": _v2(codec) for codec in (NONE, GZIP, SNAPPY, LZ4, ZSTD)},
    "v2-transactions": _transactions(),
    "v2-compacted": _compacted(),
}


def write_partition(directory: Path, segment: Segment) -> Path:
    """The partition directory as a broker leaves it; gives the path of its log file."""
    directory.mkdir()
    log = directory / segment.name
    log.write_bytes(segment.data)
    if segment.format == "v07":
        return log
    base = log.stem
    last = segment.end_offset - 1 - segment.base_offset
    (directory / f"{base}.index").write_bytes(offset_index([(last, segment.starts[-2])]))
    (directory / f"{base}.timeindex").write_bytes(time_index([(1_700_000_000_001, last)]))
    if segment.aborted:
        (directory / f"{base}.txnindex").write_bytes(txn_index([(*one, segment.end_offset) for one in segment.aborted]))
    if segment.format == "v2":
        producers = [Producer(producer_id=4, last_sequence=0, last_offset=segment.end_offset - 1)]
        (directory / f"{segment.end_offset:020d}.snapshot").write_bytes(snapshot(producers))
        (directory / "leader-epoch-checkpoint").write_bytes(epoch_checkpoint([(0, segment.base_offset)]))
        (directory / "partition.metadata").write_bytes(partition_metadata("d2hhdCBhIHRvcGljIGlkIQ"))
    return log
