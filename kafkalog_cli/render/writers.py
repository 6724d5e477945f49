"""Results on their way to standard output: the registry of writers.

A kind of result (verdicts, plans, forecasts, ...) is registered once, as a `ResultKind`: how its items become rows, for
`json`, `ndjson` and `csv`, and which class shows them to people, for `table`. `open_results` chooses the writer for
`--output`. The module of a writer is imported when it is chosen, so that JSON output does not import rich's tables.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from functools import cached_property, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, Self, TypeVar, cast

import click

from kafkalog_cli.render.progress import end_progress
from kafkalog_cli.render.summary_line import summary_sentence
from kafkalog_core.findings import Finding
from kafkalog_core.output import clusters, plans, replicas, tables
from kafkalog_core.output.chunk import csv_columns, json_line
from kafkalog_core.structs import Struct, field
from kafkalog_core.text import csv_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kafkalog_cli.render.columns import Transactions
    from kafkalog_core.ops.cluster.request import ChangeBasis, ClusterFound
    from kafkalog_core.ops.compact.forecast import CompactForecast
    from kafkalog_core.ops.copies.compare import Comparison
    from kafkalog_core.ops.diff.request import DiffFound
    from kafkalog_core.ops.dump.parallel import ChunkWriter
    from kafkalog_core.ops.groups.request import GroupBasis, GroupResult
    from kafkalog_core.ops.impact.impact import Impacts
    from kafkalog_core.ops.preflight.compat import Compat
    from kafkalog_core.ops.preflight.preflight import Preflight
    from kafkalog_core.ops.repair.plan_rows import PlanRows
    from kafkalog_core.ops.replicas.choices import GroupCosts
    from kafkalog_core.ops.retain.forecaster import RetainForecast, RetentionForecaster, ScenarioResult
    from kafkalog_core.ops.roll.forecast import RollForecast
    from kafkalog_core.ops.transactions.transactions import TransactionsFound
    from kafkalog_core.ops.usage.freeze import Frozen
    from kafkalog_core.ops.usage.sums import DirUsage
    from kafkalog_core.ops.verify.verdict import PartitionVerdict, PlaceVerdict
    from kafkalog_core.ops.zookeeper.request import RowsFound, ZookeeperBasis, ZookeeperFound
    from kafkalog_core.output.chunk import BytesMode, Chunk, RowChunk
    from kafkalog_core.output.tables import Table

__all__ = [
    "CLUSTERS",
    "CLUSTER_DIFFERENCES",
    "CLUSTER_EVENTS",
    "COMPACTIONS",
    "COMPATS",
    "DIFFERENCES",
    "EXPORTS",
    "FREEZES",
    "IMPACTS",
    "PLANS",
    "PREFLIGHTS",
    "QUERIES",
    "REPLICAS",
    "RETENTION",
    "ROLLS",
    "ROWS",
    "TRANSACTIONS",
    "USAGES",
    "VERDICTS",
    "ZOOKEEPERS",
    "CsvWriter",
    "JsonWriter",
    "NdjsonWriter",
    "ResultKind",
    "ResultWriter",
    "RowSettings",
    "Writer",
    "open_results",
    "open_writer",
    "writer_going_on",
]

Item = TypeVar("Item")
Taken_contra = TypeVar("Taken_contra", contravariant=True)


class RowSettings(Struct, frozen=True, kw_only=True):
    """What a writer of rows needs to know.

    tables: the row types that may come; CSV makes its header of them.
    bytes_mode: how keys and values are written.
    live: whether each chunk is shown at once, for a log that grows.
    kept: titles of columns that a table keeps, narrow or empty, because an option asks for them.
    notes: sentences about the directories that are read, above a table.
    transactions: how the transactions of the rows ended, for a table; None: that is not shown.
    """

    tables: tuple[Table, ...]
    bytes_mode: BytesMode = "auto"
    live: bool = False
    kept: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    transactions: Transactions | None = None


class ByteStream(Protocol):
    """A binary stream that takes all of what it is given."""

    def write(self, data: bytes | memoryview, /) -> object:
        """Write bytes."""


class ResultWriter(Protocol[Taken_contra]):
    """A receiver of a result, item by item, in bounded memory, and of its summary, which comes last."""

    def write(self, item: Taken_contra, /) -> None:
        """Show an item, or keep the part of it that is shown at the end."""

    def finish(self, summary: Mapping[str, object], /) -> None:
        """Show everything that is pending, then the summary."""


if TYPE_CHECKING:
    Writer = ResultWriter[Chunk]
    """A writer of rows."""


# --- rows for programs ------------------------------------------------------------------------------------------------
class _StreamWriter(ABC):
    """A writer of rows to the binary stream of standard output."""

    def __init__(self, settings: RowSettings) -> None:
        self._settings = settings
        self._stream: ByteStream = sys.stdout.buffer

    @classmethod
    def going_on(cls, settings: RowSettings, stream: ByteStream) -> Self:
        """Return a writer to another stream of rows that follow others."""
        writer = cls.__new__(cls)
        writer._settings, writer._stream = settings, stream  # noqa: SLF001 - of this class
        return writer

    @abstractmethod
    def lines(self, chunk: Chunk) -> Iterable[bytes | memoryview]:
        """Yield the lines of the chunk, in parts."""

    def write(self, chunk: Chunk) -> None:
        """Write the lines of the chunk."""
        for part in self.lines(chunk):
            self._stream.write(part)
        if self._settings.live:
            sys.stdout.buffer.flush()

    def _summary_line(self, summary: Mapping[str, object]) -> bytes:
        return json_line(tables.SUMMARY, summary, self._settings.bytes_mode)


class NdjsonWriter(_StreamWriter):
    """JSON lines."""

    def lines(self, chunk: Chunk) -> Iterable[bytes | memoryview]:
        """Yield the JSON lines of the chunk."""
        return chunk.parts(self._settings.bytes_mode)

    def finish(self, summary: Mapping[str, object]) -> None:
        """Write the summary as the last line."""
        self._stream.write(self._summary_line(summary))
        sys.stdout.buffer.flush()


class JsonWriter(_StreamWriter):
    """One JSON array of all rows, an element a line, written as the rows come."""

    def __init__(self, settings: RowSettings) -> None:
        super().__init__(settings)
        self._opening = b"[\n"

    def lines(self, chunk: Chunk) -> Iterable[bytes]:
        """Yield the lines of the chunk, each with a comma: the summary always follows. No line contains a newline."""
        self._open()
        return (bytes(part).replace(b"\n", b",\n") for part in chunk.parts(self._settings.bytes_mode))

    def finish(self, summary: Mapping[str, object]) -> None:
        """Write the summary as the last element, and close the array."""
        self._open()
        self._stream.write(self._summary_line(summary) + b"]\n")
        sys.stdout.buffer.flush()

    def _open(self) -> None:
        """Begin the array before its first element, so that an error before that leaves nothing."""
        self._stream.write(self._opening)
        self._opening = b""


class CsvWriter(_StreamWriter):
    """CSV of all row types, with the columns of all of them; `type` is the first one."""

    def __init__(self, settings: RowSettings) -> None:
        super().__init__(settings)
        self._stream.write(csv_line(self._header))

    @cached_property
    def _header(self) -> tuple[str, ...]:
        return tuple(csv_columns(self._settings.tables, self._settings.bytes_mode))

    def lines(self, chunk: Chunk) -> Iterable[bytes | memoryview]:
        """Yield a line for each row."""
        table, mode = chunk.table, self._settings.bytes_mode
        unknown = csv_columns([table], mode).keys() - set(self._header)
        if unknown:
            raise LookupError(f"{table.name} row with columns that the CSV header lacks: {sorted(unknown)}")
        return chunk.csv(self._header, mode)

    def finish(self, summary: Mapping[str, object]) -> None:
        """Write the summary line to stderr: it has no columns."""
        sys.stdout.buffer.flush()
        end_progress()
        click.echo(f"kafkalog: {summary_sentence(summary)}", err=True)


class ItemRows(Generic[Item]):
    """A writer of items as rows, in the order in which `rows_of` gives their chunks."""

    def __init__(self, writer: Writer, rows_of: Callable[[Item], Iterable[Chunk]]) -> None:
        self._writer = writer
        self._rows_of = rows_of

    def write(self, item: Item) -> None:
        """Write the rows of the item."""
        for chunk in self._rows_of(item):
            self._put(chunk)

    def finish(self, summary: Mapping[str, object]) -> None:
        """Write the summary row."""
        self._writer.finish(summary)

    def _put(self, chunk: Chunk) -> None:
        self._writer.write(chunk)


class RetentionRows(ItemRows["RetentionForecaster | RetainForecast | Finding"]):
    """Retention as rows; the totals of all `--what-if` scenarios come last, and the summary counts the rows."""

    def __init__(self, writer: Writer, rows_of: Callable[[Any], Iterable[Chunk]]) -> None:
        super().__init__(writer, rows_of)
        self._outcomes: list[ScenarioResult] = []
        self._count = 0

    def write(self, item: RetentionForecaster | RetainForecast | Finding) -> None:
        """Write the rows of the item; each row of a survey's partitions already has its rules."""
        if isinstance(item, _load("kafkalog_core.ops.retain.forecaster:RetentionForecaster")):
            return
        super().write(item)
        if not isinstance(item, Finding):
            self._outcomes += cast("RetainForecast", item).outcomes

    def finish(self, summary: Mapping[str, object]) -> None:
        """Write the totals of all scenarios, then the summary row."""
        if self._outcomes:
            totals = _load("kafkalog_core.ops.retain.forecaster:totals")(self._outcomes)
            self._put(_load("kafkalog_core.ops.retain.rows:what_if_rows")(totals))
        super().finish({**summary, "rows": self._count})

    def _put(self, chunk: Chunk) -> None:
        self._count += chunk.count
        super()._put(chunk)


# --- registry ---------------------------------------------------------------------------------------------------------
_ROW_WRITERS: Final[Mapping[str, Callable[[RowSettings], Writer]]] = {
    "ndjson": NdjsonWriter,
    "json": JsonWriter,
    "csv": CsvWriter,
}


class ResultKind(Struct, Generic[Item], frozen=True, kw_only=True):
    """A kind of result and its writers.

    tables: the row types of `json`, `ndjson` and `csv`.
    rows_of: `module:function` that gives the chunks of an item; empty: an item is a chunk.
    for_people: `module:class` of the writer for each other form of output.
    row_writer: the class that writes items as rows.
    """

    tables: tuple[Table, ...] = ()
    rows_of: str = ""
    for_people: Mapping[str, str] = field(default_factory=dict)
    row_writer: type[ItemRows[Any]] = ItemRows


_RENDER: Final = "kafkalog_cli.render"
_OPS: Final = "kafkalog_core.ops"

ROWS: Final[ResultKind[Chunk]] = ResultKind(for_people={"table": f"{_RENDER}.table:TableWriter"})
VERDICTS: Final[ResultKind[PartitionVerdict | PlaceVerdict]] = ResultKind(
    tables=(tables.PARTITION, tables.FINDING),
    rows_of=f"{_OPS}.verify.engine:rows_of_verdict",
    for_people={
        "table": f"{_RENDER}.verdict_table:VerdictTable",
        "quiet": f"{_RENDER}.verdict_table:QuietVerdicts",
        "html": f"{_RENDER}.report.page:HtmlReport",
    },
)
PLANS: Final[ResultKind[PlanRows]] = ResultKind(
    tables=(
        tables.PLAN,
        tables.TEXT_FILE,
        tables.TEXT_LINE,
        clusters.QUORUM_DISK,
        clusters.CLUSTER_DIFFERENCE,
        clusters.QUORUM_PARTITION,
        tables.SETTING,
        tables.JOURNAL,
        tables.LOSS,
        tables.FINDING,
        tables.CHANGE,
    ),
    rows_of=f"{_OPS}.repair.plan_rows:PlanRows.chunks",
    for_people={"table": f"{_RENDER}.plan_table:PlanTable"},
)
COMPACTIONS: Final[ResultKind[CompactForecast]] = ResultKind(
    tables=(
        tables.COMPACTION,
        tables.CLEANING_PASS,
        tables.CLEANED_SEGMENT,
        tables.BIG_KEY,
        tables.FINDING,
    ),
    rows_of=f"{_OPS}.compact.forecast:CompactForecast.chunks",
    for_people={"table": f"{_RENDER}.compact_table:CompactTable"},
)
RETENTION: Final[ResultKind[RetentionForecaster | RetainForecast | Finding]] = ResultKind(
    tables=(
        tables.RETENTION,
        tables.RETAINED_SEGMENT,
        tables.RETENTION_WHAT_IF,
        tables.RETENTION_EVENT,
        tables.FINDING,
    ),
    rows_of=f"{_OPS}.retain.rows:retained_rows",
    for_people={"table": f"{_RENDER}.retention_table:RetentionTable"},
    row_writer=RetentionRows,
)
ROLLS: Final[ResultKind[RollForecast]] = ResultKind(
    tables=(tables.ROLLING, tables.ROLLED_SEGMENT, tables.FINDING),
    rows_of=f"{_OPS}.roll.forecast:RollForecast.chunks",
    for_people={"table": f"{_RENDER}.roll_table:RollTable"},
)
FREEZES: Final[ResultKind[Frozen | Finding]] = ResultKind(
    tables=(plans.FROZEN, tables.FINDING),
    rows_of=f"{_OPS}.usage.freeze:rows_of",
    for_people={"table": f"{_RENDER}.freeze_table:FreezeTable"},
)
IMPACTS: Final[ResultKind[Impacts]] = ResultKind(
    tables=(tables.IMPACT,),
    rows_of=f"{_OPS}.impact.impact:Impacts.chunks",
    for_people={"table": f"{_RENDER}.impact_table:ImpactTable"},
)
PREFLIGHTS: Final[ResultKind[Preflight]] = ResultKind(
    tables=(
        tables.PREFLIGHT,
        tables.START_EVENT,
        tables.PARTITION_START,
        tables.LOSS,
        tables.START_STEP,
        tables.FINDING,
    ),
    rows_of=f"{_OPS}.preflight.preflight:Preflight.chunks",
    for_people={"table": f"{_RENDER}.preflight_table:PreflightTable"},
)
COMPATS: Final[ResultKind[Compat]] = ResultKind(
    tables=(tables.RELEASE_START,),
    rows_of=f"{_OPS}.preflight.compat:Compat.chunks",
    for_people={"table": f"{_RENDER}.compat_table:CompatTable"},
)
REPLICAS: Final[ResultKind[Comparison | Finding | GroupCosts]] = ResultKind(
    tables=(replicas.REPLICA, replicas.REPLICA_COPY, replicas.REPLICA_RANGE, tables.IMPACT, tables.FINDING),
    rows_of=f"{_OPS}.replicas.replicas:rows_of",
    for_people={"table": f"{_RENDER}.replica_table:ReplicaTable"},
)
DIFFERENCES: Final[ResultKind[DiffFound]] = ResultKind(
    tables=(tables.DIFFERENCE, tables.FINDING),
    rows_of=f"{_OPS}.diff.request:DiffFound.chunks",
    for_people={"table": f"{_RENDER}.diff_table:DiffTable"},
)
TRANSACTIONS: Final[ResultKind[TransactionsFound]] = ResultKind(
    tables=(tables.TRANSACTION, tables.TRANSACTION_PART, tables.STABLE_OFFSET, tables.DAMAGE, tables.FINDING),
    rows_of=f"{_OPS}.transactions.transactions:TransactionsFound.chunks",
    for_people={"table": f"{_RENDER}.transaction_table:TransactionTable"},
)
USAGES: Final[ResultKind[DirUsage]] = ResultKind(
    tables=(tables.USAGE, tables.USAGE_DIRECTORY, tables.FINDING),
    rows_of=f"{_OPS}.usage.rows:usage_rows",
    for_people={"table": f"{_RENDER}.usage_table:UsageTable", "html": f"{_RENDER}.report.usage_page:UsagePage"},
)
GROUPS: Final[ResultKind[GroupBasis | GroupResult]] = ResultKind(
    tables=(tables.GROUP, tables.GROUP_MEMBER, tables.GROUP_OFFSET, tables.FINDING),
    rows_of=f"{_OPS}.groups.request:rows_of",
    for_people={"table": f"{_RENDER}.group_table:GroupTable"},
)
CLUSTERS: Final[ResultKind[ClusterFound]] = ResultKind(
    tables=(
        clusters.CLUSTER,
        clusters.CLUSTER_FEATURE,
        clusters.CLUSTER_BROKER,
        clusters.CLUSTER_CONTROLLER,
        clusters.CLUSTER_TOPIC,
        clusters.CLUSTER_PARTITION,
        clusters.CLUSTER_CONFIG,
        clusters.CLUSTER_ACL,
        clusters.CLUSTER_QUOTA,
        clusters.CLUSTER_USER,
        clusters.CLUSTER_TOKEN,
        clusters.CLUSTER_DIRECTORY,
        tables.FINDING,
    ),
    rows_of=f"{_OPS}.cluster.request:ClusterFound.chunks",
    for_people={"table": f"{_RENDER}.cluster_table:ClusterTable"},
)
CLUSTER_EVENTS: Final[ResultKind[RowChunk | ChangeBasis]] = ResultKind(
    tables=(clusters.CLUSTER_EVENT, tables.FINDING),
    rows_of=f"{_OPS}.cluster.request:chunks_of_changes",
    for_people={"table": f"{_RENDER}.cluster_changes:HistoryTable"},
)
CLUSTER_DIFFERENCES: Final[ResultKind[RowChunk | ChangeBasis]] = ResultKind(
    tables=(clusters.CLUSTER_DIFFERENCE, tables.FINDING),
    rows_of=f"{_OPS}.cluster.request:chunks_of_changes",
    for_people={"table": f"{_RENDER}.cluster_changes:DifferenceTable"},
)
ZOOKEEPERS: Final[ResultKind[RowsFound | ZookeeperFound | ZookeeperBasis]] = ResultKind(
    tables=(
        tables.ZOOKEEPER_SERVER,
        tables.ZOOKEEPER,
        tables.ZNODE,
        tables.ZNODE_CHANGE,
        tables.ZOOKEEPER_OWNER,
        tables.FINDING,
    ),
    rows_of=f"{_OPS}.zookeeper.request:rows_of",
    for_people={"table": f"{_RENDER}.zookeeper_table:ZookeeperTable"},
)
EXPORTS: Final[ResultKind[Chunk]] = ResultKind(
    tables=(tables.EXPORT, tables.FINDING), for_people={"table": f"{_RENDER}.job_tables:ExportTable"}
)
QUERIES: Final[ResultKind[Chunk]] = ResultKind(for_people={"table": f"{_RENDER}.job_tables:QueryTable"})
"""Results of SQL: the caller gives the table, as the query names the columns."""


def open_results(
    kind: ResultKind[Item], output: str, *arguments: object, settings: RowSettings | None = None, **options: bool
) -> ResultWriter[Item]:
    """Return the writer of a kind of result for a form of output.

    Args:
        kind: one of the kinds above.
        output: `table`, `json`, `ndjson`, `csv`, or another form of the kind.
        arguments: what the class for people takes.
        settings: for rows; by default those of the kind's row types.
        options: what the class for people takes by name: how much it shows.
    """
    if output in kind.for_people:
        return cast("ResultWriter[Item]", _load(kind.for_people[output])(*arguments, **options))
    rows = _ROW_WRITERS[output](settings or RowSettings(tables=kind.tables))
    if not kind.rows_of:
        return cast("ResultWriter[Item]", rows)
    return cast("ResultWriter[Item]", kind.row_writer(rows, _load(kind.rows_of)))


def writer_going_on(output: str, settings: RowSettings) -> Callable[[ByteStream], ChunkWriter] | None:
    """Return what opens a writer of rows that follow others, to any stream; None: this form is written as a whole."""
    writer = {"ndjson": NdjsonWriter, "csv": CsvWriter}.get(output)
    return None if writer is None else partial(writer.going_on, settings)


def open_writer(output: str, settings: RowSettings) -> Writer:
    """Return the writer of rows for a form of output: `table`, `json`, `ndjson` or `csv`."""
    return open_results(ROWS, output, settings, settings=settings)


def _load(name: str) -> Any:
    """Return the object `module:name`, and import the module."""
    module_name, _, path = name.partition(":")
    found: Any = import_module(module_name)
    for part in path.split("."):
        found = getattr(found, part)
    return found
