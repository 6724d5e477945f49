"""A log of every kind of batch, cleaned five times: what the cleaner of 4.3.1 made of it, byte for byte."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support import build
from tests.support.cleaner_carrying import Cleaner
from tests.support.cleaner_logs import EPOCH, batch, content, lay, marker, marker_with_horizon, of, record, shapes

if TYPE_CHECKING:
    from pathlib import Path

RETENTION_MS = 100_000


NULL_KEYED = batch((0, b"a", b"1"), (1, b"b", b"1"), (2, None, b"nokey"), **of(7, 0, 0))
ZIPPED = build.wrapper_v1([record(3, b"c", b"1"), record(4, b"d", b"1"), record(5, b"c", b"2")], codec=build.GZIP)
ABORTED = batch((6, b"x", b"1"), (7, b"a", b"99"), **of(9, 0, 0, txn=True))
ABORT = marker(build.ABORT, 8, 9, 0)
COMMITTED = batch((9, b"y", b"1"), **of(11, 4, 0, txn=True))
COMMIT = marker(build.COMMIT, 10, 11, 5)
TOMBSTONE = batch((11, b"b", None), (12, b"e", b"1"))
PAIR = batch((13, b"y", b"2"), (14, b"z", b"1"))
A3 = batch((15, b"a", b"3"), **of(8, 0, 0))
Z3 = batch((16, b"z", b"3"))
SEGMENT_0 = NULL_KEYED + ZIPPED + ABORTED + ABORT + COMMITTED + COMMIT + TOMBSTONE + PAIR
ROLLED = (
    batch((17, b"q", b"1"))
    + batch((18, b"p", b"7"), **of(7, 0, 3))
    + batch((19, b"p", b"9"), **of(9, 0, 2, txn=True))
    + marker(build.COMMIT, 20, 9, 0)
    + batch((21, b"p", b"11"), **of(11, 5, 0, txn=True))
    + marker(build.COMMIT, 22, 11, 6)
)


def emptied(base: int, last: int, **fields: object) -> bytes:
    known = {"max_timestamp_ms": 1000 + last} | EPOCH | fields
    return build.empty_batch(base, last, **known)  # type: ignore[arg-type]


def eight(first: int) -> bytes:
    return b"".join(batch((first + i, b"k%d" % i, b"%d" % first)) for i in range(8))


def test_five_passes(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    directory.mkdir()
    lay(directory, 0, SEGMENT_0)
    (directory / f"{0:020d}.txnindex").write_bytes(build.txn_index([(9, 6, 8, 9)]))
    lay(directory, 15, A3 + Z3, 4500)
    lay(directory, 17, b"".join([batch((17, b"q", b"1"))]))
    cleaner = Cleaner(directory, delete_retention_ms=RETENTION_MS)

    work = cleaner.clean(5_000_000)
    assert (work.bounds.first_dirty, work.bounds.bound, work.end_offset) == (0, 17, 17)
    zipped = batch((4, b"d", b"1"), (5, b"c", b"2"), codec=build.GZIP, leader_epoch=-1)
    horizon = {"delete_horizon_ms": 5_000_000 + RETENTION_MS}
    tombstone = batch((11, b"b", None), (12, b"e", b"1"), **horizon)
    y_alone = batch((13, b"y", b"2"), last_offset=14)
    parts = [emptied(0, 2, **of(7, 0, 0)), zipped, emptied(6, 7, **of(9, 0, 0, txn=True)), ABORT, COMMIT]
    parts += [tombstone, y_alone, A3, Z3]
    assert len(tombstone) == 84
    made = content(directory)
    assert made[:61] == parts[0]
    assert made[-len(b"".join(parts[2:])) :] == b"".join(parts[2:])
    assert shapes(directory)[1] == (4, 5, 2)
    assert (directory / f"{0:020d}.txnindex").read_bytes() == build.txn_index([(9, 6, 8, 9)])
    assert sorted(path.name[:20] for path in directory.glob("*.log")) == [f"{0:020d}", f"{17:020d}"]
    assert (directory / f"{0:020d}.log").stat().st_mtime == 4500

    lay(directory, 17, ROLLED, 4600)
    lay(directory, 23, eight(23))
    work = cleaner.clean(5_001_000)
    assert (work.bounds.first_dirty, work.end_offset) == (17, 23)
    late_commit = marker_with_horizon(build.COMMIT, 10, 11, 5, 5_001_000 + RETENTION_MS)
    assert len(late_commit) == 81
    tail = [tombstone, y_alone, A3, Z3]
    assert content(directory).endswith(b"".join([ABORT, late_commit, *tail]) + after_first_pass())
    assert shapes(directory)[0] == (4, 5, 2)
    assert (directory / f"{0:020d}.txnindex").exists()

    lay(directory, 31, eight(31))
    work = cleaner.clean(5_150_000)
    assert (work.bounds.first_dirty, work.end_offset) == (23, 31)
    late_abort = marker_with_horizon(build.ABORT, 8, 9, 0, 5_150_000 + RETENTION_MS)
    e_alone = batch((12, b"e", b"1"), base_offset=11, **horizon)
    assert len(e_alone) == 73
    assert late_abort + e_alone + y_alone in content(directory)
    assert not (directory / f"{0:020d}.txnindex").exists()

    lay(directory, 39, eight(39))
    cleaner.clean(5_300_000)
    assert 8 not in [first for first, *_ in shapes(directory)]

    lay(directory, 47, batch((47, b"q", b"9")))
    work = cleaner.clean(5_300_001, memory_bytes=24 * 5)
    assert (work.is_full, work.mapped_keys, work.end_offset) == (True, 4, 43)
    kept = [first for first, *_ in shapes(directory) if first >= 31]
    assert kept == [35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46]


def after_first_pass() -> bytes:
    """What the second pass makes of what was rolled: one key, in three batches, the last of which stays."""
    return (
        batch((17, b"q", b"1"))
        + emptied(18, 18, **of(7, 0, 3))
        + emptied(19, 19, **of(9, 0, 2, txn=True))
        + marker(build.COMMIT, 20, 9, 0)
        + batch((21, b"p", b"11"), **of(11, 5, 0, txn=True))
        + marker(build.COMMIT, 22, 11, 6)
    )
