"""The text files of a log directory and a partition: five checkpoints, line by line, and four small property files."""

from __future__ import annotations

import os
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, overload

from kafkalog_core.errors import LimitError, NotFoundError, StorageError
from kafkalog_core.findings.catalog import Sink
from kafkalog_core.format.checkpoint import (
    MAX_CHECKPOINT_BYTES,
    CheckpointEpoch,
    CheckpointOffset,
    CheckpointVerdict,
    read_epoch_checkpoint,
    read_offset_checkpoint,
)
from kafkalog_core.format.names import FileKind, FileState, parse_file_name
from kafkalog_core.format.properties import (
    MAX_PROPERTY_FILE_BYTES,
    PropertyFile,
    read_clean_shutdown,
    read_meta_properties,
    read_partition_metadata,
    read_quorum_state,
)
from kafkalog_core.format.textfile import iter_lines
from kafkalog_core.kafka.sim.logdir.faults import EntryDamage, EntryFile, damage_row, fault_row, unreadable_row
from kafkalog_core.output.chunk import RowChunk
from kafkalog_core.output.tables import CHECKPOINT, PROPERTY
from kafkalog_core.storage.source import Source, UnreadableError
from kafkalog_core.structs import Struct, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafkalog_core.findings import Finding
    from kafkalog_core.format.textfile import FileRefusal, MalformedLine

__all__ = [
    "CheckpointFile",
    "EpochText",
    "OffsetText",
    "PlacedLine",
    "PropertyText",
    "TextWindows",
    "checkpoint_rows",
    "placed_lines",
    "property_rows",
    "read_checkpoint",
    "read_epochs",
    "read_offsets",
    "read_properties",
]


_WINDOW_BYTES: Final = 64 * 1024
_MAX_KEPT: Final = 1000  # malformed lines and repetitions: garbage under a checkpoint's name has any number of them
_Topic = tuple[str, int]


class TextWindows:
    """A checkpoint in windows, up to the first place that the disk cannot read, and none of one that is too large.

    That is `lost`. What is under a checkpoint's name may have any size, and a sparse file costs nothing on the disk.
    `look` is called before each window; it may end the reading with an error of its own.
    """

    def __init__(self, source: Source, look: Callable[[], None] | None = None) -> None:
        self._source = source
        self._look = look
        self.lost: UnreadableError | LimitError | None = None

    def windows(self) -> Iterator[bytes]:
        """Yield the file in pieces, in order."""
        size_bytes, position = self._source.size_bytes, 0
        if size_bytes > MAX_CHECKPOINT_BYTES:
            self.lost = LimitError(f"{size_bytes} bytes, over the limit of {MAX_CHECKPOINT_BYTES}")
            return
        while True:
            if self._look is not None:
                self._look()
            try:
                window = bytes(self._source.window(position, _WINDOW_BYTES))
            except UnreadableError as error:
                self.lost = error
                return
            if not window:
                return
            yield window
            position += len(window)


class PlacedLine(Struct, frozen=True):
    """An entry of a checkpoint, with its line (from 1) and byte."""

    entry: CheckpointOffset | CheckpointEpoch
    position: int
    size_bytes: int


class CheckpointFile(Struct, frozen=True, kw_only=True):
    """The content of an offset checkpoint; of two entries for one partition the last one is in `entries`.

    `repeated` are the entries after another one of their partition, `lost` is why it was not read to its
    end. Of malformed and repeated lines the first thousand are kept.
    """

    path: str
    kind: FileKind
    size_bytes: int
    entries: dict[_Topic, PlacedLine]
    repeated: tuple[PlacedLine, ...]
    malformed: tuple[MalformedLine, ...]
    verdict: CheckpointVerdict
    lost: UnreadableError | LimitError | None

    @property
    def is_refused(self) -> bool:
        """Whether a broker refuses the whole file: none of its entries counts then (`LogManager.loadLogs`)."""
        return self.verdict.refusal is not None

    def offset(self, topic: str | None, partition: int | None) -> int | None:
        """Return the offset that counts for a partition; None: there is none."""
        placed = None if topic is None or partition is None else self.entries.get((topic, partition))
        return placed.entry.offset if placed is not None and isinstance(placed.entry, CheckpointOffset) else None


def read_checkpoint(path: str, kind: FileKind) -> CheckpointFile:
    """Read an offset checkpoint, whatever is in it. Raises NotFoundError or AccessError."""
    entries: dict[_Topic, PlacedLine] = {}
    repeated: list[PlacedLine] = []
    malformed: list[MalformedLine] = []
    verdict = CheckpointVerdict(version=None, declared_count=None, entry_count=0, refusal=None)
    with Source.open(path) as source:
        text = TextWindows(source)
        for item in placed_lines(read_offset_checkpoint, source, text):
            if isinstance(item, CheckpointVerdict):
                verdict = item
            elif not isinstance(item, PlacedLine):
                malformed += [item][: _MAX_KEPT - len(malformed)]
            elif isinstance(item.entry, CheckpointOffset):
                key = (item.entry.topic, item.entry.partition)
                if key in entries:
                    repeated += [item][: _MAX_KEPT - len(repeated)]
                entries[key] = item
        return CheckpointFile(
            path=path,
            kind=kind,
            size_bytes=source.size_bytes,
            entries=entries,
            repeated=tuple(repeated),
            malformed=tuple(malformed),
            verdict=verdict,
            lost=text.lost,
        )


def placed_lines(
    read: Callable[[Iterable[bytes]], Iterator[CheckpointOffset | CheckpointEpoch | MalformedLine | CheckpointVerdict]],
    source: Source,
    text: TextWindows,
) -> Iterator[PlacedLine | MalformedLine | CheckpointVerdict]:
    """Yield what a reader of checkpoints yields, its entries with the places of their lines."""
    lines = iter_lines(TextWindows(source).windows())  # a second look, side by side: nothing has to be kept
    for item in read(text.windows()):
        if isinstance(item, CheckpointOffset | CheckpointEpoch):
            for line in lines:  # where there is none, the file was cut under our hands
                if line.number == item.line:
                    yield PlacedLine(item, line.position, line.size_bytes)
                    break
        else:
            yield item


_ROWS: Final = 4096
_Row = dict[str, object]
PROPERTY_READERS: Final[dict[FileKind, Callable[[bytes], PropertyFile]]] = {
    FileKind.META_PROPERTIES: read_meta_properties,
    FileKind.PARTITION_METADATA: read_partition_metadata,
    FileKind.CLEAN_SHUTDOWN: read_clean_shutdown,
    FileKind.QUORUM_STATE: read_quorum_state,
}


def checkpoint_rows(file: EntryFile, source: Source) -> Iterator[RowChunk]:
    """Yield every entry, damage in place of each malformed line; last a finding where a broker refuses the file."""
    text = TextWindows(source)
    read = read_epoch_checkpoint if file.kind is FileKind.LEADER_EPOCH else read_offset_checkpoint
    rows: list[_Row] = []
    for item in read(text.windows()):
        if isinstance(item, CheckpointOffset | CheckpointEpoch):
            rows.append(_checkpoint_row(file, item))
            if len(rows) < _ROWS:
                continue
        if rows:
            yield RowChunk(CHECKPOINT, rows)
            rows = []
        if isinstance(item, CheckpointVerdict):
            if isinstance(text.lost, LimitError):
                yield damage_row(file, 0, source.size_bytes, "too-large", text.lost.message)
            elif text.lost is not None:
                yield unreadable_row(file, text.lost.position, source.size_bytes - text.lost.position)
            elif item.refusal is not None:
                yield fault_row(file, file.refused(item.refusal))
        elif not isinstance(item, CheckpointOffset | CheckpointEpoch):
            yield fault_row(file, file.malformed_line(item))


def _checkpoint_row(file: EntryFile, entry: CheckpointOffset | CheckpointEpoch) -> _Row:
    row: _Row = {"file": file.path, "kind": str(file.kind), "line": entry.line}
    if isinstance(entry, CheckpointOffset):
        return row | {"topic": entry.topic, "partition": entry.partition, "offset": entry.offset}
    return row | {
        "topic": file.topic,
        "partition": file.partition,
        "leader_epoch": entry.leader_epoch,
        "offset": entry.start_offset,
    }


def property_rows(file: EntryFile, source: Source) -> Iterator[RowChunk]:
    """Yield every key of a property file, a damage row for each malformed line, a finding for a refused file."""
    if source.size_bytes > MAX_PROPERTY_FILE_BYTES:
        detail = f"{source.size_bytes} bytes, far more than any file of its kind"
        yield damage_row(file, 0, source.size_bytes, "too-large", detail)
        return
    try:
        data = source.read(0, source.size_bytes)
    except UnreadableError as error:
        yield damage_row(file, 0, source.size_bytes, "unreadable", error.message)
        return
    if len(data) < source.size_bytes:
        yield unreadable_row(file, len(data), source.size_bytes - len(data))
        return
    contents = PROPERTY_READERS[file.kind](data)
    if contents.properties:
        common: _Row = {"file": file.path, "kind": str(file.kind)}
        yield RowChunk(PROPERTY, [common | {"key": item.key, "value": item.value} for item in contents.properties])
    for line in contents.malformed:
        yield fault_row(file, file.malformed_line(line))
    if contents.refusal is not None:
        yield fault_row(file, file.refused(contents.refusal))


_LINE_OF_REFUSAL: Final = {"unsupported-version": 1, "count-mismatch": 2, "negative-count": 2}
_UTF8_CODE: Final = "invalid-utf8"
_KEY_OF_REFUSAL: Final = {
    "bad-node-id": ("node.id", "broker.id"),
    "bad-directory-id": ("directory.id",),
    "unsupported-version": ("version", "data_version"),
    "bad-topic-id": ("topic_id",),
    "zero-topic-id": ("topic_id",),
}


class OffsetText(Struct, frozen=True, kw_only=True):
    """An offset checkpoint. `is_refused`: a broker uses none of its entries."""

    file: CheckpointFile
    is_refused: bool
    findings: tuple[Finding, ...]


class PlacedEpochs(Sequence[PlacedLine]):
    """Lines of a leader-epoch-checkpoint, 36 bytes each: as objects the three million of a large file take a gigabyte.

    An object is made again each time a line is asked for.
    """

    def __init__(self) -> None:
        self.epochs = array("i")
        self.start_offsets = array("q")
        self._lines = array("q")
        self._positions = array("q")
        self._sizes = array("q")

    def append(self, placed: PlacedLine) -> None:
        """Keep a line if it is a leader epoch."""
        entry = placed.entry
        if isinstance(entry, CheckpointEpoch):
            self.epochs.append(entry.leader_epoch)
            self.start_offsets.append(entry.start_offset)
            self._lines.append(entry.line)
            self._positions.append(placed.position)
            self._sizes.append(placed.size_bytes)

    def __len__(self) -> int:
        return len(self.epochs)

    @overload
    def __getitem__(self, index: int) -> PlacedLine: ...

    @overload
    def __getitem__(self, index: slice) -> list[PlacedLine]: ...

    def __getitem__(self, index: int | slice) -> PlacedLine | list[PlacedLine]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        entry = CheckpointEpoch(
            line=self._lines[index], leader_epoch=self.epochs[index], start_offset=self.start_offsets[index]
        )
        return PlacedLine(entry, self._positions[index], self._sizes[index])


class EpochText(Struct, frozen=True, kw_only=True):
    """A leader-epoch-checkpoint; `entries` are the readable ones, in the order of the file.

    `is_cut`: it ends after its version, which a broker takes for empty and never writes.
    """

    path: str
    entries: PlacedEpochs
    is_refused: bool
    is_cut: bool
    findings: tuple[Finding, ...]


class PropertyText(Struct, frozen=True, kw_only=True):
    """A property file; `contents` are empty where it was not read, and then none of its values is known."""

    path: str
    contents: PropertyFile
    findings: tuple[Finding, ...]
    is_read: bool = True

    @property
    def is_refused(self) -> bool:
        """Whether its values cannot be used: a broker refuses the file, or it was not read."""
        return not self.is_read or self.contents.refusal is not None


def read_offsets(path: str, kind: FileKind) -> OffsetText | None:
    """Read an offset checkpoint; None: there is none. Raises AccessError."""
    try:
        file = read_checkpoint(path, kind)
    except NotFoundError:
        return None
    place = _with_state(EntryFile(path=path, kind=kind))
    sink = Sink()
    _put_faults(sink, place, file.malformed, file.verdict, file.lost, file.size_bytes)
    for repeated in file.repeated:
        _put_repeated(sink, place, repeated)
    for placed in file.entries.values():
        entry = placed.entry
        if isinstance(entry, CheckpointOffset) and (entry.offset < 0 or entry.partition < 0):
            sink.put(_negative_offset(place, placed, entry))
    is_refused = file.lost is not None or file.verdict.refusal is not None
    return OffsetText(file=file, is_refused=is_refused, findings=sink.findings)


def read_epochs(file: EntryFile, look: Callable[[], None] | None = None) -> EpochText:
    """Read a leader-epoch-checkpoint. Raises NotFoundError or AccessError.

    The first thousand entries that do not ascend are reported; a broker repairs them in memory. `look` is called every
    few thousand lines and may end the reading with an error of its own, as a damaged file may be of any size.
    """
    file = _with_state(file)
    entries = PlacedEpochs()
    malformed: list[MalformedLine] = []
    verdict = CheckpointVerdict(version=None, declared_count=None, entry_count=0, refusal=None)
    with Source.open(file.path) as source:
        text = TextWindows(source, look)
        for item in placed_lines(read_epoch_checkpoint, source, text):
            if isinstance(item, PlacedLine):
                entries.append(item)
            elif isinstance(item, CheckpointVerdict):
                verdict = item
            elif len(malformed) < _MAX_KEPT:
                malformed.append(item)
    sink = Sink(file.topic, file.partition)
    _put_faults(sink, file, malformed, verdict, text.lost, source.size_bytes, negative=_first_negative(entries))
    _put_disorder(sink, file, entries)
    is_refused = text.lost is not None or verdict.refusal is not None
    is_cut = not is_refused and verdict.version is not None and verdict.declared_count is None
    return EpochText(path=file.path, entries=entries, is_refused=is_refused, is_cut=is_cut, findings=sink.findings)


def read_properties(file: EntryFile) -> PropertyText | None:
    """Read a property file; None: there is none. Raises AccessError."""
    file = _with_state(file)
    try:
        with Source.open(file.path) as source:
            if source.size_bytes > MAX_PROPERTY_FILE_BYTES:
                return _unread(file, file.finding("file.too-large", size_bytes=source.size_bytes))
            data = source.read(0, source.size_bytes)
    except NotFoundError:
        return None
    except UnreadableError as error:
        finding = file.finding("file.not-readable", position=error.position, reason=error.message)
        return _unread(file, finding)
    contents = PROPERTY_READERS[file.kind](data)
    sink = Sink(file.topic, file.partition)
    refusal = contents.refusal
    if refusal is not None:
        position, size_bytes = _place_in(data, contents, refusal)
        sink.put(file.refused(refusal, position=position, size_bytes=size_bytes))
    for line in contents.malformed:
        fault = file.malformed_line(line)
        if not isinstance(fault, EntryDamage):  # of a marker words do not count, but no broker writes others
            sink.put(replace(fault, severity="warning") if file.state is FileState.LIVE else fault)
        elif refusal is not None and not refusal.problem.startswith(f"line {line.line}"):
            code = f"{file.code_group}.malformed-line"
            sink.put(file.finding(code, position=line.position, size_bytes=line.size_bytes, problem=fault.detail))
        elif refusal is None:  # after what a broker reads
            sink.put(file.finding("file.more-lines", position=line.position, size_bytes=line.size_bytes))
    if file.kind is FileKind.PARTITION_METADATA and refusal is None:
        _put_odd_words(sink, file, data, contents)
    return PropertyText(path=file.path, contents=contents, findings=sink.findings)


def _put_odd_words(sink: Sink, file: EntryFile, data: bytes, contents: PropertyFile) -> None:
    """Report names and versions that no broker writes; a broker follows the order of the lines."""
    lines = {line.number: line for line in iter_lines((data,))}
    for item, name in zip(contents.properties, _TOPIC_ID_NAMES, strict=False):
        line = lines.get(item.line)
        if line is None:
            continue
        position, size_bytes = line.position, line.size_bytes
        if item.key != name:
            code = "partition-metadata.odd-name"
            sink.put(file.finding(code, position=position, size_bytes=size_bytes, line=item.line, name=name))
        if name == "version" and item.value != "0":
            code = "partition-metadata.odd-version"
            sink.put(file.finding(code, position=position, size_bytes=size_bytes, version=item.value))


_TOPIC_ID_NAMES: Final = ("version", "topic_id")


def _put_faults(
    sink: Sink,
    file: EntryFile,
    malformed: Iterable[MalformedLine],
    verdict: CheckpointVerdict,
    lost: UnreadableError | LimitError | None,
    file_bytes: int,
    negative: PlacedLine | None = None,
) -> None:
    """Report what is wrong: the first fault decides what a broker does, other malformed lines are reported too."""
    if isinstance(lost, LimitError):
        sink.put(file.finding("file.too-large", size_bytes=file_bytes))
        return
    if lost is not None:
        sink.put(file.finding("file.not-readable", position=lost.position, reason=lost.message))
        return
    refusal = verdict.refusal
    if refusal is None:
        return
    lines = list(malformed)
    first = next((line for line in lines if refusal.problem == f"line {line.line}: {line.problem}"), None)
    if first is not None:
        position: int | None = first.position
        size_bytes: int | None = first.size_bytes
    elif negative is not None and refusal.code == "negative-epoch":
        position, size_bytes = negative.position, negative.size_bytes
    else:
        position, size_bytes = _place_of_line(file.path, _LINE_OF_REFUSAL.get(refusal.code, 1))
    action = file.refused(refusal, position=position, size_bytes=size_bytes)
    sink.put(action)
    if file.state is not FileState.LIVE:  # nobody reads it, so that one word is enough
        return
    for line in lines:
        if line is not first:
            code = f"checkpoint.{_UTF8_CODE if 'UTF-8' in line.problem else 'malformed-line'}"
            problem = f"line {line.line}: {line.problem}"
            finding = file.finding(code, position=line.position, size_bytes=line.size_bytes, problem=problem)
            sink.put(replace(finding, broker_action=action.broker_action))


def _put_repeated(sink: Sink, file: EntryFile, placed: PlacedLine) -> None:
    entry = placed.entry
    if isinstance(entry, CheckpointOffset):
        finding = file.finding(
            "checkpoint.repeated",
            position=placed.position,
            size_bytes=placed.size_bytes,
            offset=entry.offset,
            line=entry.line,
            name=f"{entry.topic}-{entry.partition}",
        )
        sink.put(replace(finding, topic=entry.topic, partition=entry.partition))


def _negative_offset(file: EntryFile, placed: PlacedLine, entry: CheckpointOffset) -> Finding:
    finding = file.finding(
        "checkpoint.negative-offset",
        position=placed.position,
        size_bytes=placed.size_bytes,
        line=entry.line,
        name=f"{entry.topic}-{entry.partition}",
        value=entry.offset,
    )
    return replace(finding, topic=entry.topic, partition=entry.partition, offset=entry.offset)


def _first_negative(entries: Iterable[PlacedLine]) -> PlacedLine | None:
    return next(
        (
            placed
            for placed in entries
            if isinstance(placed.entry, CheckpointEpoch)
            and min(placed.entry.leader_epoch, placed.entry.start_offset) < 0
        ),
        None,
    )


def _put_disorder(sink: Sink, file: EntryFile, entries: Iterable[PlacedLine]) -> None:
    """Report entries whose epoch or offset is not above those of the entry before."""
    before: CheckpointEpoch | None = None
    for placed in entries:
        entry = placed.entry
        if not isinstance(entry, CheckpointEpoch):
            continue
        if before is not None and (
            entry.leader_epoch <= before.leader_epoch or entry.start_offset <= before.start_offset
        ):
            finding = file.finding(
                "epochs.not-ascending",
                position=placed.position,
                size_bytes=placed.size_bytes,
                offset=entry.start_offset,
                line=entry.line,
                epoch=entry.leader_epoch,
                before_epoch=before.leader_epoch,
                before_offset=before.start_offset,
            )
            sink.put(finding)
        before = entry


def _with_state(file: EntryFile) -> EntryFile:
    """Return a temporary file with its state: a broker overwrites it, whatever is in it."""
    state = parse_file_name(os.path.basename(file.path)).state
    return file if file.state is state else replace(file, state=state)


def _place_of_line(path: str, number: int) -> tuple[int | None, int | None]:
    """Return byte and size of one of the first lines, in the file as it is now."""
    try:
        with Source.open(path) as source:
            for line in iter_lines(TextWindows(source).windows()):
                if line.number == number:
                    return line.position, line.size_bytes
    except StorageError:
        return None, None
    return None, None


def _place_in(data: bytes, contents: PropertyFile, refusal: FileRefusal) -> tuple[int, int]:
    """Return byte and size of the line that a broker refuses; of all of the file where something is missing."""
    for line in contents.malformed:
        if refusal.problem.startswith(f"line {line.line}"):
            return line.position, line.size_bytes
    keys = _KEY_OF_REFUSAL.get(refusal.code, ())
    number = next((item.line for item in reversed(contents.properties) if item.key in keys), None)
    for found_line in iter_lines((data,)):
        if found_line.number == number:
            return found_line.position, found_line.size_bytes
    return 0, len(data)


def _unread(file: EntryFile, finding: Finding) -> PropertyText:
    return PropertyText(path=file.path, contents=PropertyFile(), findings=(finding,), is_read=False)
