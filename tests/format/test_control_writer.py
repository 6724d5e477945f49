"""The control batches of a quorum, next to what a real 4.3.1 leader wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kafkalog_core.format.control import (
    Endpoint,
    KRaftVersion,
    KRaftVoter,
    KRaftVoters,
    LeaderChange,
    TaggedField,
    decode_control_value,
)
from kafkalog_core.format.control_writer import encode_quorum_batch
from kafkalog_core.kafka.sim.metadata_log import StoredRecord, stored_records

LOGS: Final = Path(__file__).parents[2] / "fixtures" / "quorum"


def _first_batch(path: Path) -> list[StoredRecord]:
    records = (each for each in stored_records(str(path), 0) if isinstance(each, StoredRecord))
    first = next(records)
    return [first, *(each for each in records if each.base_offset == first.base_offset)]


def test_it_is_the_batch_of_a_real_leader() -> None:
    """The first batch of the log: the election, the version and the three voters."""
    path = next((LOGS / "2" / "__cluster_metadata-0").glob("*.log"))
    records = _first_batch(path)
    values = [decode_control_value(each.control or 0, each.value or b"")[0] for each in records]
    assert [type(value) for value in values] == [LeaderChange, KRaftVersion, KRaftVoters]
    first = records[0]
    batch = encode_quorum_batch(
        values,  # type: ignore[arg-type]
        base_offset=first.base_offset,
        leader_epoch=first.epoch,
        timestamp_ms=first.timestamp_ms,
    )
    assert batch == path.read_bytes()[: len(batch)]


def test_tagged_fields_of_a_later_release_are_kept(tmp_path: Path) -> None:
    tags = (TaggedField(tag=7, data=b"later"),)
    voter = KRaftVoter(
        voter_id=3,
        directory_id="AAAAAAAAAAcAAAAAAAAABw",
        endpoints=(Endpoint(name="C", host="h", port=65535, tagged=tags),),
        min_kraft_version=0,
        max_kraft_version=1,
        feature_tagged=tags,
        tagged=tags,
    )
    voters = KRaftVoters(version=0, voters=(voter,), tagged=tags)
    path = tmp_path / f"{9:020}.log"
    path.write_bytes(encode_quorum_batch([voters], base_offset=9, leader_epoch=4, timestamp_ms=5))
    (record,) = stored_records(str(path), 9)
    assert isinstance(record, StoredRecord)
    assert (record.offset, record.epoch, record.timestamp_ms) == (9, 4, 5)
    assert decode_control_value(record.control or 0, record.value or b"")[0] == voters
