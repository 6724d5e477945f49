"""The data pipeline for notebooks and scripts: one object for a set of disks, with a method for each job.

    from kafkalog_core.spark import Disks, open_session

    spark = open_session()
    disks = Disks(spark, "/mnt/broker-*/kafka", topics="orders-*")
    disks.batches().groupBy("producer_id").count().show()
    disks.verify().frame("finding").where("severity = 'error'").show()
    disks.sql("SELECT code, count(*) FROM findings GROUP BY code").show()

The jobs and their rows are the same as in `kafkalog spark`. No job changes a disk.
"""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any, Literal

from kafkalog_core.engine.report import Report
from kafkalog_core.engine.selection import Selection
from kafkalog_core.engine.targets import check_topics, resolve
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.ops.repair.context import target_dirs
from kafkalog_core.output.tables import TABLES, Column, Table
from kafkalog_core.progress import NO_PROGRESS
from kafkalog_core.spark.lake.clouds import output_path
from kafkalog_core.spark.lake.store import Store
from kafkalog_core.spark.session.errors import local_paths
from kafkalog_core.spark.session.schema import SPARK_TABLES, ddl
from kafkalog_core.text import json_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from kafkalog_core.engine.targets import Target
    from kafkalog_core.ops.verify.request import Level
    from kafkalog_core.output.chunk import Chunk
    from kafkalog_core.progress import Progress
    from kafkalog_core.spark.export.start import OnChange
    from kafkalog_core.spark.session.workers import SparkWorkers

__all__ = ["Disks", "Result", "ResultRow"]


class Disks:
    """Log directories, partition directories or files of any number of brokers, limited to some of their partitions.

    Each method resolves the paths again. Every machine of a cluster must see them under the same names.

    Args:
        spark: the session.
        paths: paths, or glob patterns with * ? [].
        topics: names or glob patterns of topics, comma-separated or as several texts; empty: all topics.
        exclude: names or glob patterns of topics to leave out.
        partitions: numbers of partitions; empty: all.
        progress: receives the bytes of log that a job will read and has read.
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
        """Return the records as a DataFrame with these columns, or all columns; fewer columns are read faster.

        The options are those of the data source: minOffset, maxOffset, since, until, committed, resync, splitBytes, ...
        A DataFrame shows the disks at the time when it was created.
        """
        return self._read("records", columns, options)

    def batches(self, *columns: str, **options: object) -> DataFrame:
        """Return the batches, from their headers, with checksums compared. See `records`."""
        return self._read("batches", columns, options)

    def segments(self, *columns: str, **options: object) -> DataFrame:
        """Return the segments, each with the counts of its batches, records and damage. See `records`."""
        return self._read("segments", columns, options)

    def findings(self, *columns: str, **options: object) -> DataFrame:
        """Return the findings of `kafkalog verify`. Options: level (headers, checksums or records), now, maxBatchBytes.

        See `records`.
        """
        return self._read("findings", columns, options)

    def sql(
        self,
        text: str,
        *,
        catalog: str | None = None,
        at_version: int | None = None,
        export: str | None = None,
        storage: Mapping[str, str] | None = None,
    ) -> DataFrame:
        """Return the result of an SQL query over records, batches, segments and findings.

        Args:
            text: the query; statements that change something are refused.
            catalog: directory of a catalog to take batches, segments, findings and partitions from; None: the disks.
            at_version: version of the catalog, from its table `runs`, that the tables show; None: the last one.
            export: directory of an export to take records from; None: the disks.
            storage: how to reach an object store with the catalog or the export; see `Store`.
        """
        from kafkalog_core.spark.source.sql import Sources, query  # noqa: PLC0415 - needs Spark

        sources = Sources(
            paths=self._paths,
            options=self._options(),
            catalog=catalog,
            at_version=at_version,
            export=export,
            storage=storage or {},
        )
        return query(self._spark, text, sources)

    # --- jobs: each imports its engine, which most notebooks do not need ----------------------------------------------
    def verify(self, level: Level = "records", *, now_ms: int | None = None) -> Result:
        """Check the disks: `finding` and `partition` rows.

        Args:
            level: headers reads only batch headers, checksums reads every byte, records decodes every record too.
            now_ms: time of the check, in ms since 1970: later timestamps are in the future; None: now.
        """
        from kafkalog_core.ops.verify.engine import count, rows_of_verdict, verify  # noqa: PLC0415
        from kafkalog_core.ops.verify.request import VerifyRequest  # noqa: PLC0415

        report = Report()
        request = VerifyRequest(targets=self._targets(), now_ms=_now(now_ms), level=level)

        def chunks() -> Iterator[Chunk]:
            for verdict in verify(request, self._progress, workers=self._workers()):
                count(verdict, report)
                yield from rows_of_verdict(verdict)

        return Result(self._spark, chunks(), report)

    def catalog(
        self,
        output: str,
        level: Level = "records",
        *,
        storage: Mapping[str, str] | None = None,
        now_ms: int | None = None,
    ) -> Result:
        """Write segments, batches and findings as Delta tables; the next run reads what is new. See `open_catalog`.

        Args:
            output: directory of the catalog, or a place in an object store (`s3://`, `gs://`, `abfss://`): new, empty,
                or from an earlier run.
            level: see `verify`.
            storage: how to reach an object store; see `Store`.
            now_ms: see `verify`.
        """
        from kafkalog_core.spark.catalog.catalog import CatalogRequest, catalog  # noqa: PLC0415

        report = Report()
        request = CatalogRequest(
            targets=self._targets(), output=Store.of(output_path(output), storage), level=level, now_ms=_now(now_ms)
        )
        rows = catalog(self._workers(), request, report, run_id=uuid.uuid4().hex, progress=self._progress)
        return Result(self._spark, rows, report)

    def export(
        self,
        output: str,
        *,
        format: Literal["delta", "parquet"] = "delta",  # noqa: A002 -- the name of the command's option
        from_offset: int | None = None,
        from_time_ms: int | None = None,
        reload: bool = False,
        on_change: OnChange = "stop",
        storage: Mapping[str, str] | None = None,
        now_ms: int | None = None,
    ) -> Result:
        """Write records as a Delta table; the next run adds what is new. See `open_export`.

        Args:
            output: directory of the export, or a place in an object store (`s3://`, `gs://`, `abfss://`): new, empty,
                or from an earlier run.
            format: `parquet` writes plain files instead, once, into a new or empty directory.
            from_offset: first offset in partitions that are new to the export or reloaded; None: the log start offset.
            from_time_ms: the same as a time, in ms since 1970: the first record that is not older.
            reload: whether records that were exported before are exported again from there on.
            on_change: what to do with a log other than the exported one.
            storage: how to reach an object store; see `Store`.
            now_ms: time of the commits, in ms since 1970; None: now.
        """
        from kafkalog_core.spark.export.export import ExportOptions, ExportRequest, export  # noqa: PLC0415

        report = Report()
        asked = ExportOptions(from_offset=from_offset, from_time_ms=from_time_ms, reload=reload, on_change=on_change)
        store = Store.of(output_path(output), storage)
        request = ExportRequest(targets=self._targets(), output=store, format=format, asked=asked)
        run_id, at_ms = uuid.uuid4().hex, _now(now_ms)
        rows = export(self._workers(), request, report, run_id=run_id, now_ms=at_ms, progress=self._progress)
        return Result(self._spark, rows, report)

    def retain(self, settings: SettingsRequest | None = None, *, now_ms: int | None = None) -> Result:
        """Forecast what retention deletes at its next check, and why: `retention` and `retained_segment` rows.

        Args:
            settings: release and settings; None: what the disks show, and Kafka's defaults.
            now_ms: time of the retention check, in ms since 1970; None: now.
        """
        from kafkalog_core.ops.retain.forecaster import RetentionOptions  # noqa: PLC0415
        from kafkalog_core.ops.retain.retain import RetainRequest  # noqa: PLC0415
        from kafkalog_core.spark.jobs import retain_rows  # noqa: PLC0415

        report = Report()
        wanted = RetentionOptions(kafka=settings or SettingsRequest(), now_ms=_now(now_ms))
        targets = self._targets()
        check_topics(wanted.kafka.topics, targets)
        requests = [RetainRequest(target=target, wanted=wanted) for target in target_dirs(targets)]
        rows = _counted(retain_rows(self._workers(), requests, self._progress), report)
        return Result(self._spark, rows, report)

    def compact(
        self, settings: SettingsRequest | None = None, *, now_ms: int | None = None, force: bool = False
    ) -> Result:
        """Forecast what a broker's log cleaner does: `compaction`, `cleaning_pass` and `cleaned_segment` rows.

        Args:
            settings: see `retain`.
            now_ms: see `retain`.
            force: whether logs are cleaned whatever their dirty ratio is.
        """
        from kafkalog_core.ops.compact.forecast import CompactRequest  # noqa: PLC0415
        from kafkalog_core.spark.jobs import compact  # noqa: PLC0415

        report = Report()
        request = CompactRequest(
            targets=self._targets(), now_ms=_now(now_ms), kafka=settings or SettingsRequest(), force=force
        )
        forecasts = compact(self._workers(), request, report, self._progress)
        return Result(self._spark, (chunk for each in forecasts for chunk in each.chunks()), report)

    def replicas(self) -> Result:
        """Compare the copies of each partition: `replica` (the copy to keep), `replica_copy`, `replica_range` rows."""
        from kafkalog_core.ops.replicas.replicas import (  # noqa: PLC0415
            ReplicasRequest,
            replicas,
            rows_of,
            work_of,
        )

        report = Report()
        work = work_of(ReplicasRequest(targets=self._targets()))
        items = replicas(work, report, self._progress, self._workers())
        return Result(self._spark, (chunk for item in items for chunk in rows_of(item)), report)

    def groups(
        self, *names: str, at_ms: int | None = None, settings: SettingsRequest | None = None, now_ms: int | None = None
    ) -> Result:
        """Return the groups of these disks: `group`, `group_member` and `group_offset` rows.

        Of the selection, only `topics` counts: it limits the offsets.

        Args:
            names: of groups; none: all groups.
            at_ms: as it was at this time, in ms since 1970; None: at the end.
            settings: see `retain`.
            now_ms: the time by which offsets expire, in ms since 1970; None: now.
        """
        from kafkalog_core.kafka.sim.group_states import Moment  # noqa: PLC0415
        from kafkalog_core.ops.groups.groups import groups  # noqa: PLC0415
        from kafkalog_core.ops.groups.request import GroupsRequest, rows_of  # noqa: PLC0415

        report = Report()
        request = GroupsRequest(
            targets=tuple(resolve(self._paths)),
            groups=names,
            topics=self._selection.topics,
            moment=Moment() if at_ms is None else Moment(until_ms=at_ms),
            now_ms=_now(now_ms),
            kafka=settings or SettingsRequest(),
        )
        items = groups(request, report, self._progress, workers=self._workers())
        return Result(self._spark, (chunk for item in items for chunk in rows_of(item)), report)

    def transactions(
        self, *transactional_ids: str, producer_ids: Iterable[int] = (), now_ms: int | None = None
    ) -> Result:
        """Return the open transactions: `transaction`, `transaction_part` and `stable_offset` rows.

        Args:
            transactional_ids: only the transactions of these, with those that have ended; none: all that are open.
            producer_ids: only those of these producers, likewise.
            now_ms: the time by which a transaction has timed out, in ms since 1970; None: now.
        """
        from kafkalog_core.ops.transactions.transactions import TransactionsRequest, transactions  # noqa: PLC0415

        report = Report()
        request = TransactionsRequest(
            targets=self._targets(),
            now_ms=_now(now_ms),
            producer_ids=frozenset(producer_ids),
            transactional_ids=frozenset(transactional_ids),
        )
        items = transactions(request, report, self._progress, workers=self._workers())
        return Result(self._spark, (chunk for item in items for chunk in item.chunks()), report)

    # --- shared -------------------------------------------------------------------------------------------------------
    def _targets(self) -> tuple[Target, ...]:
        return tuple(resolve(self._paths, self._selection))

    def _workers(self) -> SparkWorkers:
        from kafkalog_core.spark.session.workers import SparkWorkers  # noqa: PLC0415 - needs Spark

        return SparkWorkers(self._spark, self._progress)

    def _options(self) -> dict[str, str]:
        """Return the selection as options of the data source."""
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
    """Return the given time, or the clock's, which only commands and notebooks read."""
    return time.time_ns() // 1_000_000 if now_ms is None else now_ms


def _counted(chunks: Iterable[Chunk], report: Report) -> Iterator[Chunk]:
    """Yield the chunks of a job that does not count its rows, and count them in the report."""
    for chunk in chunks:
        report.rows += chunk.count
        if chunk.table.name == "finding":
            for row in chunk.rows():
                report.add_finding(row)
        yield chunk


ResultRow = dict[str, object]


class Result:
    """The rows of a job, by the tables in `kafkalog_core.TABLES`: the same rows as those of the command.

    `summary` is the command's last row: counts by severity and code, and the `exit_status`.
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
        """Names of the tables that have rows."""
        return tuple(self._rows)

    def rows(self, table: str) -> list[ResultRow]:
        """Return the rows of a table, as dicts by column name; empty: the job yielded none."""
        return self._rows.get(table, [])

    def frame(self, table: str) -> DataFrame:
        """Return the rows of a table as a DataFrame, with maps as JSON text. Raises KeyError for an unknown table."""
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
    """Return the table with string columns in place of maps, whose values have different types."""
    return Table(
        table.name,
        tuple(Column(name, "string" if kind == "map" else kind, doc) for name, kind, doc in table.columns),
    )
