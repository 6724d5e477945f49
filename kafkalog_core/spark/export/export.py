"""`export`: the records of partitions as Parquet files by topic and partition; the next run adds what is new.

The state, up to which offset each partition is exported, is part of the commit that adds its files. So no record is
lost or doubled when a run is killed or a task runs twice. Damage is reported as findings; the whole records around it
are exported.
"""

from __future__ import annotations

import re
from contextlib import closing
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from kafkalog_core.engine.decoded import AUTO
from kafkalog_core.engine.parts import grouped
from kafkalog_core.errors import LockedError
from kafkalog_core.findings import found
from kafkalog_core.format.layout import MAX_BATCH_BYTES
from kafkalog_core.kafka.sim.logfiles import Checkpoints
from kafkalog_core.ops.dump.runs import DumpRequest
from kafkalog_core.output import tables
from kafkalog_core.output.chunk import RowChunk
from kafkalog_core.progress import NO_PROGRESS
from kafkalog_core.refusals import WayOut
from kafkalog_core.spark.export.plan import TASK_BYTES, PartitionExport, folder_of
from kafkalog_core.spark.export.start import LOWEST_OFFSET, ExportOptions, find_logs, find_start
from kafkalog_core.spark.export.task import (
    ExportState,
    ExportTask,
    Kept,
    NewRecordFile,
    PartitionShare,
    keep_others,
    run_export_task,
)
from kafkalog_core.spark.lake.output import OutputKind, OutputRun, refuse_inside
from kafkalog_core.spark.lake.plain import FORMATS, PlainRun
from kafkalog_core.spark.lake.tables import TableFile, TableSpec
from kafkalog_core.spark.session.schema import EXPORTED, spark_text
from kafkalog_core.storage.scan import ScanOptions
from kafkalog_core.structs import Struct, field

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

    from kafkalog_core.engine.pool import Workers
    from kafkalog_core.engine.report import Report
    from kafkalog_core.engine.targets import Target
    from kafkalog_core.findings import Finding
    from kafkalog_core.progress import Progress
    from kafkalog_core.spark.export.plan import WorkItem
    from kafkalog_core.spark.export.task import ExportTaskResult, Name, PartitionState
    from kafkalog_core.spark.lake.parquet import Compression
    from kafkalog_core.spark.lake.store import Store
    from kafkalog_core.storage.changing.writer import Disk

__all__ = ["COMMIT_BYTES", "EXPORT_KIND", "ExportOptions", "ExportRequest", "export"]

_FINDINGS: Final = TableSpec(
    name="findings", table=tables.FINDING, description="What kafkalog spark export found in the logs."
)
EXPORT_KIND: Final = OutputKind(
    name="export",
    head=TableSpec(
        name="records",
        table=EXPORTED,
        description="Records of Kafka's logs, written by kafkalog spark export.",
        never_null=("offset",),
    ),
    others=(_FINDINGS,),
    cures=(
        WayOut("export again, which lists them", "kafkalog spark export --to {place} PATH"),
        WayOut("write them again", "kafkalog spark export --reload --to {place} PATH"),
    ),
)
COMMIT_BYTES: Final = 16 * 1024 * 1024 * 1024
_HIGHEST_OFFSET: Final = (1 << 63) - 1
_RUN_ID: Final = re.compile(r"[A-Za-z0-9-]{1,64}")


class ExportRequest(Struct, frozen=True, kw_only=True):
    """What to export, and where to write it.

    Args:
        targets: partitions and log directories, from `targets.resolve`.
        output: where the export is: new, empty, or from an earlier run. Without its `syncs` a power failure may
            leave a commit with incomplete files; a killed process does not.
        format: `delta`, or `parquet`: plain files, once, in a new or empty directory.
        asked: where to begin, and what to do with a log other than the exported one.
        compression: codec of the Parquet files.
        task_bytes: approximate bytes of log that a task reads and a file holds, of one partition or many small ones.
        commit_bytes: approximate bytes of log between commits; plain files have one, at the end.
        max_batch_bytes: size limit of a batch, stored and decompressed, in bytes.
        resync: whether to search for whole batches after damage.
        committed: whether only what a read_committed consumer gets is exported, up to the last stable offset.
    """

    targets: tuple[Target, ...]
    output: Store
    format: Literal["delta", "parquet"] = "delta"
    asked: ExportOptions = field(default_factory=ExportOptions)
    compression: Compression = "snappy"
    task_bytes: int = TASK_BYTES
    commit_bytes: int = COMMIT_BYTES
    max_batch_bytes: int = MAX_BATCH_BYTES
    resync: bool = True
    committed: bool = False

    @property
    def reading(self) -> DumpRequest:
        """How logs are read."""
        return DumpRequest(
            targets=(), level="records", max_batch_bytes=self.max_batch_bytes, resync=self.resync, decode=AUTO
        )


def export(
    workers: Workers,
    request: ExportRequest,
    report: Report,
    *,
    run_id: str,
    now_ms: int,
    progress: Progress = NO_PROGRESS,
    disk: Disk | None = None,
) -> Generator[RowChunk, None, None]:
    """Yield findings and one `export` row a partition, each after the commit that contains what it reports.

    Args:
        workers: read the logs and write the files: `SparkWorkers` or others.
        request: what to export, and where to write it.
        report: counts; complete when the iterator is exhausted.
        run_id: letters, digits and dashes, unique among the runs of an export.
        now_ms: time of the commits, in ms since 1970.
        progress: receives the bytes of log to read; `workers` report the bytes read.
        disk: makes all changes of the output; None: a plain `Disk`.

    Raises RefusedError if the output holds something else or a partition is there twice, LockedError if another run is
    writing, StorageError, UnfinishedError.
    """
    if not _RUN_ID.fullmatch(run_id):
        raise ValueError(f"a run id has 1 to 64 letters, digits and dashes: {run_id!r}")
    # Before anything is created: the next run would take the output for a partition.
    refuse_inside(request.output, [target.path for target in request.targets])
    # Listed by the driver alone: all tasks must agree on which files there are.
    logs, findings = find_logs(request.targets)
    with FORMATS[request.format](request.output, EXPORT_KIND, run_id, disk) as lake:
        states = ExportState.from_json(lake.output.state, request.output.root)
        checkpoints, options = Checkpoints(), ScanOptions(max_batch_bytes=request.max_batch_bytes)
        plans = []
        for log in logs:
            before = states.of.get((log.topic, log.partition))
            start = find_start(log, before, request.asked, checkpoints, options)
            plans.append(PartitionExport(log, before, start, request.reading))
        run = _Export(workers, request, report, progress, lake, now_ms, states, checkpoints)
        yield from run.all_of(plans, findings)


_MOST_PARTS: Final = 2000
"""Of one task: with more, it would take long after all others have ended."""


class _Todo(NamedTuple):
    """Work of a partition, with the number of the partition."""

    number: int
    plan: PartitionExport
    work: WorkItem

    @property
    def size_bytes(self) -> int:
        """Bytes of log to read."""
        return self.work.size_bytes


class _Replaced(NamedTuple):
    """A file that is removed, the one with the rows that are kept, and the numbers of the partitions reloaded of it."""

    file: TableFile
    new: TableFile | None
    first: int
    last: int


def _lowest(file: TableFile) -> int:
    return int(file.bounds["offset"][0]) if "offset" in file.bounds else LOWEST_OFFSET


def _highest(file: TableFile) -> int:
    return int(file.bounds["offset"][1]) if "offset" in file.bounds else _HIGHEST_OFFSET


class _Export(Struct):
    workers: Workers
    request: ExportRequest
    report: Report
    progress: Progress
    lake: OutputRun | PlainRun
    now_ms: int
    states: ExportState
    checkpoints: Checkpoints
    adds: list[TableFile] = field(default_factory=list)
    """New files since the last commit."""
    removes: list[TableFile] = field(default_factory=list)
    """Files that the next commit removes."""
    replaced: list[_Replaced] = field(default_factory=list)
    """Files of earlier runs with rows that are exported again."""
    changed: dict[Name, PartitionState | None] = field(default_factory=dict)
    """Partitions whose state has changed since the last commit, with the state that was committed last."""
    file_count: int = 0
    log_bytes: int = 0
    """Bytes of log read since the last commit."""
    records: int = 0
    """Records written since the last commit."""
    findings: list[Finding] = field(default_factory=list)
    """Findings that are not committed yet."""
    done: list[PartitionExport] = field(default_factory=list)
    """Partitions finished since the last commit."""

    def all_of(self, plans: list[PartitionExport], findings: list[Finding]) -> Iterator[RowChunk]:
        """Export all partitions, in order."""
        self.findings += findings
        self.report.expect(partitions=len(plans))
        if self.request.committed:
            self._view(plans)
        # Files with rows that are exported again are known before the work, because `_is_due` must not commit in
        # between.
        self.replaced = self._reload(plans)
        self.findings += self._lost()
        todo = [
            [_Todo(number, plan, work) for work in plan.work(self.request.task_bytes)]
            for number, plan in enumerate(plans)
        ]
        left = [len(works) for works in todo]
        size_bytes = sum(each.size_bytes for works in todo for each in works)
        self.report.expect(files=sum(plan.files_to_read for plan in plans), size_bytes=size_bytes)
        self.progress.expect(size_bytes)
        tasks = list(self._tasks(todo))
        finished = 0
        # Closed with the loop: after an error no further task begins.
        with closing(self._results(tasks)) as results:
            for task in tasks:
                self._take(task, next(results))
                for each in task:
                    left[each.number] -= 1
                while finished < len(plans) and not left[finished]:
                    # In order, so that a commit never contains a later partition without the earlier ones.
                    self._finish(finished, plans[finished])
                    finished += 1
                begun = plans[finished] if finished < len(plans) and left[finished] < len(todo[finished]) else None
                if self._is_due(finished, begun):
                    if begun is not None:
                        # A partition in work is saved with what its tasks have read so far; the next run continues
                        # there.
                        self._save(begun)
                    yield from self._commit()
        # Partitions without work are finished too: they may have findings.
        for number in range(finished, len(plans)):
            self._finish(number, plans[number])
        yield from self._commit()

    def _is_due(self, finished: int, begun: PartitionExport | None) -> bool:
        """Return whether to commit now, in the middle of the work.

        Readers must never see a row twice: the rows of files that are replaced come with the commit that removes these.

        Args:
            finished: number of partitions that are exported.
            begun: the next one, if something of it is; None: nothing is.
        """
        # Plain files have one commit, at the end.
        if self.lake.is_once or self.log_bytes < self.request.commit_bytes:
            return False
        if begun is not None and begun.is_reloading:
            return False
        # Readers must never see a row twice: no commit between the first and the last partition of a replaced file.
        return not any(each.first < finished <= each.last for each in self.replaced)

    def _view(self, plans: list[PartitionExport]) -> None:
        """Find out what a read_committed consumer gets of each partition that is read."""
        from kafkalog_core.spark.export.outcomes import read_view  # noqa: PLC0415 -- pyarrow: where there is work for it

        read = [plan for plan in plans if plan.log.unit.files and not plan.log.is_v07 and not plan.start.is_stopped]
        tasks = ((plan.log.unit, plan.start.next_offset, self.request.reading.scan_options) for plan in read)
        for plan, (view, findings) in zip(read, self.workers.map(read_view, tasks), strict=True):
            plan.view = view
            plan.add(findings)

    # --- files of earlier runs ----------------------------------------------------------------------------------------
    def _reload(self, plans: list[PartitionExport]) -> list[_Replaced]:
        """Return the files with rows that are exported again; they are rewritten if they have others too."""
        low_of = {
            plan.name: (number, low)
            for number, plan in enumerate(plans)
            if (low := plan.start.reloads_from) is not None
        }
        # Nothing is reloaded: no file of an earlier run needs a look.
        if not low_of:
            return []
        missing = self.lake.output.lost("records", self.lake.listed)
        found: list[tuple[TableFile, list[Name]]] = []
        tasks = []
        for file in self.lake.output.files("records").values():
            drops = [name for name in low_of if self._may_hold(file, name) and _highest(file) >= low_of[name][1]]
            # By bounds alone, without opening a file: most files have no row of a reloaded partition.
            if not drops:
                continue
            found.append((file, drops))
            if not self._is_removed_whole(file, drops, low_of, is_missing=file.name in missing):
                tasks.append(
                    (file.name, tuple((*name, low_of[name][1]) for name in drops), self._new_file(file.values))
                )
        results = self.workers.map(keep_others, tasks) if tasks else ()
        rewritten = {task[0]: kept for task, kept in zip(tasks, results, strict=True)}
        replaced = []
        for file, drops in found:
            kept = rewritten.get(file.name) or Kept(None, {drops[0]: file.rows})
            # Its bounds include the partition, but it has no row of it
            if not kept.removed:
                continue
            numbers = [low_of[name][0] for name in kept.removed]
            replaced.append(_Replaced(file, kept.file, min(numbers), max(numbers)))
            for name, rows in kept.removed.items():
                plan = plans[low_of[name][0]]
                plan.removed_files += 1
                plan.removed_records += rows
        return replaced

    def _may_hold(self, file: TableFile, name: Name) -> bool:
        """Return whether a file may have rows of a partition, by what the table's log says of it."""
        topic, partition = spark_text(name[0]), name[1]
        # A table of an earlier build has the partition in the names of its directories.
        if file.values:
            return file.values["topic"] == topic and file.values["partition"] == str(partition)
        low, high = file.bounds.get("topic", (topic, topic))
        first, last = file.bounds.get("partition", (partition, partition))
        return bool(low <= topic <= high and first <= partition <= last)

    def _is_removed_whole(
        self, file: TableFile, drops: list[Name], low_of: Mapping[Name, tuple[int, int]], *, is_missing: bool
    ) -> bool:
        """Return whether no row of a file is kept: it has rows of one partition, or is missing and all are reloaded."""
        others = [name for name in self.states.of if name not in drops and self._may_hold(file, name)]
        # Rows of others are kept, so the file must be rewritten.
        if others or any(_lowest(file) < low_of[name][1] for name in drops):
            return False
        return len(drops) == 1 or is_missing

    def _lost(self) -> Iterator[Finding]:
        """Yield findings about files of earlier runs that were deleted or changed, except those removed now."""
        removed = {each.file.name for each in self.replaced}
        for name, file in self.lake.output.lost("records", self.lake.listed).items():
            if name not in removed:
                first, last = file.bounds.get("offset", (None, None))
                held = [each for each in self.states.of if self._may_hold(file, each)]
                topic, partition = held[0] if len(held) == 1 else (None, None)
                yield found(
                    "export.file-lost",
                    self.lake.store.path(f"records/{name}"),
                    topic=topic,
                    partition=partition,
                    offset=first,
                    last=last,
                    records=file.rows,
                )

    # --- the work -----------------------------------------------------------------------------------------------------
    def _new_file(self, values: Mapping[str, str]) -> NewRecordFile:
        self.file_count += 1
        return NewRecordFile(
            store=self.lake.store.below("records"),
            run=self.lake.run_id,
            stem=f"part-{self.file_count:06}",
            folder=folder_of(values),
            values=values,
            compression=self.request.compression,
        )

    def _tasks(self, todo: list[list[_Todo]]) -> Iterator[tuple[_Todo, ...]]:
        """Group small partitions into one task, unless each partition has its own folder."""
        works = chain.from_iterable(todo)
        # A folder for each partition: one file cannot hold rows of two.
        if self.lake.output.partitioned_by("records"):
            return ((each,) for each in works)
        return grouped(works, self.request.task_bytes, _MOST_PARTS)

    def _results(self, tasks: list[tuple[_Todo, ...]]) -> Generator[ExportTaskResult, None, None]:
        """Yield the results of the tasks; closing the generator ends the work."""
        yield from self.workers.map(run_export_task, self._export_tasks(tasks))

    def _export_tasks(self, tasks: list[tuple[_Todo, ...]]) -> Iterator[tuple[ExportTask]]:
        """Yield the tasks as the workers take them."""
        is_partitioned = bool(self.lake.output.partitioned_by("records"))
        for task in tasks:
            shares = tuple(
                PartitionShare(file_parts=each.work.file_parts, request=each.work.request, view=each.plan.view)
                for each in task
            )
            values = task[0].plan.values if is_partitioned else {}
            yield (ExportTask(shares=shares, new=self._new_file(values)),)

    def _take(self, task: tuple[_Todo, ...], result: ExportTaskResult) -> None:
        if result.file is not None:
            self.adds.append(result.file)
            self.records += result.file.rows
            self.report.records += result.file.rows
        # The results are in the order of the shares of the task.
        for each, share in zip(task, result.results, strict=True):
            each.plan.take(each.work, share, result.file)
            self.log_bytes += share.totals["bytes"]
            for name in ("bytes", "batches", "damage_count", "damage_bytes"):
                setattr(self.report, name, getattr(self.report, name) + share.totals[name])

    def _finish(self, number: int, plan: PartitionExport) -> None:
        plan.finish(self.checkpoints)
        for each in self.replaced:
            # In one commit, so that readers never see a row twice
            if each.last == number:
                self.removes.append(each.file)
                self.adds += [] if each.new is None else [each.new]
        self._save(plan)
        self.done.append(plan)
        self.report.partitions += 1
        self.report.files += plan.files_read

    def _save(self, plan: PartitionExport) -> None:
        """Put the state and the findings of a partition into the next commit."""
        self.findings += plan.take_findings()
        # A partition that has not moved adds nothing to the state, and then there is no empty commit.
        if plan.has_moved:
            self.changed.setdefault(plan.name, self.states.of.get(plan.name))
            self.states.of[plan.name] = plan.state

    def _commit(self) -> Iterator[RowChunk]:
        """Commit if anything is new, or if this is the one commit, and yield the rows about it."""
        findings, self.findings = self.findings, []
        # A commit that changes nothing would still be a version for every reader.
        moved = {name for name, before in self.changed.items() if self.states.of[name] != before}
        if self.adds or self.removes or moved or self.lake.is_once:
            waiting = {"findings": [self._findings_file(findings)]} if findings else {}
            self.lake.commit(
                self._merged,
                self.adds,
                self.removes,
                now_ms=self.now_ms,
                # Kafka's offsets as Delta transactions: SQL can read how far each partition is exported.
                transactions={
                    f"kafkalog/{topic}-{number}": self.states.of[topic, number].next_offset for topic, number in moved
                },
                pending=waiting,
                facts={"records": self.records, "log_bytes": self.log_bytes, "findings": len(findings)},
            )
            self.adds, self.removes = [], []
        self.changed.clear()
        self.log_bytes = self.records = 0
        if findings:
            for finding in findings:
                self.report.add_finding(finding.row(), count=1 + finding.more)
            # After the commit: a finding that is yielded is also in the table.
            yield self._counted(RowChunk(tables.FINDING, [finding.row() for finding in findings]))
        done, self.done = self.done, []
        if done:
            yield self._counted(RowChunk(tables.EXPORT, [plan.row() for plan in done]))

    def _merged(self, latest: dict[str, Any]) -> dict[str, Any]:
        """Return the state with what this run has moved. Raises LockedError if another run moved the same partition."""
        states = ExportState.from_json(latest, self.request.output.root)
        for name, before in self.changed.items():
            # Compared with the state that this run began with: another run may have committed other partitions, but not
            # these.
            if states.of.get(name) != before:
                raise LockedError(
                    f"another run has exported {name[0]}-{name[1]} since this one began; nothing of it is lost, and "
                    "nothing is there twice; run the same command again",
                    path=self.request.output.root,
                )
            states.of[name] = self.states.of[name]
        return states.to_json()

    def _findings_file(self, findings: list[Finding]) -> TableFile:
        """Write the findings as a file of their table, and return it."""
        from kafkalog_core.spark.lake.parquet import write_table  # noqa: PLC0415 -- pyarrow: where there is work for it

        rows = [finding.row() for finding in findings]
        return write_table(
            self.lake.store, "findings", self.lake.run_id, tables.FINDING, rows, self.request.compression
        )

    def _counted(self, chunk: RowChunk) -> RowChunk:
        self.report.rows += chunk.count
        return chunk
