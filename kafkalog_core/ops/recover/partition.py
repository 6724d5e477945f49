"""The recovery of one partition with the least loss: what a broker would do by itself, and what is done instead.

The steps, each of which reads the files as the one before leaves them:

1. A start is simulated, for what a broker would lose by itself. Replacements that wait are put in place as it does.
   Of the only copy, segments with names above their first offset get the right ones.
2. The log is replayed. If it is whole, only its indexes, snapshots and leader epochs are left to repair.
3. Where it is damaged: with other replicas in sync it is truncated at the damage, and the replica fetches the rest.
   The only copy keeps every batch that can be read: damaged places are excised. A place that cannot be excised ends its
   segment, as where a broker rebuilds a missing index; later segments are kept.
4. What an unclean start would still truncate is truncated as it does, and the log is replayed again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from kafkalog_core.findings.catalog import Sink
from kafkalog_core.findings.logs import STARTS_LATER
from kafkalog_core.format.layout import MAX_BATCH_BYTES
from kafkalog_core.format.names import FileKind, FileState, parse_file_name
from kafkalog_core.kafka.sim.logdir.bounds import read_extent
from kafkalog_core.kafka.sim.start.partition import PartitionLoad
from kafkalog_core.kafka.sim.start.sweep import sweep
from kafkalog_core.ops.cluster.losses import measure_losses
from kafkalog_core.ops.recover.excise import findings_of
from kafkalog_core.ops.recover.excision import excise_all, stage_excision
from kafkalog_core.ops.recover.joined import JoinedStage
from kafkalog_core.ops.recover.places import find_places
from kafkalog_core.ops.recover.renaming import misnamed_segment, stage_renaming
from kafkalog_core.ops.recover.segment_reading import FollowedLogs
from kafkalog_core.ops.reindex.indexes import NOT_A_RECOVERY
from kafkalog_core.ops.reindex.partition import PartitionReindex, rules_of_indexes, with_repaired
from kafkalog_core.ops.reindex.steps import ReindexTask, stage_step
from kafkalog_core.ops.repair.loss import LossCount, measure_loss
from kafkalog_core.ops.repair.plan_rows import MENDED_BY_PLAN
from kafkalog_core.ops.truncate.as_broker import (
    hold_all,
    holds_all,
    stage_completion,
    truncate_as_broker,
    voided_replacements,
)
from kafkalog_core.ops.truncate.truncate import cuts_of, what_is_deleted
from kafkalog_core.ops.truncate.truncation import companion_files, stage_truncation, truncate_at_damage
from kafkalog_core.ops.verify.txn_index import check_snapshot
from kafkalog_core.progress import NO_PROGRESS
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.reading import READING
from kafkalog_core.structs import Struct, field, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.sim.logdir.bounds import Extent
    from kafkalog_core.kafka.sim.start.results import LoadResult
    from kafkalog_core.ops.recover.joined import JoinedChange
    from kafkalog_core.ops.recover.places import DamagedPlace
    from kafkalog_core.ops.recover.replicas import KnownReplicas
    from kafkalog_core.ops.reindex.steps import ReindexReport, Step
    from kafkalog_core.ops.repair.context import PartitionFacts
    from kafkalog_core.ops.repair.loss import Loss
    from kafkalog_core.ops.truncate.as_broker import BrokerTruncation, SwapCompletion
    from kafkalog_core.ops.truncate.truncation import CompanionFiles, Truncation
    from kafkalog_core.storage.listing import FileInfo, Segment
    from kafkalog_core.storage.partition import Partition
    from kafkalog_core.storage.scan import Damage, Run

__all__ = ["Choice", "PartitionRecovery", "RecoveryTask", "recover_partition", "start_problems"]

Choice = Literal["only-copy", "refetch", "as-broker"]
"""`only-copy`: every batch that can be read is kept. `refetch`: the log is truncated at its damage. `as-broker`: it is
truncated where a broker would."""

_MOST_ROUNDS: Final = 4
"""A truncation may bring a start to a place that it did not reach before; each round ends the log earlier."""
_HIDING: Final = frozenset({"truncate.end-lost", "truncate.end-misled"})
_STOPPED: Final = frozenset({"truncate.broker-stops", "truncate.broker-offline", *STARTS_LATER.values()})
_TAIL_REASONS: Final = frozenset({"torn-tail", "zero-filled"})
_LATER_PRODUCER: Final = "snapshot.later-producer"


class RecoveryTask(Struct, frozen=True, kw_only=True):
    """The request for one partition.

    Args:
        root: the directory of the plan.
        path: of the partition.
        facts: what is known of it besides its files, as a broker loads it.
        choice: how its damage is treated.
        replicas: what is known of its other replicas.
        transaction_logs: directories of `__transaction_state` on the same disks.
        spool: as of `JoinedStage`.
    """

    root: str
    path: str
    facts: PartitionFacts
    choice: Choice
    replicas: KnownReplicas
    transaction_logs: tuple[str, ...] = ()
    spool: str | None = None


class PartitionRecovery(Struct, kw_only=True):
    """What is planned for one partition.

    Args:
        path: of the partition.
        end_offset: the end of its log where it is truncated; None: it is not.
        is_below_start: whether it ends below its checkpointed log start offset then.
        changes: of its files.
        findings: what is reported.
        refusals: what is not repaired.
        losses: what the plan deletes of what can be read.
        unread: what the plan deletes of what cannot be read: excised places.
        own_losses: what a broker would delete by itself of what can be read.
        hides_end: whether a broker would take an offset before the last record for the log end offset.
        own_problem: code of the finding that a broker does not start, or takes the directory offline; None: it starts.
        is_damaged: whether it matters if other replicas exist.
        is_recovered: whether a simulated start has recovered all of the log that the plan leaves, and kept it.
        is_by_search: whether messages are excised because of how the release looks for an offset.
    """

    path: str
    end_offset: int | None = None
    is_below_start: bool = False
    changes: tuple[JoinedChange, ...] = ()
    findings: list[Finding] = field(default_factory=list)
    refusals: list[Finding] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    unread: list[Loss] = field(default_factory=list)
    own_losses: list[Loss] = field(default_factory=list)
    hides_end: bool = False
    own_problem: str | None = None
    is_damaged: bool = False
    is_recovered: bool = False
    is_by_search: bool = False


def recover_partition(task: RecoveryTask, advance: Callable[[int], None]) -> PartitionRecovery:
    """Plan the recovery of one partition; it may run in another process. Raises StorageError."""
    return _Work(task, advance).plan()


class _Work:
    def __init__(self, task: RecoveryTask, advance: Callable[[int], None]) -> None:
        self._task = task
        self._advance = advance
        self._facts = _as_unclean(task.facts) if task.facts.context.is_clean is None else task.facts
        self._stage = JoinedStage(task.root, task.facts.now_ms, task.spool)
        self._done = PartitionRecovery(path=task.path)
        self._is_given_up = False
        self._load: PartitionLoad | None = None
        self._followed: FollowedLogs | None = None
        self._own_cuts: list[list[tuple[str, int]]] = []
        self._listed: tuple[tuple[int, ...], Partition] | None = None
        self._extent_of: tuple[Partition, Extent | None] | None = None

    def plan(self) -> PartitionRecovery:
        partition = self._partition()
        self._sink = Sink(partition.topic, partition.partition)
        self._refusals = Sink(partition.topic, partition.partition)
        size_bytes = sum(segment.size_bytes for segment in partition.segments)
        with self._stage.reading():
            broker = self._as_the_broker_is()
            if partition.format == "v07":
                self._truncate(broker.truncation, broker.companions, None)
            else:
                self._recover(broker)
                if self._waiting():  # what a start stopped at is repaired now, so that it comes to the replacement
                    self._recover(self._as_the_broker_is())
            is_alone = self._is_alone()
        done = self._done
        done.changes = self._stage.changes if is_alone else ()
        done.findings += self._sink.findings
        done.refusals += self._refusals.findings
        start_offset = self._task.facts.context.log_start_offset
        done.is_below_start = None not in {done.end_offset, start_offset} and (start_offset or 0) > (
            done.end_offset or 0
        )
        self._advance(size_bytes)
        return done

    def _waiting(self) -> list[FileInfo]:
        """Return the files of replacements that are left."""
        return [file for file in self._partition().files if file.name.state in {FileState.SWAP, FileState.CLEANED}]

    def _is_alone(self) -> bool:
        """Return whether no replacement of segments waits that the plan leaves.

        A start puts it in place of segments that the plan has looked at, and mixes it with one that the plan makes
        (LogLoader.completeSwapOperations).
        """
        for file in self._waiting()[:1]:
            self._refusals.add("segment.swap", file.path, offset=file.name.base_offset)
            return False
        # A directory with such a name is neither put in place nor deleted, and would stop the plan in the middle
        for finding in self._partition().findings:
            name = parse_file_name(finding.path.rpartition("/")[2])
            if finding.code == "dir.nested" and name.state in {FileState.SWAP, FileState.CLEANED}:
                self._refusals.add("segment.swap", finding.path, offset=name.base_offset)
                return False
        return True

    # --- what a broker would do ---------------------------------------------------------------------------------------
    def _as_the_broker_is(self) -> BrokerTruncation:
        """Return what a broker truncates by itself, after it has put replacements in place; note what it loses."""
        done = self._done
        for _ in range(_MOST_ROUNDS):
            partition = self._partition()
            if self._keeps_voided(partition):
                continue
            self._reindex = self._new_reindex(as_broker=False)
            self._followed = FollowedLogs(partition, self._facts) if self._task.choice == "only-copy" else None
            broker = truncate_as_broker(partition, self._facts, NO_PROGRESS.advance, follow=self._follow)
            completion = broker.completion
            if completion is None:
                if self._gives_up_what_stops(broker):
                    continue
                break
            losses = [measure_loss(partition, [cut], self._facts.high_watermark) for cut in completion.lost]
            done.own_losses += [loss for loss in losses if loss is not None]
            # The replacement of a compaction or a split has what the segments have that it replaces. One that ends
            # before them is not whole, and the segments are still here.
            if done.own_losses and self._task.choice == "only-copy" and holds_all(completion):
                self._give_up(completion)
                broker = replace(broker, completion=None)
                self._is_given_up = True
                break
            done.losses += [_with_reason(each, "a finished replacement takes its place") for each in losses if each]
            stage_completion(completion, self._stage)
            logs = [file.name.raw for file in completion.moved if file.name.kind is FileKind.LOG]
            replaced = [file.name.raw for file, _ in completion.replaced if file.name.kind is FileKind.LOG]
            self._sink.add(
                "truncate.completes",
                partition.path,
                names=", ".join(logs) or completion.moved[0].name.raw,
                replaced=", ".join(replaced) or "no log",
            )
        self._sweep()
        if broker.truncation is not None:
            self._own_cuts = [*cuts_of(broker.truncation)]
            if self._task.choice != "only-copy" or partition.format == "v07":  # else with the damaged places
                self._count_own()
        if broker.refusal is not None and broker.refusal.code in _STOPPED:
            done.own_problem = broker.refusal.code
        done.hides_end = broker.refusal is not None and broker.refusal.code in _HIDING
        return broker

    def _follow(self, segment: Segment) -> Callable[[Run | Damage], object]:
        """Return what takes all that the start reads: the replay, and the search for damaged places."""
        replay = self._reindex.follow(segment)
        if self._followed is None:
            return replay
        search = self._followed.follow(segment)
        return lambda item: (replay(item), search(item))

    def _count_own(self) -> None:
        """Count what a broker would delete by itself, as long as the log is as it was."""
        partition = self._partition()
        for cuts in self._own_cuts:
            self._done.own_losses += measure_losses(partition, cuts, self._facts.high_watermark)
        self._own_cuts = []

    def _give_up(self, completion: SwapCompletion) -> None:
        """Delete a replacement that would lose records of the segments that it replaces."""
        bases = {file.name.base_offset for file in completion.moved}
        # Before 3.0 an index that waits makes the start rebuild those of its segment (Log.completeSwapOperations)
        waiting = [file for file in self._partition().files if file.name.state is FileState.SWAP]
        for file in (*completion.moved, *(each for each in waiting if each.name.base_offset in bases)):
            self._stage.remove(file.path, why="it lacks records of the segments that it replaces")
        names = ", ".join(file.name.raw for file in completion.moved if file.name.kind is FileKind.LOG)
        self._sink.add("recover.replacement-given-up", completion.directory, names=names)

    def _gives_up_what_stops(self, broker: BrokerTruncation) -> bool:
        """Delete a replacement at which the broker stops, if the segments have all of it; return whether it is so."""
        refusal = broker.refusal
        waiting = [file for file in self._waiting() if refusal is not None and file.path == refusal.path]
        if not waiting or refusal is None or self._task.choice != "only-copy":
            return False
        partition, base = self._partition(), waiting[0].name.base_offset
        live = [segment.log for segment in partition.segments if segment.log is not None]
        files = [file for file in self._waiting() if file.name.base_offset == base]
        if base is None or not hold_all(live, files):
            return False
        for file in files:
            self._stage.remove(file.path, why="a broker stops at it, and the segments have all of its records")
        self._done.own_problem = refusal.message
        name, problem = waiting[0].name.raw, refusal.message.removesuffix(".")
        self._sink.add("recover.replacement-refused", refusal.path, name=name, problem=problem)
        return True

    def _keeps_voided(self, partition: Partition) -> bool:
        """Delete the unfinished replacements that void a finished one with records of its own, so that it is completed.

        Returns whether there were some; only where this is the only copy. What a broker loses by itself is noted.
        """
        cuts = voided_replacements(partition, self._facts.load_options.loader)
        losses = [measure_loss(partition, [cut], self._facts.high_watermark) for cut in cuts]
        self._done.own_losses += [loss for loss in losses if loss is not None]
        if not cuts or self._task.choice != "only-copy":
            self._done.losses += [_with_reason(each, "its replacement was not complete") for each in losses if each]
            return False
        for file in partition.files:
            if file.name.state is FileState.CLEANED:
                self._stage.remove(file.path, why="it was never finished, and voids a replacement that was")
        return True

    def _sweep(self) -> None:
        """Delete the leftovers of replacements that a start deletes (LogLoader.removeTempFilesAndCollectSwapFiles)."""
        for file, why in sweep(self._partition().files, rules=self._facts.load_options.loader).removed:
            if file.name.state in {FileState.SWAP, FileState.CLEANED}:
                self._stage.remove(file.path, why=why)

    # --- the log ------------------------------------------------------------------------------------------------------
    def _recover(self, broker: BrokerTruncation) -> None:
        choice = self._task.choice
        self._done.is_recovered = False  # of a log that a replacement has changed since
        if choice == "as-broker":
            self._truncate(broker.truncation, broker.companions, None)
            is_read = broker.truncation is None and broker.refusal is None
            self._take(self._reindex if is_read else self._new_reindex(as_broker=False))
            return
        self._facts = self._possible_facts(self._extent())
        is_renamed = choice == "only-copy" and self._rename()
        if self._forgets_impossible_producers():
            self._reindex = self._new_reindex(as_broker=False)
        if not (broker.truncation or broker.refusal or self._is_given_up or is_renamed):
            steps = [*self._reindex.steps()]
            report = self._reindex.report
            hides = report.may_hide_batches and self._hides_batches()
            if not (report.refusals or report.tail_bytes or hides):  # what is right is left as it is
                self._add([step for step in steps if not step.why.startswith(NOT_A_RECOVERY)], report)
                return
        load = None
        if choice == "only-copy":
            load = self._excise()
        else:
            self._refetch()
        self._settle(load)

    def _possible_facts(self, extent: Extent | None) -> PartitionFacts:
        """Return the facts without a checkpointed log start offset after the log end: its line will be removed.

        A broker that finds it deletes the whole log (LogLoader.recoverLog).
        """
        facts = self._facts
        if extent is None or (facts.context.log_start_offset or 0) <= extent.end:
            return facts
        return replace(facts, context=replace(facts.context, log_start_offset=None))

    def _forgets_impossible_producers(self) -> bool:
        """Delete a snapshot from which the log would be replayed, if it names an offset that is not before its own.

        Return whether there was one.

        `ProducerStateManager.takeSnapshot` writes the producers of the batches before it: the file was renamed or
        changed, and a broker stops where its transactions contradict the log (`ProducerAppendInfo.appendDataBatch`).
        """
        partition = self._partition()
        first = partition.segments[0].snapshot if partition.segments else None
        if first is None or partition.format == "v07":
            return False
        sink = Sink(partition.topic, partition.partition)
        check_snapshot(first.path, first.name.base_offset, None, 0, sink, Sink())
        later = next((each for each in sink.findings if each.code == _LATER_PRODUCER), None)
        if later is not None:
            self._sink.put(replace(later, cure=MENDED_BY_PLAN, next_step=None))
            self._stage.remove(first.path, why=later.message.removesuffix("."))
        return later is not None

    def _rename(self) -> bool:
        """Give segments the names of their first offsets, or delete copies; return whether there were such segments."""
        is_renamed = False
        while (misnamed := misnamed_segment(self._partition())) is not None:
            self._count_own()
            self._followed = None
            log = misnamed.segment.files[0]
            code = "recover.copy-deleted" if misnamed.is_copy else "recover.renamed"
            self._sink.add(code, log.path, offset=misnamed.first_offset, name=misnamed.log_name)
            stage_renaming(misnamed, self._stage)
            is_renamed = True
        return is_renamed

    def _hides_batches(self) -> bool:
        """Return whether consumers do not read batches that a broker serves, and whose headers can be corrected."""
        places = find_places(self._partition(), self._facts, NO_PROGRESS.advance)
        return any(place.kind in {"moved", "overlong", "closed"} or place.is_whole for place in places)

    def _excise(self) -> PartitionLoad | None:
        """Excise the damaged places; return the start on the new log, as of `_start_on`; None: it was not simulated."""
        partition = self._partition()
        places = self._places(partition)
        self._done.is_damaged = any(not place.is_tail for place in places)
        logs = self._task.transaction_logs
        excision = excise_all(partition, self._facts, places, self._start_on, transaction_logs=logs)
        if excision.segments or excision.left:
            self._done.is_damaged = bool(excision.losses or excision.left)
            self._done.is_by_search = any(each.place.kind == "closed" for each in excision.places)
            findings_of(excision, self._facts, self._sink)
            for left in excision.left:
                what = f"byte {left.place.start}, {left.place.detail}"
                self._sink.add("recover.left", left.place.path, position=left.place.start, why=left.refusal, what=what)
            self._done.unread += [_with_reason(loss, "it cannot be read: it is excised") for loss in excision.losses]
            stage_excision(excision, self._stage)
        return excision.load if excision.load is self._load else None

    def _places(self, partition: Partition) -> tuple[DamagedPlace, ...]:
        """Return the damaged places, in what the start has not read of the log, and count what it would delete."""
        followed, watermark = self._followed, self._facts.high_watermark
        counted: list[tuple[str, LossCount]] = []
        counts: dict[str, LossCount] = {}
        for cuts in [*self._own_cuts]:
            if followed is not None and all(followed.read_to(path) == start for path, start in cuts):
                self._own_cuts.remove(cuts)
                counted.append((cuts[0][0], LossCount(watermark)))
                counts |= dict.fromkeys((path for path, _ in cuts), counted[-1][1])
        self._count_own()
        places = find_places(partition, self._facts, NO_PROGRESS.advance, followed=followed, counts=counts)
        losses = (count.loss(partition, path) for path, count in counted)
        self._done.own_losses += [loss for loss in losses if loss is not None]
        return places

    def _start_on(self, partition: Partition, unindexed: Collection[int]) -> PartitionLoad:
        """Return a start that recovers all of a log, which the replay for its indexes and snapshots follows.

        unindexed: base offsets of the segments whose offset and time indexes are built of what this start reads.
        """
        self._reindex = self._new_reindex(as_broker=True, unindexed=unindexed)
        # The replay begins with the first batch, whatever the log start offset
        context = replace(_as_unclean(self._facts).context, log_start_offset=None)
        self._load = PartitionLoad(partition, context, self._facts.load_options, follow=self._reindex.follow)
        return self._load

    def _refetch(self) -> None:
        partition = self._partition()
        truncation = truncate_at_damage(partition, NO_PROGRESS.advance)
        if truncation is None or truncation.is_empty:
            return
        self._done.is_damaged = True
        self._done.end_offset = truncation.end_offset
        nodes = ", ".join(map(str, self._task.replicas.others))
        self._sink.add(
            "recover.refetched",
            partition.path,
            offset=truncation.end_offset,
            what=what_is_deleted(truncation),
            evidence=f"by the metadata log on the nodes {nodes}" if nodes else "as --refetch has it",
        )
        stage_truncation(truncation, companion_files(truncation, self._facts), self._stage)

    def _settle(self, load: PartitionLoad | None) -> None:
        """Build the files of the log that is left, and truncate what an unclean start would still truncate.

        load: such a start on this log, which the replay has followed; None: none was simulated.
        """
        is_followed = load is not None and not self._facts.context.log_start_offset and _reads_all(load.result)
        if load is not None and is_followed:
            # First as where a broker rebuilds a missing index: it ends the segment alone, and keeps the later ones
            self._take(self._reindex)
            if not (load.result.lost_bytes or load.result.removed or load.result.is_end_lost):
                self._done.is_recovered = True
                return
        for number in range(is_followed, _MOST_ROUNDS + 1):
            reindex = self._new_reindex(as_broker=True)
            broker = truncate_as_broker(
                self._partition(),
                _as_unclean(self._facts),
                NO_PROGRESS.advance,
                follow=None if number else reindex.follow,
            )
            if broker.truncation is None and (number or broker.refusal is None):
                if not number:
                    self._take(reindex)
                self._done.is_recovered = broker.refusal is None
                return
            if number:
                self._truncate(broker.truncation, broker.companions, "a broker truncates it when it recovers the log")
            self._take(self._new_reindex(as_broker=True))  # as above

    def _truncate(self, truncation: Truncation | None, companions: CompanionFiles | None, why: str | None) -> None:
        if truncation is None or truncation.is_empty:
            return
        partition = truncation.partition
        companions = companions or companion_files(truncation, self._facts)
        self._sink.add("truncate.cut", partition.path, offset=truncation.end_offset, what=what_is_deleted(truncation))
        for cuts in cuts_of(truncation):
            losses = measure_losses(partition, cuts, self._facts.high_watermark)
            self._done.losses += [_with_reason(loss, why or "a broker truncates it at its start") for loss in losses]
        if companions.open_transactions:
            first = min(each.first_offset for each in companions.open_transactions)
            count = len(companions.open_transactions)
            self._sink.add("truncate.open-transactions", partition.path, offset=first, count=count)
        self._done.end_offset = truncation.end_offset
        stage_truncation(truncation, companions, self._stage)

    # --- what is built from the log -----------------------------------------------------------------------------------
    def _new_reindex(self, *, as_broker: bool, unindexed: Collection[int] = ()) -> PartitionReindex:
        """Return the work that replays the log, and repairs the files that are built from it."""
        extent = self._extent()
        facts = self._facts if self._task.choice == "as-broker" else self._possible_facts(extent)
        end = None if extent is None else extent.end
        if not facts.context.is_clean or facts.context.recovery_point not in {None, end}:
            # The recovery points are at the log ends afterwards, so only what differs from the log is written; a
            # snapshot is left at the end, as by a clean shutdown.
            facts = replace(facts, context=replace(facts.context, is_clean=False, recovery_point=end))
        task = ReindexTask(
            path=self._task.path,
            bases=None,
            facts=facts,
            rules=rules_of_indexes(facts.release),
            writes_all=False,
            as_broker=as_broker,
            max_batch_bytes=MAX_BATCH_BYTES,
            unindexed=frozenset(unindexed),
        )
        return PartitionReindex(task, NO_PROGRESS.advance, self._stage.spooled, self._partition())

    def _take(self, reindex: PartitionReindex) -> None:
        self._add([*reindex.steps()], reindex.report)

    def _add(self, steps: list[Step], report: ReindexReport) -> None:
        for step in steps:
            stage_step(step, self._stage)
        report = with_repaired(report, {step.path for step in steps if step.kind != "cut"})
        done = self._done
        done.findings += report.findings
        done.refusals += report.refusals
        done.losses += [
            _with_reason(loss, "no whole batch follows in the segment, or none that can be excised")
            for loss in report.losses
        ]
        cuts = [step for step in steps if step.kind == "cut"]
        if cuts:
            extent = self._extent()
            done.end_offset = None if extent is None else extent.end

    def _partition(self) -> Partition:
        """Return the files as the steps so far leave them."""
        if self._listed is None or self._listed[0] != READING.planned.state:
            self._listed = READING.planned.state, read_partition(self._task.path)
        return self._listed[1]

    def _extent(self) -> Extent | None:
        """Return the extent of the log as the steps so far leave it; without an index all of a segment is read."""
        partition = self._partition()
        if self._extent_of is None or self._extent_of[0] is not partition:
            self._extent_of = partition, read_extent(partition)
        return self._extent_of[1]


def _with_reason(loss: Loss, why: str) -> Loss:
    return loss if loss.why else replace(loss, why=why)


def _reads_all(result: LoadResult) -> bool:
    """Return whether a start has read each segment that it recovers to its end, or to its first damage."""
    return result.problem is None and not result.moved and not any(each.is_emptied for each in result.segments)


def _as_unclean(facts: PartitionFacts) -> PartitionFacts:
    """Return the facts of a start that recovers the whole log."""
    return replace(facts, context=replace(facts.context, is_clean=False, recovery_point=None))


def start_problems(
    path: str, facts: PartitionFacts, is_unclean_too: bool, advance: Callable[[int], None]
) -> tuple[Finding, ...]:
    """Return why a start on a partition would fail, or lose something; it may run in another process.

    Args:
        path: of the partition.
        facts: what is known of it, with the checkpoints as the plan leaves them.
        is_unclean_too: whether a start after an unclean shutdown is simulated too. It recovers the last segment, as
            with a recovery point at the end: all of the log was recovered when the partition was planned.
        advance: called with the bytes that are read.
    """
    partition = read_partition(path)
    sink = Sink(partition.topic, partition.partition)
    if partition.format == "v07":
        return ()
    extent = read_extent(partition)
    at_end = facts.context.recovery_point if extent is None else extent.end
    for is_clean in (True, False) if is_unclean_too else (True,):
        point = facts.context.recovery_point if is_clean else at_end
        context = replace(facts.context, is_clean=is_clean, recovery_point=point)
        load = PartitionLoad(partition, context, facts.load_options, advance=advance)
        for _ in load.run():
            pass
        problem = load.result.problem
        if problem is not None:
            code = "recover.not-started" if problem.is_failure else "recover.not-simulated"
            sink.add(
                STARTS_LATER.get(problem.kind, code),
                problem.path,
                position=problem.position,
                problem=problem.sentence.removesuffix("."),
            )
            break
        if load.result.lost_bytes:
            sink.add("recover.truncated-again", path, size_bytes=load.result.lost_bytes)
            break
    return sink.findings
