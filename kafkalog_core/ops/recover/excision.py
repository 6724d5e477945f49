"""The excision of damaged places: the new content of segments, of their indexes, and what is lost.

The choices for a place (`replacements`) are tried from the best one down, until the simulated recovery of the whole new
segment passes it. So nothing is written that a broker would truncate or stop at.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from contextlib import contextmanager
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.errors import StorageError
from kafkalog_core.format.index import encode_offset_entry, iter_offset_entries
from kafkalog_core.format.layout import OFFSET_INDEX_ENTRY
from kafkalog_core.format.names import FileKind, parse_file_name
from kafkalog_core.kafka.rules.producers import ProducerStates
from kafkalog_core.kafka.rules.rule_table import rules_of
from kafkalog_core.kafka.sim.logdir.bounds import log_bounds
from kafkalog_core.kafka.sim.start.candidates import txn_index_fault
from kafkalog_core.kafka.sim.start.partition import PartitionLoad
from kafkalog_core.kafka.sim.start.recovery import Problem, recover_segment
from kafkalog_core.kafka.sim.start.replay import ReplaySegment
from kafkalog_core.kafka.sim.start.snapshots import ProducerLoad, SnapshotFiles
from kafkalog_core.ops.recover.clues import ClueReader
from kafkalog_core.ops.recover.excised import ExcisedPlace, ExcisedSegment, indexes_of, is_lost_marker, loss_of
from kafkalog_core.ops.recover.places import find_places
from kafkalog_core.ops.recover.replacements import choices
from kafkalog_core.ops.recover.segment_reading import BadBatch
from kafkalog_core.ops.repair.loss import measure_loss
from kafkalog_core.progress import NO_PROGRESS
from kafkalog_core.storage.listing import Listing
from kafkalog_core.storage.partition import partition_of
from kafkalog_core.storage.planned import Patch, PlannedFiles, planned_files
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import Struct, replace
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from kafkalog_core.kafka.rules.producers import OpenTxn
    from kafkalog_core.kafka.sim.start.recovery import SegmentRecovery
    from kafkalog_core.kafka.sim.start.results import LoadProblem
    from kafkalog_core.ops.recover.places import DamagedPlace
    from kafkalog_core.ops.recover.replacements import Substitute
    from kafkalog_core.ops.repair.context import PartitionFacts
    from kafkalog_core.ops.repair.loss import Loss
    from kafkalog_core.storage.changing.changes import Stage
    from kafkalog_core.storage.listing import FileInfo, Segment
    from kafkalog_core.storage.partition import Partition

__all__ = ["Excision", "LeftPlace", "excise", "excise_all", "stage_excision"]

_MOST_REFUSED: Final = 16
"""Batches at which a broker stops; each takes a few reads of the log."""
_SIDE_KINDS: Final = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)
"""The indexes, in the order in which they are staged."""


class LeftPlace(NamedTuple):
    """A damaged place that is not excised, and why, as a clause."""

    place: DamagedPlace
    refusal: str


class RefusedBatch(NamedTuple):
    """A whole batch at which a broker stops: the log, its first byte before the excision, and why, as a clause."""

    path: str
    position: int
    detail: str


class Excision(Struct, frozen=True, kw_only=True):
    """The excision of damaged places of one partition.

    Args:
        partition: its files as they are.
        planned: its files as they are afterwards, with the sizes of the new logs and indexes. A reader sees their
            content within `reading`.
        segments: those that are rewritten, ascending.
        left: places that are not excised; tails are not among them.
        losses: what is lost to readers, one for each place that held records, and one for each tail that is dropped.
        open_transactions: those that are open at the end of the new log and had records before the last place that is
            emptied: their markers may have been in a place.
        problem: why a broker does not start on the new log all the same; None: it does, as far as that is known.
        still_truncates: where a broker truncates the new log all the same: base offset of the segment, and byte; None:
            nowhere, or only at a tail.
        load: the simulated start on the new log; None: none was simulated.
    """

    partition: Partition
    planned: Partition
    segments: tuple[ExcisedSegment, ...] = ()
    left: tuple[LeftPlace, ...] = ()
    losses: tuple[Loss, ...] = ()
    open_transactions: tuple[OpenTxn, ...] = ()
    problem: LoadProblem | None = None
    still_truncates: tuple[int, int] | None = None
    load: PartitionLoad | None = None

    @property
    def places(self) -> tuple[ExcisedPlace, ...]:
        """All places that are excised, in the order of the log."""
        return tuple(place for segment in self.segments for place in segment.places)

    @contextmanager
    def reading(self) -> Iterator[Partition]:
        """Let every reader of this process see the new files within it; yield `planned`.

        So the later steps of one plan (a truncation of the tail, a simulated start, snapshots, leader epochs) work on
        the log as it will be, before anything is written.
        """
        files = PlannedFiles()
        for segment in self.segments:
            _plan_files(segment, files)
        with planned_files(files):
            yield self.planned


def excise(
    partition: Partition,
    facts: PartitionFacts,
    places: Sequence[DamagedPlace],
    advance: Callable[[int], None] = NO_PROGRESS.advance,
    *,
    transaction_logs: Sequence[str] = (),
) -> Excision:
    """Decide what takes the place of each damaged place, and rebuild the indexes of their segments.

    The simulated recovery of every new segment passes without truncating a byte; places for which no such content is
    found are left, with the reason: all of a segment. Places that are tails are ignored, unless a broker stops there,
    or another place of the same segment is excised: then the tail is dropped from the new log too. Nothing is written.

    Raises StorageError.

    Args:
        partition: its files.
        facts: its log directory, the release and the settings.
        places: of `find_places`; all of a segment, or all of them.
        advance: called with the bytes of log that are read.
        transaction_logs: directories of `__transaction_state` on the same disks, one copy of each partition, by which
            the outcome of a transaction is proved.
    """
    return _Excising(partition, facts, places, advance, transaction_logs).result()


def excise_all(
    partition: Partition,
    facts: PartitionFacts,
    places: Sequence[DamagedPlace],
    start: Callable[[Partition, Collection[int]], PartitionLoad],
    *,
    transaction_logs: Sequence[str] = (),
) -> Excision:
    """Excise the damaged places of a partition, and whole batches at which a broker stops then.

    Such a batch shows only when the log before it can be read, one after the other: where it contradicts an open
    transaction, of which a damaged place may have been the end. Raises StorageError.

    Args:
        partition: its files.
        facts: its log directory, the release and the settings.
        places: all of `find_places`.
        start: returns a start that recovers the whole log, to be simulated; its partition has the new files, which
            readers see meanwhile. The offset and time indexes of the segments at the given base offsets are empty: they
            are built of what this start reads.
        transaction_logs: as for `excise`.
    """

    def excised(places: Sequence[DamagedPlace]) -> tuple[Excision, RefusedBatch | None]:
        work = _Excising(partition, facts, places, NO_PROGRESS.advance, transaction_logs, start)
        return work.result(), work.refused

    found, refused = first, _ = excised(places)
    chosen: dict[str, dict[int, BadBatch]] = {}
    while refused is not None:
        known = chosen.setdefault(refused.path, {})
        if refused.position in known or sum(map(len, chosen.values())) == _MOST_REFUSED:
            return first
        known[refused.position] = BadBatch("refused", "stops-broker", refused.detail, "stops")
        found, refused = excised(find_places(partition, facts, NO_PROGRESS.advance, chosen=chosen))
    return found


def stage_excision(excision: Excision, stage: Stage) -> None:
    """Stage the new segments, each with its indexes as one replacement (`swap`), from the first to the last.

    It stages nothing else: snapshots, leader epochs, checkpoints and the clean shutdown file are not touched. A
    producer snapshot that a broker wrote remains right, because an empty batch carries what the batch before it did.
    """
    for each in excision.segments:
        log = each.segment.files[0]
        base = each.segment.base_offset
        why = f"{count_of(len(each.places), 'damaged place')} {'is' if len(each.places) == 1 else 'are'} excised"
        if not each.places:
            why = "a broker stops at its end, which is dropped"
        # The log keeps its modification time: retention and the cleaner take it for the time of its records
        # (LogSegment.largestTimestamp, Cleaner.doClean), and new batches have none of their own.
        stage.write(log.path, each.pieces(), why=why, like=log.path, mtime_ns=log.mtime_ns, swap=base)
        if each.drops_txn_index and each.segment.txnindex is not None:
            stage.remove(
                each.segment.txnindex.path, why="no broker trusts it, and no transaction is aborted", swap=base
            )
        for kind in _SIDE_KINDS:
            content = each.indexes.get(kind)
            if content is not None:
                stage.write(each.path_of(kind), [content], why=why, like=log.path, mtime_ns=log.mtime_ns, swap=base)


def _plan_files(segment: ExcisedSegment, files: PlannedFiles) -> None:
    """Let the new files of a segment be read."""
    path = segment.segment.files[0].path
    files.patch(path, segment.segment.size_bytes, segment.patches)
    for kind, content in segment.indexes.items():
        files.write(segment.path_of(kind), content, like=path)
    if segment.drops_txn_index and segment.segment.txnindex is not None:
        files[segment.segment.txnindex.path] = None


class _SegmentWork(NamedTuple):
    """A segment that is to be rewritten: its files, the places that are replaced, and the first place of its tail."""

    segment: Segment
    places: list[DamagedPlace]
    tail: DamagedPlace | None

    def excised(self, chosen: Sequence[Substitute], indexes: Mapping[FileKind, bytes]) -> ExcisedSegment:
        """Return the new segment with these choices."""
        places = tuple(map(ExcisedPlace, self.places, chosen))
        return ExcisedSegment(segment=self.segment, places=places, tail=self.tail, indexes=indexes)


class _Excising:
    def __init__(
        self,
        partition: Partition,
        facts: PartitionFacts,
        places: Sequence[DamagedPlace],
        advance: Callable[[int], None],
        transaction_logs: Sequence[str],
        start: Callable[[Partition, Collection[int]], PartitionLoad] | None = None,
    ) -> None:
        self._partition = partition
        self._facts = facts
        self._places = places
        self._advance = advance
        self._clues = ClueReader(partition, facts, transaction_logs)
        self._segments: dict[int, ExcisedSegment] = {}
        self._left = [LeftPlace(each, each.refusal) for each in places if each.refusal]
        self._files = PlannedFiles()
        self._reached: dict[int, bytes] = {}  # the producers at the last damaged segment, as a snapshot
        self._start_on = start
        self.refused: RefusedBatch | None = None

    def result(self) -> Excision:
        """Return the excision."""
        work = [*self._work()]
        with planned_files(self._files):
            load = self._at_once(work)
            if load is None:
                for each in work:
                    self._excise(each)
                load = self._start(())
                deque(() if load is None else load.run(), maxlen=0)
            planned = self._planned()
        found = Excision(
            partition=self._partition,
            planned=planned,
            segments=tuple(self._segments.values()),
            left=tuple(sorted(self._left, key=lambda each: (each.place.segment.base_offset, each.place.start))),
            losses=tuple(self._losses()),
            load=load,
        )
        problem = None if load is None else load.result.problem
        if problem is not None and problem.kind == "fatal" and problem.position is not None:
            changed = next((each for each in found.segments if each.segment.files[0].path == problem.path), None)
            patches = [] if changed is None else changed.patches
            self._refuse(problem.path, patches, problem.position, problem.sentence.removesuffix("."))
        return self._with_start(found, load) if self._segments and load is not None else found

    def _work(self) -> Iterator[_SegmentWork]:
        """Yield the segments of which a place can be excised; note the places that are left because of others."""
        by_base: dict[int, list[DamagedPlace]] = {}
        for each in self._places:
            by_base.setdefault(each.segment.base_offset, []).append(each)
        for segment in self._partition.segments:
            own = by_base.get(segment.base_offset, [])
            wanted = [each for each in own if each.is_excisable]
            tail = next((each for each in own if each.is_tail), None)
            # No recovery truncates a whole batch at which the broker stops, so it is dropped here
            is_wanted = bool(wanted) or (tail is not None and tail.kind == "refused")
            if is_wanted and not any(each.refusal for each in own):
                yield _SegmentWork(segment, wanted, tail)
            elif wanted:
                self._leave(wanted, "another place of its segment cannot be excised")

    def _at_once(self, work: Sequence[_SegmentWork]) -> PartitionLoad | None:
        """Let one start try the best choice for every place; None: it does not keep each segment as it is then.

        So the new log is read once, by the start that follows in any case.
        """
        if not work:
            return None
        rules = self._facts.load_options.recovery
        times = {FileKind.TIME_INDEX: b""} if rules.has_time_index else {}
        for each in work:
            states = partial(self._known_states_at, each.segment)
            chosen = [choices(place, self._clues.of(place, states))[0] for place in each.places]
            excised = each.excised(chosen, {**times, **_kept_txn_index(each.segment)})
            excised = replace(excised, indexes={FileKind.OFFSET_INDEX: _end_entry(excised), **excised.indexes})
            self._segments[each.segment.base_offset] = excised
            _plan_files(excised, self._files)
        load = self._start(self._segments.keys())
        recoveries: dict[int, SegmentRecovery | None] = {}
        for loaded in () if load is None else load.run():
            if loaded.base_offset in self._segments:
                recoveries[loaded.base_offset] = None if loaded.lost_bytes else loaded.recovery
        if load is not None and load.result.problem is None:
            found = [each.indexed(recoveries.get(base)) for base, each in self._segments.items()]
            kept = {each.segment.base_offset: each for each in found if each is not None}
            if len(kept) == len(self._segments):
                self._segments = kept
                return load
        self._segments.clear()
        self._files.clear()
        self._reached.clear()
        return None

    def _refuse(self, path: str, patches: Sequence[Patch], position: int, detail: str) -> None:
        """Note the batch at a byte of the new log as one at which a broker stops, if it is of the old log."""
        for patch in patches:
            shift = len(patch.content) - (patch.end - patch.start)
            if position < patch.start:
                break
            if position < patch.start + len(patch.content):
                return
            position -= shift
        self.refused = self.refused or RefusedBatch(path, position, detail)

    def _leave(self, places: Sequence[DamagedPlace], refusal: str) -> None:
        self._left += [LeftPlace(each, refusal) for each in places]

    # --- one segment --------------------------------------------------------------------------------------------------
    def _excise(self, work: _SegmentWork) -> None:
        """Find what takes the places of a segment, from the best choices down, or leave them."""
        segment, places = work.segment, work.places
        states, is_known = self._states_at(segment)
        options = [choices(each, self._clues.of(each, lambda: states if is_known else None)) for each in places]
        picked = [0] * len(places)
        while True:
            chosen = [each[number] for each, number in zip(options, picked, strict=True)]
            excised = self._tried(work.excised(chosen, {}), states, is_known=is_known)
            if isinstance(excised, ExcisedSegment):
                self._segments[segment.base_offset] = excised
                _plan_files(excised, self._files)
                return
            position, why = excised.position, excised.detail
            number = _blamed(places, options, picked, chosen, position)
            if number is None:
                self._files.pop(segment.files[0].path, None)
                if excised.kind == "txn-state":
                    self._refuse(segment.files[0].path, work.excised(chosen, {}).patches, position, why)
                self._leave(places, f"a broker would not keep the segment with anything in its place: {why}")
                return
            picked[number] += 1

    def _tried(self, new: ExcisedSegment, states: ProducerStates, *, is_known: bool) -> ExcisedSegment | Problem:
        """Return the new segment if the recovery of a broker passes it; else where it does not, and why."""
        segment = new.segment
        path, rules = segment.files[0].path, self._facts.load_options.recovery
        self._files.patch(path, segment.size_bytes, new.patches)
        with Source.open(path) as source:
            recovery = recover_segment(
                source,
                segment.base_offset,
                rules=rules,
                settings=self._facts.settings,
                states=ProducerStates.from_state(states.state_bytes(), sequences="unchecked"),
            )
        self._advance(new.size_bytes)
        if recovery.problem is not None:
            return recovery.problem
        if recovery.valid_bytes < new.size_bytes:
            return Problem(kind="unreadable", position=recovery.valid_bytes, detail=recovery.stop_detail)
        indexes = _kept_txn_index(segment)
        if is_known and not indexes and recovery.txn_index:
            indexes = {FileKind.TXN_INDEX: recovery.txn_index}
        return replace(new, indexes={**indexes_of(recovery), **indexes})

    def _known_states_at(self, segment: Segment) -> ProducerStates | None:
        states, is_known = self._states_at(segment)
        return states if is_known else None

    def _states_at(self, segment: Segment) -> tuple[ProducerStates, bool]:
        """Return the producers at the base of a segment, and whether they are known (`LogLoader.recoverSegment`).

        They are not where the log before it cannot be read, or where it is not to be known what is in it.
        """
        facts, rules = self._facts, rules_of(self._facts.release)
        unknown = ProducerStates(sequences="unchecked")
        if not rules.has_producers:
            return unknown, False
        files = SnapshotFiles.of(self._partition)
        # Without a snapshot at its base, each damaged segment would read all segments before it
        for offset, content in self._reached.items():
            files.put(offset, content)
        load = ProducerLoad(files, facts.snapshot_options, marks_last_segments=False, search=rules.search)
        readings = [
            ReplaySegment(each.base_offset, each.files[0].path, self._size_of(each))
            for each in self._partition.segments
            if each.base_offset < segment.base_offset
        ]
        start = log_bounds(self._partition.segments[0].base_offset, facts.context, rules).log_start.offset
        manager, obstacle = load.before(readings, min(start, segment.base_offset), segment.base_offset)
        self._reached = dict([*files.written.items()][-1:])
        return (manager.states, True) if obstacle is None else (unknown, False)

    def _size_of(self, segment: Segment) -> int:
        excised = self._segments.get(segment.base_offset)
        return segment.size_bytes if excised is None else excised.size_bytes

    # --- the whole partition ------------------------------------------------------------------------------------------
    def _planned(self) -> Partition:
        """Return the files of the partition as they will be."""
        new: dict[str, tuple[FileInfo, int] | None] = {path: None for path, file in self._files.items() if file is None}
        for segment in self._segments.values():
            log = segment.segment.files[0]
            new[log.path] = log, segment.size_bytes
            for kind, content in segment.indexes.items():
                new[segment.path_of(kind)] = log, len(content)
        return _with_files(self._partition, new)

    def _start(self, unindexed: Collection[int]) -> PartitionLoad | None:
        """Return the start that is asked for, else one that recovers every segment from the first new one on.

        None: there is no new segment.
        """
        planned = self._planned()
        if self._start_on is not None:
            return self._start_on(planned, unindexed)
        if not self._segments:
            return None
        context = replace(self._facts.context, is_clean=False, recovery_point=min(self._segments))
        return PartitionLoad(planned, context, self._facts.load_options, advance=self._advance)

    def _with_start(self, found: Excision, load: PartitionLoad) -> Excision:
        """Return an excision with the result of the simulated start on the new log."""
        result = load.result
        if result.problem is not None:
            return replace(found, problem=result.problem)
        tails = {(each.segment.base_offset, each.start) for each in self._places if each.is_tail}
        cut = next((each for each in result.segments if each.lost_bytes), None)
        place = None if cut is None else (cut.base_offset, cut.size_bytes)
        emptied = [each.place.last_offset or 0 for each in found.places if not each.choice.keeps_sequence]
        emptied += [each.place.last_offset or 0 for each in found.places if is_lost_marker(each)]
        states, last = load.producers, max(emptied, default=-1)
        still_open = () if states is None else states.open_transactions()
        return replace(
            found,
            still_truncates=None if place in tails else place,
            open_transactions=tuple(each for each in still_open if each.first_offset <= last),
        )

    def _losses(self) -> Iterator[Loss]:
        for segment in self._segments.values():
            for each in segment.places:
                loss = loss_of(self._partition, self._facts.high_watermark, each)
                if loss is not None:
                    yield loss
            if segment.tail is not None:
                cut = [(segment.tail.path, segment.tail.start)]
                loss = measure_loss(self._partition, cut, self._facts.high_watermark)
                if loss is not None:
                    yield loss


def _blamed(
    places: Sequence[DamagedPlace],
    options: Sequence[Sequence[Substitute]],
    picked: Sequence[int],
    chosen: Sequence[Substitute],
    position: int,
) -> int | None:
    """Return the number of the place whose next choice is tried: the last one before a byte of the new log.

    None: none of these has another choice.
    """
    shift, blamed = 0, None
    for number, (place, choice) in enumerate(zip(places, chosen, strict=True)):
        if place.start + shift > position:
            break
        if picked[number] + 1 < len(options[number]):
            blamed = number
        shift += len(choice.content) - place.size_bytes
    return blamed


def _end_entry(new: ExcisedSegment) -> bytes:
    """Return the last entry of the present offset index that is not of a place, moved with its batch; empty: none.

    By it a reader finds the end of the new log (`LogSegment.readNextOffset`) before its index is built.
    """
    if new.segment.index is None:
        return b""
    try:
        with Source.open(new.segment.index.path) as source:
            content = source.read(0, source.size_bytes - source.size_bytes % OFFSET_INDEX_ENTRY.size)
    except StorageError:
        return b""
    patches = new.patches
    starts = [each.start for each in patches]
    moved = [0, *accumulate(len(each.content) - (each.end - each.start) for each in patches)]
    for relative_offset, position in reversed([*iter_offset_entries(content)]):
        before = bisect_right(starts, position)
        if position > 0 and (not before or patches[before - 1].end <= position):
            return encode_offset_entry(relative_offset, position + moved[before])
    return b""


def _kept_txn_index(segment: Segment) -> dict[FileKind, bytes]:
    """Return the present transaction index of a segment; nothing if there is none, or none that a broker would trust.

    It holds no byte positions, so it remains right, and it has what the log may have lost: markers, and the first
    offsets of transactions.
    """
    file = segment.txnindex
    if file is None or txn_index_fault(file.path, segment.base_offset) is not None:
        return {}
    with Source.open(file.path) as source:
        return {FileKind.TXN_INDEX: source.read(0, source.size_bytes)}


def _with_files(partition: Partition, new: Mapping[str, tuple[FileInfo, int] | None]) -> Partition:
    """Return a partition with files of other sizes, with new ones, and without some.

    Args:
        partition: its files as they are.
        new: by the path of a file: the file whose owner, mode and times it gets, and its size; None: it is deleted.
    """
    files = {file.path: file for file in partition.files}
    for path, made in new.items():
        if made is None:
            files.pop(path, None)
            continue
        name = parse_file_name(path.rpartition("/")[2])
        files[path] = replace(files.get(path, made[0]), path=path, name=name, size_bytes=made[1])
    listed = tuple(sorted(files.values(), key=lambda file: file.name.raw))
    listing = Listing(path=partition.path, files=listed, directories=(), findings=())
    return replace(partition_of(listing), name=partition.name, findings=partition.findings)
