"""Producer snapshots as a start loads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalog_core.findings.catalog import Sink
from kafkalog_core.format.snapshot import ProducerEntry, encode_snapshot
from kafkalog_core.kafka.rules.releases import parse_release
from kafkalog_core.kafka.sim.start.snapshots import ProducerManager, SnapshotFiles, SnapshotOptions
from kafkalog_core.ops.verify import txn_index
from kafkalog_core.structs import replace

if TYPE_CHECKING:
    from pathlib import Path

NOW_MS = 1_700_000_000_000


def snapshot_of(count: int) -> bytes:
    """A snapshot of producers with one batch each."""
    entries = (
        ProducerEntry(
            producer_id=number,
            producer_epoch=0,
            last_sequence=0,
            last_offset=5,
            offset_delta=0,
            timestamp_ms=NOW_MS,
            coordinator_epoch=0,
            current_txn_first_offset=-1,
        )
        for number in range(count)
    )
    return encode_snapshot(entries, order="java")


@pytest.mark.parametrize(("limit", "loaded", "left"), [(3, 3, [50, 100]), (2, 1, [50])])
def test_a_snapshot_of_too_many_producers_is_deleted_and_the_one_before_is_used(
    tmp_path: Path, limit: int, loaded: int, left: list[int]
) -> None:
    """`integration/test_snapshot_limit.py` has the true limit, and Kafka's own classes."""
    paths = {}
    for offset, count in ((50, 1), (100, 3)):
        path = tmp_path / f"{offset:020d}.snapshot"
        path.write_bytes(snapshot_of(count))
        paths[offset] = str(path)
    options = SnapshotOptions.of_release(parse_release("4.4"), now_ms=NOW_MS, expiration_ms=1000)
    assert options.max_entries == 1_000_000
    files = SnapshotFiles(paths)
    manager = ProducerManager(files, replace(options, max_entries=limit))
    manager.truncate_and_reload(0, 100)
    assert sum(1 for _ in manager.states.snapshot_entries("marker-time")) == loaded
    assert (manager.end_offset, list(files)) == (left[-1], left)


def test_verify_names_a_snapshot_that_some_releases_do_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"{100:020d}.snapshot"
    path.write_bytes(snapshot_of(3))
    monkeypatch.setattr(txn_index, "MAX_ELEMENTS", 2)
    found = Sink()
    txn_index.check_snapshot(str(path), 100, None, 0, found, Sink())
    (finding,) = found.findings
    assert (finding.code, finding.severity) == ("snapshot.many-producers", "warning")
    assert "3 producers, more than the 2" in finding.message
