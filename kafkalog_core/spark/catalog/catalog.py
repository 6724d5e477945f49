"""`catalog`: segments, batches, partitions and findings of many disks as Parquet; it reads only changed segments again.

A run reads each segment once, for all tables. It writes the batches of the segments that it read into files of their
own, so that these files are kept when other segments change, and it writes the small tables again as a whole. A run is
one commit: readers see the catalog of the last finished run.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from kafkalog_core.engine.targets import FileTarget
from kafkalog_core.errors import LockedError, SelectionError
from kafkalog_core.format.layout import MAX_BATCH_BYTES
from kafkalog_core.ops.verify.engine import count, partition_row, state_of, verify
from kafkalog_core.ops.verify.request import Depth, VerifyRequest
from kafkalog_core.ops.verify.verdict import PartitionVerdict
from kafkalog_core.output import tables
from kafkalog_core.output.chunk import RowChunk
from kafkalog_core.progress import NO_PROGRESS, Progress
from kafkalog_core.refusals import WayOut
from kafkalog_core.spark.lake.output import MEANWHILE, OutputKind, OutputRun, refuse_inside
from kafkalog_core.spark.lake.tables import TableSpec
from kafkalog_core.spark.session.schema import CATALOG_TABLES, RUNS, SEGMENTS, columns_of
from kafkalog_core.storage.paths import is_object
from kafkalog_core.structs import Struct, field

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from kafkalog_core.engine.pool import Workers
    from kafkalog_core.engine.report import Report
    from kafkalog_core.engine.targets import Target
    from kafkalog_core.ops.verify.request import Level
    from kafkalog_core.spark.catalog.reading import CatalogReaders
    from kafkalog_core.spark.catalog.volumes import VolumeSet
    from kafkalog_core.spark.lake.store import Store
    from kafkalog_core.storage.changing.writer import Disk

__all__ = ["CATALOG_KIND", "CatalogRequest", "catalog"]


def _notes(state: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the notes files that a state names."""
    return (f"_kafkalog/notes/{name}" for name in state.get("volumes", ()))


CATALOG_KIND: Final = OutputKind(
    name="catalog",
    head=TableSpec(name="runs", table=RUNS, description="Runs of kafkalog spark catalog; the last one counts."),
    others=tuple(
        TableSpec(name=name, table=table, description=f"The {name} of Kafka's disks, by kafkalog spark catalog.")
        for name, table in CATALOG_TABLES.items()
    ),
    kept=_notes,
    cures=(WayOut("run the catalog again, which writes them again", "kafkalog spark catalog --to {place} PATH"),),
)
_SMALL_TABLES: Final = {name: table for name, table in CATALOG_TABLES.items() if name != "batches"}
"""The tables that each run writes again as a whole."""


class CatalogRequest(Struct, frozen=True, kw_only=True):
    """The contents of a catalog, and where to write it.

    Args:
        targets: all log directories and partitions of the catalog, with absolute paths, from `targets.resolve`.
        output: where the catalog is: new, empty, or from an earlier run.
        now_ms: time of the check and the commit, in ms since 1970.
        level: depth of the checks; see `VerifyRequest`.
        max_batch_bytes: size limit of a batch, stored and decompressed, in bytes.
    """

    targets: tuple[Target, ...]
    output: Store
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
    """Create or update a catalog; yield `catalog` rows, and `finding` rows about segments that no longer exist.

    All findings are stored in the catalog and counted in the report. If nothing has changed, nothing is written.

    Args:
        workers: read the partitions; None: this process does.
        request: the contents of the catalog, and where to write it.
        report: counts what was read and found.
        run_id: prefix of this run's file names, unique among the runs of a catalog.
        progress: receives the bytes of log that were read.
        disk: makes all changes of the output; None: a plain `Disk`.

    Raises SelectionError for a target that is a file or has a relative path, RefusedError, LockedError, StorageError,
    WorkerLostError.
    """
    from kafkalog_core.spark.catalog.reading import (  # noqa: PLC0415 -- pyarrow: where there is work for it
        CatalogReaders,
        rules_of,
    )
    from kafkalog_core.spark.catalog.volumes import VolumeSet  # noqa: PLC0415

    for target in request.targets:
        if isinstance(target, FileTarget):
            raise SelectionError(
                "a catalog holds log directories and partitions, not files; name the directory of the file",
                path=target.path,
            )
        if not (is_object(target.path) or os.path.isabs(target.path)):
            raise SelectionError("a catalog needs absolute paths; name the directory by its own", path=target.path)
    # A catalog inside a log directory would be among the files that it describes.
    refuse_inside(request.output, [target.path for target in request.targets])
    with OutputRun(request.output, CATALOG_KIND, run_id, disk) as lake:
        depth = Depth(level=request.level, now_ms=request.now_ms, max_batch_bytes=request.max_batch_bytes)
        before = lake.output.state
        # Made by other rules or at another depth, the notes of the last run are of no use: all is read again.
        state = before if before.get("head") == rules_of(depth) else {}
        lost = {name: lake.output.lost(name, lake.listed) for name in CATALOG_TABLES}
        # By the listing at the start of the run: a file that somebody deleted is found before it is needed.
        missing = frozenset({*lost["batches"], *_missing_notes(before, lake.listed)})  # their segments are read again
        readers = CatalogReaders(lake.store, run_id, depth, state, progress, missing)
        contents = _SmallTables()
        yield from _verified(workers, request, readers, report, contents)
        readers.write_held()
        volumes = VolumeSet(lake.store, run_id, before.get("volumes", {}), readers.kept, readers.fresh)
        # After all volumes are known: small ones of many runs become one.
        volumes.merge_small(workers, progress)
        digest = contents.digest()
        is_whole = not missing and not any(lost.values())
        # A run that finds nothing new leaves no version, so that runs can be frequent.
        if not volumes.is_changed and is_whole and state.get("digest") == digest:
            return  # closing the run deletes what was written
        new_state = {
            "head": rules_of(depth),
            "digest": digest,
            "volumes": volumes.state(),
            "partitions": contents.known(volumes.of_partitions()),
        }
        _commit(lake, request, contents, volumes, new_state)


def _missing_notes(state: Mapping[str, Any], listed: Mapping[str, int]) -> Iterator[str]:
    """Yield the names of volumes whose notes are missing or have another size than they had."""
    for name, known in state.get("volumes", {}).items():
        if listed.get(f"_kafkalog/notes/{name}") != known["notes_bytes"]:
            yield name


class _SmallTables(Struct):
    """The rows of the small tables, and what the next run needs to know of each partition.

    There may be a million segments, so their rows are tuples, by the columns of `SEGMENTS`.
    """

    findings: list[Mapping[str, object]] = field(default_factory=list)
    of_partitions: list[Mapping[str, object]] = field(default_factory=list)
    segments: Sequence[tuple[object, ...]] = ()
    partitions: dict[str, dict[str, Any]] = field(default_factory=dict)

    def rows(self, table: str) -> Iterator[Mapping[str, object]]:
        """Yield the rows of a small table."""
        if table == "segments":
            names = tuple(column.name for column in columns_of(SEGMENTS))
            return (dict(zip(names, row, strict=True)) for row in self.segments)
        return iter(self.findings if table == "findings" else self.of_partitions)

    def known(self, places: Mapping[str, Sequence[str]]) -> dict[str, dict[str, Any]]:
        """Return what the next run needs to know of each partition, with the volumes that hold its segments."""
        return {
            os.fsencode(path).hex(): {**facts, "volumes": [*places.get(path, ())]}
            # Paths are bytes; JSON has only text.
            for path, facts in self.partitions.items()
        }

    def digest(self) -> str:
        """Return the SHA-256 of all rows, as hexadecimal text."""
        digest = hashlib.sha256()
        for name in _SMALL_TABLES:
            digest.update(name.encode())
            for row in self.rows(name):
                # Text of names that are not UTF-8 has surrogates.
                digest.update(repr(row).encode("utf-8", "surrogatepass"))
        return digest.hexdigest()


def _verified(
    workers: Workers | None, request: CatalogRequest, readers: CatalogReaders, report: Report, contents: _SmallTables
) -> Iterator[RowChunk]:
    """Check all targets, collect the rows of the small tables, and yield the rows that the command shows."""
    wanted = VerifyRequest(
        targets=request.targets,
        now_ms=request.now_ms,
        level=request.level,
        max_batch_bytes=request.max_batch_bytes,
    )
    # Closed in any case, so that the workers end before the run does.
    with closing(verify(wanted, readers.progress, workers=workers, readers=readers)) as verdicts:
        for verdict in verdicts:
            shown = report.rows
            count(verdict, report)
            report.rows = shown
            contents.findings += [finding.row() for finding in verdict.findings]
            if isinstance(verdict, PartitionVerdict):
                contents.of_partitions.append(partition_row(verdict))
                row = _row(verdict, readers)
                counts = readers.counts[verdict.path]
                report.unchanged_bytes += counts.unchanged_bytes
                report.bytes += counts.bytes - sum(
                    segment.size_bytes for segment in verdict.segments if not segment.is_unread
                )
                contents.partitions[verdict.path] = {name: row[name] for name in _KNOWN}
                report.rows += 1
                yield RowChunk(tables.CATALOG, [row])
                yield from _deleted(counts.findings, report, contents)
    yield from _deleted(tuple(readers.deleted()), report, contents)
    contents.segments = readers.rows


_KNOWN: Final = ("topic", "partition", "segments", "bytes")


def _row(verdict: PartitionVerdict, readers: CatalogReaders) -> dict[str, object]:
    """Return the `catalog` row of a partition."""
    counts = readers.counts[verdict.path]
    severities = Counter(finding.severity for finding in verdict.findings)
    return {
        "topic": verdict.topic,
        "partition": verdict.partition,
        "path": verdict.path,
        "state": state_of(verdict),
        "segments": counts.rows,
        "batches": sum(segment.batches for segment in verdict.segments),
        "records": sum(segment.records for segment in verdict.segments),
        "bytes": counts.bytes,
        "read_bytes": counts.read_bytes,
        "unchanged_bytes": counts.unchanged_bytes,
        "errors": severities["error"],
        "warnings": severities["warning"],
        "infos": severities["info"],
    }


def _deleted(findings: Sequence[Any], report: Report, contents: _SmallTables) -> Iterator[RowChunk]:
    rows = [finding.row() for finding in findings]
    for row in rows:
        report.add_finding(row)
    report.rows += len(rows)
    contents.findings += rows
    if rows:
        yield RowChunk(tables.FINDING, rows)


def _commit(
    lake: OutputRun, request: CatalogRequest, contents: _SmallTables, volumes: VolumeSet, state: Mapping[str, Any]
) -> None:
    """Replace the files of the small tables, change those of the batches, and commit the run."""
    from kafkalog_core.spark.lake.parquet import write_table  # noqa: PLC0415 -- see `catalog`

    store, run_id, now_ms = lake.store, lake.run_id, request.now_ms
    # Everything is written before the first commit, and nothing of it counts until then.
    files = {
        name: write_table(store, name, run_id, table, contents.rows(name)) for name, table in _SMALL_TABLES.items()
    }
    before, gone = lake.output.state, volumes.old_names()
    old = [file for name, file in lake.output.files("batches").items() if name in gone]
    # The other tables first: the table of runs names their versions, so its commit makes all of them count.
    versions = {"batches": lake.commit_other("batches", volumes.new_files(), old, now_ms=now_ms)}
    for name, file in files.items():
        versions[name] = lake.commit_other(name, [file], [*lake.output.files(name).values()], now_ms=now_ms)
    row = {
        "run": run_id,
        "time_ms": now_ms,
        "level": request.level,
        "partitions": len(contents.of_partitions),
        "segments": len(contents.segments),
        "findings": len(contents.findings),
        **{f"{name}_version": version for name, version in versions.items()},
    }

    def merged(latest: dict[str, Any]) -> dict[str, Any]:
        # Another run has committed since this one began, so what this one found may be older.
        if latest != before:
            raise LockedError(MEANWHILE, path=request.output.root)
        return dict(state)

    run_file = write_table(store, "runs", run_id, RUNS, [row])
    lake.commit(merged, [run_file], now_ms=now_ms, versions=versions)
