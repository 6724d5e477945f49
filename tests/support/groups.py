"""Groups on disks: what `kafkalog groups` finds, and partitions of `__consumer_offsets` that a test writes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner

from kafkalog_cli.main import cli
from kafkalog_core.engine.report import Report
from kafkalog_core.engine.selection import Selection
from kafkalog_core.engine.targets import resolve
from kafkalog_core.ops.groups.groups import groups
from kafkalog_core.ops.groups.request import GroupBasis, GroupResult, GroupsRequest
from kafkalog_core.topics.group_records import GroupMember, GroupValue, encode_group
from tests.support.build import Record, batch_v2, txn_marker
from tests.support.committed import commit_key, commit_value

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

__all__ = [
    "NOW_MS",
    "GroupLog",
    "assignment",
    "classic",
    "command",
    "data_log",
    "found_groups",
    "member",
    "rows",
    "subscription",
]

NOW_MS = 1_800_000_000_000
"""A moment after all corpora."""


def found_groups(*paths: Path, **options: Any) -> tuple[dict[str, GroupResult], GroupBasis]:
    """What the engine finds, by the name of the group."""
    targets = tuple(resolve([str(path) for path in paths], Selection()))
    found: dict[str, GroupResult] = {}
    basis = GroupBasis()
    for item in groups(GroupsRequest(**{"targets": targets, "now_ms": NOW_MS} | options), Report()):
        if isinstance(item, GroupResult):
            found[str(item.group["group"])] = item
        else:
            basis = item
    return found, basis


def command(*arguments: object) -> Result:
    """The command in this process."""
    return CliRunner().invoke(cli, ["groups", *map(str, arguments)])


def rows(*arguments: object, kind: str | None = None) -> list[dict[str, Any]]:
    """The rows that the command writes, of one type or of all."""
    lines = command(*arguments, "--ndjson").stdout.splitlines()
    return [row for row in map(json.loads, lines) if kind is None or row["type"] == kind]


# --- logs that a test writes ------------------------------------------------------------------------------------------
class GroupLog:
    """A partition of `__consumer_offsets`, a batch a record."""

    def __init__(self, place: Path, number: int = 0) -> None:
        self.path = place / f"__consumer_offsets-{number}"
        self.path.mkdir(parents=True)
        self._data = b""
        self.next_offset = 0

    def record(
        self, key: bytes | None, value: bytes | None, *, time_ms: int = 1, producer: int | None = None
    ) -> GroupLog:
        """Append a record."""
        record = Record(offset=self.next_offset, key=key, value=value, timestamp_ms=time_ms)
        options: dict[str, Any] = {}
        if producer is not None:
            options = {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
        return self.add(batch_v2([record], **options))

    def commit(
        self,
        offset: int | None,
        *,
        group: str = "g",
        topic: str = "t",
        partition: int = 0,
        time_ms: int = 1,
        producer: int | None = None,
        metadata: str = "",
    ) -> GroupLog:
        """Append a commit; None: a tombstone."""
        value = None if offset is None else commit_value(offset, metadata, time_ms)
        return self.record(commit_key(group, topic, partition), value, time_ms=time_ms, producer=producer)

    def group(self, name: str, value: GroupValue | None, *, time_ms: int = 1) -> GroupLog:
        """Append the record of a classic group."""
        return self.record(*encode_group(name, value), time_ms=time_ms)

    def end(self, kind: int, producer: int) -> GroupLog:
        """Append a marker."""
        return self.add(txn_marker(kind, offset=self.next_offset, producer_id=producer))

    def add(self, data: bytes) -> GroupLog:
        """Append a batch."""
        self._data += data
        self.next_offset += 1
        (self.path / f"{0:020}.log").write_bytes(self._data)
        return self


def _text(text: str) -> bytes:
    return len(text).to_bytes(2, "big") + text.encode()


def subscription(*topics: str) -> bytes:
    """A subscription, version 0."""
    return b"\0\0" + len(topics).to_bytes(4, "big") + b"".join(map(_text, topics)) + b"\xff" * 4


def assignment(**topics: list[int]) -> bytes:
    """An assignment, version 0."""
    parts = [
        _text(topic) + len(numbers).to_bytes(4, "big") + b"".join(each.to_bytes(4, "big") for each in numbers)
        for topic, numbers in topics.items()
    ]
    return b"\0\0" + len(topics).to_bytes(4, "big") + b"".join(parts) + b"\xff" * 4


def member(name: str, *topics: str, **assigned: list[int]) -> GroupMember:
    """A member of a classic group."""
    return GroupMember(
        member_id=name,
        instance_id=None,
        client_id=f"client-{name}",
        client_host="/10.0.0.1",
        rebalance_ms=1000,
        session_ms=1000,
        subscription=subscription(*(topics or assigned)),
        assignment=assignment(**assigned) if assigned else b"",
    )


def classic(
    *members: GroupMember, generation: int = 1, state_ms: int = 1, protocol_type: str = "consumer"
) -> GroupValue:
    """A classic group."""
    return GroupValue(
        protocol_type=protocol_type,
        generation=generation,
        protocol="range" if members else None,
        leader=members[0].member_id if members else None,
        state_ms=state_ms,
        members=members,
    )


def data_log(place: Path, name: str, first: int, count: int, *, time_ms: int = 1000) -> Path:
    """Write a partition with `count` records from an offset on, a second apart."""
    path = place / name
    path.mkdir(parents=True)
    batches = [
        batch_v2([Record(offset=offset, value=b"v", timestamp_ms=time_ms + 1000 * (offset - first))])
        for offset in range(first, first + count)
    ]
    (path / f"{first:020}.log").write_bytes(b"".join(batches))
    return path
