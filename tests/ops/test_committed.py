"""What a read_committed consumer gets, of transactions made by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalog_core.errors import SelectionError
from kafkalog_core.ops.committed import CommittedView
from kafkalog_core.ops.report import Report
from tests.build import (
    ABORT,
    COMMIT,
    GZIP,
    LEADER_CHANGE,
    batch_v2,
    control_batch,
    empty_batch,
    leader_change_value,
    message_v1,
    offset_checkpoint,
    txn_marker,
    wrapper_v1,
)
from tests.ops.logs import Row, dump_rows, offsets_of, records, write_segments

if TYPE_CHECKING:
    from pathlib import Path

P, Q = 11, 22


class Log:
    """Batches one after another, at ascending offsets."""

    def __init__(self, first: int = 0) -> None:
        self.first = first
        self.next = first
        self.data = b""

    def plain(self, count: int = 1) -> Log:
        return self._add(count, batch_v2(records(self.next, count)))

    def txn(self, producer_id: int, count: int = 1, *, epoch: int = 0, codec: int = 0) -> Log:
        ids = {"producer_id": producer_id, "producer_epoch": epoch, "codec": codec}
        return self._add(count, batch_v2(records(self.next, count), is_transactional=True, **ids))  # type: ignore[arg-type]

    def end(self, producer_id: int, kind: int, *, epoch: int = 0) -> Log:
        return self._add(1, txn_marker(kind, offset=self.next, producer_id=producer_id, producer_epoch=epoch))

    def _add(self, count: int, data: bytes) -> Log:
        self.data += data
        self.next += count
        return self


def committed(tmp_path: Path, *logs: Log) -> list[int]:
    path = write_segments(tmp_path / "topic-0", {log.first: log.data for log in logs})
    rows = dump_rows(path, level="records", committed="log-end")
    newest = dump_rows(path, level="records", committed="log-end", newest_first=True)
    assert offsets_of(newest) == offsets_of(rows)[::-1]
    by_batch = [
        offset
        for row in dump_rows(path, committed="log-end")
        if row["type"] == "batch"
        for offset in range(row["base_offset"], row["last_offset"] + 1)
    ]
    assert by_batch == offsets_of(rows)
    return offsets_of(rows)


def test_without_transactions(tmp_path: Path) -> None:
    assert committed(tmp_path, Log().plain(3).plain(2)) == [0, 1, 2, 3, 4]


def test_commit_and_abort(tmp_path: Path) -> None:
    log = Log().txn(P, 2).end(P, COMMIT).txn(P, 2).end(P, ABORT).plain()
    assert committed(tmp_path, log) == [0, 1, 6]


def test_markers_are_no_records(tmp_path: Path) -> None:
    log = Log().end(P, COMMIT).end(Q, ABORT).plain()
    log.data += control_batch(LEADER_CHANGE, leader_change_value(1, [1]), offset=3)
    assert committed(tmp_path, log) == [2]


def test_interleaved(tmp_path: Path) -> None:
    """0 P, 1 Q, 2 plain, 3 P, 4 Q aborts, 5 Q again, 6 P commits, 7 Q commits."""
    log = Log().txn(P).txn(Q).plain().txn(P).end(Q, ABORT).txn(Q).end(P, COMMIT).end(Q, COMMIT)
    assert committed(tmp_path, log) == [0, 2, 3, 5]


def test_an_abort_that_overlaps_others(tmp_path: Path) -> None:
    """P aborts around a whole transaction of Q and plain data; the same producer's next transaction is its own."""
    log = Log().txn(P).txn(Q).end(Q, COMMIT).plain().txn(P).end(P, ABORT).txn(P).end(P, COMMIT)
    assert committed(tmp_path, log) == [1, 3, 6]


def test_several_aborts_of_one_producer(tmp_path: Path) -> None:
    log = Log()
    for kind in (ABORT, COMMIT, ABORT, ABORT, COMMIT):
        log.txn(P, 2).end(P, kind)
    assert committed(tmp_path, log) == [3, 4, 12, 13]


def test_nothing_behind_an_open_transaction(tmp_path: Path) -> None:
    """The last stable offset is its first one, whatever else is committed behind it."""
    log = Log().plain(2).txn(Q).txn(P).end(P, COMMIT).plain(5)
    assert committed(tmp_path, log) == [0, 1]


def test_the_earliest_open_transaction_counts(tmp_path: Path) -> None:
    log = Log().plain().txn(P).txn(Q).end(P, COMMIT).plain()
    assert committed(tmp_path, log) == [0, 1]


def test_transactions_across_segments(tmp_path: Path) -> None:
    """The data stands in one file, the marker in the next."""
    first = Log().txn(P, 2).txn(Q, 2)
    second = Log(first.next).end(P, ABORT).plain()
    third = Log(second.next).end(Q, COMMIT).plain()
    assert committed(tmp_path, first, second, third) == [2, 3, 5, 7]


def test_open_across_segments(tmp_path: Path) -> None:
    first = Log().plain().txn(P, 2)
    second = Log(first.next).plain(3)
    assert committed(tmp_path, first, second) == [0]


def test_a_marker_without_data(tmp_path: Path) -> None:
    """Retention has deleted the data, or another partition had it: it says nothing of what stands here."""
    log = Log(100).end(P, ABORT).txn(P).end(P, COMMIT).end(P, ABORT).plain()
    assert committed(tmp_path, log) == [101, 104]


def test_a_marker_that_compaction_has_emptied(tmp_path: Path) -> None:
    log = Log().txn(P).end(P, COMMIT)
    log.data += empty_batch(2, 2, producer_id=Q, is_transactional=True, is_control=True)
    log.next = 3
    assert committed(tmp_path, log.plain()) == [0, 3]


def test_compressed_transactions(tmp_path: Path) -> None:
    log = Log().txn(P, 2000, codec=GZIP).end(P, ABORT).txn(P, 2000, codec=GZIP).end(P, COMMIT)
    assert committed(tmp_path, log) == list(range(2001, 4001))


def test_a_fenced_producer(tmp_path: Path) -> None:
    """The coordinator aborts with a higher epoch; the producer id is the same."""
    log = Log().txn(P, epoch=3).end(P, ABORT, epoch=4).txn(P, epoch=4).end(P, COMMIT, epoch=4)
    assert committed(tmp_path, log) == [2]


def test_an_unreadable_marker_leaves_its_transaction_open(tmp_path: Path) -> None:
    """A lost commit could be an abort: nothing from there on is promised."""
    log = Log().plain().txn(P)
    marker = txn_marker(COMMIT, offset=2, producer_id=P)
    log.data += marker[:-1] + b"\xff"
    log.next = 3
    path = write_segments(tmp_path / "topic-0", {0: log.plain().data})
    rows = dump_rows(path, level="records", committed="log-end")
    assert offsets_of(rows) == [0]
    assert [row["reason"] for row in rows if row["type"] == "damage"] == ["crc-mismatch"]
    assert [(row["code"], row["offset"]) for row in rows if row["type"] == "finding"] == [("txn.open", 1)]


def test_offsets_that_go_back_do_not_pass_the_end(tmp_path: Path) -> None:
    log = Log().plain(2).txn(P)
    log.data += batch_v2(records(0, 1))
    path = write_segments(tmp_path / "topic-0", {0: log.data})
    assert offsets_of(dump_rows(path, level="records", committed="log-end")) == [0, 1, 0]


def test_legacy_formats_have_no_transactions(tmp_path: Path) -> None:
    data = message_v1(records(0, 1)[0], attributes=0x30) + wrapper_v1(records(1, 3)) + batch_v2(records(4, 2))
    path = write_segments(tmp_path / "topic-0", {0: data})
    assert offsets_of(dump_rows(path, level="records", committed="log-end")) == [0, 1, 2, 3, 4, 5]


def test_a_file_that_vanishes_is_a_finding(tmp_path: Path) -> None:
    path = write_segments(tmp_path / "topic-0", {0: Log().plain(2).data, 2: Log(2).plain(2).data})
    report = Report()
    (path / f"{2:020d}.log").unlink()
    (path / f"{2:020d}.log").symlink_to("itself" * 3)
    rows = dump_rows(path, level="records", committed="log-end", report=report)
    assert offsets_of(rows) == [0, 1]
    assert [row["code"] for row in rows if row["type"] == "finding"]


# --- the high watermark -----------------------------------------------------------------------------------------------
def up_to(tmp_path: Path, log: Log, high_watermark: int) -> list[Row]:
    home = tmp_path / "data"
    write_segments(home / "topic-0", {0: log.data})
    (home / "meta.properties").write_text("version=0\nbroker.id=1\n")
    entries = [("other", 0, 1), ("topic", 0, high_watermark), ("topic", 1, 99)]
    (home / "replication-offset-checkpoint").write_bytes(offset_checkpoint(entries))
    return dump_rows(home / "topic-0", level="records", committed="high-watermark")


@pytest.mark.parametrize(
    ("high_watermark", "expected"),
    [(0, []), (1, [0]), (2, [0, 1]), (3, [0, 1, 2]), (6, [0, 1, 2, 3]), (99, [0, 1, 2, 3])],
)
def test_up_to_the_high_watermark(tmp_path: Path, high_watermark: int, expected: list[int]) -> None:
    """It may stand inside of a batch; an open transaction behind it does not matter, one before it does."""
    log = Log().plain(4).txn(P).plain()
    assert offsets_of(up_to(tmp_path, log, high_watermark)) == expected


def test_wrappers_up_to_the_high_watermark(tmp_path: Path) -> None:
    log = Log()
    log.data = wrapper_v1(records(0, 5)) + wrapper_v1(records(5, 5))
    assert offsets_of(up_to(tmp_path, log, 7)) == list(range(7))


def test_no_high_watermark_is_known(tmp_path: Path) -> None:
    path = write_segments(tmp_path / "topic-0", {0: Log().plain().data})
    with pytest.raises(SelectionError, match="no broker has checkpointed a high watermark for it"):
        dump_rows(path, level="records", committed="high-watermark")
    with pytest.raises(SelectionError, match="no broker has checkpointed a high watermark for it"):
        dump_rows(rename(up_to_path(tmp_path)), level="records", committed="high-watermark")


def up_to_path(tmp_path: Path) -> Path:
    up_to(tmp_path, Log().plain(), 1)
    return tmp_path / "data" / "topic-0"


def rename(path: Path) -> Path:
    return path.rename(path.with_name("topic-7"))


# --- the view itself --------------------------------------------------------------------------------------------------
def test_bounds_of_an_aborted_transaction() -> None:
    view = CommittedView()
    view.data(P, 10)
    view.data(P, 20)
    view.marker(P, 30, "abort")
    view.data(Q, 15)
    view.marker(Q, 40, "commit")
    view.finish(None)
    assert view.end_offset is None
    assert [view.is_aborted(P, offset) for offset in (9, 10, 29, 30, 31)] == [False, True, True, True, False]
    assert not view.is_aborted(Q, 15)
