"""Where a broker takes a damaged log to end after a clean shutdown: the finding is what the simulated start says."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.engine.targets import resolve
from kafkalog_core.ops.verify.engine import verify
from kafkalog_core.ops.verify.request import VerifyRequest
from tests.support.truncating import MARK, NOW_MS, codes, plan, write_log, write_tops

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog_core.findings import Finding

META = b"version=1\nnode.id=1\ncluster.id=c\ndirectory.id=y6G1A3bjT0yi8a8zoDBS7Q\n"
ENDS = {"log.end-hidden", "log.end-unreadable"}


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """A log of eight batches after a clean shutdown, the last index entry at the seventh."""
    root = write_tops(tmp_path / "disk", recovery=[("t", 0, 140)], is_clean=True)
    (root / "meta.properties").write_bytes(META)
    write_log(root / "t-0", {100: [(first, first + 4) for first in range(100, 140, 5)]})
    return root


def log(disk: Path, suffix: str = "log") -> Path:
    return disk / "t-0" / f"{100:020d}.{suffix}"


def last_entry(disk: Path) -> int:
    """The byte that the last index entry leads to."""
    return int.from_bytes(log(disk, "index").read_bytes()[-4:], "big")


def findings(disk: Path) -> list[Finding]:
    request = VerifyRequest(targets=tuple(resolve([str(disk)])), now_ms=NOW_MS)
    return [each for verdict in verify(request) for each in verdict.findings]


def found(disk: Path) -> list[str]:
    return sorted(each.code for each in findings(disk) if each.code in ENDS)


def test_a_healthy_log_says_nothing(disk: Path) -> None:
    assert found(disk) == []


def test_a_torn_batch_at_the_last_index_entry(disk: Path) -> None:
    log(disk).write_bytes(log(disk).read_bytes()[: last_entry(disk) + 40])
    assert found(disk) == ["log.end-hidden"]
    (torn,) = [each for each in findings(disk) if each.code == "log.torn-tail"]
    assert str(torn.broker_action).startswith("Takes offset 100 as the log end offset, ")
    assert "although there are records up to offset 129: it assigns their offsets again." in str(torn.broker_action)
    assert codes(plan(disk, as_broker=True)) == ["truncate.end-lost"]
    (disk / MARK).unlink()
    assert found(disk) == []


def test_a_torn_batch_behind_it_hides_nothing_else(disk: Path) -> None:
    log(disk).write_bytes(log(disk).read_bytes()[:-10])
    assert found(disk) == []


def test_a_magic_that_was_changed_stops_the_broker(disk: Path) -> None:
    data = bytearray(log(disk).read_bytes())
    data[last_entry(disk) + 16 : last_entry(disk) + 18] = b"\x01\xff"
    log(disk).write_bytes(data)
    assert found(disk) == ["log.end-unreadable"]
    assert codes(plan(disk, as_broker=True)) == ["truncate.broker-stops"]
    assert codes(plan(disk, as_broker=True, kafka="3.9")) == []


def test_a_wrong_last_entry_of_a_whole_log(disk: Path) -> None:
    """The finding about the entry says that the broker takes the segment for empty, as the plan does."""
    log(disk, "index").write_bytes(struct.pack(">ii", 3, last_entry(disk) + 1))
    told = {each.code: each.broker_action or "" for each in findings(disk)}
    assert found(disk) == []
    assert "takes offset 100, the base offset of the segment, as the log end offset" in told["index.wrong-position"]
    assert codes(plan(disk, as_broker=True)) == ["truncate.end-misled"]
    (disk / MARK).unlink()
    assert (
        "as the log end offset"
        not in {each.code: each.broker_action or "" for each in findings(disk)}["index.wrong-position"]
    )


def test_a_clean_start_needs_the_snapshot_of_the_end_alone(disk: Path) -> None:
    """`ProducerStateManager.loadFromSnapshot` takes the latest: it does not miss that of the last segment."""
    (disk / "t-0" / "partition.metadata").write_bytes(b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    write_log(disk / "t-0", {140: [(140, 144)]})
    (disk / "recovery-point-offset-checkpoint").write_bytes(b"0\n1\nt 0 145\n")
    assert [each.offset for each in findings(disk) if each.code == "snapshot.missing"] == [140]
    (disk / "t-0" / f"{145:020}.snapshot").touch()
    assert [each.offset for each in findings(disk) if each.code == "snapshot.missing"] == []


def test_a_batch_above_the_range_of_its_segment_is_not_said_to_be_below_it(disk: Path) -> None:
    """Of a real 4.3.1 broker librdkafka and Java got all records of such a batch, at its wrong offsets."""
    data = bytearray(log(disk).read_bytes())
    data[3] ^= 0x55
    log(disk).write_bytes(data)
    (order,) = [each for each in findings(disk) if each.code == "batch.offset-order"]
    assert "they end with 365072220264" in order.message
    assert "below the base offset" not in str(order.broker_action)
