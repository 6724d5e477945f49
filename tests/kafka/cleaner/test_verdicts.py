"""What is decided of batches before their records are looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalog_core.format.columns import BatchColumns
from kafkalog_core.format.run_filter import BIT_DISCARD, BIT_EMPTY_TXN, BIT_RETAIN_EMPTY
from kafkalog_core.kafka.rules.cleaner_rules import cleaning_rules
from kafkalog_core.kafka.rules.releases import parse_release
from kafkalog_core.kafka.sim.cleaner.log import LastRecord
from kafkalog_core.kafka.sim.cleaner.transactions import AbortedTxn, TransactionState, Verdicts
from kafkalog_core.storage.scan import Run, scan
from kafkalog_core.storage.source import Source
from tests.support import build
from tests.support.cleaner_logs import batch, marker, marker_with_horizon, of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

NONE_KNOWN: Mapping[int, LastRecord] = {}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "00000000000000000000.log"


def bits(
    path: Path,
    data: bytes,
    producers: Mapping[int, LastRecord] = NONE_KNOWN,
    *,
    release: str = "4.3.1",
    bound: int = 1000,
    now_ms: int = 5000,
    aborted: Iterable[AbortedTxn] = (),
    retains_legacy: bool = True,
) -> list[int] | None:
    path.write_bytes(data)
    state = TransactionState()
    state.add(aborted)
    rules = cleaning_rules(parse_release(release))
    verdicts = Verdicts(rules, producers, bound if rules.keeps_round_end else None, now_ms)
    with Source.open(path) as source:
        (run,) = scan(source, base_offset=0, batches=BatchColumns())
        assert isinstance(run, Run)
        found = verdicts.bits(run.memory, run.batches, state, str(path), retains_legacy=retains_legacy)
    return None if found is None else list(found)


PLAIN = batch((0, b"a", b"1")) + batch((1, b"a", b"2"))
OPEN = of(9, 0, 0, txn=True)


def test_plain_batches_need_no_decision(path: Path) -> None:
    assert bits(path, PLAIN) is None
    assert bits(path, PLAIN, {7: LastRecord(1, 0, 0)}) is None


def test_the_last_batch_before_the_bound_stays_since_4_1(path: Path) -> None:
    assert bits(path, PLAIN, bound=2) == [0, BIT_RETAIN_EMPTY]
    assert bits(path, PLAIN, bound=3) is None
    assert bits(path, PLAIN, bound=2, release="3.9.1") is None


def test_the_last_batch_of_a_producer_stays(path: Path) -> None:
    data = batch((0, b"a", b"1"), **of(7, 0, 0)) + batch((1, b"a", b"1"), (2, b"a", b"1"), **of(7, 0, 1))
    assert bits(path, data, {7: LastRecord(2, 0, 2)}) == [0, BIT_RETAIN_EMPTY]
    assert bits(path, data, {7: LastRecord(1, 0, 2)}) is None  # no batch ends there
    assert bits(path, data, {8: LastRecord(2, 0, 2)}) is None
    assert bits(path, data, {7: LastRecord(9, 0, 9), 8: LastRecord(0, 0, 0)}) is None
    assert bits(path, data, {7: LastRecord(2, 0, 0)}, release="2.1.1") == [BIT_RETAIN_EMPTY, 0]
    assert bits(path, data, {7: LastRecord(2, 0, 2)}, release="0.10.2.2") is None


def test_a_sequence_of_somebody_unknown(path: Path) -> None:
    data = batch((0, b"a", b"1"), **of(7, 0, 0)) + batch((1, b"a", b"1"), **of(8, 0, 0)) + batch((2, b"a", b"1"))
    assert bits(path, data, {8: LastRecord(1, 0, 0)}, release="2.1.1") == [0, BIT_RETAIN_EMPTY, 0]


def test_a_sequence_that_begins_anew(path: Path) -> None:
    data = batch((0, b"a", b"1"), (1, b"a", b"1"), **of(7, 0, 2**31 - 1))
    assert bits(path, data, {7: LastRecord(1, 0, 0)}, release="1.1.1") == [BIT_RETAIN_EMPTY]


def test_aborted_data_goes(path: Path) -> None:
    data = batch((0, b"a", b"1"), **OPEN) + batch((1, b"a", b"1"), **of(8, 0, 0, txn=True)) + marker(0, 2, 9, 0)
    assert bits(path, data, aborted=[AbortedTxn(0, 2, 9, 0)]) == [BIT_DISCARD, 0, 0]
    assert bits(path, data, {9: LastRecord(0, 0, 0)}, aborted=[AbortedTxn(0, 2, 9, 0)]) == [
        BIT_DISCARD | BIT_RETAIN_EMPTY,
        0,
        0,
    ]
    assert bits(path, data, aborted=[AbortedTxn(0, 2, 9, 0)], release="0.10.2.2") is None


def test_a_marker_of_nothing_waits_for_its_horizon(path: Path) -> None:
    assert bits(path, marker(1, 0, 9, 0)) == [BIT_EMPTY_TXN]
    waiting = marker_with_horizon(1, 0, 9, 0, 5000)
    assert bits(path, waiting, now_ms=4999) == [BIT_EMPTY_TXN]
    assert bits(path, waiting, now_ms=5000) == [BIT_EMPTY_TXN | BIT_DISCARD]


def test_a_marker_of_nothing_goes_with_its_file_before_3_1(path: Path) -> None:
    assert bits(path, marker(1, 0, 9, 0), release="2.8.2") == [0]
    assert bits(path, marker(1, 0, 9, 0), release="2.8.2", retains_legacy=False) == [BIT_DISCARD]


def test_the_last_marker_of_a_producer_without_data_stays(path: Path) -> None:
    known = {9: LastRecord(None, 1, -1)}
    assert bits(path, marker(1, 0, 9, 1), known) == [BIT_EMPTY_TXN | BIT_RETAIN_EMPTY]
    assert bits(path, marker(1, 0, 9, 0), known) == [BIT_EMPTY_TXN]  # of an older epoch
    assert bits(path, batch((0, b"a", b"1"), **OPEN) + marker(1, 1, 9, 1), known) == [0, BIT_RETAIN_EMPTY]


def test_an_empty_marker_may_go(path: Path) -> None:
    fields = {"producer_id": 9, "producer_epoch": 0, "is_transactional": True, "is_control": True}
    assert bits(path, build.empty_batch(0, 0, **fields)) == [BIT_EMPTY_TXN]


def test_a_marker_of_another_kind_stays(path: Path) -> None:
    data = build.control_batch(5, b"\0\0", offset=0, producer_id=9, producer_epoch=0, is_transactional=True)  # type: ignore[arg-type]
    assert bits(path, data) is None
