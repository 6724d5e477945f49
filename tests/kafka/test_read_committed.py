"""What a read_committed consumer gets, of transactions made by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalog_core.engine.report import Report
from kafkalog_core.errors import SelectionError
from kafkalog_core.kafka.sim.read_committed import CommittedView, TxnSpan
from kafkalog_core.structs import replace
from tests.support.build import (
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
    txn_index,
    txn_marker,
    wrapper_v1,
)
from tests.support.logs import Row, dump_rows, offsets_of, records, write_segments

if TYPE_CHECKING:
    from collections.abc import Sequence
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
    """The data is in one file, the marker in the next."""
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


# --- what damage hides ------------------------------------------------------------------------------------------------
SEGMENT = f"{0:020d}"


def spoiled(data: bytes) -> bytes:
    """A batch whose checksum is wrong."""
    return data[:-1] + bytes([data[-1] ^ 0xFF])


def read(
    path: Path, index: list[tuple[int, int, int, int]] | None = None, **request: object
) -> tuple[list[int], list[tuple[str, int]]]:
    """Offsets that are shown as committed, and the findings; `index` are entries of the first segment's index."""
    if index is not None:
        (path / f"{SEGMENT}.txnindex").write_bytes(txn_index(index))
    rows = dump_rows(path, level="records", committed="log-end", **request)
    found = [(row["code"], row["offset"]) for row in rows if row["type"] == "finding"]
    return offsets_of(rows), [(code, offset) for code, offset in found if code.startswith("txn.")]


def spoil(log: Log, data: bytes, count: int = 1) -> Log:
    log.data += spoiled(data)
    log.next += count
    return log


def over_damage(tmp_path: Path, kind: int | None) -> Path:
    """0 plain, 1 P, 2 damage, 3 plain, 4 P, 5 marker of P if any, 6 plain."""
    log = spoil(Log().plain().txn(P), txn_marker(COMMIT, offset=2, producer_id=P)).plain().txn(P)
    if kind is not None:
        log.end(P, kind)
    return write_segments(tmp_path / "topic-0", {0: log.plain().data})


def test_a_marker_behind_damage_decides_about_what_is_behind_it_alone(tmp_path: Path) -> None:
    """A marker in the damage may have ended the first data; so nobody knows of it, whatever comes later."""
    path = over_damage(tmp_path, COMMIT)
    assert read(path) == ([0, 3, 4, 6], [("txn.undecided", 1)])
    assert read(over_damage(tmp_path, ABORT)) == ([0, 3, 6], [("txn.undecided", 1)])


def test_what_is_said_of_undecided_data(tmp_path: Path) -> None:
    rows = dump_rows(over_damage(tmp_path, COMMIT), level="records", committed="log-end")
    finding = next(row for row in rows if row["code" if "code" in row else "type"] == "txn.undecided")
    assert finding["severity"] == "error"
    assert finding["file"].endswith(f"{SEGMENT}.log")
    position = next(row["position"] for row in rows if row["type"] == "damage")
    where = f"offset 2, from byte {position} of {SEGMENT}.log on"
    assert finding["message"] == (
        "It is unknown whether the transaction of producer 11 at offset 1 was committed: its marker may be in the "
        f"bytes that are missing or cannot be read, {where}. Its records up to there are not shown."
    )


def test_an_index_lists_what_was_aborted_in_damage(tmp_path: Path) -> None:
    """The marker at offset 2 was ABORT; the COMMIT behind it is of the next transaction."""
    assert read(over_damage(tmp_path, COMMIT), [(P, 1, 2, 3)]) == ([0, 3, 4, 6], [])


def test_an_index_lists_a_transaction_that_goes_on_over_damage(tmp_path: Path) -> None:
    assert read(over_damage(tmp_path, ABORT), [(P, 1, 5, 6)]) == ([0, 3, 6], [])


def test_an_index_that_goes_on_behind_damage_tells_what_was_not_aborted(tmp_path: Path) -> None:
    """The ABORT at offset 5 is listed with a first offset behind the damage: what was before it was committed."""
    assert read(over_damage(tmp_path, ABORT), [(P, 4, 5, 6)]) == ([0, 1, 3, 6], [])
    assert read(over_damage(tmp_path, COMMIT), [(Q, 3, 6, 7)]) == ([0, 1, 3, 4, 6], [])


def test_an_index_that_ends_before_damage_tells_nothing(tmp_path: Path) -> None:
    assert read(over_damage(tmp_path, COMMIT), [(Q, 0, 1, 2)]) == ([0, 3, 4, 6], [("txn.undecided", 1)])
    assert read(over_damage(tmp_path, COMMIT), []) == ([0, 3, 4, 6], [("txn.undecided", 1)])


@pytest.mark.parametrize("entries", [[(P, 1, 2, 3), (Q, 3, 2, 3)], [(P, 3, 2, 3)], [(-1, 1, 2, 3)]])
def test_an_index_that_cannot_be_true_tells_nothing(tmp_path: Path, entries: list[tuple[int, int, int, int]]) -> None:
    assert read(over_damage(tmp_path, COMMIT), entries) == ([0, 3, 4, 6], [("txn.undecided", 1)])


def test_a_transaction_that_is_open_behind_damage(tmp_path: Path) -> None:
    """Its first data may have been of another, but offset 4 is open for certain."""
    assert read(over_damage(tmp_path, None)) == ([0, 3], [("txn.undecided", 1), ("txn.open", 4)])


def test_a_transaction_that_ends_in_damage_holds_nothing_back(tmp_path: Path) -> None:
    """Its marker may be what is damaged: its data is not shown, and what others wrote is."""
    log = spoil(Log().plain().txn(P), txn_marker(COMMIT, offset=2, producer_id=P)).plain()
    path = write_segments(tmp_path / "topic-0", {0: log.data})
    assert read(path) == ([0, 3], [("txn.undecided", 1)])
    assert read(path, [(P, 1, 2, 3)]) == ([0, 3], [])


def test_damage_that_hides_no_offset_hides_no_marker(tmp_path: Path) -> None:
    log = Log().txn(P)
    log.data += bytes(100)
    log.end(P, COMMIT)
    path = write_segments(tmp_path / "topic-0", {0: log.data})
    assert read(path, resync=True) == ([0], [])


def test_a_torn_tail_is_cut_off(tmp_path: Path) -> None:
    """A broker cuts it off: no marker was there, so the transaction is open."""
    log = Log().plain().txn(P)
    log.data += txn_marker(COMMIT, offset=2, producer_id=P)[:-3]
    assert read(write_segments(tmp_path / "topic-0", {0: log.data})) == ([0], [("txn.open", 1)])


def test_a_torn_tail_before_another_segment_is_a_hole(tmp_path: Path) -> None:
    log = Log().plain().txn(P)
    log.data += txn_marker(COMMIT, offset=2, producer_id=P)[:-3]
    path = write_segments(tmp_path / "topic-0", {0: log.data, 3: Log(3).plain().end(P, COMMIT).data})
    assert read(path) == ([0, 3], [("txn.undecided", 1)])


def test_a_segment_that_is_lost_is_a_hole(tmp_path: Path) -> None:
    """Offsets 2 to 4 are in no segment; on a compacted log that says nothing."""
    parts = {0: Log().plain().txn(P).data, 5: Log(5).end(P, COMMIT).plain().data}
    path = write_segments(tmp_path / "topic-0", parts)
    rows = dump_rows(path, level="records", committed="log-end")
    assert offsets_of(rows) == [0, 6]
    message = next(row["message"] for row in rows if row.get("code") == "txn.undecided")
    assert f"offsets 2 to 4, which are in no segment before {5:020d}.log" in message
    parts[0] = batch_v2([records(0, 1)[0]], last_offset=0) + Log(1).txn(P).data
    compacted = write_segments(tmp_path / "__consumer_offsets-0", parts)
    assert read(compacted) == ([0, 1, 6], [])


def test_a_segment_that_cannot_be_read_is_a_hole(tmp_path: Path) -> None:
    first, last = Log().txn(P).data, Log(5).end(P, ABORT).plain().data
    path = write_segments(tmp_path / "topic-0", {0: first, 2: b"", 5: last})
    (path / f"{2:020d}.log").unlink()
    (path / f"{2:020d}.log").symlink_to(f"{2:020d}.log")
    assert read(path)[0] == [6]


def test_two_holes_in_one_transaction(tmp_path: Path) -> None:
    """0 P, 1 damage, 2 P, 3 damage, 4 P, 5 COMMIT: each part by itself."""
    marker = txn_marker(COMMIT, offset=1, producer_id=P)
    log = spoil(spoil(Log().txn(P), marker).txn(P), marker).txn(P).end(P, COMMIT)
    path = write_segments(tmp_path / "topic-0", {0: log.data})
    assert read(path) == ([4], [("txn.undecided", 0), ("txn.undecided", 2)])
    assert read(path, [(P, 0, 1, 2)]) == ([4], [("txn.undecided", 2)])
    assert read(path, [(P, 0, 1, 2), (Q, 2, 9, 10)]) == ([2, 4], [])


# --- offsets that are missing between batches -------------------------------------------------------------------------
def in_log_dir(tmp_path: Path, *segments: Log, cleaned: Sequence[tuple[str, int, int]] | None = ()) -> Path:
    """A partition of a log directory whose cleaner has a checkpoint, unless null."""
    path = write_segments(tmp_path / "data" / "topic-0", {log.first: log.data for log in segments})
    (path.parent / "replication-offset-checkpoint").write_bytes(offset_checkpoint([]))
    if cleaned is not None:
        (path.parent / "cleaner-offset-checkpoint").write_bytes(offset_checkpoint(cleaned))
    return path


def skip(log: Log, count: int = 1) -> Log:
    log.next += count
    return log


def same_key(log: Log, producer_id: int) -> Log:
    """Two records of one key, which compaction would not leave."""
    pair = [replace(record, key=b"same") for record in records(log.next, 2)]
    return log._add(2, batch_v2(pair, is_transactional=True, producer_id=producer_id, producer_epoch=0))


def view_of(path: Path) -> tuple[list[int], list[tuple[str, str, int]]]:
    rows = dump_rows(path, level="records", committed="log-end")
    return offsets_of(rows), [(row["severity"], row["code"], row["offset"]) for row in rows if row["type"] == "finding"]


def test_a_marker_that_was_lost(tmp_path: Path) -> None:
    """Offset 2 is in no batch, and nobody has compacted the log: it may have been the marker of 0 and 1."""
    log = skip(same_key(Log(), P)).txn(P, 2).end(P, COMMIT).plain()
    path = in_log_dir(tmp_path, log)
    assert view_of(path) == ([3, 4, 6], [("error", "txn.undecided", 0)])
    message = next(row["message"] for row in dump_rows(path, level="records", committed="log-end") if "message" in row)
    assert f"offset 2, from byte {len(same_key(Log(), P).data)} of {SEGMENT}.log on" in message


def test_an_index_tells_of_a_marker_that_was_lost(tmp_path: Path) -> None:
    path = in_log_dir(tmp_path, skip(same_key(Log(), P)).txn(P).end(P, COMMIT))
    (path / f"{SEGMENT}.txnindex").write_bytes(txn_index([(P, 0, 2, 3)]))
    assert view_of(path) == ([3], [])


@pytest.mark.parametrize("how", ["other-keys", "no-checkpoint", "by-itself"])
def test_a_gap_that_may_be_compacted(tmp_path: Path, how: str) -> None:
    """Consumers of a broker get what is there; so it is shown, and said."""
    head = Log().txn(P, 2) if how == "other-keys" else same_key(Log(), P)
    log = skip(head).txn(P, 2).end(P, COMMIT)
    path = in_log_dir(tmp_path, log, cleaned=None if how == "no-checkpoint" else ())
    place = path / f"{SEGMENT}.log" if how == "by-itself" else path
    assert view_of(place) == ([0, 1, 3, 4], [("warning", "batch.gap", 2)])


@pytest.mark.parametrize(
    ("topic", "cleaned"), [("topic", [("topic", 0, 3)]), ("__consumer_offsets", [])], ids=["cleaned", "of-kafka"]
)
def test_a_gap_in_a_compacted_log(tmp_path: Path, topic: str, cleaned: list[tuple[str, int, int]]) -> None:
    path = in_log_dir(tmp_path, skip(same_key(Log(), P)).txn(P).end(P, COMMIT), cleaned=cleaned)
    path = path.rename(path.with_name(f"{topic}-0"))
    assert view_of(path) == ([0, 1, 3], [])


def test_gaps_in_several_places_are_those_of_a_leader_that_compacts(tmp_path: Path) -> None:
    path = in_log_dir(tmp_path, skip(skip(same_key(Log(), P)).txn(P)).end(P, COMMIT))
    assert view_of(path) == ([0, 1, 3], [])


def test_a_gap_without_an_open_transaction(tmp_path: Path) -> None:
    log = skip(same_key(Log(), P).end(P, COMMIT)).txn(Q).end(Q, ABORT).plain()
    assert view_of(in_log_dir(tmp_path, log)) == ([0, 1, 6], [])


def test_a_gap_at_the_start_of_a_segment(tmp_path: Path) -> None:
    first = same_key(Log(), P)
    second = Log(2)
    path = in_log_dir(tmp_path, first, skip(second, 3).txn(P).end(P, COMMIT))
    assert view_of(path) == ([5], [("error", "txn.undecided", 0)])


# --- a segment by itself ----------------------------------------------------------------------------------------------
def by_itself(path: Path, base: int = 0) -> tuple[list[int], list[tuple[str, int]]]:
    rows = dump_rows(path / f"{base:020d}.log", level="records", committed="log-end")
    return offsets_of(rows), [(row["code"], row["offset"]) for row in rows if row["type"] == "finding"]


def test_a_segment_by_itself_is_decided_by_those_behind_it(tmp_path: Path) -> None:
    first = Log().plain().txn(P).txn(Q)
    second = Log(first.next).end(P, COMMIT).txn(3)
    third = Log(second.next).end(Q, ABORT)
    path = write_segments(tmp_path / "topic-0", {0: first.data, 3: second.data, 5: third.data})
    assert by_itself(path) == ([0, 1], [])
    assert by_itself(path, 3) == ([], [("txn.open", 4)])
    (path / f"{5:020d}.log").unlink()
    assert by_itself(path) == ([0, 1], [("txn.open", 2)])


def test_a_file_without_its_partition_may_end_inside_of_a_transaction(tmp_path: Path) -> None:
    log = Log().plain().txn(P).plain()
    path = write_segments(tmp_path / "evidence", {0: log.data})
    assert by_itself(path) == ([0, 2], [("txn.end-elsewhere", 1)])
    write_segments(path, {3: Log(3).end(P, COMMIT).data})
    assert by_itself(path) == ([0, 1, 2], [])
    deleted = (path / f"{SEGMENT}.log").rename(path / f"{SEGMENT}.log.deleted")
    rows = dump_rows(deleted, level="records", committed="log-end")
    assert offsets_of(rows) == [0, 2]


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
    """It may are in a batch; an open transaction behind it does not matter, one before it does."""
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


@pytest.mark.parametrize("committed", ["log-end", "high-watermark"])
def test_a_partition_without_a_segment_holds_nothing(tmp_path: Path, committed: str) -> None:
    path = write_segments(tmp_path / "topic-0", {})
    (path / "99999999999999999999.log").write_bytes(Log().plain().data)
    rows = dump_rows(path, level="records", committed=committed)
    assert [row["code"] for row in rows if row["type"] == "finding"] == ["segment.bad-name"]


# --- the view itself --------------------------------------------------------------------------------------------------
def test_bounds_of_hidden_data() -> None:
    view = CommittedView([TxnSpan(P, 40, 50), TxnSpan(P, 10, 30), TxnSpan(Q, 15, 15)])
    assert view.end_offset is None
    offsets = (9, 10, 29, 30, 31, 39, 40, 50, 51)
    assert [offset for offset in offsets if view.is_hidden(P, offset)] == [10, 29, 30, 40, 50]
    assert [offset for offset in offsets if view.is_hidden(3, offset)] == []
