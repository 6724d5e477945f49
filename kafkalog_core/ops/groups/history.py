"""`kafkalog groups --history`: each commit, rebalance, expiry and deletion of a group, in the order of the log."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from kafkalog_core.findings import found
from kafkalog_core.kafka.rules.offset_expiry import expiry_ms
from kafkalog_core.kafka.sim.group_states import replay
from kafkalog_core.ops.groups.groups import clock_of, disks_of_groups, unknown_groups
from kafkalog_core.ops.groups.logs import TopicsOfDisks
from kafkalog_core.ops.groups.reading import group_logs, read_history_of
from kafkalog_core.output import tables
from kafkalog_core.output.chunk import RowChunk
from kafkalog_core.progress import NO_PROGRESS
from kafkalog_core.text import count_of, moment
from kafkalog_core.topics.group_offsets import OFFSET_KEYS, OFFSETS_TOPIC, offset_of_value, place_of_key
from kafkalog_core.topics.group_states import GroupStates, group_of_key, owner_of
from kafkalog_core.topics.record_decoders import decoder_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from kafkalog_core.engine.report import Report
    from kafkalog_core.format.names import TopicPartition
    from kafkalog_core.kafka.sim.group_states import GroupLogRecord
    from kafkalog_core.ops.groups.groups import Clock
    from kafkalog_core.ops.groups.request import GroupsRequest, Row
    from kafkalog_core.output.chunk import Chunk
    from kafkalog_core.progress import Progress
    from kafkalog_core.topics.group_states import Assignment, DescribedGroup

__all__ = ["group_events"]

_ROWS: Final = 500
_MEMBER_EVENTS: Final = {
    "MemberMetadata": ("member", "member-left"),
    "TargetAssignmentMember": ("target", None),
    "CurrentMemberAssignment": ("assignment", None),
}
_GROUP_EVENTS: Final = {
    "Metadata": ("epoch", "group-deleted"),
    "TargetAssignmentMetadata": ("target", None),
    "Topology": ("topology", None),
}
_PREFIXES: Final = ("ConsumerGroup", "ShareGroup", "StreamsGroup")


def group_events(
    request: GroupsRequest, report: Report, progress: Progress = NO_PROGRESS
) -> Generator[Chunk, None, None]:
    """Yield what happened to the named groups, some rows at a time. Memory follows their state, not their history.

    Raises SelectionError if a group is not there, StorageError and SettingError.
    """
    disks = disks_of_groups(request)
    clock, names = clock_of(request, disks), TopicsOfDisks(disks)
    logs, _, findings = group_logs(disks, clock.release, request.max_batch_bytes)
    report.expect(partitions=len(logs), files=sum(len(log.parts) for log in logs))
    histories: dict[str, _Histories] = {}
    rows: list[Row] = []
    count = 0
    for log, some in read_history_of(request, logs, progress):
        report.batches += some.batches
        report.records += some.records
        for problem in some.problems:
            findings.append(found("groups.unread", log.path, topic=OFFSETS_TOPIC, problem=problem))
        history = histories.setdefault(log.path, _Histories(request, clock, names))
        for record in some.ordered:
            rows += history.events(record)
        if len(rows) >= _ROWS:
            count += len(rows)
            yield RowChunk(tables.GROUP_EVENT, rows)
            rows = []
    if rows:
        count += len(rows)
        yield RowChunk(tables.GROUP_EVENT, rows)
    if not count:
        raise unknown_groups(request, request.groups, disks, names, clock.release)
    report.partitions, report.files = len(logs), sum(len(log.parts) for log in logs)
    report.bytes = sum(log.size_bytes for log in logs)
    report.rows = count + len(findings)
    for finding in findings:
        report.add_finding(finding.row())
    if findings:
        yield RowChunk(tables.FINDING, [finding.row() for finding in findings])


class _Histories:
    """The groups of one log, record by record."""

    def __init__(self, request: GroupsRequest, clock: Clock, names: TopicsOfDisks) -> None:
        self._request = request
        self._clock = clock
        self._names = names
        self._states = GroupStates()
        self._described: dict[str, DescribedGroup] = {}

    def events(self, record: GroupLogRecord) -> Iterator[Row]:
        """Yield the events of a record or a marker."""
        if record.is_commit is not None:
            yield from self._ended(record)
            return
        key = record.key or b""
        group = group_of_key(key) or ""
        row: Row = {"group": group, "record_offset": record.offset, "timestamp_ms": record.timestamp_ms}
        if int.from_bytes(key[:2], "big") in OFFSET_KEYS:
            place = place_of_key(key)
            before = None if place is None else self._states.offsets.offsets.get(group, {}).get(place)
            expires = None
            if before is not None and place is not None and record.value is None:
                retention_ms, release = self._clock.retention_ms, self._clock.release
                group_then = self._group(group)
                expires = expiry_ms(group_then, place[0], before, retention_ms=retention_ms, release=release)
            replay(self._states, record)
            if place is not None and self._is_shown(place):
                yield row | self._offset(group, place, record) | self._deletion(record, expires)
            return
        was = self._group(group)
        replay(self._states, record)
        self._described.pop(group, None)
        yield row | self._change(was, record)

    def _is_shown(self, place: TopicPartition) -> bool:
        globs = self._request.topics
        return not globs or any(fnmatchcase(place[0], pattern) for pattern in globs)

    def _group(self, name: str) -> DescribedGroup:
        if name not in self._described:
            self._described[name] = self._states.describe(name, self._names.name)
        return self._described[name]

    # --- offsets ------------------------------------------------------------------------------------------------------
    def _offset(self, group: str, place: TopicPartition, record: GroupLogRecord) -> Row:
        row: Row = {"topic": place[0], "partition": place[1], "producer_id": record.transaction}
        if record.value is None:
            return row | {"event": "offset-deleted"}
        owner = owner_of(self._group(group).members, *place)
        metadata = self._metadata(group, place, record)
        return row | {
            "event": "commit" if record.transaction is None else "pending-commit",
            "offset": offset_of_value(record.value),
            "member_id": None if owner is None else owner.member_id,
            "detail": f"metadata {metadata}" if metadata else None,
        }

    def _metadata(self, group: str, place: TopicPartition, record: GroupLogRecord) -> str:
        offsets = self._states.offsets
        if record.transaction is None:
            known = offsets.offsets.get(group, {}).get(place)
        else:
            known = offsets.pending.get(record.transaction, {}).get((group, place))
        return "" if known is None else known.metadata

    def _deletion(self, record: GroupLogRecord, expires_ms: int | None) -> Row:
        """Return why an offset was deleted, as far as the log shows it: a tombstone has no reason."""
        if record.value is not None:
            return {}
        if expires_ms is not None and expires_ms <= record.timestamp_ms:
            return {"detail": f"it had expired at {moment(expires_ms)}, as far as offsets.retention.minutes is known"}
        return {"detail": "before it could expire: an admin client deleted it, or its topic or group was deleted"}

    def _ended(self, record: GroupLogRecord) -> Iterator[Row]:
        """Yield the end of a transaction, for each group with offsets in it."""
        pending = self._states.offsets.pending.get(record.transaction or 0, {})
        counts: dict[str, int] = {}
        for group, _ in pending:
            counts[group] = counts.get(group, 0) + 1
        replay(self._states, record)
        for group, count in counts.items():
            yield {
                "group": group,
                "record_offset": record.offset,
                "timestamp_ms": record.timestamp_ms,
                "event": "transaction-committed" if record.is_commit else "transaction-aborted",
                "producer_id": record.transaction,
                "detail": f"{count_of(count, 'offset')} {'count now' if record.is_commit else 'dropped'}",
            }

    # --- groups -------------------------------------------------------------------------------------------------------
    def _change(self, was: DescribedGroup, record: GroupLogRecord) -> Row:
        """Return what a record of a group or of a member says."""
        decode = decoder_of(OFFSETS_TOPIC)
        decoded = None if decode is None else decode(record.key, record.value)
        if decoded is None or decoded.key is None or decoded.problem is not None:
            return {"event": "unknown", "detail": "unknown" if decoded is None else decoded.problem}
        name, is_gone = str(decoded.key["name"]), record.value is None
        group = self._group(was.name)
        if name == "GroupMetadata":
            return _classic_change(was, group, is_gone=is_gone)
        member_id = decoded.key["data"].get("memberId")
        part = name
        for prefix in _PREFIXES:
            part = part.removeprefix(prefix)
        event, gone = (_GROUP_EVENTS if member_id is None else _MEMBER_EVENTS).get(part, ("unknown", None))
        member = next((each for each in group.members if each.member_id == member_id), None)
        row: Row = {"event": (gone or event) if is_gone else event, "epoch": group.epoch, "member_id": member_id}
        if part == "CurrentMemberAssignment" and member is not None:
            row |= {"epoch": member.epoch, "detail": _places_text(member.assignment) or "no partitions"}
        elif part == "MemberMetadata" and member is not None:
            row["detail"] = f"client {member.client_id} on {member.host}"
        elif event == "unknown" or (is_gone and gone is None):
            row["detail"] = f"{name}{' deleted' if is_gone else ''}"
        return row


def _classic_change(was: DescribedGroup, group: DescribedGroup, *, is_gone: bool) -> Row:
    if is_gone:
        return {"event": "group-deleted", "epoch": was.epoch}
    before, after = ({each.member_id for each in each_group.members} for each_group in (was, group))
    texts = [
        *(f"{member.member_id} has {_places_text(member.assignment) or 'no partitions'}" for member in group.members),
        *(f"{member_id} left" for member_id in sorted(before - after)),
    ]
    return {
        "event": "rebalance" if group.members else "empty",
        "epoch": group.epoch,
        "detail": "; ".join([f"assignor {group.protocol}"] * bool(group.protocol) + texts) or None,
    }


def _places_text(assignment: Assignment) -> str:
    return ", ".join(f"{topic}-{number}" for topic, numbers in sorted(assignment.items()) for number in numbers)
