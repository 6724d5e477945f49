"""The pipeline for notebooks and scripts: one object for the disks that are meant, and a method for everything.

    from kafkalog_core.spark import Disks, open_session

    spark = open_session()
    disks = Disks(spark, "/mnt/broker-*/kafka", topics="orders-*")
    disks.batches().groupBy("producer_id").count().show()
    disks.verify().frame("finding").where("severity = 'error'").show()
    disks.sql("SELECT code, count(*) FROM findings GROUP BY code").show()

The jobs are those of `kafkalog spark`, with its rows. Nothing on the disks is ever changed.
"""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any

from kafkalog_core.kafka.settings import SettingsRequest
from kafkalog_core.ops.reading.report import Report
from kafkalog_core.ops.reading.selection import Selection
from kafkalog_core.ops.reading.targets import check_topics, resolve
from kafkalog_core.ops.repair.context import target_dirs
from kafkalog_core.progress import NO_PROGRESS
from kafkalog_core.rows.tables import TABLES, Column, Table
from kafkalog_core.spark.session.errors import local_paths
from kafkalog_core.spark.session.schema import SPARK_TABLES, ddl
from kafkalog_core.spark.session.session import DEFAULTS, SessionSettings
from kafkalog_core.spark.session.session import open_session as _open_session
from kafkalog_core.text import json_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from kafkalog_core.ops.reading.targets import Target
    from kafkalog_core.ops.verify.check import Level
    from kafkalog_core.progress import Progress
    from kafkalog_core.rows.chunk import Chunk
    from kafkalog_core.spark.session.workers import SparkWorkers

__all__ = ["Disks", "Result", "ResultRow", "open_catalog", "open_export", "open_session"]


def open_session(settings: SessionSettings = DEFAULTS) -> SparkSession:
    """A Spark session that keeps quiet: the one that there is, or a new one on this machine's cores.

    Raises SparkError where pyspark, pyarrow or Java is missing.
    """
    return _open_session(settings)


def open_catalog(spark: SparkSession, path: str) -> dict[str, DataFrame]:
    """The tables of a catalogue by name: segments, batches, findings and partitions. Raises StorageError."""
    from kafkalog_core.spark.source.sql import read_catalog  # noqa: PLC0415 - imports pyspark

    return read_catalog(spark, path)


def open_export(spark: SparkSession, path: str) -> DataFrame:
    """The records of an export, each once, whatever died while it was written. Raises StorageError."""
    from kafkalog_core.spark.source.sql import read_export  # noqa: PLC0415 - imports pyspark

    return read_export(spark, path)


class Disks:
    """Log directories, partition directories or files of any number of brokers, and a choice of their partitions.

    Paths are looked at anew by each method. Every machine of a cluster must see them under the same names.

    Args:
        spark: the session.
        paths: what is meant; patterns with * ? [] too.
        topics: names or patterns of topics, comma separated or several of them; none: all.
        exclude: names or patterns of topics to leave out.
        partitions: numbers of partitions; none: all.
        progress: told how far a job is.
    """

    def __init__(
        self,
        spark: SparkSession,
        *paths: str,
        topics: str | Iterable[str] = (),
        exclude: str | Iterable[str] = (),
        partitions: Iterable[int] = (),
        progress: Progress = NO_PROGRESS,
    ) -> None:
        self._spark = spark
        self._paths = local_paths(paths)
        self._selection = Selection(topics=_names(topics), excludes=_names(exclude), partitions=tuple(partitions))
        self._progress = progress

    # --- tables -------------------------------------------------------------------------------------------------------
    def records(self, *columns: str, **options: object) -> DataFrame:
        """All records, or those that `options` leave; the columns that are named, or all: reading fewer is faster.

        The options are those of the data source: minOffset, maxOffset, since, until, committed, resync, splitBytes, ...
        A view is of the moment at which it was made.
        """
        return self._read("records", columns, options)

    def batches(self, *columns: str, **options: object) -> DataFrame:
        """All batches by their headers, checksums compared. See `records`."""
        return self._read("batches", columns, options)

    def segments(self, *columns: str, **options: object) -> DataFrame:
        """All segments with what was read in them. See `records`."""
        return self._read("segments", columns, options)

    def findings(self, *columns: str, **options: object) -> DataFrame:
        """What `kafkalog verify` finds. Options: level, which is headers, checksums or records; now; maxBatchBytes."""
        return self._read("findings", columns, options)

    def sql(self, text: str, *, catalog: str | None = None, export: str | None = None) -> DataFrame:
        """The result of a query over records, batches, segments and findings.

        Args:
            text: the query; it may not change anything.
            catalog: a catalogue, whose batches, segments, findings and partitions stand in place of the disks'.
            export: an export, whose records stand in place of the disks'.
        """
        from kafkalog_core.spark.source.sql import Sources, query  # noqa: PLC0415 - needs Spark

        sources = Sources(paths=self._paths, options=self._options(), catalog=catalog, export=export)
        return query(self._spark, text, sources)

    # --- jobs ---------------------------------------------------------------------------------------------------------
    def verify(self, level: Level = "records", *, now_ms: int | None = None) -> Result:
        """Everything that is wrong: `finding` and `partition` rows.

        Args:
            level: headers reads batch headers alone, checksums every byte, records decodes every record too.
            now_ms: the time of the check, behind which timestamps lie in the future; null: now.
        """
        from kafkalog_core.ops.verify.engine import (  # noqa: PLC0415 - as above
            VerifyRequest,
            count,
            rows_of_verdict,
        )
        from kafkalog_core.spark.jobs import verify  # noqa: PLC0415 - as above

        report = Report()
        request = VerifyRequest(targets=self._targets(), now_ms=_now(now_ms), level=level)

        def chunks() -> Iterator[Chunk]:
            for verdict in verify(self._workers(), request, self._progress):
                count(verdict, report)
                yield from rows_of_verdict(verdict)

        return Result(self._spark, chunks(), report)

    def catalog(self, output: str, level: Level = "records", *, now_ms: int | None = None) -> Result:
        """Write segments, batches and findings as Parquet; run again, it reads what is new. See `open_catalog`.

        Args:
            output: a directory; new, empty, or one of an earlier run.
            level: see `verify`.
            now_ms: see `verify`.
        """
        from kafkalog_core.spark.catalog.catalog import CatalogRequest, catalog  # noqa: PLC0415 - only what is asked for

        report = Report()
        request = CatalogRequest(
            targets=self._targets(), output=local_paths([output])[0], level=level, now_ms=_now(now_ms)
        )
        run_id = uuid.uuid4().hex
        rows = catalog(self._workers(), request, report, run_id=run_id, progress=self._progress)
        return Result(self._spark, rows, report)

    def export(self, output: str, *, now_ms: int | None = None, **asked: Any) -> Result:
        """Write records as Parquet by topic and partition; run again, it adds what is new. See `open_export`.

        Args:
            output: a directory; new, empty, or one of an earlier run.
            now_ms: the time, for the commits; null: now.
            asked: fields of `export.ExportOptions`: where to begin, and what to do with a log that is another one now.
        """
        from kafkalog_core.spark.export.export import ExportOptions, ExportRequest, export  # noqa: PLC0415 - only what is asked for

        report = Report()
        request = ExportRequest(targets=self._targets(), output=local_paths([output])[0], asked=ExportOptions(**asked))
        run_id = uuid.uuid4().hex
        rows = export(self._workers(), request, report, run_id=run_id, now_ms=_now(now_ms), progress=self._progress)
        return Result(self._spark, rows, report)

    def retain(self, settings: SettingsRequest | None = None, *, now_ms: int | None = None) -> Result:
        """What retention deletes at its next check, and why not: `retention` and `retained_segment` rows.

        Args:
            settings: release and settings; null: what the disks tell, and Kafka's defaults.
            now_ms: the moment; null: now.
        """
        from kafkalog_core.ops.retain.forecaster import RetentionOptions  # noqa: PLC0415 - as above
        from kafkalog_core.ops.retain.retain import RetainRequest  # noqa: PLC0415 - only what is asked for
        from kafkalog_core.spark.jobs import retain_rows  # noqa: PLC0415 - as above

        report = Report()
        wanted = RetentionOptions(kafka=settings or SettingsRequest(), now_ms=_now(now_ms))
        targets = self._targets()
        check_topics(wanted.kafka.topics, targets)
        requests = [RetainRequest(target=site, wanted=wanted) for site in target_dirs(targets)]
        rows = _counted(retain_rows(self._workers(), requests, self._progress), report)
        return Result(self._spark, rows, report)

    def compact(
        self, settings: SettingsRequest | None = None, *, now_ms: int | None = None, force: bool = False
    ) -> Result:
        """What a broker's cleaner would make of the logs: `compaction`, `cleaning_pass` and `cleaned_segment` rows.

        Args:
            settings: see `retain`.
            now_ms: see `retain`.
            force: whatever the dirty ratio is.
        """
        from kafkalog_core.ops.compact.task import CompactRequest  # noqa: PLC0415 - only what is asked for
        from kafkalog_core.spark.jobs import compact  # noqa: PLC0415 - as above

        report = Report()
        request = CompactRequest(
            targets=self._targets(), now_ms=_now(now_ms), kafka=settings or SettingsRequest(), force=force
        )
        forecasts = compact(self._workers(), request, report, self._progress)
        return Result(self._spark, (chunk for each in forecasts for chunk in each.chunks()), report)

    def replicas(self) -> Result:
        """Which copy of each partition to keep, and why: `replica`, `replica_copy` and `replica_range` rows."""
        from kafkalog_core.ops.replicas.compare import (  # noqa: PLC0415 - as above
            ReplicasRequest,
            rows_of,
            work_of,
        )
        from kafkalog_core.spark.jobs import replicas  # noqa: PLC0415 - as above

        report = Report()
        work = work_of(ReplicasRequest(targets=self._targets()))
        items = replicas(self._workers(), work, report, self._progress)
        return Result(self._spark, (chunk for item in items for chunk in rows_of(item)), report)

    # --- what they share ----------------------------------------------------------------------------------------------
    def _targets(self) -> tuple[Target, ...]:
        return tuple(resolve(self._paths, self._selection))

    def _workers(self) -> SparkWorkers:
        from kafkalog_core.spark.session.workers import SparkWorkers  # noqa: PLC0415 - needs Spark

        return SparkWorkers(self._spark, self._progress)

    def _options(self) -> dict[str, str]:
        """The selection, as options of the data source."""
        options = {
            "topics": ",".join(self._selection.topics),
            "excludeTopics": ",".join(self._selection.excludes),
            "partitions": ",".join(map(str, self._selection.partitions)),
        }
        return {name: value for name, value in options.items() if value}

    def _read(self, table: str, columns: tuple[str, ...], given: dict[str, Any]) -> DataFrame:
        reader = self._spark.read.format("kafkalog").option("table", table)
        if columns:
            reader = reader.schema(ddl(SPARK_TABLES[table], columns))
        return reader.options(**self._options(), **given).load(list(self._paths))


def _names(given: str | Iterable[str]) -> tuple[str, ...]:
    texts = given.split(",") if isinstance(given, str) else given
    return tuple(text.strip() for text in texts if text.strip())


def _now(now_ms: int | None) -> int:
    """The clock is read here, as in the commands: a notebook is where a person asks."""
    return time.time_ns() // 1_000_000 if now_ms is None else now_ms


def _counted(chunks: Iterable[Chunk], report: Report) -> Iterator[Chunk]:
    """Chunks of a job that does not count by itself."""
    for chunk in chunks:
        report.rows += chunk.count
        if chunk.table.name == "finding":
            for row in chunk.rows():
                report.add_finding(row)
        yield chunk


ResultRow = dict[str, object]


class Result:
    """Rows of the tables in `kafkalog_core.TABLES`, the same that the command of that name writes.

    `summary` is the row that stands last there: counts by severity and code, and the `exit_status`.
    """

    def __init__(self, spark: SparkSession, chunks: Iterable[Chunk], report: Report) -> None:
        self._spark = spark
        self._rows: dict[str, list[ResultRow]] = {}
        for chunk in chunks:
            self._rows.setdefault(chunk.table.name, []).extend(chunk.rows())
        self.summary: Mapping[str, object] = report.summary_row()

    def __repr__(self) -> str:
        counts = ", ".join(f"{name} {len(rows)}" for name, rows in self._rows.items()) or "no rows"
        return f"<Result: {counts}; exit status {self.summary['exit_status']}>"

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables that there are rows of."""
        return tuple(self._rows)

    def rows(self, table: str) -> list[ResultRow]:
        """The rows of a table, as dicts by column; none where the job found none."""
        return self._rows.get(table, [])

    def frame(self, table: str) -> DataFrame:
        """The rows of a table as a DataFrame; maps are JSON text in it. Raises KeyError for a table that is none."""
        from kafkalog_core.spark.session.arrow import rows_to_arrow  # noqa: PLC0415 - imports pyarrow

        flat = _flat(TABLES[table])
        texts = {column.name for column in TABLES[table].columns if column.kind == "map"}
        rows = [
            {name: json_text(value) if name in texts and value is not None else value for name, value in row.items()}
            for row in self.rows(table)
        ]
        import pyarrow as pa  # noqa: PLC0415 - heavy

        return self._spark.createDataFrame(pa.Table.from_batches([rows_to_arrow(flat, rows)]))


def _flat(table: Table) -> Table:
    """The table with texts in place of maps, whose values are of many kinds."""
    return Table(
        table.name,
        tuple(Column(name, "string" if kind == "map" else kind, doc) for name, kind, doc in table.columns),
    )
