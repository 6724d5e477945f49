"""The logs of partitions as they are, and as the next start of a broker leaves them."""

from __future__ import annotations

from collections import deque
from functools import cached_property
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import StorageError
from kafkalog_core.format.names import DirectoryState
from kafkalog_core.kafka.rules.rule_table import rules_of
from kafkalog_core.kafka.sim.logdir.bounds import log_bounds, read_extent
from kafkalog_core.kafka.sim.logdir.leader_epochs import History, read_epoch_file
from kafkalog_core.kafka.sim.logdir.top_findings import file_findings, listed_findings
from kafkalog_core.kafka.sim.logfiles import Checkpoints, Compaction, LogFile, place_of, unit_of_partition
from kafkalog_core.kafka.sim.read_committed import read_committed_view
from kafkalog_core.kafka.sim.start.disk import stops_broker
from kafkalog_core.kafka.sim.start.partition import PartitionLoad
from kafkalog_core.ops.impact.planned import DirState
from kafkalog_core.ops.repair.context import read_context, target_dirs
from kafkalog_core.storage.scan import ScanOptions
from kafkalog_core.structs import Struct, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafkalog_core.engine.targets import Target
    from kafkalog_core.findings import Finding
    from kafkalog_core.format.names import TopicPartition
    from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
    from kafkalog_core.kafka.sim.evidence import ReleaseGuess
    from kafkalog_core.kafka.sim.read_committed import CommittedView
    from kafkalog_core.kafka.sim.start.results import LoadResult
    from kafkalog_core.ops.repair.context import DirContext, TargetDir
    from kafkalog_core.storage.logdir import PartitionPath
    from kafkalog_core.storage.partition import Partition

__all__ = ["Log", "Logs", "logs_of", "read_logs"]

_OPTIONS: Final = ScanOptions(resync=True)
_NO_EPOCHS: Final = History((), 0)
_NO_SHUTDOWN: Final = (
    "these partitions are outside of a broker's log directory, so that it is unknown how the broker was stopped and "
    "what its start reads: the logs count as they are."
)


class Log(Struct, frozen=True, kw_only=True):
    """One copy of a partition's log.

    Args:
        path: of its directory.
        partition: the directory as it was listed; None: it cannot be read.
        files: its logs, each with the size that counts.
        start_offset: the log start offset.
        end_offset: the log end offset.
        history: its leader epochs.
        problem: why it is unknown what consumers get of it, a clause; None: it is known.
    """

    path: str
    partition: Partition | None = None
    files: tuple[LogFile, ...] = ()
    start_offset: int = 0
    end_offset: int = 0
    history: History = _NO_EPOCHS
    problem: str | None = None

    def committed_view(self) -> CommittedView | None:
        """Return what a read_committed consumer gets; None: the log cannot be read. Reads the headers of the log."""
        if self.partition is None:
            return None
        unit = replace(unit_of_partition(self.partition, None), files=self.files)
        try:
            return read_committed_view(
                self.files,
                _OPTIONS,
                self.end_offset,
                self.start_offset,
                compaction=Compaction(unit, Checkpoints(), _OPTIONS),
                log_end_offset=self.end_offset,
            )
        except StorageError:
            return None

    @property
    def rank(self) -> tuple[int, int, int]:
        """What is larger for the copy that a cluster would rather go on with: the last leader epoch, then the end."""
        latest = self.history.latest
        return (self.problem is None, -1 if latest is None else latest, self.end_offset)


class Logs:
    """The partitions of one log directory, each read when it is asked for."""

    def __init__(self, state: DirState, context: DirContext, advance: Callable[[int], None]) -> None:
        self.state = state
        self._context = context
        self._advance = advance
        self._places: dict[TopicPartition, PartitionPath] = {}
        for place in context.target.partitions:
            name = place.name
            if name.topic is not None and name.partition is not None and name.state is DirectoryState.CURRENT:
                self._places[name.topic, name.partition] = place
        self._now: dict[TopicPartition, Log] = {}
        self._next: dict[TopicPartition, Log] = {}
        self._is_start_unknown = False

    @property
    def guess(self) -> ReleaseGuess:
        """The release whose rules are used."""
        return self._context.guess

    @property
    def places(self) -> frozenset[TopicPartition]:
        """The partitions that the directory has."""
        return frozenset(self._places)

    def now(self, place: TopicPartition) -> Log:
        """Return a log as it is."""
        if place not in self._now:
            self._now[place] = self._read(self._places[place])
        return self._now[place]

    def after_start(self, place: TopicPartition) -> Log:
        """Return a log as the next start leaves it."""
        if place not in self._next:
            self._next[place] = self._started(self._places[place], self.now(place))
        return self._next[place]

    @cached_property
    def _refusal(self) -> str | None:
        """Why no broker starts on the directory, by the files at its top, a clause; None: nothing shows that."""
        finding = stops_broker(self._top_findings, rules_of(self._context.release))
        if finding is None:
            return None
        return f"the broker does not start: {self.state.origin_of(finding.path)}: {finding.message.rstrip('.')}"

    @property
    def doubts(self) -> list[str]:
        """Errors in the files at the top of the directory, because of which a broker may not start: sentences."""
        if self._refusal is not None:
            return []
        if self._is_start_unknown:
            return [f"{self.state.origin}: {_NO_SHUTDOWN}"]
        return [
            f"{self.state.origin_of(finding.path)}: {finding.message} kafkalog verify shows whether a broker starts"
            for finding in self._top_findings
            if finding.severity == "error"
        ]

    @cached_property
    def _top_findings(self) -> list[Finding]:
        broker_dir = self._context.broker_dir
        if broker_dir is None or not broker_dir.log_dir.is_broker_dir:
            return []
        return [*broker_dir.findings, *listed_findings(broker_dir.log_dir), *file_findings(broker_dir)]

    def _read(self, place: PartitionPath) -> Log:
        origin = self.state.origin_of(place.path)
        try:
            partition = self.state.partition(place.path)
        except StorageError as error:
            return Log(path=origin, problem=error.message)
        if partition.format == "v07":
            return Log(path=origin, problem="Kafka 0.7 had no groups on brokers")
        extent = read_extent(partition)
        facts = self._context.facts(place.name)
        start = None if extent is None else extent.start
        end = None if extent is None else extent.end
        if extent is None and partition.segments:
            return Log(path=origin, partition=partition, problem="its last segment cannot be read")
        bounds = log_bounds(
            start,
            facts.context,
            rules_of(facts.release),
            is_tiered=facts.settings.remote_storage_enable,
            end_offset=end,
        )
        epochs = read_epoch_file(place.path)
        start_offset = bounds.log_start.offset
        end_offset = start_offset if end is None else end
        return Log(
            path=origin,
            partition=partition,
            files=unit_of_partition(partition, None).files,
            start_offset=start_offset,
            end_offset=end_offset,
            history=History(() if epochs is None else epochs.entries, end_offset),
        )

    def _problem_of(self, place: PartitionPath) -> str | None:
        """Return why no consumer gets a log after the start, a clause; None: nothing outside of it shows that."""
        elsewhere = self._context.assigned_elsewhere
        if self._refusal is not None:
            return self._refusal
        if place.path in elsewhere and self.state.root == self.state.origin:
            return f"a broker that starts does not keep it: {elsewhere[place.path].message}"
        return None

    def _started(self, place: PartitionPath, now: Log) -> Log:
        if now.partition is None or now.problem is not None:
            return now
        problem = self._problem_of(place)
        if problem is not None:
            return replace(now, problem=problem)
        facts = self._context.facts(place.name, as_loaded=True)
        if facts.context.is_clean is None:
            self._is_start_unknown = True
            return now
        try:
            load = PartitionLoad(now.partition, facts.context, facts.load_options, advance=self._advance)
            deque(load.run(), maxlen=0)
        except StorageError as error:
            return replace(now, problem=error.message)
        result = load.result
        if result.problem is not None:
            sentence = result.problem.sentence.removesuffix(".")
            return replace(now, problem=f"the broker does not load it: {sentence}")
        return replace(
            now,
            files=tuple(_files_after(now, result)),
            start_offset=result.log_start_offset,
            end_offset=result.end_offset,
            history=History(result.epochs or (), result.end_offset),
        )


def _files_after(now: Log, result: LoadResult) -> Iterator[LogFile]:
    """Yield the logs after a start, where they are now."""
    topic, number = (None, None) if now.partition is None else (now.partition.topic, now.partition.partition)
    for each in result.segments:
        if each.segment is None or each.segment.log is None:
            continue
        file = replace(each.segment.log, size_bytes=each.size_bytes)
        yield LogFile(
            file=file,
            place=place_of(file, topic, number, with_path=False),
            state="closed",
            is_v07=False,
            is_last=each is result.segments[-1],
        )


def read_logs(
    targets: Iterable[Target], request: SettingsRequest, now_ms: int, advance: Callable[[int], None]
) -> list[Logs]:
    """Return the logs of the log directories that are named, in their order. Raises SettingError and StorageError."""
    return [logs_of(target, request, now_ms, advance) for target in target_dirs(targets)]


def logs_of(
    target: TargetDir,
    request: SettingsRequest,
    now_ms: int,
    advance: Callable[[int], None],
    state: DirState | None = None,
) -> Logs:
    """Return the logs of one log directory; `state`: as a plan would leave it."""
    context = read_context(target, request, now_ms)
    return Logs(state or DirState(root=target.root, origin=target.root), context, advance)
