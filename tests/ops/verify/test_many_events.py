"""Very many aborted transactions and leader epochs: little memory each, and no check is lost where there are few."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core.kafka.rules import batch_checks
from kafkalog_core.kafka.rules.producers import CompletedTxn
from kafkalog_core.ops.verify.txn_index import AbortedTxns, Doubt
from tests.ops.verify.segments import check_headers, verdict_of
from tests.support.build import batch_v2, epoch_checkpoint
from tests.support.logs import records, write_segments

if TYPE_CHECKING:
    from pathlib import Path

TXNS = st.builds(
    CompletedTxn,
    st.integers(0, 2**63 - 1),
    st.integers(0, 50),
    st.integers(0, 50),
    is_aborted=st.just(value=True),
    last_stable_offset=st.integers(0, 50),
)


@given(st.lists(TXNS, max_size=30), st.booleans())
def test_aborted_transactions_are_found_by_their_marker(txns, is_sorted):
    if is_sorted:
        txns.sort(key=lambda txn: txn.last_offset)
    kept = AbortedTxns(txns)
    assert list(kept) == txns
    meant = {txn.last_offset: txn for txn in txns}
    ordered = kept.by_marker()
    assert list(ordered) == [meant[last] for last in sorted(meant)]
    for last in range(51):
        number = ordered.find(last)
        assert (None if number is None else ordered[number]) == meant.get(last)


def test_an_aborted_transaction_takes_little() -> None:
    kept = AbortedTxns()
    for at in range(10_000):
        kept.add(CompletedTxn(2**40 + at, 2**41 + at, 2**42 + at, is_aborted=True, last_stable_offset=2**43 + at))
    assert kept.by_marker() is kept
    assert sum(sys.getsizeof(part) for part in vars(kept).values()) <= 40 * 10_000


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(-5, 10)), max_size=20), st.integers(0, 40), st.integers(0, 10)
)
def test_damage_explains_what_overlaps_it(spans, first, length):
    damage = tuple((start, start + size) for start, size in spans if size >= 0)
    doubt = Doubt(start_offset=0, damage=damage, is_compacted=False, is_rebuilt=False)
    assert doubt.explains(first, first + length) == any(a <= first + length and first <= b for a, b in damage)


def test_only_the_first_leader_epochs_are_kept(tmp_path: Path) -> None:
    log = b"".join(batch_v2(records(at, 1), leader_epoch=at) for at in range(100))
    with mock.patch.object(batch_checks, "MOST_EPOCHS", 30):
        figures = check_headers(tmp_path, log).figures
    assert [start.epoch for start in figures.epochs] == list(range(30))
    assert figures.epoch_behind == 99
    assert check_headers(tmp_path, log).figures.epoch_behind is None


@pytest.mark.parametrize("most", [1, 7, 49, 50, 51])
def test_epochs_that_are_not_kept_raise_no_alarm(tmp_path: Path, most: int) -> None:
    """Two segments of fifty leader epochs each, and the file that names them all; then one that lacks the third."""
    logs = {
        base: b"".join(batch_v2(records(at, 1), leader_epoch=at) for at in range(base, base + 50)) for base in (0, 50)
    }
    directory = write_segments(tmp_path / "t-0", logs)
    lines = [(at, at) for at in range(100)]
    codes = []
    for entries in (lines, lines[:2] + lines[3:]):
        (directory / "leader-epoch-checkpoint").write_bytes(epoch_checkpoint(entries))
        with mock.patch.object(batch_checks, "MOST_EPOCHS", most):
            verdict = verdict_of(directory)
        codes.append({one.code for one in verdict.findings if one.code.startswith(("epochs.", "batch."))})
        assert all(len(segment.epochs) <= most for segment in verdict.segments)
        assert [segment.last_epoch for segment in verdict.segments] == [49, 99]
    assert codes[0] == set()
    assert codes[1] == ({"epochs.missing-entry"} if most > 2 else set())
