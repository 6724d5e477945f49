"""Errors that no fault of the corpus shows, planted by hand in a log directory that a real broker left."""

from __future__ import annotations

import os
import re
import shutil
import struct
import zlib
from typing import TYPE_CHECKING, Final

from kafkalog_core.format.checksums import crc32c
from kafkalog_core.structs import replace
from tests.support import build
from tests.support.build import Record
from tests.support.mutating import batches_of
from tests.support.wrong_payloads import PAYLOADS, lz4_dependent

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["FILES", "PARTITION", "PLANTS", "plant"]

PARTITION: Final = "orders-0"
_TIME_MS: Final = 1_700_000_000_000
_PRODUCER: Final = 77
_TWO_BLOCKS: Final = 70_000
"""Bytes that do not fit into one block of an lz4 frame."""


def _end_of(log: Path) -> tuple[int, int]:
    """The log end offset, and the leader epoch of the last batch."""
    last = batches_of(log.read_bytes())[-1]
    base, delta = int.from_bytes(last[:8], "big"), int.from_bytes(last[23:27], "big")
    return base + delta + 1, int.from_bytes(last[12:16], "big")


def _records(offset: int, count: int = 2) -> list[Record]:
    return [Record(offset=offset + each, timestamp_ms=_TIME_MS, key=b"k", value=b"planted") for each in range(count)]


def _contents(payload: bytes, count: int = 1) -> Callable[[int, int], bytes]:
    """A batch with a right checksum over records that are not right."""

    def made(offset: int, epoch: int) -> bytes:
        return build.batch_v2(
            base_offset=offset,
            last_offset=offset + count - 1,
            base_timestamp_ms=_TIME_MS,
            max_timestamp_ms=_TIME_MS,
            records_count=count,
            payload=payload,
            leader_epoch=epoch,
        )

    return made


def _compressed(offset: int, epoch: int, codec: int, change: Callable[[bytes], bytes], key_bytes: int = 1) -> bytes:
    """A batch of right records, compressed in a way that Java's code does not read."""
    records = [replace(each, key=bytes(key_bytes)) for each in _records(offset)]
    plain = b"".join(build.record_v2(record, base_offset=offset, base_timestamp_ms=_TIME_MS) for record in records)
    return build.batch_v2(records, codec=codec, payload=change(plain), leader_epoch=epoch)


def _inner(inner: bytes) -> Callable[[int, int], bytes]:
    """A compressed message of magic 1 with such messages inside."""

    def made(offset: int, _: int) -> bytes:
        return build.wrapper_v1(offset=offset + 1, inner=inner)

    return made


def _transaction(offset: int, epoch: int) -> bytes:
    """A batch outside of a transaction of its producer, which is open."""
    ids = {"producer_id": _PRODUCER, "producer_epoch": 0, "leader_epoch": epoch}
    opened = build.batch_v2(_records(offset), base_sequence=0, is_transactional=True, **ids)
    return opened + build.batch_v2(_records(offset + 2), base_sequence=2, **ids)


def _marker(key: bytes, value: bytes) -> Callable[[int, int], bytes]:
    def made(offset: int, epoch: int) -> bytes:
        record = Record(offset=offset, timestamp_ms=_TIME_MS, key=key, value=value)
        ids = {"producer_id": _PRODUCER, "producer_epoch": 0, "leader_epoch": epoch}
        return build.batch_v2([record], is_control=True, is_transactional=True, **ids)

    return made


def _markers(offset: int, epoch: int) -> bytes:
    key, value = b"\0\0\0\1", bytes(6)
    records = [Record(offset=offset + each, timestamp_ms=_TIME_MS, key=key, value=value) for each in range(2)]
    ids = {"producer_id": _PRODUCER, "producer_epoch": 0, "leader_epoch": epoch}
    return build.batch_v2(records, is_control=True, is_transactional=True, **ids)


def _message(fields: bytes) -> bytes:
    """A message of magic 1 with a right checksum over a key and a value that are not right."""
    covered = struct.pack(">bBq", 1, 0, _TIME_MS) + fields
    return struct.pack(">qiI", 0, len(covered) + 4, zlib.crc32(covered)) + covered


_ZIPPED: Final = build.compress(build.GZIP, bytes(4000), magic=2, framing=None)
_ONE: Final = build.message_v1(Record(offset=0, timestamp_ms=_TIME_MS, value=b"planted"))
PLANTS: Final[dict[str, Callable[[int, int], bytes]]] = {
    "batch.payload": lambda offset, epoch: build.batch_v2(
        _records(offset), codec=build.GZIP, payload=_ZIPPED[:-8] + bytes(8), leader_epoch=epoch
    ),
    "batch.payload-truncated": lambda offset, epoch: build.batch_v2(
        _records(offset),
        codec=build.GZIP,
        payload=_ZIPPED[:-9],
        leader_epoch=epoch,
    ),
    "batch.payload-dependent": lambda offset, epoch: _compressed(offset, epoch, build.LZ4, lz4_dependent, _TWO_BLOCKS),
    "batch.payload-window": lambda offset, epoch: _compressed(
        offset, epoch, build.ZSTD, PAYLOADS["zstd"]["window of 256 MiB"][0]
    ),
    "batch.compressed-empty": lambda offset, epoch: build.batch_v2(
        base_offset=offset,
        last_offset=offset,
        codec=build.GZIP,
        payload=build.compress(build.GZIP, b"", magic=2, framing=None),
        records_count=0,
        leader_epoch=epoch,
    ),
    "batch.unknown-codec": lambda offset, epoch: build.batch_v2(_records(offset), attributes=6, leader_epoch=epoch),
    "batch.record-count": _contents(b"\x0c\0\0\0\1\1\0" + bytes(9)),
    "batch.header-contradiction": lambda offset, epoch: build.batch_v2(
        _records(offset), records_count=-1, leader_epoch=epoch
    ),
    "batch.bad-epoch": lambda offset, _: build.batch_v2(_records(offset), leader_epoch=-5),
    "record.offset-outside": lambda offset, epoch: build.batch_v2(
        _records(offset, 4), last_offset=offset + 1, leader_epoch=epoch
    ),
    "record.offset-order": lambda offset, epoch: build.batch_v2(
        [*_records(offset, 2), *_records(offset, 2)], base_offset=offset, last_offset=offset + 3, leader_epoch=epoch
    ),
    "record.length": _contents(b"\xff\x01" + bytes(3)),
    "record.varint": _contents(b"\xff" * 12),
    "record.trailing": _contents(b"\x10\0\0\0\1\1\0" + bytes(2)),
    "record.key": _contents(b"\x10\0\0\0\x7e" + bytes(4)),
    "record.value": _contents(b"\x12\0\0\0\1\x7e" + bytes(4)),
    "record.headers": _contents(b"\x10\0\0\0\1\1\x01" + bytes(2)),
    "batch.wrapper-value": lambda offset, _: build.message_v1(
        Record(offset=offset, timestamp_ms=_TIME_MS, value=None), attributes=build.GZIP
    ),
    "batch.wrapper-empty": lambda offset, _: build.wrapper_v1(offset=offset, inner=b""),
    "record.wrapper-overlap": lambda offset, _: build.wrapper_v1(_records(offset - 3, 5), offset=offset + 1),
    "record.wrapper-end": lambda offset, _: build.wrapper_v0(_records(offset, 2), offset=offset + 4),
    "record.inner-length": _inner(bytes(8) + b"\0\0\0\3" + bytes(40)),
    "record.inner-key": _inner(_message(struct.pack(">ii", 99, -1))),
    "record.inner-value": _inner(_message(struct.pack(">ii", -1, 99))),
    "record.inner-magic": _inner(build.message_v1(Record(offset=0, value=b"planted"), magic=5) + _ONE),
    "record.inner-nested": _inner(build.wrapper_v1([Record(offset=0, value=b"planted")]) + _ONE),
    "record.inner-offset": _inner(build.message_v1(Record(offset=2**40, timestamp_ms=_TIME_MS, value=b"planted"))),
    "record.inner-crc": _inner(build.message_v1(Record(offset=0, value=b"planted"), crc=1) + _ONE),
    "record.control-key": _marker(b"\0\0", bytes(6)),
    "record.control-value": _marker(b"\0\0\0\1", b"\0"),
    "record.marker-count": _markers,
    "txn.plain-inside": _transaction,
    "log.zero-filled": lambda offset, epoch: bytes(500) + build.batch_v2(_records(offset), leader_epoch=epoch),
    "segment.offset-overflow": lambda offset, epoch: build.batch_v2(_records(offset + 2**31), leader_epoch=epoch),
}
"""The batches that plant a code, by their first offset and the leader epoch, at the end of the last log."""


# --- small files ------------------------------------------------------------------------------------------------------
def _text(name: str, content: str | bytes) -> Callable[[Path], None]:
    """Replace a text file."""
    data = content.encode() if isinstance(content, str) else content
    return lambda disk: _write(disk / name, data)


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def _edited(name: str, old: str, new: str) -> Callable[[Path], None]:
    """Replace what a pattern matches in a text file."""

    def made(disk: Path) -> None:
        text = (disk / name).read_text()
        found = re.sub(old, new, text, count=1, flags=re.MULTILINE)
        assert found != text, text
        (disk / name).write_text(found)

    return made


def _index_directory(disk: Path) -> None:
    index = min((disk / PARTITION).glob("*.index"))
    index.unlink()
    index.mkdir()


def _epochs_directory(disk: Path) -> None:
    (disk / _EPOCHS).unlink()
    (disk / _EPOCHS).mkdir()


def _mark_directory(disk: Path) -> None:
    """A directory in the place of the clean shutdown file, which a broker cannot delete."""
    (disk / ".kafka_cleanshutdown").mkdir()
    (disk / ".kafka_cleanshutdown" / "a file").touch()


def _copied(disk: Path) -> None:
    """The partition once more, under another number of the same value."""
    shutil.copytree(disk / PARTITION, disk / f"{PARTITION}0")


def _oversize(disk: Path) -> None:
    """A log that is larger than a broker opens: zeros follow, of which the disk holds none."""
    log = max((disk / PARTITION).glob("*.log"))
    os.truncate(log, 2**31 + 10)


def _cut_timeindex(disk: Path) -> None:
    index = min(path for path in (disk / PARTITION).glob("*.timeindex") if path.stat().st_size >= 2 * _TIME_ENTRY)
    index.write_bytes(index.read_bytes()[:-_TIME_ENTRY])


def _misnamed(disk: Path) -> None:
    """Take zeros from the name of a log, whose indexes keep theirs."""
    log = sorted((disk / PARTITION).glob("*.log"))[1]
    log.rename(log.with_name(f"{int(log.stem)}.log"))


def _of_snapshot(edit: Callable[[list[bytes]], list[bytes]]) -> Callable[[Path], None]:
    """Edit the entries of the newest producer snapshot of the partition that is not empty; its checksum is right."""

    def made(disk: Path) -> None:
        path = max(each for each in (disk / PARTITION).glob("*.snapshot") if each.stat().st_size > _SNAPSHOT_HEAD)
        data = path.read_bytes()
        starts = range(_SNAPSHOT_HEAD, len(data), _SNAPSHOT_ENTRY)
        entries = edit([data[at : at + _SNAPSHOT_ENTRY] for at in starts])
        covered = struct.pack(">i", len(entries)) + b"".join(entries)
        path.write_bytes(data[:2] + struct.pack(">I", crc32c(covered)) + covered)

    return made


def _other_epoch(entry: bytes) -> bytes:
    """An entry whose producer epoch is another one."""
    return entry[:8] + struct.pack(">h", struct.unpack(">h", entry[8:10])[0] + 3) + entry[10:]


def _of_txnindex(edit: Callable[[list[bytes]], list[bytes]]) -> Callable[[Path], None]:
    """Edit the entries of a transaction index with two of them at least."""

    def made(disk: Path) -> None:
        index = min(path for path in disk.glob("*/*.txnindex") if path.stat().st_size >= 2 * _TXN_ENTRY)
        data = index.read_bytes()
        entries = [data[at : at + _TXN_ENTRY] for at in range(0, len(data), _TXN_ENTRY)]
        index.write_bytes(b"".join(edit(entries)))

    return made


def _one_later(entry: bytes) -> bytes:
    """An aborted transaction that ends one offset later, where the log has no marker."""
    return entry[:18] + struct.pack(">q", struct.unpack(">q", entry[18:26])[0] + 1) + entry[26:]


_TIME_ENTRY: Final = 12
_TXN_ENTRY: Final = 34
_SNAPSHOT_HEAD: Final = 10
_SNAPSHOT_ENTRY: Final = 46
_RECOVERY: Final = "recovery-point-offset-checkpoint"
_EPOCHS: Final = f"{PARTITION}/leader-epoch-checkpoint"
_METADATA: Final = f"{PARTITION}/partition.metadata"
FILES: Final[dict[str, Callable[[Path], None]]] = {
    "checkpoint.invalid-utf8": _text(_RECOVERY, b"0\n1\n\xff\xfe 0 5\n"),
    "checkpoint.negative-count": _text(_RECOVERY, "0\n-1\n"),
    "checkpoint.negative-epoch": _text(_EPOCHS, "0\n1\n-3 0\n"),
    "checkpoint.repeated": _text(_RECOVERY, "0\n2\norders 0 5\norders 0 6\n"),
    "epochs.early-start": _edited(_EPOCHS, r"^2 140$", "2 76"),
    "epochs.wrong-start": _edited(_EPOCHS, r"^2 140$", "2 300"),
    "segment.misnamed": _misnamed,
    "snapshot.repeated-producer": _of_snapshot(lambda entries: [*entries, entries[-1]]),
    "snapshot.wrong-state": _of_snapshot(lambda entries: [*entries[:-1], _other_epoch(entries[-1])]),
    "txnindex.unknown-entry": _of_txnindex(lambda entries: [*entries, _one_later(entries[-1])]),
    "epochs.cut": _text(_EPOCHS, "0\n"),
    "meta.bad-node-id": _edited("meta.properties", r"^node.id=.*", "node.id=one"),
    "meta.bad-directory-id": _edited("meta.properties", r"^directory.id=.*", "directory.id=short"),
    "meta.malformed-line": _edited("meta.properties", r"^node.id=", "node.id=\\\\u12"),
    "meta.unsupported-version": _edited("meta.properties", r"^version=.*", "version=9"),
    "meta.no-version": _edited("meta.properties", r"^version=.*\n", ""),
    "partition-metadata.bad-topic-id": _text(_METADATA, "version: 0\ntopic_id: no-id"),
    "partition-metadata.odd-name": _edited(_METADATA, "^topic_id", "topic"),
    "partition-metadata.odd-version": _edited(_METADATA, "^version: 0", "version: 7"),
    "clean-shutdown.not-empty": _mark_directory,
    "dir.duplicate-partition": _copied,
    "file.not-a-file": _epochs_directory,
    "segment.oversize": _oversize,
    "index.not-a-file": _index_directory,
    "timeindex.incomplete": _cut_timeindex,
    "txnindex.unsorted": _of_txnindex(lambda entries: entries[::-1]),
    "txnindex.wrong-entry": _of_txnindex(lambda entries: [*entries[:-1], entries[-1][:2] + b"\1" + entries[-1][3:]]),
}
"""What plants a code in the files of a log directory."""


def plant(code: str, disk: Path) -> None:
    """Plant an error of a code."""
    if code in FILES:
        FILES[code](disk)
        return
    log = max((disk / PARTITION).glob("*.log"))
    data = b"".join(batches_of(log.read_bytes()))
    log.write_bytes(data + PLANTS[code](*_end_of(log)))
