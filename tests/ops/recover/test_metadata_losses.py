"""What a damaged metadata log costs a cluster: its newest snapshot has all that is before it, and the rest by name.

`KafkaRaftLog.truncateToLatestSnapshot`: a node whose log ends before its newest snapshot goes on with that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalog_core.ops.cluster.losses import measure_losses
from kafkalog_core.storage.partition import read_partition
from tests.support import build
from tests.support.assigned_disks import DIRECTORY, an_id, disk, partition, registered, topic
from tests.support.recover_plans import recover
from tests.support.repairs import undo_all

if TYPE_CHECKING:
    from pathlib import Path

HEADER, FOOTER = 3, 4
TOPICS = 20
RECORDS = [
    registered(DIRECTORY),
    *(
        each
        for number in range(1, TOPICS + 1)
        for each in (topic(f"t{number}", an_id(number)), partition(an_id(number), directories=(DIRECTORY,)))
    ),
]


def write_snapshot(log: Path, offset: int) -> None:
    """The snapshot of the records before an offset."""
    data = [build.Record(offset=at, timestamp_ms=1, value=value) for at, value in enumerate(RECORDS[:offset], 1)]
    batches = [
        build.control_batch(HEADER, build.snapshot_header_value(1), offset=0),
        build.batch_v2(data),
        build.control_batch(FOOTER, build.snapshot_footer_value(), offset=offset + 1),
    ]
    (log / f"{offset:020d}-{0:010d}.checkpoint").write_bytes(b"".join(batches))


def damaged(path: Path, snapshot: int | None, at: int) -> tuple[Path, int]:
    """A disk whose metadata log has a damaged record; and the byte where the batch of that begins."""
    home = disk(path / "disk", *RECORDS, topic_id=an_id(1))
    (home / "t-0").rename(home / "t1-0")
    (home / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    metadata = home / "__cluster_metadata-0"
    if snapshot is not None:
        write_snapshot(metadata, snapshot)
    log = metadata / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    position = 0
    for _ in range(at):
        position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    data[position + 63] ^= 1
    log.write_bytes(bytes(data))
    return home, position


@pytest.mark.parametrize(
    ("snapshot", "at", "first", "records", "lost"),
    [
        (None, 11, 12, 29, "t10, t11, t12, and 11 more"),
        (31, 11, 31, 10, "t16, t17, t18, and 2 more"),
        (11, 31, 32, 9, "t17, t18, t19, and 1 more"),
    ],
    ids=["no snapshot", "below the snapshot", "after the snapshot"],
)
def test_what_the_snapshot_has_is_not_lost(
    tmp_path: Path, snapshot: int | None, at: int, first: int, records: int, lost: str
) -> None:
    home, position = damaged(tmp_path, snapshot, at)
    path = home / "__cluster_metadata-0"
    (loss,) = measure_losses(read_partition(str(path)), [(str(path / f"{0:020d}.log"), position)], None)
    assert (loss.first_offset, loss.next_offset, loss.records) == (first, len(RECORDS), records)
    assert f"({lost})" in str(loss.why)


def test_a_snapshot_of_all_loses_nothing_by_name(tmp_path: Path) -> None:
    home, position = damaged(tmp_path, len(RECORDS), 11)
    path = home / "__cluster_metadata-0"
    (loss,) = measure_losses(read_partition(str(path)), [(str(path / f"{0:020d}.log"), position)], None)
    assert (loss.records, loss.why) == (0, "Nothing of the cluster is lost by name")


@pytest.mark.parametrize("snapshot", [None, 11])
def test_bytes_after_the_last_record_name_nothing(tmp_path: Path, snapshot: int | None) -> None:
    """Seen of 4.3.1 with 100 bytes of garbage after its log: it goes on with all topics."""
    home, _ = damaged(tmp_path, snapshot, 11)
    log = home / "__cluster_metadata-0" / f"{0:020d}.log"
    size = log.stat().st_size
    log.write_bytes(log.read_bytes() + bytes([255]) * 100)
    (loss,) = measure_losses(read_partition(str(log.parent)), [(str(log), size)], None)
    assert (loss.records, loss.why) == (0, "Nothing of the cluster is lost by name")


def test_recover_counts_what_goes_and_names_it(tmp_path: Path) -> None:
    home, _ = damaged(tmp_path, 31, 11)
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    draft = recover(home, only_copy=True)
    report = draft.plan.report
    assert "the broker would delete 10 records of 1 partition; this plan deletes 10 records" in str(report.verdict)
    assert [loss.first_offset for loss in report.losses] == [31]
    assert "5 topics (t16, t17, t18, and 2 more)" in str(report.losses[0].why)
    undo_all(home)
    assert {path: path.read_bytes() for path in home.rglob("*") if path.is_file()} == before
