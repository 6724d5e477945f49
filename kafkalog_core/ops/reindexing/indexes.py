"""The offset and the time index of a segment, old against new: which of them is to be written, and why.

An index that a running broker has written may differ from the one that its recovery writes and be right all the same:
it began to count anew where the broker was started, or took several batches as one. It stays, unless all are asked for.
"""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.format.kernels import constants as k
from kafkalog_core.format.layout import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from kafkalog_core.format.names import METADATA_TOPIC, FileKind, segment_file_name
from kafkalog_core.ops.reindexing.steps import Step
from kafkalog_core.ops.sink import Sink
from kafkalog_core.ops.verify.index_entries import EntryWindows
from kafkalog_core.ops.verify.indexes import OffsetIndexCheck, TimeIndexCheck
from kafkalog_core.storage.scan import Damage
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalog_core.findings import Finding
    from kafkalog_core.format.layout import Layout
    from kafkalog_core.ops.recovery.segment import SegmentRecovery
    from kafkalog_core.ops.verify.check import SegmentTask
    from kafkalog_core.storage.listing import FileInfo
    from kafkalog_core.storage.scan import Run
    from kafkalog_core.storage.segment import Segment

__all__ = ["SegmentIndexes", "is_same", "what_is_wrong"]


class _Kind(NamedTuple):
    kind: FileKind
    layout: Layout
    is_time: bool


_KINDS: Final = (
    _Kind(FileKind.OFFSET_INDEX, OFFSET_INDEX_ENTRY, is_time=False),
    _Kind(FileKind.TIME_INDEX, TIME_INDEX_ENTRY, is_time=True),
)


@dataclass(frozen=True, slots=True)
class _Old:
    """An index that is there: entries before the zeros at its end, and bytes of zeros behind them."""

    entries: int
    zero_bytes: int


class SegmentIndexes:
    """Listens to the recovery of a segment, and compares when that has ended.

    `disorder` is the first place where offsets go back; null: they do not. `kept` counts indexes that differ and stay.

    Args:
        task: the segment.
    """

    def __init__(self, task: SegmentTask) -> None:
        self._segment = task.segment
        # 4.4.0 does not trim them at a clean stop, 4.3.1 does; every release recovers the metadata log at every start
        self._may_have_room = task.topic == METADATA_TOPIC and task.is_last
        self._sink = Sink(task.topic, task.partition)
        self._checks = (OffsetIndexCheck(task, self._sink), TimeIndexCheck(task, self._sink))
        self.kept = 0
        self.disorder: Damage | None = None

    def listen(self, item: Run | Damage) -> None:
        """What the recovery reads."""
        if isinstance(item, Damage) and not item.size_bytes and self.disorder is None:
            self.disorder = item
        for check in self._checks:
            if isinstance(item, Damage):
                check.damage(item)
            else:
                check.run(item)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is wrong with the old indexes."""
        return self._sink.findings

    def steps(self, recovery: SegmentRecovery, *, writes_all: bool) -> Iterator[Step]:
        """The indexes that are to be written. Raises StorageError."""
        for check in self._checks:
            check.finish(recovery.size_bytes)
        for each, new in zip(_KINDS, (recovery.offset_index, recovery.time_index), strict=True):
            if new is not None:
                step = self._step(each, new, writes_all=writes_all, is_empty=recovery.size_bytes == 0)
                if step is not None:
                    yield step

    def _step(self, each: _Kind, new: bytes, *, writes_all: bool, is_empty: bool) -> Step | None:
        file = _file_of(self._segment, each.kind)
        count = len(new) // each.layout.size
        log_path = "" if self._segment.log is None else self._segment.log.path
        if file is None:
            if is_empty:  # a broker makes the indexes of a new segment when it first appends to it
                return None
            path = f"{log_path.rpartition('/')[0]}/{segment_file_name(self._segment.base_offset, each.kind)}"
            return Step(kind="write", path=path, why=f"it is missing; {_entries(count)}", content=new, like=log_path)
        if is_same(file.path, new):
            return None
        old = _measure(file.path, each)
        why = what_is_wrong(self.findings, file.path)
        if why is None and old.zero_bytes and not self._may_have_room:
            why = f"{old.zero_bytes} bytes of zeros stand behind its entries"
        if why is None:
            if not writes_all:
                self.kept += 1
                return None
            why = "it is not the one that a recovery writes"
        text = f"{why}; {_entries(old.entries)} before, {count} after"
        return Step(kind="write", path=file.path, why=text, content=new, like=log_path)


def is_same(path: str, content: bytes) -> bool:
    """Whether a file has this content. Raises StorageError."""
    with Source.open(path) as source:
        if source.size_bytes != len(content):
            return False
        position = 0
        while position < len(content):
            window = source.window(position)
            if not window or window != content[position : position + len(window)]:
                return False
            position += len(window)
    return True


def what_is_wrong(findings: Iterable[Finding], path: str) -> str | None:
    """The codes of what is wrong with a file, in a few words; null: nothing worse than a word in passing."""
    counts: Counter[str] = Counter()
    for finding in findings:
        if finding.path == path and finding.severity != "info":
            counts[finding.code] += finding.more + 1
    return ", ".join(f"{code}" + (f" ({count})" if count > 1 else "") for code, count in counts.items()) or None


def _measure(path: str, each: _Kind) -> _Old:
    windows = EntryWindows(path, each.layout, is_time=each.is_time)
    windows.open(array("q", bytes(8 * k.INDEX_STATE)))
    return _Old(windows.used, (windows.count - windows.used) * each.layout.size)


def _file_of(segment: Segment, kind: FileKind) -> FileInfo | None:
    return segment.index if kind is FileKind.OFFSET_INDEX else segment.timeindex


def _entries(count: int) -> str:
    return "1 entry" if count == 1 else f"{count} entries"
