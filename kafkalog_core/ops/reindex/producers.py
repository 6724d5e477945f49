"""Producer snapshots and transaction indexes, old against what a replay of the log gives."""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import FormatError, StorageError
from kafkalog_core.findings.sink import Sink
from kafkalog_core.format.index import iter_txn_entries
from kafkalog_core.format.layout import TXN_INDEX_ENTRY
from kafkalog_core.format.names import FileKind, segment_file_name
from kafkalog_core.format.snapshot import decode_snapshot, encode_snapshot, repeated_producers
from kafkalog_core.kafka.producers import CompletedTxn, ProducerStates
from kafkalog_core.ops.reindex.indexes import is_same, what_is_wrong
from kafkalog_core.ops.reindex.steps import Step
from kafkalog_core.ops.verify.txn_index import MAX_SNAPSHOT_BYTES, Doubt, check_snapshot, check_txn_index
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafkalog_core.kafka.rules import RecoveryRules
    from kafkalog_core.kafka.start.recovery import SegmentRecovery
    from kafkalog_core.storage.listing import Segment
    from kafkalog_core.storage.partition import Partition

__all__ = ["Snapshots", "load_states", "txn_index_step"]

_SEQUENCES: Final = "unchecked"
_NO_SEGMENT: Final = "the recovery of a broker deletes it, as it is at no base offset of a segment above the log start"


def load_states(path: str) -> ProducerStates | None:
    """Return the producers of a snapshot; None: it cannot be read, or is none."""
    try:
        with Source.open(path) as source:
            if source.size_bytes > MAX_SNAPSHOT_BYTES:
                return None
            entries = decode_snapshot(source.window(0, source.size_bytes))
        return ProducerStates.from_snapshot(entries, sequences=_SEQUENCES)
    except (FormatError, StorageError):
        return None


class Snapshots:
    """The snapshots of a partition, visited in the order of their offsets.

    Args:
        partition: its files.
        rules: of the release.
        start_offset: from where on the replay knows the log.
        sink: takes what is wrong.
        leaving: whether the recovery of a broker deletes the snapshot of an offset, unless the log ends there.
        writes_all: whether one that is right is written again where it differs.
    """

    def __init__(
        self,
        partition: Partition,
        rules: RecoveryRules,
        start_offset: int,
        sink: Sink,
        *,
        leaving: Callable[[int], bool],
        writes_all: bool,
    ) -> None:
        self._paths = {
            file.name.base_offset: file.path for file in partition.snapshots if file.name.base_offset is not None
        }
        self._offsets = sorted(self._paths)
        self._leaving = frozenset(filter(leaving, self._offsets))
        self._directory = partition.path
        self._logs = [segment.log.path for segment in partition.segments if segment.log is not None]
        self._rules = rules
        self._start_offset = start_offset
        self._sink = sink
        self._writes_all = writes_all
        self._good: list[int] = []

    def between(self, first_offset: int, end_offset: int) -> list[int]:
        """Return offsets of snapshots after the one offset and before the other, ascending, of those that are kept."""
        span = self._offsets[bisect_right(self._offsets, first_offset) : bisect_left(self._offsets, end_offset)]
        return [offset for offset in span if offset not in self._leaving]

    def is_deleted(self, offset: int) -> bool:
        """Return whether the recovery of a broker deletes the snapshot of an offset below the log's end."""
        return offset in self._leaving

    def is_good_from(self, offset: int) -> bool:
        """Return whether a snapshot at this offset or after it is right, or will be."""
        return any(good >= offset for good in self._good)

    def visit(
        self, offset: int, states: ProducerStates, *, is_doubtful: Callable[[], bool], makes: bool
    ) -> Iterator[Step]:
        """Compare the snapshot at an offset with the states that the replay gives there.

        `is_doubtful`: returns whether batches may be gone, so that a difference proves nothing; it is called only where
        there is one. `makes`: it is made where it is missing.
        """
        path = self._paths.get(offset)
        rules = self._rules
        content = encode_snapshot(states.snapshot_entries(rules.snapshot_style), order=rules.snapshot_order)
        producers = f"{states.count} producer{'' if states.count == 1 else 's'}"
        if path is None:
            if makes:
                self._good.append(offset)
                path = f"{self._directory}/{segment_file_name(offset, FileKind.SNAPSHOT)}"
                yield Step(
                    kind="write", path=path, why=f"it is missing; {producers}", content=content, like=self._like()
                )
            return
        self._good.append(offset)
        if is_same(path, content):
            return
        why = self._fault(path, offset, states, is_doubtful)
        if why is None and self._writes_all and _knows_all(path, states):
            why = "it is not the one that a recovery writes"
        if why is not None:
            yield Step(kind="write", path=path, why=f"{why}; {producers}", content=content, like=self._like())

    def behind(self, end_offset: int) -> Iterator[Step]:
        """Delete the snapshots after the end of the log, as a broker does when it starts (ProducerStateManager)."""
        for offset in self._offsets[bisect_right(self._offsets, end_offset) :]:
            path = self._paths[offset]
            self._sink.add("snapshot.beyond-end", path, offset=offset, end=end_offset)
            yield Step(kind="remove", path=path, why=f"it is after the log end offset {end_offset}")

    def deleted(self, end_offset: int) -> Iterator[Step]:
        """Delete the snapshots below the end of the log that a recovery deletes."""
        for offset in sorted(each for each in self._leaving if each < end_offset):
            yield Step(kind="remove", path=self._paths[offset], why=_NO_SEGMENT)

    def _fault(self, path: str, offset: int, states: ProducerStates, is_doubtful: Callable[[], bool]) -> str | None:
        found, differences = Sink(), Sink()
        check_snapshot(path, offset, states, self._start_offset, found, differences)
        findings = found.findings
        if differences.findings and _knows_all(path, states) and not is_doubtful():
            findings = (*findings, *differences.findings)
        for finding in findings:
            self._sink.put(finding)
        return what_is_wrong(findings, path)

    def _like(self) -> str:
        return self._logs[-1]


def _knows_all(path: str, states: ProducerStates) -> bool:
    """Return whether the replay knows every producer of a snapshot; others were active before the log starts.

    A file that no broker can load (`load_states`) names no producer.
    """
    try:
        with Source.open(path) as source:
            if source.size_bytes > MAX_SNAPSHOT_BYTES:
                return True
            content = source.window(0, source.size_bytes)
        producer_ids = array("q", (entry.producer_id for entry in decode_snapshot(content)))
    except (FormatError, StorageError):
        return True
    is_odd = min(producer_ids, default=0) < 0 or bool(repeated_producers(content))
    return is_odd or all(states.entry(each) is not None for each in producer_ids)


def txn_index_step(
    segment: Segment, recovery: SegmentRecovery, doubt: Doubt, sink: Sink, *, is_whole: bool, writes_all: bool
) -> Step | None:
    """Return the transaction index of a segment, where it is to be written. Raises StorageError.

    Args:
        segment: its files.
        recovery: of it.
        doubt: why the log may not tell all.
        sink: takes what is wrong.
        is_whole: whether it is known that nothing was compacted away: then a marker that is not there never was.
        writes_all: whether one that is right is written again where it differs.
    """
    new = recovery.txn_index or b""
    log_path = "" if segment.log is None else segment.log.path
    file = segment.txnindex
    count = len(new) // TXN_INDEX_ENTRY.size
    if (file is None and not new) or (file is not None and is_same(file.path, new)):
        return None
    path = f"{log_path.removesuffix('.log')}.txnindex" if file is None else file.path
    found = Sink()
    check_txn_index(segment, [*_aborted(new), *recovery.unlisted], doubt, found)
    findings = [each for each in found.findings if is_whole or each.code != "txnindex.unknown-entry"]
    for finding in findings:
        sink.put(finding)
    why = what_is_wrong(findings, path)
    if why is None and writes_all:
        why = "it is not the one that a recovery writes"
    if why is None:
        return None
    before = 0 if file is None else os.path.getsize(file.path) // TXN_INDEX_ENTRY.size
    text = f"{why}; {before} aborted transactions before, {count} after"
    return Step(kind="write", path=path, why=text, content=new, like=log_path)


def _aborted(index: bytes) -> Sequence[CompletedTxn]:
    return [
        CompletedTxn(producer_id, first, last, is_aborted=True, last_stable_offset=stable)
        for _, producer_id, first, last, stable in iter_txn_entries(index)
    ]
