"""`export`: the records of partitions as Parquet files by topic and partition; the next run adds what is new.

The state, up to which offset each partition is exported, is part of the commit that adds its files. So no record is
lost or doubled when a run is killed or a task runs twice. Damage is reported as findings; the whole records around it
are exported.
"""

from __future__ import annotations

import os
import re
from contextlib import closing
from typing import TYPE_CHECKING, Final

from kafkalog_core.findings import found
from kafkalog_core.format.layout import MAX_BATCH_BYTES
from kafkalog_core.ops.reading.logfiles import Checkpoints
from kafkalog_core.progress import NO_PROGRESS
from kafkalog_core.rows import tables
from kafkalog_core.rows.chunk import RowChunk
from kafkalog_core.spark.commit.commit import Output, attempt_name, sync_file, writing
from kafkalog_core.spark.commit.manifest import INNER, Part, lost_files, refuse_inside
from kafkalog_core.spark.export.plan import TASK_BYTES, PartitionExport
from kafkalog_core.spark.export.start import ExportOptions, find_logs, find_start
from kafkalog_core.spark.export.task import ExportState, ExportTask, keep_before, run_export_task
from kafkalog_core.storage.scan import ScanOptions
from kafkalog_core.structs import Struct, field

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.pool import Workers
    from kafkalog_core.ops.reading.report import Report
    from kafkalog_core.ops.reading.targets import Target
    from kafkalog_core.progress import Progress
    from kafkalog_core.spark.commit.commit import Commit
    from kafkalog_core.spark.export.plan import WorkItem
    from kafkalog_core.spark.export.task import ExportTaskResult
    from kafkalog_core.spark.session.parquet import Compression
    from kafkalog_core.storage.changing.writer import Disk

__all__ = ["COMMIT_BYTES", "EXPORT_KIND", "ExportOptions", "ExportRequest", "export"]

EXPORT_KIND: Final = "export"
COMMIT_BYTES: Final = 16 * 1024 * 1024 * 1024
_RUN_ID: Final = re.compile(r"[A-Za-z0-9-]{1,64}")


class ExportRequest(Struct, frozen=True, kw_only=True):
    """What to export, and where to write it.

    Args:
        targets: partitions and log directories, from `targets.resolve`.
        output: directory of the export: new, empty, or that of an earlier run.
        asked: where to begin, and what to do with a log that is not the one that was exported.
        compression: codec of the Parquet files.
        task_bytes: approximate bytes of log that one task reads and one file holds.
        commit_bytes: approximate bytes of log between commits.
        max_batch_bytes: size limit of a batch, stored and decompressed, in bytes.
        syncs: whether files are fsynced before they are committed. If not, a power failure may leave a commit with
            incomplete files; a killed process does not.
    """

    targets: tuple[Target, ...]
    output: str
    asked: ExportOptions = field(default_factory=ExportOptions)
    compression: Compression = "snappy"
    task_bytes: int = TASK_BYTES
    commit_bytes: int = COMMIT_BYTES
    max_batch_bytes: int = MAX_BATCH_BYTES
    syncs: bool = True


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
    with Output.open(request.output, EXPORT_KIND, disk) as output:
        states = ExportState.from_json(output.state, output.path)
        checkpoints, options = Checkpoints(), ScanOptions(max_batch_bytes=request.max_batch_bytes)
        plans = []
        for log in logs:
            before = states.of.get((log.topic, log.partition))
            start = find_start(log, before, request.asked, checkpoints, options)
            plans.append(PartitionExport(log, before, start, request.max_batch_bytes))
        run = _Run(workers, request, report, progress, run_id, now_ms, output, states, checkpoints)
        yield from run.all_of(plans, findings)


class _Run(Struct):
    workers: Workers
    request: ExportRequest
    report: Report
    progress: Progress
    run_id: str
    now_ms: int
    output: Output
    states: ExportState
    checkpoints: Checkpoints
    commit: Commit | None = None
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
                    if self.log_bytes >= self.request.commit_bytes and not plan.is_reloading:
                        self._save(plan)
                        yield from self._commit()
                self._finish(plan)
                if self.log_bytes >= self.request.commit_bytes:
                    yield from self._commit()
        yield from self._commit()

    def _reload(self, plans: list[PartitionExport]) -> None:
        """Remove the files that are exported again; rewrite those of which some records are kept."""
        reloading = [plan for plan in plans if plan.start.reloads_from is not None]
        if not reloading:
            return
        files = self.output.files()
        for plan in reloading:
            for name in plan.reload(files):
                self.pieces += 1
                piece = (
                    f"{self.output.path}/{name}",
                    plan.start.next_offset,
                    self._begun().staging,
                    f"part-{self.run_id}-{self.pieces:06}",
                    plan.folder,
                    self.request.compression,
                )
                plan.kept += [part for part in self.workers.map(keep_before, [piece]) if part is not None]

    def _lost(self, plans: list[PartitionExport]) -> Iterator[Finding]:
        """Yield findings about files of earlier runs that were deleted or changed, except those removed now."""
        removed = {name for plan in plans for name in plan.removed}
        names = {plan.folder: plan.name for plan in plans}
        for name, facts in lost_files(self.output.path).items():
            if name not in removed:
                topic, partition = names.get(os.path.dirname(name), (None, None))
                yield found(
                    "export.file-lost",
                    f"{self.output.path}/{name}",
                    topic=topic,
                    partition=partition,
                    offset=facts.info["first_offset"],
                    last=facts.info["last_offset"],
                    records=facts.rows,
                )

    def _results(self, todo: list[tuple[PartitionExport, list[WorkItem]]]) -> Generator[ExportTaskResult, None, None]:
        """Yield the results of the tasks; closing the generator ends the work."""
        yield from self.workers.map(run_export_task, self._pieces(todo))

    def _pieces(self, todo: list[tuple[PartitionExport, list[WorkItem]]]) -> Iterator[tuple[ExportTask]]:
        """Yield the tasks as the workers take them."""
        for plan, works in todo:
            for work in works:
                self.pieces += 1
                yield (
                    ExportTask(
                        splits=work.splits,
                        request=work.request,
                        staging=self._begun().staging,
                        stem=f"part-{self.run_id}-{self.pieces:06}",
                        folder=plan.folder,
                        compression=self.request.compression,
                        syncs=self.request.syncs,
                    ),
                )

    def _take(self, plan: PartitionExport, work: WorkItem, result: ExportTaskResult) -> None:
        plan.take(work, result)
        if result.part is not None:
            self._begun().add(result.part)
            self.records += result.part.rows
            self.report.records += result.part.rows
        self.log_bytes += result.totals["bytes"]
        for name in ("bytes", "batches", "damage_count", "damage_bytes"):
            setattr(self.report, name, getattr(self.report, name) + result.totals[name])

    def _finish(self, plan: PartitionExport) -> None:
        plan.finish(self.checkpoints)
        for part in plan.kept:  # in the commit that removes the old file, so that readers never see a row twice
            self._begun().add(part)
        for name in plan.removed:
            self._begun().remove(name)
        self._save(plan)
        self.done.append(plan)
        self.report.partitions += 1
        self.report.files += plan.files_read

    def _save(self, plan: PartitionExport) -> None:
        """Put the state and the findings of a partition into the next commit."""
        self.findings += plan.take_findings()
        if plan.has_moved:
            self.states.of[plan.name] = plan.state

    def _commit(self) -> Iterator[RowChunk]:
        """Commit if anything is new, and yield the rows about it."""
        findings, self.findings = self.findings, []
        state = self.states.to_json()
        is_empty = self.commit is None or self.commit.is_empty
        if not is_empty or state != (self.output.state or ExportState().to_json()):
            commit = self._begun()
            if findings:
                commit.add(self._findings_file(findings, commit.staging))
            facts = {"records": self.records, "log_bytes": self.log_bytes, "findings": len(findings)}
            commit.commit(state, now_ms=self.now_ms, facts=facts)
        self.log_bytes = self.records = 0
        if findings:
            for finding in findings:
                self.report.add_finding(finding.row(), count=1 + finding.more)
            yield self._counted(RowChunk(tables.FINDING, [finding.row() for finding in findings]))
        done, self.done = self.done, []
        if done:
            yield self._counted(RowChunk(tables.EXPORT, [plan.row() for plan in done]))

    def _findings_file(self, findings: list[Finding], staging: str) -> Part:
        """Write the findings as a file of the export, and return it."""
        from kafkalog_core.spark.session.arrow import rows_to_arrow  # noqa: PLC0415 -- pyarrow: where there is work for it
        from kafkalog_core.spark.session.parquet import ParquetFile  # noqa: PLC0415

        staged = attempt_name(f"findings-{self.run_id}")
        path = f"{staging}/{staged}"
        with writing(path), ParquetFile(path, tables.FINDING, compression=self.request.compression) as file:
            file.write(rows_to_arrow(tables.FINDING, [finding.row() for finding in findings]))
            written = file.close()
        sync_file(path)
        return Part(staged, f"{INNER}/findings/{staged}", written.rows, written.size_bytes)

    def _counted(self, chunk: RowChunk) -> RowChunk:
        self.report.rows += chunk.count
        return chunk

    def _begun(self) -> Commit:
        """Return the commit, which is begun when there is something to write."""
        if self.commit is None:
            self.commit = self.output.begin(self.run_id)
        return self.commit
