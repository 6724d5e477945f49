"""`export`: the records of partitions as Parquet files by topic and partition; the next run adds what is new.

The state, up to which offset each partition is exported, is part of the commit that adds its files. So no record is
lost or doubled when a run is killed or a task runs twice. Damage is reported as findings; the whole records around it
are exported.
"""

from __future__ import annotations

import re
from collections import defaultdict
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, Literal

from kafkalog_core.errors import LockedError
from kafkalog_core.findings import found
from kafkalog_core.format.layout import MAX_BATCH_BYTES
from kafkalog_core.kafka.sim.logfiles import Checkpoints
from kafkalog_core.output import tables
from kafkalog_core.output.chunk import RowChunk
from kafkalog_core.progress import NO_PROGRESS
from kafkalog_core.spark.export.plan import TASK_BYTES, PartitionExport
from kafkalog_core.spark.export.start import ExportOptions, find_logs, find_start
from kafkalog_core.spark.export.task import ExportState, ExportTask, NewRecordFile, keep_before, run_export_task
from kafkalog_core.spark.lake.output import OutputKind, OutputRun, refuse_inside
from kafkalog_core.spark.lake.plain import FORMATS, PlainRun
from kafkalog_core.spark.lake.tables import TableFile, TableSpec
from kafkalog_core.storage.scan import ScanOptions
from kafkalog_core.structs import Struct, field

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from kafkalog_core.engine.pool import Workers
    from kafkalog_core.engine.report import Report
    from kafkalog_core.engine.targets import Target
    from kafkalog_core.findings import Finding
    from kafkalog_core.progress import Progress
    from kafkalog_core.spark.export.plan import WorkItem
    from kafkalog_core.spark.export.task import ExportTaskResult, Name, PartitionState
    from kafkalog_core.spark.lake.store import Store
    from kafkalog_core.spark.session.parquet import Compression
    from kafkalog_core.storage.changing.writer import Disk

__all__ = ["COMMIT_BYTES", "EXPORT_KIND", "ExportOptions", "ExportRequest", "export"]

_FINDINGS: Final = TableSpec(
    name="findings", table=tables.FINDING, description="What kafkalog spark export found in the logs."
)
EXPORT_KIND: Final = OutputKind(
    name="export",
    head=TableSpec(
        name="records",
        table=tables.RECORD,
        partitioned_by=("topic", "partition"),
        description="Records of Kafka's logs, written by kafkalog spark export.",
        never_null=("offset",),
    ),
    others=(_FINDINGS,),
    cure="run kafkalog spark export again, which lists them, and with --reload to write them again",
)
COMMIT_BYTES: Final = 16 * 1024 * 1024 * 1024
_RUN_ID: Final = re.compile(r"[A-Za-z0-9-]{1,64}")


class ExportRequest(Struct, frozen=True, kw_only=True):
    """What to export, and where to write it.

    Args:
        targets: partitions and log directories, from `targets.resolve`.
        output: where the export is: new, empty, or that of an earlier run. Without its `syncs` a power failure may
            leave a commit with incomplete files; a killed process does not.
        format: `delta`, or `parquet`: plain files, once, in a new or empty directory.
        asked: where to begin, and what to do with a log that is not the one that was exported.
        compression: codec of the Parquet files.
        task_bytes: approximate bytes of log that one task reads and one file holds.
        commit_bytes: approximate bytes of log between commits; plain files have one, at the end.
        max_batch_bytes: size limit of a batch, stored and decompressed, in bytes.
    """

    targets: tuple[Target, ...]
    output: Store
    format: Literal["delta", "parquet"] = "delta"
    asked: ExportOptions = field(default_factory=ExportOptions)
    compression: Compression = "snappy"
    task_bytes: int = TASK_BYTES
    commit_bytes: int = COMMIT_BYTES
    max_batch_bytes: int = MAX_BATCH_BYTES


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
    refuse_inside(request.output, [target.path for target in request.targets])
    logs, findings = find_logs(request.targets)
    with FORMATS[request.format](request.output, EXPORT_KIND, run_id, disk) as lake:
        states = ExportState.from_json(lake.output.state, request.output.root)
        checkpoints, options = Checkpoints(), ScanOptions(max_batch_bytes=request.max_batch_bytes)
        plans = []
        for log in logs:
            before = states.of.get((log.topic, log.partition))
            start = find_start(log, before, request.asked, checkpoints, options)
            plans.append(PartitionExport(log, before, start, request.max_batch_bytes))
        run = _Export(workers, request, report, progress, lake, now_ms, states, checkpoints)
        yield from run.all_of(plans, findings)


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
    changed: dict[Name, PartitionState | None] = field(default_factory=dict)
    """Partitions whose state has changed since the last commit, with the state that was committed last."""
    pieces: int = 0
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
        self._reload(plans)
        self.findings += self._lost(plans)
        todo = [(plan, list(plan.work(self.request.task_bytes))) for plan in plans]
        size_bytes = sum(split.size_bytes for _, works in todo for work in works for split in work.splits)
        self.report.expect(files=sum(plan.files_to_read for plan in plans), size_bytes=size_bytes)
        self.progress.expect(size_bytes)
        with closing(self._results(todo)) as results:
            for plan, works in todo:
                for work in works:
                    self._take(plan, work, next(results))
                    if self._is_due and not plan.is_reloading:
                        self._save(plan)
                        yield from self._commit()
                self._finish(plan)
                if self._is_due:
                    yield from self._commit()
        yield from self._commit()

    @property
    def _is_due(self) -> bool:
        """Whether to commit now, in the middle of the work."""
        return not self.lake.is_once and self.log_bytes >= self.request.commit_bytes

    def _reload(self, plans: list[PartitionExport]) -> None:
        """Remove the files that are exported again; rewrite those of which some records are kept."""
        reloading = [plan for plan in plans if plan.start.reloads_from is not None]
        if not reloading:
            return
        files: dict[tuple[str, str], list[TableFile]] = defaultdict(list)
        for file in self.lake.output.files("records").values():
            files[file.values["topic"], file.values["partition"]].append(file)
        for plan in reloading:
            for file in plan.reload(files[plan.values["topic"], plan.values["partition"]]):
                piece = (file.name, plan.start.next_offset, self._new_file(plan))
                plan.kept += [kept for kept in self.workers.map(keep_before, [piece]) if kept is not None]

    def _lost(self, plans: list[PartitionExport]) -> Iterator[Finding]:
        """Yield findings about files of earlier runs that were deleted or changed, except those removed now."""
        removed = {name for plan in plans for name in plan.removed}
        for name, file in self.lake.output.lost("records", self.lake.listed).items():
            if name not in removed:
                first, last = file.bounds.get("offset", (None, None))
                yield found(
                    "export.file-lost",
                    self.lake.store.path(f"records/{name}"),
                    topic=file.values["topic"],
                    partition=int(file.values["partition"]),
                    offset=first,
                    last=last,
                    records=file.rows,
                )

    def _new_file(self, plan: PartitionExport) -> NewRecordFile:
        self.pieces += 1
        return NewRecordFile(
            store=self.lake.store.below("records"),
            run=self.lake.run_id,
            stem=f"part-{self.pieces:06}",
            folder=plan.folder,
            values=plan.values,
            compression=self.request.compression,
        )

    def _results(self, todo: list[tuple[PartitionExport, list[WorkItem]]]) -> Generator[ExportTaskResult, None, None]:
        """Yield the results of the tasks; closing the generator ends the work."""
        yield from self.workers.map(run_export_task, self._pieces(todo))

    def _pieces(self, todo: list[tuple[PartitionExport, list[WorkItem]]]) -> Iterator[tuple[ExportTask]]:
        """Yield the tasks as the workers take them."""
        for plan, works in todo:
            for work in works:
                yield (ExportTask(splits=work.splits, request=work.request, new=self._new_file(plan)),)

    def _take(self, plan: PartitionExport, work: WorkItem, result: ExportTaskResult) -> None:
        plan.take(work, result)
        if result.file is not None:
            self.adds.append(result.file)
            self.records += result.file.rows
            self.report.records += result.file.rows
        self.log_bytes += result.totals["bytes"]
        for name in ("bytes", "batches", "damage_count", "damage_bytes"):
            setattr(self.report, name, getattr(self.report, name) + result.totals[name])

    def _finish(self, plan: PartitionExport) -> None:
        plan.finish(self.checkpoints)
        self.adds += plan.kept  # in the commit that removes the old file, so that readers never see a row twice
        self.removes += plan.removed.values()
        self._save(plan)
        self.done.append(plan)
        self.report.partitions += 1
        self.report.files += plan.files_read

    def _save(self, plan: PartitionExport) -> None:
        """Put the state and the findings of a partition into the next commit."""
        self.findings += plan.take_findings()
        if plan.has_moved:
            self.changed.setdefault(plan.name, self.states.of.get(plan.name))
            self.states.of[plan.name] = plan.state

    def _commit(self) -> Iterator[RowChunk]:
        """Commit if anything is new, or if this is the one commit, and yield the rows about it."""
        findings, self.findings = self.findings, []
        moved = {name for name, before in self.changed.items() if self.states.of[name] != before}
        if self.adds or self.removes or moved or self.lake.is_once:
            waiting = {"findings": [self._findings_file(findings)]} if findings else {}
            self.lake.commit(
                self._merged,
                self.adds,
                self.removes,
                now_ms=self.now_ms,
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
            yield self._counted(RowChunk(tables.FINDING, [finding.row() for finding in findings]))
        done, self.done = self.done, []
        if done:
            yield self._counted(RowChunk(tables.EXPORT, [plan.row() for plan in done]))

    def _merged(self, latest: dict[str, Any]) -> dict[str, Any]:
        """Return the state with what this run has moved. Raises LockedError if another run moved the same partition."""
        states = ExportState.from_json(latest, self.request.output.root)
        for name, before in self.changed.items():
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
        from kafkalog_core.spark.session.parquet import write_table  # noqa: PLC0415 -- pyarrow: where there is work for it

        rows = [finding.row() for finding in findings]
        return write_table(
            self.lake.store, "findings", self.lake.run_id, tables.FINDING, rows, self.request.compression
        )

    def _counted(self, chunk: RowChunk) -> RowChunk:
        self.report.rows += chunk.count
        return chunk
