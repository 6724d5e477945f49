"""What other files of a disk show of records that a log no longer has: before its first batch, and after its last one.

A log whose first or last segment is missing or empty looks whole by itself. The checkpoints of its log directory and
its leader epochs show more, by the checks of `kafkalog verify`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.engine.targets import LogDirTarget, PartitionTarget
from kafkalog_core.errors import StorageError
from kafkalog_core.findings import FINDING_TYPES
from kafkalog_core.findings.catalog import Sink
from kafkalog_core.format.names import METADATA_TOPIC, DirectoryState, FileKind, FileState
from kafkalog_core.kafka.rules.releases import LATEST
from kafkalog_core.kafka.rules.rule_table import rules_of
from kafkalog_core.kafka.sim.logdir.bounds import log_bounds
from kafkalog_core.kafka.sim.logdir.faults import EntryFile
from kafkalog_core.kafka.sim.logdir.text_files import read_epochs
from kafkalog_core.kafka.sim.logdir.top_files import BrokerDir, PartitionContext, read_broker_dir
from kafkalog_core.ops.verify.producers import add_before_start, add_beyond_end, check_partition_offsets
from kafkalog_core.storage.logdir import read_log_dir

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.findings import Finding
    from kafkalog_core.storage.logdir import PartitionPath
    from kafkalog_core.storage.partition import Partition

__all__ = ["BrokerDirs", "LogEnds"]


class BrokerDirs:
    """The log directories around partitions; each is read once."""

    def __init__(self) -> None:
        self._read: dict[str, BrokerDir | None] = {}

    def of(self, target: LogDirTarget | PartitionTarget) -> BrokerDir | None:
        """Return the broker's log directory of a target; None: there is none, or it cannot be read."""
        path = target.broker_path if isinstance(target, LogDirTarget) else target.log_dir
        if path is None:
            return None
        if path not in self._read:
            try:
                log_dir = target.log_dir if isinstance(target, LogDirTarget) else read_log_dir(path)
                self._read[path] = read_broker_dir(log_dir)
            # An unreadable log directory hides nothing of the partition: its own files are still read.
            except StorageError:
                self._read[path] = None
        return self._read[path]


class LogEnds:
    """The files that show where the log of a partition began and ended.

    Args:
        place: its directory.
        partition: the listing of that.
        broker_dir: the log directory around it; None: there is none.
    """

    def __init__(self, place: PartitionPath, partition: Partition, broker_dir: BrokerDir | None) -> None:
        self._place = place
        self._broker_dir = broker_dir
        self._context = PartitionContext() if broker_dir is None else broker_dir.context(place.name)
        self._bases = [segment.base_offset for segment in partition.segments if segment.log is not None]
        self._epochs = next(
            (
                file.path
                for file in partition.metadata_files
                if file.name.kind is FileKind.LEADER_EPOCH and file.name.state is FileState.LIVE
            ),
            None,
        )

    def findings(self, end_offset: int) -> Iterator[Finding]:
        """Yield findings about records that are missing before the first segment, or at the end of the log.

        `end_offset`: the offset after the last batch.
        """
        name = self._place.name
        # `-future` and `-delete` directories share the checkpoint entries of the current one.
        if name.state is not DirectoryState.CURRENT or name.topic == METADATA_TOPIC:
            return
        if self._broker_dir is not None:
            start, end = (self._bases[0], end_offset) if self._bases else (None, None)
            for finding in check_partition_offsets(self._broker_dir, name, self._place.path, start, end):
                if finding.severity == "error" and FINDING_TYPES[finding.code].is_of_records:
                    yield finding
        if self._bases:
            yield from self._of_epochs(end_offset)

    def _of_epochs(self, end_offset: int) -> Iterator[Finding]:
        name = self._place.name
        if self._epochs is None:
            return
        file = EntryFile(path=self._epochs, kind=FileKind.LEADER_EPOCH, topic=name.topic, partition=name.partition)
        try:
            text = read_epochs(file)
        except StorageError:
            return
        # A file that a broker refuses says nothing about where the log ended.
        if text.is_refused:
            return
        bounds = log_bounds(self._bases[0], self._context, rules_of(LATEST))
        # The lower one: records below a raised log start offset were deleted on request, and are not missing.
        start, sink = min(self._bases[0], bounds.log_start.offset), Sink(name.topic, name.partition)
        add_before_start(text, start, sink, is_clean=bool(self._context.is_clean))
        add_beyond_end(text, end_offset, sink)
        yield from (finding for finding in sink.findings if finding.severity == "error")
