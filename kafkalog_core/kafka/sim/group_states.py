"""The state of all groups, read from partitions of `__consumer_offsets` in parts, by several processes.

A part gives what decides the state at the end, and no more: of each key the last record outside transactions, and all
records in transactions and markers in their order. What a later record of its key replaces is never decoded. The
cleaner keeps the same of a log, so the state is the one of a coordinator that loads all records. Two more things are
kept: the last tombstone of a key, which also deletes what an open transaction wrote before it, and the last commit
before a tombstone, by which a group without offsets still exists.

The records of one group alone are few, and those of its members are all kept: they show who had a partition when it was
committed.
"""

from __future__ import annotations

from collections import deque
from itertools import compress
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core import kernels
from kafkalog_core.engine.parts import WHOLE, divide, part_items, with_begin
from kafkalog_core.errors import StorageError
from kafkalog_core.format.decode import PayloadDamage, decode_run
from kafkalog_core.format.layout import CONTROL_BIT, MAGIC_V2, MAX_BATCH_BYTES, MAX_INT64, TRANSACTIONAL_BIT
from kafkalog_core.format.literals import ByteLiteral
from kafkalog_core.format.newest_records import NewestByKey, NewestRecords
from kafkalog_core.kafka.rules.producer_anomalies import markers_of
from kafkalog_core.kafka.sim.coordinator_logs import records_of
from kafkalog_core.kafka.sim.logfiles import unit_of_partition
from kafkalog_core.kernels.constants import MARKED
from kafkalog_core.kernels.programs import WANTS_KEY
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.scan import Damage, ScanOptions
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct, field
from kafkalog_core.text import count_of
from kafkalog_core.topics.group_offsets import OFFSET_KEYS
from kafkalog_core.topics.group_states import GroupStates, group_of_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kafkalog_core.engine.parts import LogPart
    from kafkalog_core.format.decode import RecordRun
    from kafkalog_core.format.newest_records import NewestRecord
    from kafkalog_core.kafka.sim.logfiles import LogFile
    from kafkalog_core.storage.scan import Run

__all__ = [
    "GroupLogPart",
    "GroupLogRecord",
    "GroupRecords",
    "Moment",
    "group_history",
    "joined",
    "parts_of",
    "read_groups",
    "read_part",
    "replay",
    "replayed",
]

_COMMIT_MARKER: Final = 1  # ControlRecordType
_PART_BYTES: Final = 64 * 1024 * 1024
_FEW_PARTS: Final = 4
"""Readers of that many parts of a file walk to their starts themselves, at the same time."""
_TYPE_BYTES: Final = 2
_SHORTEST_KEY: Final = 2
_OFFSET: Final = attrgetter("offset")


class Moment(Struct, frozen=True):
    """The end of what is replayed.

    Args:
        until_ms: records with a later timestamp are left out.
        end_offset: records from this offset on are left out.
    """

    until_ms: int = MAX_INT64
    end_offset: int = MAX_INT64

    @property
    def is_open(self) -> bool:
        """Whether all records count."""
        return self.until_ms == self.end_offset == MAX_INT64


class GroupLogPart(Struct, frozen=True):
    """A part of a log file to read, as plain values, which can be sent to another process."""

    path: str
    base_offset: int | None
    part: LogPart
    size_bytes: int


class GroupLogRecord(NamedTuple):
    """A record, or the marker of a transaction, in the order of the log.

    Args:
        offset: of the record.
        timestamp_ms: of the record.
        key: None: it has none; of a marker empty.
        value: None: a tombstone.
        transaction: the producer id of a transactional batch; None: it is of none.
        is_commit: whether a marker commits; None: it is a record.
    """

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    transaction: int | None = None
    is_commit: bool | None = None


Groups = tuple[bytes, ...]
"""What the keys of some groups begin with, after their type."""


class GroupRecords(Struct):
    """What a part of a log says.

    Args:
        newest: the last record of each key outside transactions.
        ordered: the records in transactions, markers, and the records of members if one group is read.
        later: keys of offsets with records after the moment.
        problems: places that cannot be read, a sentence each.
        keyless: records without a key.
        records: how many were read.
        batches: how many were read.
        size_bytes: of log that was read.
        first_ms: timestamp of the first record; None: there is none.
        last_ms: the largest timestamp up to the moment, of all groups; -1: there is none.
    """

    newest: NewestRecords = field(default_factory=NewestRecords)
    ordered: list[GroupLogRecord] = field(default_factory=list)
    later: dict[bytes, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    keyless: int = 0
    records: int = 0
    batches: int = 0
    size_bytes: int = 0
    first_ms: int | None = None
    last_ms: int = -1


def parts_of(files: Iterable[LogFile], options: ScanOptions) -> list[GroupLogPart]:
    """Return the parts of the logs of a partition, in their order."""
    parts = []
    for file in files:
        size = file.file.size_bytes
        pieces = divide(WHOLE, size, _PART_BYTES)
        if len(pieces) > _FEW_PARTS:
            try:
                with Source.open(file.path) as source:
                    pieces = [with_begin(source, each, options) for each in pieces]
            except StorageError:
                pass  # the part that is read first reports it
        parts += [GroupLogPart(file.path, file.base_offset, each, -(-size // len(pieces))) for each in pieces]
    return parts


def read_groups(
    directories: Iterable[str], *, max_batch_bytes: int = MAX_BATCH_BYTES, until_ms: int = MAX_INT64
) -> tuple[GroupStates, list[str]]:
    """Return the state of the groups, and a sentence for each place that cannot be read, where commits may be missing.

    Args:
        directories: of the partitions of `__consumer_offsets`, one copy of each.
        max_batch_bytes: larger batches are damage.
        until_ms: records with a later timestamp are left out.
    """
    states, problems = GroupStates(), list[str]()
    options = ScanOptions(max_batch_bytes=max_batch_bytes, resync=True)
    for directory in directories:
        try:
            parts = parts_of(unit_of_partition(read_partition(directory), None).files, options)
        except StorageError as error:
            problems.append(str(error))
            continue
        moment = Moment(until_ms=until_ms)
        records = joined(read_part(part, moment, None, max_batch_bytes, lambda _: None) for part in parts)
        of_partition = replayed(records)
        problems += records.problems
        for what, count in of_partition.undecoded().items():
            problems.append(f"{directory}: {count_of(count, 'record')}: {what}")
        states.absorb(of_partition)
    return states, problems


def joined(parts: Iterable[GroupRecords]) -> GroupRecords:
    """Return what consecutive parts of a partition say together."""
    found, newest = GroupRecords(), NewestByKey()
    for each in parts:
        newest.join(each.newest)
        found.ordered += each.ordered
        for key, offset in each.later.items():
            found.later.setdefault(key, offset)
        found.problems += each.problems
        found.keyless += each.keyless
        found.records += each.records
        found.batches += each.batches
        found.size_bytes += each.size_bytes
        found.first_ms = each.first_ms if found.first_ms is None else found.first_ms
        found.last_ms = max(found.last_ms, each.last_ms)
    found.newest = newest.records()
    return found


def read_part(
    part: GroupLogPart, moment: Moment, groups: Groups | None, max_batch_bytes: int, advance: Callable[[int], None]
) -> GroupRecords:
    """Read a part of a log. What cannot be read is a problem.

    Args:
        part: of a log file.
        moment: the end of what counts.
        groups: what the keys of some groups begin with, after their type (`group_bytes`); None: all groups.
        max_batch_bytes: larger batches are damage.
        advance: called with the bytes that were read.
    """
    found = GroupRecords(size_bytes=part.size_bytes)
    reader = _Reader(found, moment, groups, max_batch_bytes)
    for item in _items(part, max_batch_bytes, advance):
        if isinstance(item, str):
            found.problems.append(item)
        else:
            reader.read(item)
    found.newest = reader.newest.records()
    return found


def group_history(
    parts: Iterable[GroupLogPart],
    moment: Moment,
    groups: Groups,
    max_batch_bytes: int,
    advance: Callable[[int], None],
) -> Iterator[GroupRecords]:
    """Yield all records of some groups and all markers, in `ordered`, a run of batches at a time."""
    for part in parts:
        for item in _items(part, max_batch_bytes, advance):
            found = GroupRecords()
            if isinstance(item, str):
                found.problems.append(item)
            else:
                _Reader(found, moment, groups, max_batch_bytes, keeps_all=True).read(item)
                found.ordered.sort(key=lambda each: each.offset)
            yield found


def _items(part: GroupLogPart, max_batch_bytes: int, advance: Callable[[int], None]) -> Iterator[Run | str]:
    """Yield the runs of a part, and a sentence for each damage."""
    options = ScanOptions(max_batch_bytes=max_batch_bytes, resync=True)
    try:
        with Source.open(part.path) as source:
            for item in part_items(source, part.part, base_offset=part.base_offset, options=options):
                if not isinstance(item, Damage):
                    advance(sum(item.batches.column("size_bytes")))
                    yield item
                elif not item.is_plain_tail:
                    yield f"{part.path}: byte {item.position}, {item.reason}: {item.detail}"
    except StorageError as error:
        yield str(error)


class _Reader:
    """Adds runs of batches to what a part says."""

    def __init__(
        self, found: GroupRecords, moment: Moment, groups: Groups | None, max_bytes: int, *, keeps_all: bool = False
    ) -> None:
        self._found = found
        self._moment = moment
        self._groups = groups
        self._max_bytes = max_bytes
        self._keeps_all = keeps_all
        self.newest = NewestByKey()
        self._literals = tuple(map(ByteLiteral, groups or ()))

    def read(self, run: Run) -> None:
        """Add the records and markers of a run."""
        found, batches = self._found, run.batches
        formats, attributes = batches.column("format"), batches.column("attributes")
        flags = (
            attributes
            if batches.holds_only("format", MAGIC_V2)
            else [value if magic == MAGIC_V2 else 0 for value, magic in zip(attributes, formats, strict=True)]
        )
        found.batches += batches.count
        is_special = any(value & (TRANSACTIONAL_BIT | CONTROL_BIT) for value in flags)
        if is_special:
            self._read_markers(run)
        wanted = (lambda row: not flags[row] & CONTROL_BIT) if is_special else None
        is_within = self._is_within(run)
        for item in decode_run(run.memory, batches, max_bytes=self._max_bytes, wanted=wanted):
            if isinstance(item, PayloadDamage):
                size = batches.column("size_bytes")[item.batch]
                found.problems.append(f"a batch of {size} bytes cannot be read: {item.detail}")
            elif item.records.count:
                marks = self._marked(item, is_within=is_within)
                # A large log is commits outside transactions: no loop of Python runs over them.
                if is_special or self._keeps_all or self._groups is not None or not is_within:
                    self._read_slowly(item, flags, marks)
                if MARKED in marks:
                    self.newest.keep(item.memory, item.records, marks)

    def _is_within(self, run: Run) -> bool:
        """Return whether all records of a run count."""
        moment, batches = self._moment, run.batches
        return moment.is_open or (
            max(batches.column("max_timestamp_ms")) <= moment.until_ms
            and max(batches.column("last_offset")) < moment.end_offset
        )

    def _read_markers(self, run: Run) -> None:
        """Add the markers; they are in the order of the log once all records are (`replayed` sorts)."""
        batches, moment = run.batches, self._moment
        producers, times, offsets = (
            batches.column(name) for name in ("producer_id", "max_timestamp_ms", "base_offset")
        )
        for row, marker in markers_of(run.memory, batches, max_bytes=self._max_bytes).items():
            if times[row] <= moment.until_ms and offsets[row] < moment.end_offset:
                self._found.ordered.append(
                    GroupLogRecord(
                        offsets[row], times[row], b"", None, producers[row], marker.type_id == _COMMIT_MARKER
                    )
                )

    def _marked(self, run: RecordRun, *, is_within: bool) -> bytearray:
        """Count records; return a mark for each one that has a key, and may be of the groups."""
        found, moment, records = self._found, self._moment, run.records
        times, sizes = records.column("timestamp_ms"), records.column("key_size")
        found.records += records.count
        found.first_ms = times[0] if found.first_ms is None else found.first_ms
        counted: Iterable[int] = times
        if not is_within:
            pairs = zip(times, records.column("offset"), strict=True)
            counted = (time for time, offset in pairs if time <= moment.until_ms and offset < moment.end_offset)
        found.last_ms = max(found.last_ms, max(counted, default=-1))
        marks = bytearray([MARKED]) * records.count
        if min(sizes) < _SHORTEST_KEY:
            for row, size in enumerate(sizes):
                if size < _SHORTEST_KEY:
                    marks[row] = 0
                    found.keyless += 1
        if self._literals:
            kernels.keep_holding(run.memory, records, WANTS_KEY, self._literals, marks)
        return marks

    def _read_slowly(self, run: RecordRun, flags: memoryview | list[int], marks: bytearray) -> None:
        """Look at each marked record; those whose order counts lose their marks, as do those that do not count."""
        found, moment, groups = self._found, self._moment, self._groups
        producers = run.batches.column("producer_id")
        rows = compress(range(run.records.count), marks[:])
        for number, (row, offset, timestamp_ms, key, value) in zip(rows, records_of(run, marks[:]), strict=True):
            marks[number] = 0
            if key is None or (groups is not None and not key.startswith(groups, _TYPE_BYTES)):
                continue
            is_offset = int.from_bytes(key[:_TYPE_BYTES], "big") in OFFSET_KEYS
            if timestamp_ms > moment.until_ms or offset >= moment.end_offset:
                if is_offset:
                    found.later.setdefault(key, offset)
                continue
            transaction = producers[row] if flags[row] & TRANSACTIONAL_BIT else None
            if transaction is not None or self._keeps_all or (groups is not None and not is_offset):
                found.ordered.append(GroupLogRecord(offset, timestamp_ms, key, value, transaction))
            else:
                marks[number] = MARKED


def _in_order(newest: Iterable[NewestRecord], ordered: Sequence[GroupLogRecord]) -> list[GroupLogRecord]:
    """Return the records that decide the state, in the order of the log."""
    in_transactions = {each.key for each in ordered if each.transaction is not None and each.is_commit is None}
    records = []
    for key, offset, timestamp_ms, value, tombstone, _ in newest:
        records.append(GroupLogRecord(offset, timestamp_ms, key, value))
        if tombstone not in {-1, offset} and key in in_transactions:
            records.append(GroupLogRecord(tombstone, timestamp_ms, key, None))
    return sorted([*records, *ordered], key=_OFFSET)


def replayed(found: GroupRecords, seen: Callable[[GroupLogRecord, GroupStates], None] | None = None) -> GroupStates:
    """Return the state of the groups of a partition.

    seen: called with each record and marker, and the state after it.
    """
    states = GroupStates()
    if found.keyless:
        states.skipped["a record without a key"] = found.keyless
    newest = list(found.newest)
    # A group without offsets exists by a commit before their tombstones, if its own tombstone is not later.
    notes = deque(sorted((each.replaced, each.key) for each in newest if each.value is None and each.replaced >= 0))
    for record in _in_order(newest, found.ordered):
        while notes and notes[0][0] < record.offset:
            name = group_of_key(notes.popleft()[1])
            if name is not None:
                states.note_commit(name)
        replay(states, record)
        if seen is not None:
            seen(record, states)
    return states


def replay(states: GroupStates, record: GroupLogRecord) -> None:
    """Replay a record or a marker."""
    if record.is_commit is not None:
        states.end_transaction(record.transaction or 0, is_commit=record.is_commit)
    else:
        states.replay(record.key, record.value, record.offset, record.transaction)
