"""Control batches of the cluster metadata log: the election of a leader, the version of the quorum, and its voters.

`MemoryRecordsBuilder.appendLeaderChangeMessage`, `appendKRaftVersionMessage` and `appendVotersMessage`: the key is
version 0 and the type, all records of a batch have the same timestamp, and nothing is compressed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from kafkalog_core.format.batch_writer import BatchHeader, NewRecord, encode_batch
from kafkalog_core.format.control import KRaftVersion, KRaftVoters, LeaderChange
from kafkalog_core.format.layout import CONTROL_BIT, CONTROL_KEY, CONTROL_TYPE_NAMES
from kafkalog_core.format.textfile import parse_uuid
from kafkalog_core.wire.codec import UNKNOWN_TAGS, codec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkalog_core.format.control import Tagged

__all__ = ["QuorumControl", "encode_quorum_batch"]

QuorumControl = LeaderChange | KRaftVersion | KRaftVoters
"""A control record that the leader of a quorum writes."""
_KEY_VERSION: Final = 0
_VERSION: Final = 0
"""The version of all of their schemas up to 4.4; LeaderChange has a version 1 that no release writes."""


def encode_quorum_batch(
    values: Sequence[QuorumControl], *, base_offset: int, leader_epoch: int, timestamp_ms: int
) -> bytes:
    """Return one control batch with these records.

    Args:
        values: at least one.
        base_offset: offset of the first one.
        leader_epoch: of the batch.
        timestamp_ms: of all records, in milliseconds since 1970.
    """
    records = []
    for value in values:
        name, message, fields = _fields(value)
        key = CONTROL_KEY.struct.pack(_KEY_VERSION, CONTROL_TYPE_NAMES.index(name))
        pieces = codec(message, _VERSION).encode(fields)
        body = b"".join(cast("Iterable[bytes]", pieces))  # there are no file ranges
        records.append(NewRecord(key, body, timestamp_ms))
    header = BatchHeader(base_offset=base_offset, leader_epoch=leader_epoch, attributes=CONTROL_BIT)
    return bytes(encode_batch(records, header))


def _fields(value: QuorumControl) -> tuple[str, str, dict[str, Any]]:
    """Return the name of the control type, the name of the schema, and the fields."""
    common = {"version": value.version} | _tags(value.tagged)
    if isinstance(value, KRaftVersion):
        return "kraft_version", "KRaftVersionRecord", common | {"k_raft_version": value.kraft_version}
    if isinstance(value, KRaftVoters):
        return "kraft_voters", "VotersRecord", common | {"voters": [*_voters(value)]}
    groups = {"voters": value.voters, "granting_voters": value.granting_voters}
    lists = {
        name: [{"voter_id": each.voter_id} | _tags(each.tagged) for each in voters] for name, voters in groups.items()
    }
    return "leader_change", "LeaderChangeMessage", common | {"leader_id": value.leader_id} | lists


def _voters(value: KRaftVoters) -> list[dict[str, Any]]:
    return [
        {
            "voter_id": voter.voter_id,
            "voter_directory_id": parse_uuid(voter.directory_id),
            "endpoints": [
                {"name": each.name, "host": each.host, "port": each.port} | _tags(each.tagged)
                for each in voter.endpoints
            ],
            "k_raft_version_feature": {
                "min_supported_version": voter.min_kraft_version,
                "max_supported_version": voter.max_kraft_version,
            }
            | _tags(voter.feature_tagged),
        }
        | _tags(voter.tagged)
        for voter in value.voters
    ]


def _tags(tagged: Tagged) -> dict[str, Any]:
    """Return tagged fields that no release defines, as the codec takes them."""
    return {UNKNOWN_TAGS: [(each.tag, each.data) for each in tagged]} if tagged else {}
