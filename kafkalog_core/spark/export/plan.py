"""The export of one partition: the parts of files that tasks read, the files that are removed, and the results."""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.engine.parts import LogPart, grouped
from kafkalog_core.errors import StorageError
from kafkalog_core.filters.expression import Filters
from kafkalog_core.kafka.sim.logfiles import Compaction, SegmentExtent, chain_findings, files_in_range
from kafkalog_core.ops.dump.file_parts import FilePart, divide_file
from kafkalog_core.spark.export.task import PartitionState, Unread
from kafkalog_core.spark.session.schema import spark_text
from kafkalog_core.structs import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.sim.logfiles import Checkpoints, LogFile
    from kafkalog_core.kafka.sim.read_committed import CommittedView
    from kafkalog_core.ops.dump.runs import DumpRequest
    from kafkalog_core.spark.export.start import ExportStart, PartitionLog
    from kafkalog_core.spark.export.task import ShareResult
    from kafkalog_core.spark.lake.tables import TableFile

__all__ = ["TASK_BYTES", "PartitionExport", "WorkItem", "folder_of"]

TASK_BYTES: Final = 128 * 1024 * 1024
"""Approximate bytes of log that one task reads and one file holds."""
_HIVE_ESCAPED: Final = re.compile(r"""[\x00-\x1f"#%'*/:=?\\\x7f{\[\]^]""")
_VANISHED: Final = "file.vanished"


def hive_name(column: str, value: object) -> str:
    """Return the directory name of a column's value, escaped as other writers of tables do it."""
    return f"{column}={_HIVE_ESCAPED.sub(lambda match: f'%{ord(match[0]):02X}', str(value))}"


def folder_of(values: Mapping[str, str]) -> str:
    """Return the directory of files with these values, below that of the table."""
    return "/".join(hive_name(column, value) for column, value in values.items())


class WorkItem(NamedTuple):
    """Splits of a partition that one task reads, and how; `retries`: the segment that earlier runs could not read."""

    file_parts: tuple[FilePart, ...]
    request: DumpRequest
    retries: Unread | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes of log to read."""
        return sum(file_part.size_bytes for file_part in self.file_parts)


@dataclass(slots=True)
class PartitionExport:
    """The export of one partition by one run: its plan, then its results.

    `reading` is how its log is read. `view` is what a read_committed consumer gets of it, if only that is exported.
    """

    log: PartitionLog
    before: PartitionState | None
    start: ExportStart
    reading: DumpRequest
    view: CommittedView | None = None
    state: PartitionState = field(init=False)
    findings: list[Finding] = field(init=False)
    counts: Counter[str] = field(default_factory=Counter)
    """Number of findings by severity."""
    records: int = 0
    files: int = 0
    file_bytes: int = 0
    log_bytes: int = 0
    removed_files: int = 0
    removed_records: int = 0
    _taken_findings: int = 0
    _extents: dict[str, SegmentExtent] = field(default_factory=dict)
    _seeds: dict[str, SegmentExtent] = field(default_factory=dict)
    """What earlier runs saw of the file that this run continues."""
    _failed: set[str] = field(default_factory=set)
    """Paths of files that could not be opened."""
    _read: list[LogFile] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.findings = [*self.log.findings, *self.start.findings]
        self.counts.update(finding.severity for finding in self.findings)
        # After a change of the log, the last batch of the old one proves nothing.
        keeps_batch = self.before is not None and not self._starts_again
        self.state = PartitionState(
            next_offset=self.start.next_offset,
            last_batch=self.before.last_batch if self.before is not None and keeps_batch else None,
            topic_id=self.log.topic_id,
            path=self.log.path,
            unread=self._unread_before(),
            is_asked=self.start.is_asked,
        )

    @property
    def name(self) -> tuple[str, int]:
        """Topic and partition."""
        return self.log.topic, self.log.partition

    @property
    def values(self) -> dict[str, str]:
        """The values of the columns by which a table of an earlier build is partitioned."""
        return {"topic": spark_text(self.log.topic), "partition": str(self.log.partition)}

    @property
    def is_reloading(self) -> bool:
        """Whether files of earlier runs are removed: in the commit with the last new file, not before."""
        return bool(self.removed_files)

    @property
    def has_moved(self) -> bool:
        """Whether its state has changed; the path of the directory does not count."""
        if self.start.is_stopped:
            return False
        # Moving a directory is not a change of the log.
        return self.before is None or replace(self.state, path=self.before.path) != self.before

    @property
    def files_to_read(self) -> int:
        """The number of log files from which something must be read."""
        return len(self._read)

    @property
    def files_read(self) -> int:
        """The number of log files from which something was read."""
        return len(self._extents)

    def take_findings(self) -> list[Finding]:
        """Return the findings since the last call."""
        findings = self.findings[self._taken_findings :]
        self._taken_findings += len(findings)
        return findings

    @property
    def _starts_again(self) -> bool:
        """Whether it does not continue after the last exported record."""
        is_other = any(finding.code == "export.changed-by-choice" for finding in self.start.findings)
        return is_other or self.start.reloads_from is not None

    def _unread_before(self) -> tuple[Unread, ...]:
        if self.before is None or self._starts_again:
            return ()
        return tuple(unread for unread in self.before.unread if unread.first < self.before.next_offset)

    # --- the work -----------------------------------------------------------------------------------------------------
    @property
    def limit(self) -> int | None:
        """The offset at which the export ends, because a transaction is open there; None: it ends with the log."""
        return None if self.view is None else self.view.end_offset

    def work(self, task_bytes: int) -> Iterator[WorkItem]:
        """Yield the work of the tasks: first segments that earlier runs could not read, then all others by offset."""
        if self.start.is_stopped:
            return
        yield from self._retries()
        # The transaction that holds the export back begins at or below the next offset.
        if self.limit is not None and self.limit <= self.start.next_offset:
            return
        from_offset = replace(self.reading, filters=Filters(offsets=(self.start.next_offset, None)))
        file_parts = list(self._file_parts(task_bytes))
        yield from (WorkItem((file_part,), from_offset) for file_part in file_parts if self._must_filter(file_part))
        # Only the first file can hold earlier records; the others are read without the cost of a filter.
        rest = (file_part for file_part in file_parts if not self._must_filter(file_part))
        yield from (WorkItem(group, self.reading) for group in grouped(rest, task_bytes))

    def _must_filter(self, file_part: FilePart) -> bool:
        """Return whether a part of a file may hold records below the first wanted offset; filtering costs time."""
        base = file_part.file.base_offset
        return file_part.part.begin == 0 and (base is None or base < self.start.next_offset)

    def _file_parts(self, task_bytes: int) -> Iterator[FilePart]:
        resume = self.start.resume
        last = None if self.limit is None else self.limit - 1
        files = files_in_range(self.log.unit.files, (self.start.next_offset, last))
        if resume is not None:
            paths = [file.path for file in files]
            # The file of the last batch is found by its path; after a rename the offsets decide.
            files = files[paths.index(resume.path) :] if resume.path in paths else files
        for file in files:
            file_part = FilePart(file=file, log_dir=self.log.unit.log_dir)
            if resume is not None and file.path == resume.path and not file.is_v07:
                next_offset = resume.last_offset + 1
                self._seeds[file.path] = SegmentExtent(
                    file.path, file.base_offset or 0, resume.last_offset, resume.position
                )
                file_part = replace(
                    file_part, part=LogPart(start=resume.position, begin=resume.position, next_offset=next_offset)
                )
                # Nothing was appended to the file since.
                if not file_part.size_bytes:
                    continue
            self._read.append(file)
            yield from divide_file(file_part, task_bytes)

    def _retries(self) -> Iterator[WorkItem]:
        by_name = {file.file.name.raw: file for file in self.log.unit.files}
        for unread in self.state.unread:
            file = by_name.get(unread.segment)
            if file is None:
                last = unread.last if unread.last is not None else unread.first
                # The segment that could not be read is gone: retention has deleted it meanwhile.
                self._add(self.log.found("export.gone-before", offset=unread.first, last=last))
                self._forget(unread)
                continue
            request = replace(self.reading, filters=Filters(offsets=(unread.first, unread.last)))
            yield WorkItem((FilePart(file=file, log_dir=self.log.unit.log_dir),), request, unread)

    # --- the results --------------------------------------------------------------------------------------------------
    def take(self, work: WorkItem, result: ShareResult, file: TableFile | None) -> None:
        """Take the result of a task, and the file with its records, which may hold those of other partitions too.

        Raises StorageError if tasks could read only parts of a file.
        """
        for finding in result.findings:
            # The task of another part of the file has reported it
            if finding.code == result.failed.get(finding.path) and finding.path in self._failed:
                continue
            self.findings.append(finding)
            self.counts[finding.severity] += 1 + finding.more
        self._failed.update(result.failed)
        self.log_bytes += result.totals["bytes"]
        records = result.totals["records"]
        if file is not None and records:
            self.records += records
            self.files += 1
            # A file with rows of several partitions counts for each by its share.
            self.file_bytes += file.size_bytes * records // file.rows
        if work.retries is not None:
            if not result.failed:
                self._add(self.log.found("export.read-later", work.file_parts[0].path, offset=work.retries.first))
                self._forget(work.retries)
            return
        self._check_whole(work, result)
        for path, extent in result.extents.items():
            self._extents[path] = _joined(self._extents.get(path), extent)
            # Offsets without records count too: compacted or empty batches were read all the same.
            if extent.last_offset is not None:
                self.state = self.state.read_up_to(self._next_offset(extent.last_offset), None)
        last = result.last_batch
        # An earlier batch is not where the next run continues
        if last is not None and self._next_offset(last.last_offset) >= self.state.next_offset:
            self.state = self.state.read_up_to(self.state.next_offset, last)
        for path in result.failed:
            self._note_unread(path, result.failed[path])

    def _next_offset(self, last_offset: int) -> int:
        """Return where to continue after a last offset; in 0.7 it is already the address of what follows."""
        # In 0.7 an offset is the address of the next message.
        after = last_offset if self.log.is_v07 else last_offset + 1
        return after if self.limit is None else min(after, self.limit)

    def finish(self, checkpoints: Checkpoints) -> None:
        """Find what is missing between the segments and at the ends of the log, after all tasks have ended."""
        if self.log.is_v07 or self.start.is_stopped:
            return
        extents = self._all_extents() if self._extents else []
        compaction = Compaction(self.log.unit, checkpoints, self.reading.scan_options)
        for finding in chain_findings(
            extents,
            is_compacted=lambda: compaction.explains_lost_segments,
            held=compaction.held,
            is_lost=compaction.is_lost,
            topic=self.log.topic,
            partition=self.log.partition,
        ):
            self._add(finding)
        for finding in self._gaps(compaction):
            self._add(finding)
        is_end_known = (
            self.limit is None
            and not self._failed
            and not (extents and extents[-1] is not None and extents[-1].ends_in_damage)
        )
        if is_end_known and (extents or self.before is None) and not self.start.is_asked:
            for finding in self.log.ends.findings(self.state.next_offset):
                self._add(finding)

    def _gaps(self, compaction: Compaction) -> Iterator[Finding]:
        """Yield what is missing between batches; a file is read again only if it has fewer offsets than it spans."""
        for file in self.log.unit.files:
            extent, start = self._extents.get(file.path), max(self.start.next_offset, file.base_offset or 0)
            if (
                extent is not None
                and extent.last_offset is not None
                and extent.last_offset + 1 - start > extent.offset_count
            ):
                gap = compaction.gap_in(file, start)
                yield from () if gap is None else (gap,)

    def _all_extents(self) -> list[SegmentExtent | None]:
        """Return what was seen of each log file from the one on that earlier runs have reached."""
        resumed = (file for file in self.log.unit.files if file.path in self._seeds)
        files = {file.path: file for file in (*resumed, *self._read)}
        seen = self._seeds | {path: _joined(self._seeds.get(path), extent) for path, extent in self._extents.items()}
        return [seen.get(path) for path in files]

    def row(self) -> dict[str, object]:
        """Return the `export` row."""
        state = "stopped" if self.start.is_stopped else "exported" if self.files or self.is_reloading else "unchanged"
        return {
            "topic": self.log.topic,
            "partition": self.log.partition,
            "path": self.log.path,
            "state": state,
            "from_offset": self.start.next_offset,
            "next_offset": self.state.next_offset,
            "log_start_offset": self.log.log_start,
            "records": self.records,
            "files": self.files,
            "file_bytes": self.file_bytes,
            "log_bytes": self.log_bytes,
            "removed_files": self.removed_files,
            "removed_records": self.removed_records,
            "unread_segments": len(self.state.unread),
            "errors": self.counts["error"],
            "warnings": self.counts["warning"],
            "infos": self.counts["info"],
        }

    def _check_whole(self, work: WorkItem, result: ShareResult) -> None:
        for path in [*result.failed, *(file_part.path for file_part in work.file_parts)]:
            is_failed = path in result.failed or any(
                item.segment == os.path.basename(path) for item in self.state.unread
            )
            # Some machines see the file and others do not: its records would be there in part.
            if is_failed and path in {*result.extents, *self._extents}:
                raise StorageError(
                    "one task could read this file and another could not; nothing of it is committed; make sure that "
                    "all machines can read it, and run the same command again",
                    path=path,
                )

    def _note_unread(self, path: str, code: str) -> None:
        """Note a file that could not be opened, so that the next run tries again.

        Files that retention has deleted are not noted, nor is the last file, where the next run continues anyway.
        """
        paths = [file.path for file in self.log.unit.files]
        index = paths.index(path)
        following = self.log.unit.files[index + 1] if index + 1 < len(paths) else None
        # The last file is continued by the next run anyway.
        if code == _VANISHED or following is None or following.base_offset is None:
            return
        first = max(self.log.unit.files[index].base_offset or 0, self.start.next_offset)
        unread = Unread(os.path.basename(path), first, following.base_offset - 1)
        if unread not in self.state.unread:
            self.state = replace(self.state, unread=(*self.state.unread, unread))

    def _forget(self, unread: Unread) -> None:
        self.state = replace(self.state, unread=tuple(item for item in self.state.unread if item != unread))

    def add(self, findings: Iterable[Finding]) -> None:
        """Take findings about it."""
        for finding in findings:
            self._add(finding)

    def _add(self, finding: Finding) -> None:
        self.findings.append(finding)
        self.counts[finding.severity] += 1


def _joined(before: SegmentExtent | None, extent: SegmentExtent) -> SegmentExtent:
    """Return what was seen of one file in all its parts so far."""
    return extent if before is None else before.joined(extent)
