"""`catalog`: segments, batches and findings of many disks as Parquet; what has not changed is not read again.

Each segment is read once for all of it. The batches of segments that were read are a file of their own, so that they
stay when other segments change; the small tables are written anew. All of it is one commit: whoever reads the catalogue
sees that of the last run that was finished.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kafkalog_core.errors import SelectionError
from kafkalog_core.format.layout import MAX_BATCH_BYTES
from kafkalog_core.ops.reading.targets import FileTarget
from kafkalog_core.ops.verify.engine import VerifyRequest, count, partition_row, state_of, verify
from kafkalog_core.ops.verify.verdict import PartitionVerdict
from kafkalog_core.ops.verify.work import Depth
from kafkalog_core.progress import NO_PROGRESS, Progress
from kafkalog_core.rows import tables
from kafkalog_core.rows.chunk import RowChunk
from kafkalog_core.spark.commit.commit import Output
from kafkalog_core.spark.commit.manifest import lost_files, refuse_inside
from kafkalog_core.spark.session.schema import BATCHES, CATALOG_TABLES, SEGMENTS, columns_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from kafkalog_core.ops.pool import Workers
    from kafkalog_core.ops.reading.report import Report
    from kafkalog_core.ops.reading.targets import Target
    from kafkalog_core.ops.verify.check import Level
    from kafkalog_core.spark.catalog.volumes import CatalogReaders
    from kafkalog_core.spark.commit.commit import Commit
    from kafkalog_core.storage.changing.writer import Disk

__all__ = ["CATALOG_KIND", "CatalogRequest", "catalog"]

CATALOG_KIND: Final = "catalog"
_SMALL_TABLES: Final = {name: table for name, table in CATALOG_TABLES.items() if table is not BATCHES}
"""The tables that each run writes again as a whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogRequest:
    """What to make a catalogue of, and where.

    Args:
        targets: log directories and partitions by absolute paths, from `targets.resolve`: all of the catalogue.
        output: its directory; new, empty, or one of an earlier run.
        now_ms: time of the check and the commit, ms since 1970.
        level: how deep is checked; see `VerifyRequest`.
        max_batch_bytes: the largest batch that is read, inflated too.
    """

    targets: tuple[Target, ...]
    output: str
    now_ms: int
    level: Level = "records"
    max_batch_bytes: int = MAX_BATCH_BYTES


def catalog(
    workers: Workers | None,
    request: CatalogRequest,
    report: Report,
    *,
    run_id: str,
    progress: Progress = NO_PROGRESS,
    disk: Disk | None = None,
) -> Generator[RowChunk, None, None]:
    """Make a catalogue, or bring one up to date: a `catalog` row a partition, `finding` rows of what is gone.

    All findings are in the catalogue, and counted in the report. Where nothing has changed, nothing is written.

    Args:
        workers: who reads; null: this process.
        request: what, and where to.
        report: counts.
        run_id: names files of this run; no two runs of one catalogue have the same.
        progress: is told of what is read.
        disk: steps that change the output; null: the plain ones.

    Raises SelectionError for a target that is a file or has a relative path, RefusedError, LockedError, StorageError,
    WorkerLostError.
    """
    from kafkalog_core.spark.catalog.volumes import (  # noqa: PLC0415 -- pyarrow: where there is work for it
        CatalogReaders,
        VolumeSet,
        rules_of,
    )

    for target in request.targets:
        if isinstance(target, FileTarget):
            raise SelectionError("a file; a catalogue is made of log directories and partitions", path=target.path)
        if not os.path.isabs(target.path):
            raise SelectionError("a relative path; a catalogue knows partitions by absolute ones", path=target.path)
    refuse_inside(request.output, [target.path for target in request.targets])
    with Output.open(request.output, CATALOG_KIND, disk) as output:
        depth = Depth(level=request.level, now_ms=request.now_ms, max_batch_bytes=request.max_batch_bytes)
        run = output.begin(run_id)
        state = output.state if output.state.get("head") == rules_of(depth) else {}
        missing = frozenset(lost_files(output.path))  # what they held is made anew
        census = CatalogReaders(output.path, run.staging, depth, state, progress, missing)
        held = _Held()
        yield from _verified(workers, request, census, report, held)
        shelf = VolumeSet(census, output, workers)
        shelf.tidy(progress)
        digest = held.digest()
        if not shelf.has_news and not missing and state.get("digest") == digest:
            return  # what was staged goes away with the output
        shelf.put(run, run_id)
        _put_tables(run, run_id, output, held)
        new_state = {
            "head": rules_of(depth),
            "digest": digest,
            "volumes": shelf.volumes(),
            "partitions": held.known(shelf.places()),
        }
        run.commit(new_state, now_ms=request.now_ms)


@dataclass(slots=True)
class _Held:
    """Rows of the small tables, and what the next run is to know of each partition.

    Of segments there may be a million: their rows are tuples, by the columns of `SEGMENTS`.
    """

    findings: list[Mapping[str, object]] = field(default_factory=list)
    of_partitions: list[Mapping[str, object]] = field(default_factory=list)
    segments: Sequence[tuple[object, ...]] = ()
    partitions: dict[str, dict[str, Any]] = field(default_factory=dict)

    def rows(self, table: str) -> Iterator[Mapping[str, object]]:
        """The rows of a small table, each made when it is asked for."""
        if table == "segments":
            names = tuple(column.name for column in columns_of(SEGMENTS))
            return (dict(zip(names, row, strict=True)) for row in self.segments)
        return iter(self.findings if table == "findings" else self.of_partitions)

    def known(self, places: Mapping[str, Sequence[str]]) -> dict[str, dict[str, Any]]:
        """What the next run is to know of each partition, with the volumes that have segments of it."""
        return {
            os.fsencode(path).hex(): {**facts, "volumes": [*places.get(path, ())]}
            for path, facts in self.partitions.items()
        }

    def digest(self) -> str:
        """Of all rows."""
        digest = hashlib.sha256()
        for name in _SMALL_TABLES:
            digest.update(name.encode())
            for row in self.rows(name):
                digest.update(repr(row).encode("utf-8", "surrogatepass"))
        return digest.hexdigest()


def _verified(
    workers: Workers | None, request: CatalogRequest, census: CatalogReaders, report: Report, held: _Held
) -> Iterator[RowChunk]:
    """Check everything, and gather the rows of the small tables."""
    wanted = VerifyRequest(
        targets=request.targets,
        now_ms=request.now_ms,
        level=request.level,
        max_batch_bytes=request.max_batch_bytes,
    )
    with closing(verify(wanted, census.progress, workers=workers, readers=census)) as verdicts:
        for verdict in verdicts:
            shown = report.rows
            count(verdict, report)
            report.rows = shown
            held.findings += [finding.row() for finding in verdict.findings]
            if isinstance(verdict, PartitionVerdict):
                held.of_partitions.append(partition_row(verdict))
                row = _row(verdict, census)
                made = census.made[verdict.path]
                report.unchanged_bytes += made.unchanged_bytes
                report.bytes += made.bytes - sum(
                    segment.size_bytes for segment in verdict.segments if not segment.is_unread
                )
                held.partitions[verdict.path] = {name: row[name] for name in _KNOWN}
                report.rows += 1
                yield RowChunk(tables.CATALOG, [row])
                yield from _gone(made.findings, report, held)
    yield from _gone(tuple(census.gone()), report, held)
    held.segments = census.rows


_KNOWN: Final = ("topic", "partition", "segments", "bytes")


def _row(verdict: PartitionVerdict, census: CatalogReaders) -> dict[str, object]:
    """The `catalog` row."""
    made = census.made[verdict.path]
    severities = Counter(finding.severity for finding in verdict.findings)
    return {
        "topic": verdict.topic,
        "partition": verdict.partition,
        "path": verdict.path,
        "state": state_of(verdict),
        "segments": made.rows,
        "batches": sum(segment.batches for segment in verdict.segments),
        "records": sum(segment.records for segment in verdict.segments),
        "bytes": made.bytes,
        "read_bytes": made.read_bytes,
        "unchanged_bytes": made.unchanged_bytes,
        "errors": severities["error"],
        "warnings": severities["warning"],
        "infos": severities["info"],
    }


def _gone(findings: Sequence[Any], report: Report, held: _Held) -> Iterator[RowChunk]:
    rows = [finding.row() for finding in findings]
    for row in rows:
        report.add_finding(row)
    report.rows += len(rows)
    held.findings += rows
    if rows:
        yield RowChunk(tables.FINDING, rows)


def _put_tables(run: Commit, run_id: str, output: Output, held: _Held) -> None:
    """Write the small tables anew."""
    from kafkalog_core.spark.catalog.notes import write_table  # noqa: PLC0415 -- see `catalog`

    for name in output.files():
        if name.partition("/")[0] in _SMALL_TABLES:
            run.remove(name)
    for name, table in _SMALL_TABLES.items():
        run.add(write_table(run.staging, name, run_id, table, held.rows(name)))
