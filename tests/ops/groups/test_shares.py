"""Where share groups are, from logs that a test writes; `test_live_groups` has what a real cluster reported."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalog_core.topics.modern_group_records import SHARE_RECORDS, SharedTopics, TopicNumbers
from kafkalog_core.topics.share_state_records import (
    ShareKey,
    ShareState,
    StateBatch,
    encode_snapshot,
    encode_state_tombstone,
    encode_update,
)
from tests.support.build import Record, batch_v2
from tests.support.groups import GroupLog, command, data_log, found_groups, rows

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog_core.topics.group_records import Record as KeyAndValue

TOPIC_ID = bytes(range(16))
KEYS = [ShareKey("s", TOPIC_ID, number) for number in range(2)]


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sentences are on one line."""
    monkeypatch.setenv("COLUMNS", "1000")


def share_group(place: Path) -> GroupLog:
    """A share group that reads two partitions of a topic."""
    log = GroupLog(place)
    for key, value in (
        SHARE_RECORDS.epoch("s", 1),
        SHARE_RECORDS.target_epoch("s", 1),
        SHARE_RECORDS.shared_topics("s", SharedTopics(initialized={TOPIC_ID: TopicNumbers("t", (0, 1))})),
    ):
        log.record(key, value)
    return log


def state_log(place: Path, *records: KeyAndValue) -> Path:
    """A partition of the share coordinator, a record a second."""
    path = place / "__share_group_state-0"
    path.mkdir(parents=True)
    made = [
        Record(offset=number, key=key, value=value, timestamp_ms=1000 * (number + 1))
        for number, (key, value) in enumerate(records)
    ]
    (path / f"{0:020}.log").write_bytes(b"".join(batch_v2([each]) for each in made))
    return path


def states() -> tuple[KeyAndValue, ...]:
    """A snapshot and an update of one partition, and of the other a state that was never used."""
    acknowledged, released = StateBatch(3, 5, 2, 1), StateBatch(7, 8, 0, 2)
    return (
        encode_snapshot(KEYS[0], ShareState(start=2, complete_count=0, leader_epoch=1)),
        encode_snapshot(KEYS[1], ShareState()),
        encode_update(KEYS[0], ShareState(complete_count=3, batches=(acknowledged, released))),
    )


def test_start_offset_lag_and_what_was_delivered(tmp_path: Path) -> None:
    data_log(tmp_path, "t-0", 0, 20, time_ms=1)
    share_group(tmp_path)
    state_log(tmp_path, *states())
    first, second = found_groups(tmp_path)[0]["s"].offsets
    assert (first["offset"], first["leader_epoch"], first["log_end_offset"]) == (2, 1, 20)
    assert first["lag"] == 20 - 2 - 3
    assert first["commit_timestamp_ms"] == 3000
    assert first["share_batches"] == [
        {"first": 3, "last": 5, "state": "acknowledged", "deliveries": 1},
        {"first": 7, "last": 8, "state": "available", "deliveries": 2},
    ]
    assert (second["offset"], second["lag"], second["detail"]) == (None, None, "the group has not read it yet")
    shown = command("--group", "s", tmp_path).stdout
    assert "1 start offset, 15 records not yet read" in shown
    assert "3 acknowledged, 2 available again" in shown
    assert "offsets expire" not in shown  # none is committed
    (group,) = rows(tmp_path, kind="group")
    assert (group["partitions"], group["lag"], group["expires_ms"]) == (1, 15, None)


def test_at_a_time_and_after_a_tombstone(tmp_path: Path) -> None:
    data_log(tmp_path, "t-0", 0, 20, time_ms=1)
    share_group(tmp_path)
    state_log(tmp_path, *states(), encode_state_tombstone(KEYS[0]))
    row = rows("--group", "s", "--at", "1970-01-01T00:00:02", tmp_path, kind="group_offset")[0]
    assert (row["offset"], row["share_batches"]) == (2, [])
    row = rows("--group", "s", tmp_path, kind="group_offset")[0]
    assert (row["offset"], row["state"], row["detail"]) == (None, "not-committed", "these disks have no state of it")


def test_without_its_states_where_a_group_is_is_unknown(tmp_path: Path) -> None:
    share_group(tmp_path)
    shown = command("--group", "s", tmp_path).stdout
    assert "has no readable copy of __share_group_state-0, which may hold where share groups are" in shown
    assert "these disks have no state of it" in shown


def test_damage_in_the_states_is_a_finding(tmp_path: Path) -> None:
    share_group(tmp_path)
    file = state_log(tmp_path, *states()) / f"{0:020}.log"
    data = bytearray(file.read_bytes())
    data[-1] ^= 0xFF
    file.write_bytes(data)
    found, basis = found_groups(tmp_path)
    assert [finding.code for finding in basis.findings] == ["groups.unread"]
    assert "__share_group_state-0" in str(basis.findings[0].path)
    # On the disk of a real 4.4.0 broker the damage was in the record that had where the group was
    detail = found["s"].offsets[1]["detail"]
    assert detail == "the group has not read it yet, unless what cannot be read shows it"


def test_the_tool_sets_no_start_offsets(tmp_path: Path) -> None:
    share_group(tmp_path).commit(4, topic="t")
    state_log(tmp_path, *states())
    assert command("--export", "csv", tmp_path).stdout == "g,t,0,4\n"
