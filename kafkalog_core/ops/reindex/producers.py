"""Producer snapshots and transaction indexes, old against those of a replay of the log."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import FormatError, StorageError
from kafkalog_core.findings.catalog import Sink
from kafkalog_core.format.index import iter_txn_entries
from kafkalog_core.format.layout import TXN_INDEX_ENTRY
from kafkalog_core.format.names import FileKind, segment_file_name
from kafkalog_core.format.snapshot import decode_snapshot, encode_snapshot, repeated_producers
from kafkalog_core.kafka.rules.producers import CompletedTxn, ProducerStates
from kafkalog_core.ops.reindex.indexes import NOT_A_RECOVERY, is_same, what_is_wrong
from kafkalog_core.ops.reindex.steps import Step
from kafkalog_core.ops.verify.txn_index import MAX_SNAPSHOT_BYTES, Doubt, check_snapshot, check_txn_index
from kafkalog_core.storage.source import Source
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafkalog_core.kafka.rules.rule_table import RecoveryRules
    from kafkalog_core.kafka.sim.start.recovery import SegmentRecovery
    from kafkalog_core.storage.listing import Segment
    from kafkalog_core.storage.partition import Partition

__all__ = ["Snapshots", "load_states", "txn_index_step"]

_NO_SEGMENT: Final = (
    "the recovery of a broker deletes it, because it is at no base offset of a segment above the log start offset"
)


def load_states(path: str) -> ProducerStates | None:
    """Return the producers of a snapshot; None: it cannot be read, or is not a valid snapshot."""
    try:
        with Source.open(path) as source:
            # A snapshot has one entry of 46 bytes for each producer. Above the limit it is not a snapshot, and reading
            # it would need the memory.
            if source.size_bytes > MAX_SNAPSHOT_BYTES:
                return None
            entries = decode_snapshot(source.window(0, source.size_bytes))
        return ProducerStates.from_snapshot(entries, sequences="unchecked")
    except (FormatError, StorageError):
        return None


class Snapshots:
    """The snapshots of a partition, visited in the order of their offsets.

    Args:
        partition: its files.
        rules: of the release.
        start_offset: offset at which the replay starts.
        sink: receives what is wrong.
        is_deleted: whether the next start deletes the snapshot of an offset, unless the log ends there.
        writes_all: whether a valid one is written again where it differs.
    """

    def __init__(
        self,
        partition: Partition,
        rules: RecoveryRules,
        start_offset: int,
        sink: Sink,
        *,
        is_deleted: Callable[[int], bool],
        writes_all: bool,
    ) -> None:
        self._paths = {
            file.name.base_offset: file.path for file in partition.snapshots if file.name.base_offset is not None
        }
        self._offsets = sorted(self._paths)
        # The replay does not begin at snapshots that the next start deletes.
        self._deleted = frozenset(filter(is_deleted, self._offsets))
        self._directory = partition.path
        self._like = next((each.log.path for each in reversed(partition.segments) if each.log is not None), "")
        self._rules = rules
        self._start_offset = start_offset
        self._sink = sink
        self._writes_all = writes_all
        self._good: list[int] = []

    def between(self, first_offset: int, end_offset: int) -> list[int]:
        """Return the offsets of kept snapshots after `first_offset` and before `end_offset`, ascending."""
        span = self._offsets[bisect_right(self._offsets, first_offset) : bisect_left(self._offsets, end_offset)]
        return [offset for offset in span if offset not in self._deleted]

    def is_deleted(self, offset: int) -> bool:
        """Return whether the next start deletes the snapshot of an offset below the log end offset."""
        return offset in self._deleted

    def is_good_from(self, offset: int) -> bool:
        """Return whether a snapshot at this offset or after it is valid, or will be."""
        return any(good >= offset for good in self._good)

    def visit(
        self, offset: int, states: ProducerStates, *, is_doubtful: Callable[[], bool], makes: bool
    ) -> Iterator[Step]:
        """Compare the snapshot at an offset with the states of the replay, and yield it if it is to be written.

        Args:
            offset: of the snapshot.
            states: the producers at that offset.
            is_doubtful: returns whether compaction may have removed batches, so that a difference proves nothing; it is
                called only if there is a difference.
            makes: whether a missing snapshot is created.
        """
        path = self._paths.get(offset)
        rules = self._rules
        if path is None and not makes:
            return
        # Style and order of the entries differ by release: a HashMap of Java in 2.8 and later, one of Scala in 0.11
        # (ProducerStateManager.writeSnapshot).
        content = encode_snapshot(states.snapshot_entries(rules.snapshot_style), order=rules.snapshot_order)
        producers = count_of(states.count, "producer")
        # Also where it is kept: the replay has shown that this offset has a usable snapshot, or will have.
        self._good.append(offset)
        if path is None:
            path, why = f"{self._directory}/{segment_file_name(offset, FileKind.SNAPSHOT)}", "it is missing"
        elif is_same(path, content):
            return
        else:
            why = self._fault(path, offset, states, is_doubtful) or ""
        if why:
            yield Step(kind="write", path=path, why=f"{why}; {producers}", content=content, like=self._like)

    def after_end(self, end_offset: int) -> Iterator[Step]:
        """Delete the snapshots after the log end offset, as ProducerStateManager.truncateAndReload does."""
        for offset in self._offsets[bisect_right(self._offsets, end_offset) :]:
            path = self._paths[offset]
            self._sink.add("snapshot.beyond-end", path, offset=offset, end=end_offset)
            yield Step(kind="remove", path=path, why=f"it is after the log end offset {end_offset}")

    def deleted(self, end_offset: int) -> Iterator[Step]:
        """Delete the snapshots below the log end offset that the next start deletes."""
        for offset in sorted(each for each in self._deleted if each < end_offset):
            yield Step(kind="remove", path=self._paths[offset], why=_NO_SEGMENT)

    def _fault(self, path: str, offset: int, states: ProducerStates, is_doubtful: Callable[[], bool]) -> str | None:
        """Return why a snapshot that differs from the replay's is written again; None: it is kept."""
        found, differences = Sink(), Sink()
        there = check_snapshot(path, offset, states, self._start_offset, found, differences)
        # The entries are decoded only where a difference, or --all, makes them matter.
        is_known = (differences.findings or self._writes_all) and _knows_all(there, states)
        findings = found.findings
        # Compaction removes batches, not the sequences that they advanced: a replay of the rest would write an older
        # state.
        if differences.findings and is_known and not is_doubtful():
            findings = (*findings, *differences.findings)
        for finding in findings:
            self._sink.put(finding)
        return what_is_wrong(findings, path) or (NOT_A_RECOVERY if self._writes_all and is_known else None)


def _knows_all(content: memoryview | None, states: ProducerStates) -> bool:
    """Return whether the replay knows every producer of a snapshot; others were active only before the log start.

    A file that no broker can load (`check_snapshot`) names no producer.
    """
    if content is None:
        return True
    producer_ids = array("q", (entry.producer_id for entry in decode_snapshot(content)))
    # ProducerStateManager.readSnapshot reads ids without a check, but a negative or repeated id is not the work of a
    # broker, and protects nothing.
    is_odd = min(producer_ids, default=0) < 0 or bool(repeated_producers(content))
    return is_odd or all(states.entry(each) is not None for each in producer_ids)


def txn_index_step(
    segment: Segment, recovery: SegmentRecovery, doubt: Doubt, sink: Sink, *, is_whole: bool, writes_all: bool
) -> Step | None:
    """Return the transaction index of a segment if it is to be written; None: it is not. Raises StorageError.

    Args:
        segment: its files.
        recovery: of it.
        doubt: why the log may not show every transaction.
        sink: receives what is wrong.
        is_whole: whether it is known that compaction has removed nothing: then a marker that is missing never existed.
        writes_all: whether a valid one is written again where it differs.
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
    # A marker that compaction removed leaves an entry that the log cannot show to be wrong.
    findings = [each for each in found.findings if is_whole or each.code != "txnindex.unknown-entry"]
    for finding in findings:
        sink.put(finding)
    why = what_is_wrong(findings, path)
    if why is None and not writes_all:
        return None
    before = 0 if file is None else file.size_bytes // TXN_INDEX_ENTRY.size
    why = f"{why or NOT_A_RECOVERY}; {count_of(before, 'aborted transaction')} before, {count} after"
    return Step(kind="write", path=path, why=why, content=new, like=log_path)


def _aborted(index: bytes) -> Sequence[CompletedTxn]:
    return [
        CompletedTxn(producer_id, first, last, is_aborted=True, last_stable_offset=stable)
        for _, producer_id, first, last, stable in iter_txn_entries(index)
    ]
