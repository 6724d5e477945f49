"""Transactions: what becomes of a damaged marker, and of the state of producers around damage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_core.topics.transactions import TransactionPhase, TransactionValue, encode_transaction
from tests.support import build
from tests.support.excising import EMPTY_BYTES, apply, batch_of, excision_of, places_of, plan, write_batches
from tests.support.truncating import codes, started

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.excising import Written

PID = 4000
MARKER_BYTES = 78


def data(first: int, last: int, sequence: int, *, producer_id: int = PID, **fields: Any) -> bytes:
    """A transactional batch."""
    ids = {"producer_id": producer_id, "producer_epoch": 2, "base_sequence": sequence}
    return batch_of(2, build.NONE, first, last, is_transactional=True, **ids, **fields)


def marker(offset: int, *, kind: int = build.ABORT, producer_id: int = PID) -> bytes:
    return build.txn_marker(
        kind, offset=offset, producer_id=producer_id, producer_epoch=2, coordinator_epoch=6, timestamp_ms=1000 + offset
    )


def transactions(root: Path, *, kind: int = build.ABORT) -> Written:
    """Two transactions of one producer; the marker of the first, at offset 3, has a wrong checksum."""
    batches = [data(0, 2, 0), marker(3, kind=kind), data(4, 6, 3), marker(7, kind=build.COMMIT)]
    written = write_batches(root, {0: batches, 8: [batch_of(2, build.NONE, 8, 10)]})
    written.flip(0, written.at(0, 1)[1] - 1)
    return written


def new_marker(written: Written) -> bytes:
    start, _ = written.at(0, 1)
    return written.log(0).read_bytes()[start : start + MARKER_BYTES]


def test_an_abort_is_rebuilt_by_the_transaction_index(tmp_path: Path) -> None:
    written = transactions(tmp_path)
    index = build.txn_index([(PID, 0, 3, 4)])
    written.log(0, "txnindex").write_bytes(index)
    draft = apply(written.partition, 3)
    assert codes(draft) == ["excise.marker"]
    assert (
        "ABORT of producer 4000 at offset 3, as 00000000000000000000.txnindex" in draft.plan.report.findings[0].message
    )
    assert draft.plan.report.losses == ()
    rebuilt = build.txn_marker(build.ABORT, offset=3, producer_id=PID, producer_epoch=2, timestamp_ms=1003)
    assert new_marker(written) == rebuilt
    assert written.log(0, "txnindex").read_bytes() == index
    assert started(written.partition, is_clean=False).lost_bytes == 0


def test_the_coordinator_epoch_comes_from_a_later_snapshot(tmp_path: Path) -> None:
    written = transactions(tmp_path)
    written.log(0, "txnindex").write_bytes(build.txn_index([(PID, 0, 3, 4)]))
    entry = build.Producer(producer_id=PID, epoch=2, coordinator_epoch=6, last_sequence=5, last_offset=6)
    written.log(8, "snapshot").write_bytes(build.snapshot([entry]))
    apply(written.partition, 3)
    assert new_marker(written) == marker(3)


def test_a_commit_is_rebuilt_where_the_index_has_a_later_abort(tmp_path: Path) -> None:
    written = transactions(tmp_path, kind=build.COMMIT)
    written.log(0, "txnindex").write_bytes(build.txn_index([(PID, 4, 7, 8)]))
    draft = apply(written.partition, 3)
    assert codes(draft) == ["excise.marker"]
    rebuilt = build.txn_marker(build.COMMIT, offset=3, producer_id=PID, producer_epoch=2, timestamp_ms=1003)
    assert new_marker(written) == rebuilt


def test_a_commit_is_rebuilt_where_the_segment_was_flushed(tmp_path: Path) -> None:
    written = transactions(tmp_path, kind=build.COMMIT)
    (written.root / "recovery-point-offset-checkpoint").write_bytes(build.offset_checkpoint([("t", 0, 8)]))
    assert codes(plan(written.partition, 3)) == ["excise.marker"]


def test_without_a_proof_it_is_emptied_and_the_transaction_is_named(tmp_path: Path) -> None:
    """The later marker of the same producer ends the transaction, so that none is open at the end."""
    written = transactions(tmp_path)
    draft = apply(written.partition, 3)
    assert codes(draft) == ["excise.emptied", "excise.marker-lost"]
    assert new_marker(written)[:EMPTY_BYTES] == build.empty_batch(
        3, 3, producer_id=PID, producer_epoch=2, is_transactional=True, is_control=True, max_timestamp_ms=1003
    )


def test_a_transaction_that_stays_open_has_its_command(tmp_path: Path) -> None:
    batches = [data(0, 2, 0), marker(3), batch_of(2, build.NONE, 4, 6)]
    written = write_batches(tmp_path, {0: batches})
    written.flip(0, written.at(0, 1)[1] - 1)
    draft = plan(written.partition, 3)
    assert codes(draft) == ["excise.emptied", "excise.marker-lost", "excise.transaction-open"]
    finding = draft.plan.report.findings[2]
    assert (finding.offset, finding.severity) == (0, "warning")
    text = "kafka-transactions.sh --bootstrap-server localhost:9092 abort --topic t --partition 0 --start-offset 0"
    assert text in (finding.next_command or "")


def write_decisions(root: Path, *decisions: tuple[TransactionPhase, int], partition: int = 0) -> None:
    """The coordinator's log with its decisions, each with its time; the marker at offset 3 has the time 1003."""
    records = []
    for number, (state, update_ms) in enumerate(decisions):
        value = TransactionValue(
            producer_id=PID,
            producer_epoch=2,
            timeout_ms=60_000,
            state=state,
            partitions=frozenset({("t", partition)}),
            start_ms=update_ms - 100,
            update_ms=update_ms,
        )
        key, content = encode_transaction("orders", value)
        records.append(build.Record(offset=number, timestamp_ms=update_ms, key=key, value=content))
    (root / "__transaction_state-0").mkdir()
    (root / "__transaction_state-0" / f"{0:020d}.log").write_bytes(build.batch_v2(records))


COMMIT, ABORT = TransactionPhase.PREPARE_COMMIT, TransactionPhase.PREPARE_ABORT
LONG_AFTER = 10**9


@pytest.mark.parametrize(
    ("decisions", "kind"),
    [
        ([(COMMIT, 1000)], build.COMMIT),
        ([(ABORT, 1000)], build.ABORT),
        ([(ABORT, 1000), (TransactionPhase.COMPLETE_ABORT, 1001)], build.ABORT),
        ([(ABORT, 1000), (COMMIT, LONG_AFTER)], build.ABORT),
        ([(COMMIT, 900), (COMMIT, 1000), (COMMIT, 1100)], build.COMMIT),
    ],
)
def test_the_coordinator_proves_the_outcome(
    tmp_path: Path, decisions: list[tuple[TransactionPhase, int]], kind: int
) -> None:
    batches = [data(0, 2, 0), marker(3, kind=kind), batch_of(2, build.NONE, 4, 6)]
    written = write_batches(tmp_path, {0: batches})
    written.flip(0, written.at(0, 1)[1] - 1)
    write_decisions(tmp_path, *decisions)
    draft = apply(written.partition, 3)
    assert codes(draft) == ["excise.marker"]
    assert "__transaction_state has the decision Prepare" in draft.plan.report.findings[0].message
    rebuilt = build.txn_marker(kind, offset=3, producer_id=PID, producer_epoch=2, timestamp_ms=1003)
    assert new_marker(written) == rebuilt


@pytest.mark.parametrize(
    ("decisions", "partition"),
    [
        ([(ABORT, 1000), (COMMIT, 1100)], 0),  # the clocks of two brokers may differ by more than that
        ([(ABORT, 1100)], 0),
        ([(ABORT, LONG_AFTER)], 0),
        ([(ABORT, 1000)], 1),
        ([(TransactionPhase.COMPLETE_ABORT, 1000)], 0),
    ],
)
def test_what_may_be_of_another_transaction_proves_nothing(
    tmp_path: Path, decisions: list[tuple[TransactionPhase, int]], partition: int
) -> None:
    batches = [data(0, 2, 0), marker(3), batch_of(2, build.NONE, 4, 6)]
    written = write_batches(tmp_path, {0: batches})
    written.flip(0, written.at(0, 1)[1] - 1)
    write_decisions(tmp_path, *decisions, partition=partition)
    assert codes(plan(written.partition, 3)) == ["excise.emptied", "excise.marker-lost", "excise.transaction-open"]


def test_a_marker_without_a_header_is_rebuilt_where_the_index_has_its_offset(tmp_path: Path) -> None:
    written = transactions(tmp_path)
    written.patch(0, written.at(0, 1)[0], b"\xee" * 61)
    written.log(0, "txnindex").write_bytes(build.txn_index([(PID, 0, 3, 4)]))
    entry = build.Producer(producer_id=PID, epoch=2, coordinator_epoch=6, last_sequence=5, last_offset=6)
    written.log(8, "snapshot").write_bytes(build.snapshot([entry]))
    apply(written.partition, 3)
    # the time is that of the batch before it
    expected = build.txn_marker(
        build.ABORT, offset=3, producer_id=PID, producer_epoch=2, coordinator_epoch=6, timestamp_ms=1002
    )
    assert new_marker(written) == expected


def test_a_control_batch_that_holds_no_marker_is_a_place(tmp_path: Path) -> None:
    """No checksum is wrong, and no broker starts: its record has a type that is none of a marker."""
    bad = build.control_batch(
        7, b"\0" * 6, offset=3, producer_id=PID, producer_epoch=2, is_transactional=True, timestamp_ms=1003
    )
    written = write_batches(tmp_path, {0: [data(0, 2, 0), bad, data(4, 6, 3), marker(7)]})
    (place,) = places_of(written.partition)
    assert (place.kind, place.broker, place.first_offset) == ("refused", "stops", 3)
    assert started(written.partition, is_clean=False).problem is not None
    apply(written.partition, 3)
    assert started(written.partition, is_clean=False).problem is None


def test_a_lost_batch_of_an_open_transaction_stays_transactional(tmp_path: Path) -> None:
    """An empty batch without the flag would stop the broker: a plain batch in an open transaction."""
    batches = [data(0, 2, 0), data(3, 5, 3), data(6, 8, 6), marker(9)]
    written = write_batches(tmp_path, {0: batches, 10: [batch_of(2, build.NONE, 10, 12)]})
    written.patch(0, written.at(0, 1)[0], b"\xee" * 61)
    entry = build.Producer(producer_id=PID, epoch=2, last_sequence=5, last_offset=5, offset_delta=2)
    written.log(10, "snapshot").write_bytes(build.snapshot([entry]))
    excision = excision_of(written.partition)
    (place,) = excision.places
    empty = build.empty_batch(
        3, 5, producer_id=PID, producer_epoch=2, base_sequence=3, is_transactional=True, max_timestamp_ms=-1
    )
    assert place.choice.content[61:] == b""
    assert place.choice.content[:17] + place.choice.content[21:35] == empty[:17] + empty[21:35]
    assert place.choice.content[43:] == empty[43:]
    assert "from the producer snapshot of offset 10" in " ".join(place.choice.reconstructed)


def test_releases_before_2_0_get_no_empty_control_batch(tmp_path: Path) -> None:
    """They ask it for its first record, and stop."""
    written = transactions(tmp_path)
    excision = excision_of(written.partition, "1.1")
    (place,) = excision.places
    flags = int.from_bytes(place.choice.content[21:23], "big")
    assert (place.choice.way, flags & 0x20) == ("emptied", 0)
    assert (excision.problem, excision.still_truncates) == (None, None)
