"""Control records: the key of every type, the values of the two transaction markers and of the five KRaft messages.

Sources: ControlRecordType, EndTransactionMarker, LeaderChangeMessage.json, SnapshotHeaderRecord.json,
SnapshotFooterRecord.json, KRaftVersionRecord.json, VotersRecord.json (Kafka 4.3.1). A KRaft value is a flexible
message whose own Version field comes first; tagged fields that no release knows are kept. A type that no release knows
is a value too (`UnknownControl`), as a reader must pass over it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import FieldError
from kafkalog_core.format.flexible import Cursor
from kafkalog_core.format.layout import CONTROL_TYPE_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalog_core.format.flexible import Tagged

__all__ = [
    "ControlKey",
    "ControlValue",
    "EndTxnMarker",
    "Endpoint",
    "KRaftVersion",
    "KRaftVoter",
    "KRaftVoters",
    "LeaderChange",
    "SnapshotFooter",
    "SnapshotHeader",
    "UnknownControl",
    "Voter",
    "decode_control_key",
    "decode_control_value",
]

Buffer = bytes | bytearray | memoryview

_LEADER_CHANGE_WITH_DIRECTORIES: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlKey:
    """Key of a control record. `name` is `unknown` for a type that no release knows."""

    version: int
    type: int

    @property
    def name(self) -> str:
        """`abort`, `commit`, `leader_change`, ..."""
        return CONTROL_TYPE_NAMES[self.type] if 0 <= self.type < len(CONTROL_TYPE_NAMES) else "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTxnMarker:
    """ABORT or COMMIT. `coordinator_epoch` is the leader epoch of the `__transaction_state` partition that sent it."""

    version: int
    coordinator_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Voter:
    """A voter of a LEADER_CHANGE; `directory_id` (base64url) from schema version 1 on, which 4.3.1 does not write."""

    voter_id: int
    directory_id: str | None = None
    tagged: Tagged = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderChange:
    """The first record of each leader epoch in a metadata log."""

    version: int
    leader_id: int
    voters: tuple[Voter, ...]
    granting_voters: tuple[Voter, ...]
    tagged: Tagged = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotHeader:
    """The first record of a KRaft snapshot."""

    version: int
    last_contained_log_timestamp_ms: int
    tagged: Tagged = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFooter:
    """The last record of a KRaft snapshot; a file without it is incomplete."""

    version: int
    tagged: Tagged = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KRaftVersion:
    """The feature level kraft.version: 1 has voters in the log, 0 in the configuration."""

    version: int
    kraft_version: int
    tagged: Tagged = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A listener of a controller."""

    name: str
    host: str
    port: int
    tagged: Tagged = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KRaftVoter:
    """A voter of a KRAFT_VOTERS; `directory_id` in base64url."""

    voter_id: int
    directory_id: str
    endpoints: tuple[Endpoint, ...]
    min_kraft_version: int
    max_kraft_version: int
    feature_tagged: Tagged = ()
    tagged: Tagged = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KRaftVoters:
    """The whole set of voters from this offset on."""

    version: int
    voters: tuple[KRaftVoter, ...]
    tagged: Tagged = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownControl:
    """The value of a type that no release knows."""

    type: int
    data: bytes


ControlValue = (
    EndTxnMarker | LeaderChange | SnapshotHeader | SnapshotFooter | KRaftVersion | KRaftVoters | UnknownControl
)


def decode_control_key(buffer: Buffer, position: int = 0) -> tuple[ControlKey, int]:
    """The key at `position` and the position behind it, what follows is not looked at.

    A higher version is read as 0. Raises TruncatedError and FieldError.
    """
    cursor = Cursor(buffer, position, "control record key")
    return ControlKey(version=_version(cursor), type=cursor.int16()), cursor.position


def decode_control_value(control_type: int, buffer: Buffer, position: int = 0) -> tuple[ControlValue, int]:
    """The value of a control record of this type at `position`, and the position behind it.

    A higher version is read as the highest that is known, as Kafka does. Raises TruncatedError and FieldError.
    """
    decode = _DECODERS.get(control_type)
    if decode is None:
        data = bytes(memoryview(buffer)[position:])
        return UnknownControl(type=control_type, data=data), position + len(data)
    cursor = Cursor(buffer, position, f"value of a {CONTROL_TYPE_NAMES[control_type]} record")
    return decode(cursor), cursor.position


def _version(cursor: Cursor) -> int:
    start = cursor.position
    version = cursor.int16()
    if version < 0:
        raise FieldError(f"{cursor.what} of version {version}", position=start)
    return version


def _end_txn_marker(cursor: Cursor) -> EndTxnMarker:
    return EndTxnMarker(version=_version(cursor), coordinator_epoch=cursor.int32())


def _leader_change(cursor: Cursor) -> LeaderChange:
    version = _version(cursor)

    def voter() -> Voter:
        return Voter(
            voter_id=cursor.int32(),
            directory_id=cursor.uuid() if version >= _LEADER_CHANGE_WITH_DIRECTORIES else None,
            tagged=cursor.tagged_fields(),
        )

    return LeaderChange(
        version=version,
        leader_id=cursor.int32(),
        voters=cursor.compact_array(voter),
        granting_voters=cursor.compact_array(voter),
        tagged=cursor.tagged_fields(),
    )


def _snapshot_header(cursor: Cursor) -> SnapshotHeader:
    return SnapshotHeader(
        version=_version(cursor), last_contained_log_timestamp_ms=cursor.int64(), tagged=cursor.tagged_fields()
    )


def _snapshot_footer(cursor: Cursor) -> SnapshotFooter:
    return SnapshotFooter(version=_version(cursor), tagged=cursor.tagged_fields())


def _kraft_version(cursor: Cursor) -> KRaftVersion:
    return KRaftVersion(version=_version(cursor), kraft_version=cursor.int16(), tagged=cursor.tagged_fields())


def _kraft_voters(cursor: Cursor) -> KRaftVoters:
    def endpoint() -> Endpoint:
        return Endpoint(
            name=cursor.compact_string(),
            host=cursor.compact_string(),
            port=cursor.uint16(),
            tagged=cursor.tagged_fields(),
        )

    def voter() -> KRaftVoter:
        return KRaftVoter(
            voter_id=cursor.int32(),
            directory_id=cursor.uuid(),
            endpoints=cursor.compact_array(endpoint),
            min_kraft_version=cursor.int16(),
            max_kraft_version=cursor.int16(),
            feature_tagged=cursor.tagged_fields(),
            tagged=cursor.tagged_fields(),
        )

    return KRaftVoters(version=_version(cursor), voters=cursor.compact_array(voter), tagged=cursor.tagged_fields())


_DECODERS: Final[dict[int, Callable[[Cursor], ControlValue]]] = dict(
    enumerate(
        (  # in the order of CONTROL_TYPE_NAMES
            _end_txn_marker,
            _end_txn_marker,
            _leader_change,
            _snapshot_header,
            _snapshot_footer,
            _kraft_version,
            _kraft_voters,
        )
    )
)
