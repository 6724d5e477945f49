"""`kafkalog transactions`: the transactions on some disks, what they hold back, and who ends them."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from kafkalog_core.engine.pool import run_all
from kafkalog_core.engine.targets import LogDirTarget
from kafkalog_core.errors import SelectionError, StorageError
from kafkalog_core.findings.broker_actions import START_ACTIONS
from kafkalog_core.findings.logs import LOG_DAMAGE
from kafkalog_core.format.layout import MAX_BATCH_BYTES
from kafkalog_core.format.names import DirectoryState
from kafkalog_core.kafka.sim.cluster import read_cluster
from kafkalog_core.kafka.sim.copies import PartitionCopy, check_one_cluster, copies_on_disk
from kafkalog_core.kafka.sim.evidence import infer_release
from kafkalog_core.kafka.sim.logdir.top_files import PartitionContext
from kafkalog_core.ops.transactions.coordinator import CopiesByPartition, grouped, read_coordinators
from kafkalog_core.ops.transactions.judgement import KINDS, Judge, Verdict, abort_command, search_command
from kafkalog_core.ops.transactions.open_transactions import CopyTask, damage_in, read_copy_state, tail_bytes
from kafkalog_core.output import tables
from kafkalog_core.output.chunk import RowChunk
from kafkalog_core.progress import NO_PROGRESS
from kafkalog_core.storage.locks import lock_holder
from kafkalog_core.storage.scan import ScanOptions
from kafkalog_core.structs import Struct
from kafkalog_core.text import count_of, first_of, names_near
from kafkalog_core.topics.transactions import TRANSACTIONS_TOPIC

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence

    from kafkalog_core.engine.pool import Workers
    from kafkalog_core.engine.report import Report
    from kafkalog_core.engine.targets import Target
    from kafkalog_core.format.names import TopicPartition
    from kafkalog_core.kafka.rules.releases import Release
    from kafkalog_core.kafka.sim.logdir.top_files import BrokerDir
    from kafkalog_core.ops.transactions.coordinator import Coordinators
    from kafkalog_core.ops.transactions.open_transactions import CopyState, MarkerDamage, OpenTransaction
    from kafkalog_core.progress import Progress
    from kafkalog_core.topics.transactions import TransactionValue

__all__ = ["TransactionsFound", "TransactionsRequest", "transactions"]

_NOTED_PROBLEMS: Final = 10
Row = dict[str, object]


class TransactionsRequest(Struct, frozen=True, kw_only=True):
    """What to look for.

    Args:
        targets: log directories and partition directories, from `targets.resolve`.
        now_ms: the time that counts as now, in milliseconds since 1970.
        producer_ids: only the transactions of these producers, with those that have ended; empty: all that are open.
        transactional_ids: only those of these transactional ids, likewise.
        kafka: the release of the brokers; None: as their directories show.
        jobs: the most processes.
        max_batch_bytes: larger batches are damage.
    """

    targets: tuple[Target, ...]
    now_ms: int
    producer_ids: frozenset[int] = frozenset()
    transactional_ids: frozenset[str] = frozenset()
    kafka: str | None = None
    jobs: int = 1
    max_batch_bytes: int = MAX_BATCH_BYTES

    @property
    def is_narrow(self) -> bool:
        """Whether it asks for some producers only."""
        return bool(self.producer_ids or self.transactional_ids)


class TransactionsFound(Struct, frozen=True, kw_only=True):
    """The result.

    Args:
        now_ms: the time that counted as now.
        transactions: `transaction` rows, those first that an operator has to act on.
        parts: `transaction_part` rows: the part of a transaction in one copy of a partition.
        held: `stable_offset` rows: the copies of partitions whose last stable offset is held back.
        damage: `damage` rows of places that may hide markers.
        findings: `finding` rows of what cannot be read.
        notes: sentences about what the result depends on.
        partitions: number of partitions whose logs were read.
        is_narrow: whether only some producers were asked for.
    """

    now_ms: int
    transactions: tuple[Row, ...]
    parts: tuple[Row, ...]
    held: tuple[Row, ...]
    damage: tuple[Row, ...]
    findings: tuple[Row, ...]
    notes: tuple[str, ...]
    partitions: int
    is_narrow: bool

    def chunks(self) -> Iterator[RowChunk]:
        """Yield all rows, table by table."""
        for table, rows in (
            (tables.TRANSACTION, self.transactions),
            (tables.TRANSACTION_PART, self.parts),
            (tables.STABLE_OFFSET, self.held),
            (tables.DAMAGE, self.damage),
            (tables.FINDING, self.findings),
        ):
            if rows:
                yield RowChunk(table, rows)


def transactions(
    request: TransactionsRequest, report: Report, progress: Progress = NO_PROGRESS, *, workers: Workers | None = None
) -> Generator[TransactionsFound, None, None]:
    """Yield the one result.

    Args:
        request: what to look for.
        report: counts what was read and every row.
        progress: shows the bytes that are read, except by `workers`.
        workers: they read the logs; None: this process does, and as many others as the request has jobs.

    Raises SelectionError for a single file and for unknown ids, RefusedError for disks of two clusters, StorageError.
    """
    disks = copies_on_disk(request.targets, advice="name the directory of its partition, not a single file")
    copies, brokers = disks.copies, disks.brokers
    check_one_cluster(brokers, "kafkalog transactions", "whose transactional ids must not be mixed")
    cluster = read_cluster(brokers)
    known = read_coordinators(_state_copies(request.targets, brokers, copies), cluster, request.max_batch_bytes)
    judge = Judge(known, request.now_ms)
    wanted = _wanted(request, known)
    partitions, others = grouped(copies, cluster)
    tasks = list(_tasks(partitions, wanted, request.max_batch_bytes))
    report.expect(partitions=len(tasks))
    size_bytes = sum(task.size_bytes for task in tasks)
    progress.expect(size_bytes)
    pieces = [(task,) for task in tasks]
    if workers is None:
        states = list(run_all(read_copy_state, pieces, request.jobs, size_bytes, progress))
    else:
        states = list(workers.map(read_copy_state, pieces))
    log_dirs = {copy.place.path: copy.log_dir or copy.place.path for copy in copies}
    _check_producers(request, known, states)
    joined = _Joined(known, judge, states, _Releases(request.kafka, log_dirs), wanted if request.is_narrow else None)
    damage = [*_damage_rows(states), *_state_damage_rows(known, request.max_batch_bytes)]
    found = TransactionsFound(
        now_ms=request.now_ms,
        transactions=tuple(joined.transaction_rows()),
        parts=tuple(joined.part_rows()),
        held=tuple(joined.held_rows()),
        damage=tuple(damage),
        findings=tuple(finding.row() for state in states for finding in state.findings),
        notes=(*_notes(known, is_counted=cluster is not None), *_other_notes(copies, others, brokers)),
        partitions=len({(task.topic, task.partition) for task in tasks}),
        is_narrow=request.is_narrow,
    )
    _count(found, states, report)
    yield found


# --- what is read -----------------------------------------------------------------------------------------------------
def _state_copies(
    targets: Sequence[Target], brokers: dict[str, BrokerDir], copies: Sequence[PartitionCopy]
) -> list[PartitionCopy]:
    """Return the copies of partitions of `__transaction_state` in all directories, whatever was selected in them."""
    found = {each.place.path: each for each in copies if each.place.name.topic == TRANSACTIONS_TOPIC}
    for path, broker in brokers.items():
        for place in broker.log_dir.partitions:
            if place.name.topic == TRANSACTIONS_TOPIC:
                found.setdefault(place.path, PartitionCopy(place, path, broker.context(place.name)))
    for target in targets:
        for place in target.log_dir.partitions if isinstance(target, LogDirTarget) else ():
            if place.name.topic == TRANSACTIONS_TOPIC:
                found.setdefault(place.path, PartitionCopy(place, None, PartitionContext()))
    return list(found.values())


def _tasks(partitions: CopiesByPartition, wanted: frozenset[int], max_batch_bytes: int) -> Iterator[CopyTask]:
    """Yield a task for each copy; partitions of `__transaction_state` have no transactions."""
    for (topic, number), copies in partitions.items():
        for copy in copies if topic != TRANSACTIONS_TOPIC else ():
            yield CopyTask(
                topic=topic,
                partition=number,
                path=copy.place.path,
                context=copy.context,
                max_batch_bytes=max_batch_bytes,
                producer_ids=wanted,
                has_others=len(copies) > 1,
                size_bytes=tail_bytes(copy.place.path, is_whole=bool(wanted)),
            )


def _wanted(request: TransactionsRequest, known: Coordinators) -> frozenset[int]:
    """Return the producer ids that are asked for. Raises SelectionError for an unknown transactional id."""
    wanted = set(request.producer_ids)
    for name in sorted(request.transactional_ids):
        value = known.transactions.get(name)
        if value is None:
            raise SelectionError(f"no transactional id {name!r} here; {_describe_ids(known, name)}")
        wanted |= {value.producer_id, value.previous_producer_id} - {-1}
    return frozenset(wanted)


def _describe_ids(known: Coordinators, name: str) -> str:
    if not known.logs:
        return known.gap()
    near = names_near(name, known.transactions) or sorted(known.transactions)
    there = f"there are {first_of(near)}" if near else f"{TRANSACTIONS_TOPIC} has none"
    return there if known.is_whole else f"{there}, but {known.gap()}"


def _check_producers(request: TransactionsRequest, known: Coordinators, states: Iterable[CopyState]) -> None:
    """Raise SelectionError for a producer that neither a log nor a coordinator knows."""
    there = {*known.by_producer(), *known.by_former_producer()}
    for state in states:
        there |= {*state.producer_ids, *state.aborted, *(each.producer_id for each in state.ended)}
    unknown = sorted(request.producer_ids - there)
    if unknown:
        raise SelectionError(f"no log here has a producer {first_of(list(map(str, unknown)))}")


class _Releases:
    """The release of the brokers of each log directory, found when it is needed.

    Args:
        kafka: the release as given; None: as the files show.
        log_dirs: the log directory of each partition directory.
    """

    def __init__(self, kafka: str | None, log_dirs: dict[str, str]) -> None:
        self._kafka = kafka
        self._log_dirs = log_dirs
        self._found: dict[str, Release] = {}

    def of(self, path: str) -> Release:
        """Return the release of the broker of a partition directory."""
        log_dir = self._log_dirs[path]
        if log_dir not in self._found:
            self._found[log_dir] = infer_release(log_dir, kafka=self._kafka).release
        return self._found[log_dir]


# --- rows -------------------------------------------------------------------------------------------------------------
class _Joined:
    """The rows of open transactions, joined with what coordinators know.

    Args:
        known: what coordinators know.
        judge: decides who ends a transaction.
        states: of all copies.
        releases: of their brokers.
        wanted: the producer ids that are asked for; None: all.
    """

    def __init__(
        self,
        known: Coordinators,
        judge: Judge,
        states: Sequence[CopyState],
        releases: _Releases,
        wanted: frozenset[int] | None,
    ) -> None:
        self._known = known
        self._judge = judge
        self._states = states
        self._releases = releases
        self._wanted = wanted
        self._best: dict[TopicPartition, CopyState] = {}
        for state in states:
            best = self._best.get(_place(state))
            if best is None or state.rank > best.rank:
                self._best[_place(state)] = state
        self._verdicts = {
            (state.task.path, each.producer_id): self._verdict(state, each) for state in states for each in state.open
        }

    def _verdict(self, state: CopyState, each: OpenTransaction) -> Verdict:
        verdict = self._judge.of_open(*_place(state), each.producer_id, is_certain=each.is_certain)
        if state.forgets:
            verdict = verdict._replace(action=START_ACTIONS["txn-forgotten"].text)
        best = self._best[_place(state)]
        if best is state or any((each.producer_id, each.first_offset) == _key(other) for other in best.open):
            return verdict
        action = f"Fetches its marker: the copy {best.task.path}, with which a cluster goes on, does not have it open."
        return Verdict(verdict.name or self._judge.name_of(each.producer_id), "lagging", action)

    def _is_wanted(self, producer_id: int) -> bool:
        return self._wanted is None or producer_id in self._wanted

    # --- transactions -------------------------------------------------------------------------------------------------
    def transaction_rows(self) -> Iterator[Row]:
        """Yield a row for each transactional id, and for each producer of none with an open transaction."""
        rows = [*self._named_rows(), *self._nameless_rows()]
        rows.sort(key=lambda row: str(row["transactional_id"] or ""))
        yield from sorted(rows, key=lambda row: KINDS.index(row["kind"]))

    def _open_parts(self) -> Iterator[tuple[CopyState, OpenTransaction, Verdict]]:
        """Yield the open transactions in the copies that a cluster goes on with."""
        for state in self._best.values():
            for each in state.open:
                yield state, each, self._verdicts[state.task.path, each.producer_id]

    def _named_rows(self) -> Iterator[Row]:
        of_name: dict[str, list[tuple[CopyState, OpenTransaction, Verdict]]] = {}
        for part in self._open_parts():
            if part[2].name is not None:
                of_name.setdefault(part[2].name, []).append(part)
        aborted = Counter[int]()
        for state in self._best.values():
            aborted.update(state.aborted)
        for name, value in self._known.transactions.items():
            if not {value.producer_id, value.previous_producer_id}.isdisjoint(self._wanted or {value.producer_id}):
                yield self._named_row(name, value, of_name.get(name, []), aborted[value.producer_id])

    def _named_row(
        self,
        name: str,
        value: TransactionValue,
        parts: Sequence[tuple[CopyState, OpenTransaction, Verdict]],
        aborted: int,
    ) -> Row:
        kind, action = self._judge.kind_of(value), self._judge.action(value)
        worst = min((verdict for _, _, verdict in parts), key=lambda each: KINDS.index(each.kind), default=None)
        if worst is not None and KINDS.index(worst.kind) < KINDS.index(kind):
            kind, action = worst.kind, worst.action
        return {
            "transactional_id": name,
            "producer_id": value.producer_id,
            "producer_epoch": value.producer_epoch,
            "kind": kind,
            "state": value.state.text,
            "timeout_ms": value.timeout_ms,
            "start_time_ms": _time(value.start_ms),
            "update_time_ms": _time(value.update_ms),
            "partitions": _names(value.partitions),
            "open_in": _names(_place(state) for state, _, _ in parts),
            "absent": _names(each for each in value.partitions if each not in self._best),
            "aborted": aborted,
            "broker_action": action,
        }

    def _nameless_rows(self) -> Iterator[Row]:
        of_producer: dict[int, list[tuple[CopyState, OpenTransaction, Verdict]]] = {}
        for part in self._open_parts():
            if part[2].name is None and self._is_wanted(part[1].producer_id):
                of_producer.setdefault(part[1].producer_id, []).append(part)
        for producer_id, parts in of_producer.items():
            verdict = min((each for _, _, each in parts), key=lambda each: KINDS.index(each.kind))
            yield {
                "transactional_id": None,
                "producer_id": producer_id,
                "producer_epoch": max(each.producer_epoch for _, each, _ in parts),
                "kind": verdict.kind,
                "open_in": _names(_place(state) for state, _, _ in parts),
                "aborted": sum(state.aborted.get(producer_id, 0) for state in self._best.values()),
                "broker_action": verdict.action,
            }

    # --- parts in copies of partitions --------------------------------------------------------------------------------
    def part_rows(self) -> Iterator[Row]:
        """Yield a row for each open transaction in each copy of a partition, with those that have ended before it."""
        for state in self._states:
            yield from (self._ended_row(state, number) for number in range(len(state.ended)))
            yield from (self._open_row(state, each) for each in state.open if self._is_wanted(each.producer_id))

    def _copy_cells(self, state: CopyState) -> Row:
        task = state.task
        is_chosen = self._best[_place(state)] is state
        return {"topic": task.topic, "partition": task.partition, "path": task.path, "is_chosen": is_chosen}

    def _open_row(self, state: CopyState, each: OpenTransaction) -> Row:
        verdict, task = self._verdicts[state.task.path, each.producer_id], state.task
        command = None
        if verdict.kind == "hanging":
            command = abort_command(task.topic, task.partition, each, self._releases.of(task.path))
        elif verdict.kind == "undecided":
            command = search_command(task.topic, task.partition)
        return self._copy_cells(state) | {
            "transactional_id": verdict.name,
            "producer_id": each.producer_id,
            "producer_epoch": each.producer_epoch,
            "coordinator_epoch": each.coordinator_epoch,
            "kind": verdict.kind,
            "first_offset": each.first_offset,
            "first_timestamp_ms": each.first_timestamp_ms,
            "last_timestamp_ms": each.last_timestamp_ms,
            "records": each.records,
            "broker_action": verdict.action,
            "next_command": command,
        }

    def _ended_row(self, state: CopyState, number: int) -> Row:
        each = state.ended[number]
        return self._copy_cells(state) | {
            "transactional_id": self._judge.name_of(each.producer_id),
            "producer_id": each.producer_id,
            "kind": "aborted" if each.is_aborted else "committed",
            "first_offset": each.first_offset,
            "last_offset": each.last_offset,
            "is_listed": each.is_listed if each.is_aborted else None,
        }

    # --- last stable offsets ------------------------------------------------------------------------------------------
    def held_rows(self) -> Iterator[Row]:
        """Yield a row for each copy of a partition whose last stable offset is held back, those with most first."""
        rows = [
            self._held_row(state, certain)
            for state in self._states
            if (certain := [each for each in state.open if each.is_certain]) and self._is_wanted(certain[0].producer_id)
        ]
        yield from sorted(rows, key=lambda row: -int(str(row["waiting_records"])))

    def _held_row(self, state: CopyState, certain: Sequence[OpenTransaction]) -> Row:
        first = certain[0]
        verdict = self._verdicts[state.task.path, first.producer_id]
        value = None if verdict.name is None else self._known.transactions.get(verdict.name)
        is_current = value is not None and _place(state) in value.partitions
        return self._copy_cells(state) | {
            "log_start_offset": state.log_start_offset,
            "last_stable_offset": state.last_stable_offset,
            "log_end_offset": state.end_offset,
            "high_watermark": state.task.context.high_watermark,
            "waiting_records": state.waiting_records,
            "last_timestamp_ms": state.last_timestamp_ms,
            "transactional_id": verdict.name,
            "producer_id": first.producer_id,
            "kind": verdict.kind,
            "start_time_ms": _time(value.start_ms) if value is not None and is_current else None,
            "first_timestamp_ms": first.first_timestamp_ms,
            "open_transactions": len(certain),
            "next_stable_offset": certain[1].first_offset if certain[1:] else state.end_offset,
        }


def _place(state: CopyState) -> TopicPartition:
    return state.task.topic, state.task.partition


def _key(each: OpenTransaction) -> tuple[int, int]:
    return each.producer_id, each.first_offset


def _time(time_ms: int) -> int | None:
    return None if time_ms < 0 else time_ms


def _names(places: Iterable[TopicPartition]) -> str:
    return ",".join(f"{topic}-{number}" for topic, number in sorted(places))


# --- damage and counts ------------------------------------------------------------------------------------------------
def _damage_rows(states: Iterable[CopyState]) -> Iterator[Row]:
    for state in states:
        for each in state.damage:
            yield _damage_row(state.task.topic, state.task.partition, each)


def _state_damage_rows(known: Coordinators, max_batch_bytes: int) -> Iterator[Row]:
    """Yield the damage in partitions of `__transaction_state` that were not read as a whole."""
    options = ScanOptions(max_batch_bytes=max_batch_bytes, resync=True)
    for number in known.problems:
        with suppress(StorageError):  # a note has the reason
            for each in damage_in(known.logs[number], options):
                yield _damage_row(TRANSACTIONS_TOPIC, number, each)


def _damage_row(topic: str, partition: int, each: MarkerDamage) -> Row:
    return {
        "topic": topic,
        "partition": partition,
        "segment": os.path.basename(each.path),
        "position": each.damage.position,
        "size_bytes": each.damage.size_bytes,
        "reason": each.damage.reason,
        "detail": each.damage.detail,
        "next_offset": each.damage.next_offset,
        "severity": LOG_DAMAGE[each.damage.reason].severity,
    }


def _notes(known: Coordinators, *, is_counted: bool) -> Iterator[str]:
    if not known.is_whole:
        yield f"the transactions of coordinators are not all known: {known.gap()}"
    elif not is_counted:
        count = count_of(len(known.logs), "partition")
        yield f"no metadata log here says how many partitions {TRANSACTIONS_TOPIC} has: {count} here count as all"
    yield from known.left_out
    for problems in known.problems.values():
        yield from problems[:_NOTED_PROBLEMS]
        if len(problems) > _NOTED_PROBLEMS:
            yield f"and {count_of(len(problems) - _NOTED_PROBLEMS, 'place')} more like these"


def _other_notes(
    copies: Sequence[PartitionCopy], others: Sequence[PartitionCopy], log_dirs: Iterable[str]
) -> Iterator[str]:
    """Yield sentences about directories that were not read, and about brokers that run."""
    for copy in others[:_NOTED_PROBLEMS]:
        yield f"not read: {copy.place.path}: of a topic that was deleted and created again"
    aside = sum(each.place.name.state is not DirectoryState.CURRENT for each in copies)
    if aside:
        yield f"not read: {count_of(aside, 'partition')} that a broker has set aside"
    for path in log_dirs:
        holder = lock_holder(path)
        if holder is not None:
            yield f"{path}: {holder.sentence}, holds the lock, so transactions begin and end meanwhile"


def _count(found: TransactionsFound, states: Iterable[CopyState], report: Report) -> None:
    for state in states:
        report.partitions += 1
        report.bytes += state.task.size_bytes
        for finding in state.findings:
            report.add_finding(finding.row())
    for row in found.damage:
        reason = str(row["reason"])
        report.add_damage(reason, int(str(row["size_bytes"])), LOG_DAMAGE[reason].severity)
    report.rows += sum(chunk.count for chunk in found.chunks())
