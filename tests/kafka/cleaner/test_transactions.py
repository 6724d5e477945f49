"""What a cleaner knows of transactions, by the rules of CleanedTransactionMetadata."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalog_core.errors import NotFoundError, StorageError
from kafkalog_core.kafka.sim.cleaner.transactions import AbortedTxn, TransactionState, collect_aborted
from kafkalog_core.storage.source import Source
from tests.support import build
from tests.support import cleaner_logs as logs

if TYPE_CHECKING:
    from pathlib import Path

ABORT, COMMIT = 0, 1
ABORTED = AbortedTxn(6, 8, 9, 9)


def test_an_aborted_transaction_whose_data_is_met_keeps_its_marker() -> None:
    state = TransactionState()
    state.add([ABORTED])
    assert state.on_data(9, 7)
    assert not state.on_marker(9, 8, ABORT)
    assert state.kept == [ABORTED]
    assert not state.on_data(9, 12)  # the next one is another


def test_an_aborted_transaction_whose_data_is_gone_loses_its_marker() -> None:
    state = TransactionState()
    state.add([ABORTED])
    assert state.on_marker(9, 8, ABORT)
    assert state.kept == []


def test_a_committed_transaction() -> None:
    state = TransactionState()
    assert not state.on_data(11, 9)
    assert not state.on_marker(11, 10, COMMIT)
    assert state.on_marker(11, 12, COMMIT)  # no data of it was met


def test_data_before_an_aborted_transaction_is_not_of_it() -> None:
    state = TransactionState()
    state.add([ABORTED])
    assert not state.on_data(9, 5)
    assert state.on_data(9, 6)


def test_what_is_told_twice_is_one() -> None:
    state = TransactionState()
    state.add([ABORTED])
    assert state.on_data(9, 7)
    state.add([ABORTED])
    assert state.on_data(9, 7)
    assert not state.on_marker(9, 8, ABORT)
    assert state.kept == [ABORTED]


def test_other_markers() -> None:
    state = TransactionState()
    assert state.on_marker(9, 8, None)  # an empty one
    assert not state.on_marker(9, 8, -1)
    assert not state.on_marker(9, 8, 5)


def test_two_producers() -> None:
    state = TransactionState()
    state.add([AbortedTxn(4, 9, 2, 4), AbortedTxn(2, 7, 1, 2)])
    assert state.on_data(1, 3)
    assert state.on_data(2, 5)
    assert not state.on_data(3, 6)
    assert not state.on_marker(1, 7, ABORT)
    assert not state.on_marker(3, 8, COMMIT)
    assert not state.on_marker(2, 9, ABORT)
    assert [each.producer_id for each in state.kept] == [1, 2]


def test_indexes_from_a_segment_on(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a.txnindex", "b.txnindex", "c.txnindex")]
    paths[0].write_bytes(build.txn_index([(1, 0, 5, 6)]))
    paths[1].write_bytes(build.txn_index([(1, 8, 12, 11), (2, 11, 14, 15)]) + b"\0" * 20)  # a partial entry behind
    paths[2].write_bytes(build.txn_index([(1, 22, 25, 26), (1, 15, 28, 29)]))
    segments = [logs.segment(base, txnindex_path=str(path)) for base, path in zip((0, 10, 20), paths, strict=True)] + [
        logs.segment(30)
    ]
    assert list(collect_aborted(segments, 10, 15, 0)) == [AbortedTxn(8, 12, 1, 11), AbortedTxn(11, 14, 2, 15)]
    assert [each.last_offset for each in collect_aborted(segments, 0, 21, 0)] == [5, 12, 14]  # 26 ends the search
    assert [each.last_offset for each in collect_aborted(segments, 0, 27, 13)] == [14, 25, 28]  # behind the log start


def test_an_index_that_the_disk_cannot_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txnindex"
    path.write_bytes(build.txn_index([(1, 0, 5, 6), (1, 8, 12, 13)]))
    window = Source.window
    monkeypatch.setattr(Source, "window", lambda source, position, size: window(source, position, size)[:40])
    with pytest.raises(StorageError, match="cannot read all of this transaction index"):
        list(collect_aborted([logs.segment(0, txnindex_path=str(path))], 0, 10, 0))


def test_an_index_that_is_gone(tmp_path: Path) -> None:
    segment = logs.segment(0, txnindex_path=str(tmp_path / "none.txnindex"))
    with pytest.raises(NotFoundError):
        list(collect_aborted([segment], 0, 10, 0))
