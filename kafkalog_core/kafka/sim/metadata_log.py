"""The reader of the cluster metadata log: a snapshot and the log from its offset on, to the image of the cluster.

`read_image` is what every verb, `serve` and the simulation of a start read the cluster from. It changes nothing and
checks nothing of the state of the quorum: the last records of one disk may not be committed, and no file says so.
"""

from __future__ import annotations

import os
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.errors import FormatError, StorageError
from kafkalog_core.format.control import decode_control_key, decode_control_value
from kafkalog_core.format.decode import RecordRun, decode_run
from kafkalog_core.format.layout import CONTROL_BIT, CONTROL_TYPE_NAMES, MAX_BATCH_BYTES, MAX_INT64
from kafkalog_core.format.names import FileState
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.scan import Damage, ScanOptions, scan
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct, field
from kafkalog_core.topics.cluster_image import ClusterImage
from kafkalog_core.topics.metadata_records import decode_record
from kafkalog_core.topics.metadata_transactions import TRANSACTION_RECORDS, MetadataTransactions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafkalog_core.engine.named_dirs import NamedDirs
    from kafkalog_core.format.control import ControlValue
    from kafkalog_core.storage.listing import FileInfo, Segment
    from kafkalog_core.storage.partition import Partition
    from kafkalog_core.topics.metadata_records import MetadataRecord

__all__ = [
    "EVERYTHING",
    "MetadataReading",
    "StoredRecord",
    "UnreadPlace",
    "Until",
    "is_bootstrap_snapshot",
    "live_snapshots",
    "read_file_image",
    "read_image",
    "read_shared_image",
    "stored_records",
]

_HEADER, _FOOTER = (CONTROL_TYPE_NAMES.index(name) for name in ("snapshot_header", "snapshot_footer"))
_COLUMNS: Final = ("batch", "offset", "timestamp_ms", "key_start", "key_size", "value_start", "value_size")
_BATCH_COLUMNS: Final = ("attributes", "base_offset", "last_offset", "leader_epoch")
_BOOTSTRAP_SNAPSHOT: Final = f"{0:020}-{0:010}.checkpoint"
_MOST_NOTES: Final = 20
_GOES_BACK: Final = "two segments have the same offsets"


class StoredRecord(Struct, frozen=True):
    """A record of a log or a snapshot.

    Args:
        path: of the file.
        offset: of the record; in a snapshot its place there.
        timestamp_ms: of the record.
        epoch: leader epoch of its batch.
        base_offset: first offset of its batch.
        last_offset: last offset of its batch.
        control: its type if it is a control record, -1 if that has no type; None: it is a data record.
        value: None: this is a batch without records.
    """

    path: str
    offset: int
    timestamp_ms: int
    epoch: int
    base_offset: int
    last_offset: int
    control: int | None
    value: bytes | None


class UnreadPlace(NamedTuple):
    """A place in a file that cannot be read as records.

    Args:
        path: of the file, or of the directory where a file is missing.
        position: byte in the file; None: a file, or the part of the log before it, is missing.
        offset: the first offset that is unknown; None: unknown too.
        detail: what is there.
        is_tail: whether it is what a crash leaves at the end of a log: a torn append, or zeros.
        is_read: whether only the offsets of a batch are wrong, whose records follow; no start truncates a log there.
    """

    path: str
    position: int | None
    offset: int | None
    detail: str
    is_tail: bool = False
    is_read: bool = False


class Until(Struct, frozen=True):
    """The moment of an image: after the record with an offset, or after the last one that is not newer than a time."""

    offset: int = MAX_INT64
    time_ms: int = MAX_INT64


EVERYTHING: Final = Until()


class MetadataReading(Struct):
    """What was read of a metadata log.

    Args:
        path: directory of the log.
        image: of the cluster.
        is_whole: whether no record up to the moment is missing, damaged or unknown. A torn end counts as a loss,
            although a crash may leave one: whether its batch was committed is unknown. A damaged snapshot does not, if
            an older one and the log from there on have its records.
        snapshot: path of the snapshot that the image begins with; None: it begins with the log.
        start_offset: of the first record that the log itself, without snapshots, has; None: it has no record.
        base_offset: the offset that the image begins with: that of the snapshot, or 0.
        end_offset: after the last record that was read.
        end_epoch: leader epoch of the last record that was read; -1: it was none.
        last_ms: timestamp of the last record that was read; -1: none was.
        records: number of records that were read.
        damage: places that could not be read; at most 20.
        replaced: places in snapshots that could not be read, whose records an older one and the log have.
        contradictions: records that were left out, and why; at most 20.
        contradicted: number of those records.
        unfinished: number of records of a transaction without an end; None: there is none.
        paths: of the files that were read, in their order.
        errors: why files could not be read at all.
    """

    path: str
    image: ClusterImage = field(default_factory=ClusterImage)
    is_whole: bool = True
    snapshot: str | None = None
    start_offset: int | None = None
    base_offset: int = 0
    end_offset: int = 0
    end_epoch: int = -1
    last_ms: int = -1
    records: int = 0
    damage: list[UnreadPlace] = field(default_factory=list)
    replaced: list[UnreadPlace] = field(default_factory=list)
    contradictions: list[tuple[StoredRecord, str]] = field(default_factory=list)
    contradicted: int = 0
    unfinished: int | None = None
    paths: list[str] = field(default_factory=list)
    errors: list[StorageError] = field(default_factory=list)

    @property
    def source(self) -> str:
        """Where the image was read, and up to which record."""
        if self.end_offset:
            return f"{self.path} up to offset {self.end_offset - 1}"
        return f"{self.path}, {'which is empty' if self.is_whole else 'of which nothing can be read'}"

    @property
    def gap(self) -> str | None:
        """What is unknown, as a clause that names the log; None: nothing is."""
        if self.is_whole:
            return None
        what = f"WHAT COMES AFTER OFFSET {self.end_offset - 1} IS" if self.end_offset else "EVERYTHING IS"
        return f"{what} UNKNOWN IN {self.path}"

    def lose(self, damage: UnreadPlace) -> None:
        """Note that something is missing or damaged."""
        self.is_whole = False
        if len(self.damage) < _MOST_NOTES:
            self.damage.append(damage)

    def contradict(self, record: StoredRecord, reason: str) -> None:
        """Note that a record was left out."""
        self.contradicted += 1
        if len(self.contradictions) < _MOST_NOTES:
            self.contradictions.append((record, reason))


# --- images -----------------------------------------------------------------------------------------------------------
def read_image(
    path: str,
    *,
    until: Until = EVERYTHING,
    is_oldest: bool = False,
    stops_at_damage: bool = False,
    watch: Callable[[ClusterImage, StoredRecord, MetadataRecord | ControlValue], None] | None = None,
) -> MetadataReading:
    """Return the image of a metadata log, given by the path of its directory. Whatever is there, it raises nothing.

    Args:
        path: of the directory.
        until: the moment of the image.
        is_oldest: whether to begin with the oldest snapshot that the log still continues, to see its history.
        stops_at_damage: whether the image ends before the first damage of the log, as that of a broker does, which
            truncates the log there. Else what follows the damage is replayed too, as far as it does not contradict.
        watch: is called before each record changes the image, with the image before it.
    """
    try:
        partition = read_partition(path)
    except StorageError as error:
        reading = MetadataReading(path)
        reading.lose(UnreadPlace(path, None, 0, str(error)))
        reading.errors.append(error)
        return reading
    bases: list[FileInfo | None] = [*_bases(partition, until, is_oldest=is_oldest)]
    lost: list[UnreadPlace] = []
    passed: list[int] = []
    while True:
        base = bases.pop(0)
        reading = _Reader(path, until, stops_at_damage=stops_at_damage, watch=watch).read(partition, base)
        # A snapshot that cannot be read is not the only way to an image: an older one, and the log from there, is too.
        if base is None or not _lost_in(reading, base) or not bases or not _continues(partition, bases[0]):
            break
        lost += reading.damage
        passed.append(base.name.base_offset or 0)
    # The log has all that was in them, but for that of offset 0: its records (the first voters) are nowhere else
    if all(0 < offset <= reading.end_offset for offset in passed):
        reading.replaced = lost
    else:
        reading.damage[:0] = lost
        reading.is_whole = False
    return reading


def read_shared_image(path: str, named: NamedDirs | None) -> MetadataReading:
    """Return the image of a whole metadata log as `read_image` does: one reading for all that a command asks of it.

    The image is shared, so nobody changes it. It is read again once a file of the log has changed, as after an apply.

    Args:
        path: of the directory.
        named: what the command reads once; None: nothing is kept.
    """
    if named is None:
        return read_image(path)
    try:
        partition = read_partition(path)
    except StorageError:
        return read_image(path)
    files = [file for segment in partition.segments for file in segment.files] + list(partition.kraft_snapshots)
    key = path, *((file.path, file.size_bytes, file.mtime_ns, file.inode) for file in files)
    return named.latest("image", key, partial(read_image, path))


def read_file_image(path: str) -> MetadataReading:
    """Return the image of one file of batches: a snapshot, bootstrap.checkpoint, a segment. It raises nothing."""
    reader = _Reader(path, EVERYTHING, stops_at_damage=False, watch=None)
    reader.read_file(path, None, 0)
    reader.finish()
    return reader.reading


def live_snapshots(partition: Partition) -> list[FileInfo]:
    """Return the finished snapshots of a metadata log, the newest first."""
    live = [file for file in partition.kraft_snapshots if file.name.state is FileState.LIVE]
    return sorted(live, key=lambda file: (file.name.base_offset or 0, file.name.epoch or 0), reverse=True)


def is_bootstrap_snapshot(path: str) -> bool:
    """Return whether a snapshot is the one that formatting writes (`Snapshots.BOOTSTRAP_SNAPSHOT_ID`).

    Its data records are never replayed: the first active controller writes them to the log.
    """
    return os.path.basename(path) == _BOOTSTRAP_SNAPSHOT


def _bases(partition: Partition, until: Until, *, is_oldest: bool) -> Iterator[FileInfo | None]:
    """Yield what an image may begin with, the first choice first; None: the log alone."""
    snapshots = [each for each in live_snapshots(partition) if _is_before(each, until)]
    if is_oldest:
        snapshots.reverse()
        snapshots = [each for each in snapshots if _continues(partition, each)] or snapshots[-1:]
        # From offset 0 on the log has everything, and the snapshot of the format has its voters too.
        if snapshots and snapshots[0].name.base_offset and _continues(partition, None):
            yield None
    yield from snapshots
    yield None


def _continues(partition: Partition, base: FileInfo | None) -> bool:
    """Return whether the log has the records from the offset of a snapshot on."""
    offset = 0 if base is None else base.name.base_offset or 0
    return bool(partition.segments) and partition.segments[0].base_offset <= offset


def _is_before(snapshot: FileInfo, until: Until) -> bool:
    """Return whether a snapshot has no record after a moment; that of time is in its header (KIP-630)."""
    if (snapshot.name.base_offset or 0) - 1 > until.offset:
        return False
    if until.time_ms == MAX_INT64 or is_bootstrap_snapshot(snapshot.path):
        return True
    try:
        first = next(stored_records(snapshot.path, None), None)
    except StorageError:
        return True  # which the reader then reports
    if not isinstance(first, StoredRecord) or first.control != _HEADER or first.value is None:
        return True
    try:
        header, _ = decode_control_value(_HEADER, first.value)
    except FormatError:
        return True
    return getattr(header, "last_contained_log_timestamp_ms", 0) <= until.time_ms


def _lost_in(reading: MetadataReading, base: FileInfo) -> bool:
    return any(each.path == base.path for each in reading.damage)


class _Reader:
    """Replays files one after another."""

    def __init__(
        self,
        path: str,
        until: Until,
        *,
        stops_at_damage: bool,
        watch: Callable[[ClusterImage, StoredRecord, MetadataRecord | ControlValue], None] | None,
    ) -> None:
        self.reading = MetadataReading(path)
        self._until = until
        self._stops_at_damage = stops_at_damage
        self._watch = watch
        self._transactions: MetadataTransactions[StoredRecord] = MetadataTransactions()
        self._is_over = False

    def read(self, partition: Partition, snapshot: FileInfo | None) -> MetadataReading:
        """Read a snapshot and the segments from its offset on."""
        reading, expected = self.reading, 0
        if snapshot is not None:
            expected = snapshot.name.base_offset or 0
            reading.snapshot, reading.base_offset = snapshot.path, expected
            self._read_snapshot(snapshot)
        reading.end_offset = expected
        filled = [each for each in partition.segments if each.log is not None]
        reading.start_offset = filled[0].base_offset if filled else None
        if not partition.segments and expected:  # a node has a segment from its start on
            self._lose(UnreadPlace(partition.path, None, expected, "no segment of the log is here"))
        for number, segment in enumerate(_segments_from(partition, expected)):
            if self._is_over:
                break
            first = segment.base_offset
            if first != expected and (number or first > expected):
                what = f"offsets {expected} to {first - 1} are missing" if first > expected else _GOES_BACK
                self._lose(UnreadPlace(partition.path, None, min(first, expected), what))
            if segment.log is None:
                self._lose(UnreadPlace(partition.path, None, first, f"the file {first:020}.log is missing"))
                continue
            if not self._is_over:
                begin = max(reading.base_offset, 0)
                expected = self.read_file(segment.log.path, first, begin) or first
        self.finish()
        return reading

    def finish(self) -> None:
        """Drop the transaction that has no end (`MetadataBatchLoader`: nothing of it is in an image)."""
        if self._transactions.pending is not None:
            self.reading.unfinished = len(self._transactions.pending)

    def _lose(self, place: UnreadPlace) -> None:
        self.reading.lose(place)
        if self._stops_at_damage and place.path != self.reading.snapshot and not place.is_read:
            self._is_over = True

    def _read_snapshot(self, snapshot: FileInfo) -> None:
        """Replay a snapshot; its records are before the offset in its name, whatever their own offsets are."""
        reading, last = self.reading, None
        reading.paths.append(snapshot.path)
        try:
            for item in stored_records(snapshot.path, None):
                if isinstance(item, UnreadPlace):
                    reading.lose(item._replace(offset=None))
                    continue
                last = item.control
                reading.records += 1
                # Of the snapshot of the format only the control records count.
                if item.control is not None or not is_bootstrap_snapshot(snapshot.path):
                    self._replay(item)
        except StorageError as error:
            reading.lose(UnreadPlace(snapshot.path, None, None, str(error)))
            reading.errors.append(error)
            return
        if last != _FOOTER:
            reading.lose(UnreadPlace(snapshot.path, None, None, "the snapshot does not end with a footer record"))
        reading.end_epoch = snapshot.name.epoch or 0

    def read_file(self, path: str, base_offset: int | None, begin: int) -> int | None:
        """Replay the records of a file from an offset on; return the offset after its last batch; None: it has none."""
        reading, until, next_offset, last = self.reading, self._until, None, None
        reading.paths.append(path)
        try:
            for item in stored_records(path, base_offset):
                if isinstance(item, UnreadPlace):
                    self._lose(item)
                    if self._is_over:
                        break
                    continue
                if item.offset > until.offset or item.timestamp_ms > until.time_ms:
                    self._is_over = True
                    break
                next_offset = item.last_offset + 1
                if item.offset >= begin:
                    last = item
                    reading.records += 1
                    self._replay(item)
        except StorageError as error:
            self._lose(UnreadPlace(path, None, next_offset, str(error)))
            reading.errors.append(error)
        if last is not None:
            reading.end_offset, reading.end_epoch, reading.last_ms = last.offset + 1, last.epoch, last.timestamp_ms
        if next_offset is not None and not self._is_over:
            reading.end_offset = max(reading.end_offset, next_offset)
        return next_offset

    def _replay(self, stored: StoredRecord) -> None:
        value = stored.value
        if not value:
            return
        try:
            if stored.control is not None:
                image = self.reading.image
                control, _ = decode_control_value(stored.control, value)
                if self._watch is not None:
                    self._watch(image, stored, control)
                image.replay_control(control)
                return
            record = decode_record(value)
        except FormatError as error:
            self.reading.lose(UnreadPlace(stored.path, None, stored.offset, f"offset {stored.offset}: {error}"))
            return
        transactions = self._transactions
        if transactions.pending is None and record.name not in TRANSACTION_RECORDS:
            self._change(stored, record)
            return
        for origin, each in transactions.push(stored, record):
            self._change(origin, each)

    def _change(self, stored: StoredRecord, record: MetadataRecord) -> None:
        image = self.reading.image
        if self._watch is not None:
            self._watch(image, stored, record)
        reason = image.replay(record)
        if reason:
            self.reading.contradict(stored, reason)


def _segments_from(partition: Partition, offset: int) -> Sequence[Segment]:
    """Return the segments from the one that holds an offset on, in their order."""
    first = max((each.base_offset for each in partition.segments if each.base_offset <= offset), default=None)
    return [each for each in partition.segments if first is None or each.base_offset >= first]


# --- records ----------------------------------------------------------------------------------------------------------
def stored_records(path: str, base_offset: int | None, *, resync: bool = False) -> Iterator[StoredRecord | UnreadPlace]:
    """Yield the records and the damage of a file of batches, in their order. Raises StorageError.

    Args:
        path: of a segment or a snapshot.
        base_offset: of the segment; None: it is not a segment.
        resync: whether to search for batches after damage.
    """
    with Source.open(path) as source:
        for item in scan(source, base_offset=base_offset, options=ScanOptions(resync=resync)):
            if isinstance(item, Damage):
                is_read = not item.size_bytes
                yield UnreadPlace(path, item.position, item.next_offset, item.detail, item.is_plain_tail, is_read)
                continue
            batches = item.batches
            attributes, bases, lasts, epochs = map(batches.column, _BATCH_COLUMNS)
            empty = deque(row for row, count in enumerate(batches.column("record_count")) if not count)
            for piece in decode_run(item.memory, batches, max_bytes=MAX_BATCH_BYTES):
                if not isinstance(piece, RecordRun):
                    position = batches.column("position")[piece.batch]
                    yield UnreadPlace(path, position, bases[piece.batch], piece.detail)
                    continue
                memory = piece.memory
                columns = [piece.records.column(name) for name in _COLUMNS]
                for row, offset, time_ms, key, key_size, start, size in zip(*columns, strict=True):
                    while empty and empty[0] < row:
                        at = empty.popleft()
                        yield StoredRecord(path, bases[at], -1, epochs[at], bases[at], lasts[at], None, None)
                    control = None
                    if attributes[row] & CONTROL_BIT:
                        control = _control_type(bytes(memory[key : key + max(0, key_size)]))
                    value = bytes(memory[start : start + size]) if size > 0 else b""
                    yield StoredRecord(path, offset, time_ms, epochs[row], bases[row], lasts[row], control, value)
            for at in empty:
                yield StoredRecord(path, bases[at], -1, epochs[at], bases[at], lasts[at], None, None)


def _control_type(key: bytes) -> int:
    try:
        return decode_control_key(key)[0].type
    except FormatError:
        return -1
