"""The data source as a stream: records as a broker appends them, over rolls, until the query is stopped.

    spark.readStream.format("kafkalog").option("maxBytesPerTrigger", "256m").load("/var/lib/kafka")

Spark's checkpoint holds a `Position` for each partition, and nothing else is remembered: a query that is started again
goes on where it was. A batch that is not whole yet is left for later. Damage has no row in a stream, and nor has what
retention deletes before it is read: both end the query with a sentence, or are passed over with `failOnDataLoss` false.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow

from kafkalog_core.errors import NotFoundError, SelectionError, StorageError
from kafkalog_core.ops.reading.logfiles import Unit, unit_of_partition
from kafkalog_core.ops.reading.positions import Loss, Position, end_of, go_on, parts_between
from kafkalog_core.ops.reading.splits import cut
from kafkalog_core.ops.selecting.partitions import same_partitions
from kafkalog_core.ops.selecting.targets import FileTarget, LogDirTarget, resolve
from kafkalog_core.spark.schema import SPARK_TABLES
from kafkalog_core.spark.source_options import source_options
from kafkalog_core.spark.source_reader import Splits, names_of, read
from kafkalog_core.storage.partition import read_partition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kafkalog_core.spark.source_options import SourceOptions
    from kafkalog_core.storage.logdir import PartitionPath

__all__ = ["KafkaLogStream"]

Offsets = dict[str, dict[str, int]]
"""As Spark keeps them: a `Position` by topic-partition."""


class KafkaLogStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Looks on the driver for what has come; plain values, as it travels to all tasks.

    What is wrong with options and schema is said by the first that needs them: from the making of a stream Spark tells
    another error than the one that is raised.
    """

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        self._given = given
        self._schema = schema
        self._target: dict[str, Position] | None = None

    @cached_property
    def _options(self) -> SourceOptions:
        return source_options(self._given, is_stream=True)

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return names_of(self._schema, SPARK_TABLES[self._options.table])

    def initialOffset(self) -> Offsets:  # noqa: N802 - Spark's name
        """Where a new query starts: the start of all partitions, or their end as it is now."""
        return {} if self._options.starts_at == "earliest" else _as_offsets(self._ends())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """The limit of the options."""
        most = self._options.max_bytes_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxBytes(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Nothing is read that comes later than this."""
        self._target = self._ends()

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:  # noqa: N802 - Spark's name
        """Where the next batch of the stream ends; a limit is shared by the partitions that have something to read."""
        before, units = _as_positions(start), self._units()
        for name in before.keys() - units.keys():
            self._lost(Loss("the partition is gone; what was not read of it is lost to this stream", name))
        most = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        found = {name: self._go_on(name, unit, before.get(name), None) for name, unit in units.items()}
        if most is not None:
            behind = [name for name in units if found[name] != before.get(name)]
            share = max(1, most // max(1, len(behind)))
            found |= {name: self._go_on(name, units[name], before.get(name), share) for name in behind}
        return _as_offsets({name: position for name, position in found.items() if position is not None})

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        """What stands between two offsets, for the tasks."""
        before, after, units = _as_positions(start), _as_positions(end), self._units()
        pieces = []
        for name, position in after.items():
            if position == before.get(name):
                continue
            if name not in units:
                self._lost(Loss("the partition went away before its records were read", name))
                continue
            for split in parts_between(units[name], before.get(name), position, self._lost):
                pieces += [InputPartition(Splits((part,))) for part in cut(split, self._options.split_bytes)]
        return pieces

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one piece."""
        if partition.value is not None:
            yield from read(partition.value, self._options, self._names)

    # --- the partitions as they are now -------------------------------------------------------------------------------
    def _go_on(self, name: str, unit: Unit, start: Position | None, max_bytes: int | None) -> Position | None:
        until = None
        if self._target is not None:
            if name not in self._target:  # it was made later
                return start
            until = self._target[name]
        return go_on(unit, start, max_bytes=max_bytes, until=until, on_loss=self._lost)

    def _ends(self) -> dict[str, Position]:
        ends = {name: end_of(unit, self._lost) for name, unit in self._units().items()}
        return {name: position for name, position in ends.items() if position is not None}

    def _units(self) -> dict[str, Unit]:
        """Partitions by name. Raises StorageError for what cannot be listed, SelectionError for what does not grow."""
        targets = resolve(self._options.paths, self._options.selection)
        twice = same_partitions(targets)
        if twice:
            raise SelectionError(f"more than one directory is of {', '.join(twice[:3])}: a stream reads one of them")
        units = {}
        for target in targets:
            if isinstance(target, FileTarget):
                raise SelectionError("a stream follows partition and log directories, not files", path=target.path)
            log_dir = target.log_dir.path if isinstance(target, LogDirTarget) else target.log_dir
            for place in target.partitions if isinstance(target, LogDirTarget) else (target.place,):
                unit = self._unit(place, log_dir)
                if unit is not None:
                    units[f"{unit.topic}-{unit.partition}"] = unit
        return units

    def _unit(self, place: PartitionPath, log_dir: str | None) -> Unit | None:
        try:
            partition = read_partition(place.path)
        except NotFoundError:  # deleted since the log directory was listed
            return None
        unit = unit_of_partition(partition, log_dir, with_path="path" in self._names)
        if any(file.is_v07 for file in unit.files):
            raise SelectionError("a log of Kafka 0.7 does not grow any more: spark.read reads it", path=unit.path)
        return unit

    def _lost(self, loss: Loss) -> None:
        if self._options.fails_on_loss:
            raise StorageError(f"{loss.message}; option failOnDataLoss=false goes on", path=loss.path)


def _as_offsets(positions: Mapping[str, Position]) -> Offsets:
    return {name: positions[name]._asdict() for name in sorted(positions)}


def _as_positions(offsets: Mapping[str, Mapping[str, int]]) -> dict[str, Position]:
    return {name: Position(**values) for name, values in offsets.items()}
