"""Directories that grow in one direction: damaged places, bad lines, segments, partitions and so on.

Each maker writes a directory that has `count` of one thing and little of all else. The growth tests count the work that
commands do on `count`, twice and four times as much; `benchmarks/growth.py` measures the time of larger ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tests.support.build import (
    ABORT,
    Producer,
    Record,
    batch_v2,
    epoch_checkpoint,
    offset_checkpoint,
    offset_index,
    snapshot,
    time_index,
    txn_index,
    txn_marker,
)
from tests.support.clusters import TOPIC, config_record, topic_record, write_meta, write_metadata_log

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

__all__ = ["GROWING", "Growing"]

START_MS: Final = 1_760_000_000_000
LOG: Final = f"{0:020}.log"


class Growing(NamedTuple):
    """One direction.

    Args:
        make: writes a directory with that many of the thing, and returns the path that commands are to work on.
        count: how many are enough for a test to see how work grows.
        commands: command lines that work on it; `{path}` and `{new}` are paths, `{count}` is the number.
    """

    make: Callable[[Path, int], Path]
    count: int
    commands: tuple[str, ...]


def _batch(offset: int, **fields: int) -> bytes:
    return batch_v2([Record(offset=offset, key=b"%d" % offset, value=b"v", timestamp_ms=START_MS + offset)], **fields)


def _partition(place: Path, log: bytes, name: str = "orders-0") -> Path:
    path = place / name
    path.mkdir(parents=True)
    (path / LOG).write_bytes(log)
    return path


def _flipped(batch: bytes) -> bytes:
    return batch[:-1] + bytes([batch[-1] ^ 0xFF])


def _damaged_places(place: Path, count: int) -> Path:
    return _partition(place, b"".join(_batch(at) if at % 2 else _flipped(_batch(at)) for at in range(2 * count)))


def _lost_framing(place: Path, count: int) -> Path:
    return _partition(place, b"".join(_batch(at) + b"\xee" * 30 for at in range(count)))


def _backward_offsets(place: Path, count: int) -> Path:
    return _partition(place, b"".join(_batch(at if at % 2 else at // 3) for at in range(2 * count)))


def _batches(place: Path, count: int) -> Path:
    return _partition(place, b"".join(map(_batch, range(count))))


def _producers(place: Path, count: int) -> Path:
    log = b"".join(_batch(at, producer_id=at, producer_epoch=0, base_sequence=0) for at in range(count))
    path = _partition(place, log)
    known = [
        Producer(producer_id=at, last_sequence=0, last_offset=at, timestamp_ms=START_MS + at) for at in range(count)
    ]
    (path / f"{count:020}.snapshot").write_bytes(snapshot(known))
    return path


def _aborted(place: Path, count: int) -> Path:
    """Each aborted transaction is of a producer of its own, and all of them are open at the same time."""
    log = [_batch(at, producer_id=at, producer_epoch=0, base_sequence=0, is_transactional=True) for at in range(count)]
    log += [txn_marker(ABORT, offset=count + at, producer_id=at) for at in range(count)]
    path = _partition(place, b"".join(log))
    entries = [(at, at, count + at, min(at + 1, count - 1)) for at in range(count)]
    (path / f"{0:020}.txnindex").write_bytes(txn_index(entries))
    return path


def _open_transactions(place: Path, count: int) -> Path:
    log = [_batch(at, producer_id=at, producer_epoch=0, base_sequence=0, is_transactional=True) for at in range(count)]
    return _partition(place, b"".join(log))


def _index_entries(place: Path, count: int, *, shift: int = 0) -> Path:
    batches = list(map(_batch, range(count)))
    path = _partition(place, b"".join(batches))
    positions = [0]
    for batch in batches:
        positions.append(positions[-1] + len(batch))
    (path / f"{0:020}.index").write_bytes(offset_index((at, positions[at] + shift) for at in range(1, count)))
    (path / f"{0:020}.timeindex").write_bytes(time_index((START_MS + at + shift, at) for at in range(1, count)))
    return path


def _wrong_index_entries(place: Path, count: int) -> Path:
    return _index_entries(place, count, shift=1)


def _segments(place: Path, count: int) -> Path:
    path = _partition(place, b"")
    (path / LOG).unlink()
    for at in range(count):
        (path / f"{2 * at:020}.log").write_bytes(_batch(2 * at) + _batch(2 * at + 1))
        (path / f"{2 * at:020}.index").write_bytes(b"")
        (path / f"{2 * at:020}.timeindex").write_bytes(time_index([(START_MS + 2 * at + 1, 1)]))
    return path


def _overlapping_segments(place: Path, count: int) -> Path:
    path = _partition(place, b"")
    (path / LOG).unlink()
    for at in range(count):
        (path / f"{at:020}.log").write_bytes(b"".join(_batch(at + each) for each in range(3)))
    return path


def _log_dir(place: Path, count: int) -> Path:
    place.mkdir(parents=True, exist_ok=True)
    (place / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=MkU3OEVBNTcwNTJENDM2Qg\n")
    names = [(f"topic-{at}", at % 3) for at in range(count)]
    for topic, partition in names:
        path = _partition(place, _batch(0) + _batch(1), f"{topic}-{partition}")
        (path / "leader-epoch-checkpoint").write_bytes(epoch_checkpoint([(0, 0)]))
    ends = offset_checkpoint([(topic, partition, 2) for topic, partition in names])
    (place / "recovery-point-offset-checkpoint").write_bytes(ends)
    (place / "replication-offset-checkpoint").write_bytes(ends)
    return place


def _log_dirs(place: Path, count: int) -> Path:
    """Log directories of the brokers of one cluster, each with the metadata log and the checkpoint of a cleaner."""
    for node in range(1, count + 1):
        log_dir = write_meta(place / f"disk-{node}", node=node)
        write_metadata_log(log_dir, topic_record("orders"), config_record(TOPIC, "orders", "retention.ms", "1000"))
        _partition(log_dir, _batch(0))
        (log_dir / "cleaner-offset-checkpoint").write_bytes(offset_checkpoint([("orders", 0, 1)]))
    return place


def _unknown_files(place: Path, count: int) -> Path:
    path = _partition(place, _batch(0))
    for at in range(count):
        (path / f"note-{at}.txt").write_bytes(b"")
    return path


def _epoch_lines(place: Path, lines: list[str]) -> Path:
    path = _partition(place, b"".join(_batch(at, leader_epoch=at // 10) for at in range(30)))
    (path / "leader-epoch-checkpoint").write_text("".join(f"{line}\n" for line in ("0", len(lines), *lines)))
    return path


def _bad_epoch_lines(place: Path, count: int) -> Path:
    kinds = ("a word too many", "0 0", "-1 5", "7 x")
    return _epoch_lines(place, [kinds[at % len(kinds)] for at in range(count)])


def _falling_epochs(place: Path, count: int) -> Path:
    return _epoch_lines(place, [f"{count - at} {count - at}" for at in range(count)])


def _many_epochs(place: Path, count: int) -> Path:
    path = _partition(place, b"".join(_batch(at, leader_epoch=at) for at in range(count)))
    (path / "leader-epoch-checkpoint").write_bytes(epoch_checkpoint([(at, max(0, at - 1)) for at in range(count)]))
    return path


def _bad_lines_at_top(name: str) -> Callable[[Path, int], Path]:
    def make(place: Path, count: int) -> Path:
        path = _log_dir(place, 2)
        kinds = ("topic-0 0", "nobody 0 5", "topic-0 0 -7", "topic-0 0 1", "\ufeff \u00e4 1 x")
        lines = [kinds[at % len(kinds)] for at in range(count)]
        text = "".join(f"{line}\n" for line in ("0", len(lines), *lines))
        (path / name).write_text(text, encoding="utf-8")
        return path

    return make


_READ: Final = (
    "dump --records --output table {path}",
    "dump --segments --output ndjson {path}",
    "dump --stats {path}",
    "dump --records --committed --output csv {path}",
    "dump --files {path}",
)
_SEEK: Final = (
    "seek --offset 3 {path}",
    "seek --offset 999999999 {path}",
    "seek --timestamp 2025-10-09T08:53:20.003 {path}",
    "seek --timestamp 2035-01-01 {path}",
    "seek --latest {path}",
    "seek --earliest {path}",
)
_CHECK: Final = (
    "verify --jobs 1 {path}",
    "verify --jobs 1 --output table {path}",
)
_PLAN: Final = (
    "reindex --jobs 1 --all {path}",
    "truncate --jobs 1 --at-damage {path}",
    "truncate --jobs 1 --as-broker {path}",
    "truncate --jobs 1 --to-offset 3 {path}",
    "checkpoint --jobs 1 {path}",
    "retain --jobs 1 --now 2026-11-21 {path}",
    "compact --jobs 1 --now 2026-11-21 --force {path}",
    "roll --jobs 1 --segment-bytes 1048576 {path}",
)
_ALL: Final = (*_READ, *_SEEK, *_CHECK, *_PLAN)
_TEXTS: Final = (
    *_CHECK,
    "checkpoint --jobs 1 {path}",
    "dump --files {path}",
    "retain --jobs 1 --now 2026-11-21 {path}",
)

GROWING: Final[Mapping[str, Growing]] = {
    "damaged places": Growing(_damaged_places, 100, _ALL),
    "places without framing": Growing(_lost_framing, 100, _ALL),
    "offsets that go back": Growing(_backward_offsets, 100, _ALL),
    "batches": Growing(_batches, 300, _ALL),
    "producers": Growing(_producers, 200, _ALL),
    "aborted transactions": Growing(_aborted, 100, _ALL),
    "open transactions": Growing(_open_transactions, 100, _ALL),
    "index entries": Growing(_index_entries, 300, _ALL),
    "wrong index entries": Growing(_wrong_index_entries, 200, _ALL),
    "segments": Growing(_segments, 30, _ALL),
    "overlapping segments": Growing(_overlapping_segments, 30, _ALL),
    "partitions": Growing(_log_dir, 12, _ALL),
    "log directories": Growing(_log_dirs, 10, tuple(line.format(path="{path}/*") for line in (*_CHECK, *_PLAN))),
    "unknown files": Growing(_unknown_files, 100, (*_CHECK, "dump --files {path}", "dump --segments {path}", *_PLAN)),
    "bad epoch lines": Growing(_bad_epoch_lines, 200, (*_TEXTS, *_PLAN)),
    "falling epochs": Growing(_falling_epochs, 200, (*_TEXTS, *_PLAN)),
    "epochs": Growing(_many_epochs, 200, (*_TEXTS, *_PLAN)),
    **{
        f"bad lines of {name}": Growing(_bad_lines_at_top(name), 200, _TEXTS)
        for name in (
            "recovery-point-offset-checkpoint",
            "replication-offset-checkpoint",
            "log-start-offset-checkpoint",
            "cleaner-offset-checkpoint",
            "meta.properties",
        )
    },
}
