"""Cut the end of logs off: from an offset on, at the first damage, or where a broker's recovery would cut.

What a cut leaves is brought into line with it: indexes, producer snapshots, leader epochs, and what the checkpoints at
the top of the log directory say. A plan says what is lost, and when a healthy replica is the better cure.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import SelectionError
from kafkalog_core.findings import found
from kafkalog_core.format.names import METADATA_TOPIC, DirectoryState, FileKind
from kafkalog_core.ops.logdirs.brokerdir import read_broker_dir
from kafkalog_core.ops.logdirs.context import PartitionContext
from kafkalog_core.ops.plans.plan import Outcome
from kafkalog_core.ops.pool import Pool
from kafkalog_core.ops.recovery.loader_rules import rules_of
from kafkalog_core.ops.recovery.rules import recovery_rules
from kafkalog_core.ops.releases.release_evidence import infer_release
from kafkalog_core.ops.releases.settings import read_settings
from kafkalog_core.ops.truncation.aftermath import Surroundings
from kafkalog_core.ops.truncation.checkpoints import FOLLOWING, lower_offsets
from kafkalog_core.ops.truncation.search import Question, search
from kafkalog_core.ops.truncation.staging import stage_cut
from kafkalog_core.storage.partition import read_partition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.logdirs.brokerdir import BrokerDir
    from kafkalog_core.ops.plans.plan import PlanRequest
    from kafkalog_core.ops.progress import Progress
    from kafkalog_core.ops.releases.release import Release
    from kafkalog_core.ops.releases.settings import Setting
    from kafkalog_core.ops.truncation.search import Answer
    from kafkalog_core.storage.changing.changes import Stage
    from kafkalog_core.storage.partition import Partition

__all__ = ["plan_truncate"]

_USED: Final = ("index.interval.bytes", "segment.index.bytes", "max.message.bytes")
_TIERED: Final = ("remote.storage.enable",)
_SHARED_BYTES: Final = 64 * 1024 * 1024
"""Below, starting processes takes longer than reading."""


def plan_truncate(request: PlanRequest, stage: Stage, progress: Progress) -> Outcome:
    """The planner of `kafkalog truncate`.

    Options: `kafka` (of a SettingsRequest), and one of `to_offset` (an offset), `at_damage` and `as_broker` (true).
    Partitions that wait for their deletion are passed over.

    Raises:
        SelectionError: files by themselves were named, or several partitions for one offset.
    """
    return _Planner(request, stage, progress).plan()


class _Planner:
    def __init__(self, request: PlanRequest, stage: Stage, progress: Progress) -> None:
        self._request = request
        self._stage = stage
        self._progress = progress
        options = request.options
        to_offset = options.get("to_offset")
        self._question = Question(
            to_offset=to_offset if isinstance(to_offset, int) else None, as_broker=bool(options.get("as_broker"))
        )
        kafka = request.settings
        self._guess = infer_release(request.site.root, kafka=kafka.kafka)
        log_dir = request.site.log_dir
        self._settings = read_settings(kafka, self._guess.release, None if log_dir is None else log_dir.path)
        self._broker_dir: BrokerDir | None = None if log_dir is None else read_broker_dir(log_dir)
        self._used: dict[tuple[str, object, str], Setting] = {}

    def plan(self) -> Outcome:
        """Find all cuts first: what the checkpoints say of log starts is lowered before anything is cut."""
        site = self._request.site
        if site.files:
            raise SelectionError("truncate cuts whole partitions; name the directory of one", path=site.files[0].path)
        if self._question.to_offset is not None and len(site.partitions) != 1:
            raise SelectionError("--to-offset is of one log: name one partition directory", path=site.root)
        answers = list(self._answers())
        cuts = [(answer.cut, answer.aftermath) for answer in answers if answer.cut is not None]
        ends = {
            (cut.partition.topic, cut.partition.partition): cut.end_offset
            for cut, _ in cuts
            if self._is_served(cut.partition)
        }
        self._lower(FileKind.LOG_START_OFFSET, ends)
        for cut, aftermath in cuts:
            stage_cut(cut, aftermath, self._stage)
        for kind in FOLLOWING:
            self._lower(kind, ends)
        rules = _start_rules if self._question.as_broker else _has_producers
        return Outcome(
            findings=(
                *(finding for answer in answers for finding in answer.findings),
                *(_of_metadata(cut.partition) for cut, _ in cuts if cut.partition.topic == METADATA_TOPIC),
            ),
            refusals=tuple(finding for answer in answers for finding in answer.refusals),
            losses=tuple(loss for answer in answers for loss in answer.losses),
            settings=tuple(self._used.values()),
            release=self._guess if self._question.as_broker or cuts else None,
            needs_release=bool(cuts) and not self._guess.agree(rules),
        )

    def _is_served(self, partition: Partition) -> bool:
        """Whether the offsets in the checkpoints are of this directory."""
        return self._broker_dir is not None and self._broker_dir.is_served(partition.name)

    def _lower(self, kind: FileKind, ends: dict[tuple[str | None, int | None], int]) -> None:
        if self._broker_dir is not None and ends:
            lower_offsets(self._broker_dir, kind, ends, self._stage)

    def _answers(self) -> Iterator[Answer]:
        """All partitions in their order, in several processes where that is worth it."""
        partitions = [
            partition
            for place in self._request.site.partitions
            if place.name.state is not DirectoryState.DELETE and (partition := read_partition(place.path)).segments
        ]
        size_bytes = sum(segment.size_bytes for partition in partitions for segment in partition.segments)
        self._progress.expect(size_bytes)
        pieces = [(partition, self._question, self._surroundings(partition)) for partition in partitions]
        jobs = min(self._request.jobs, len(pieces))
        if jobs < 2 or size_bytes < _SHARED_BYTES:
            yield from (search(*piece, self._progress.advance) for piece in pieces)
            return
        with Pool(jobs, self._progress) as pool:
            yield from pool.map(search, pieces)

    def _surroundings(self, partition: Partition) -> Surroundings:
        context, high_watermark = PartitionContext(), None
        if self._broker_dir is not None:
            context = self._broker_dir.context(partition.name, as_loaded=self._question.as_broker)
            if self._is_served(partition):
                high_watermark = self._broker_dir.offset(FileKind.HIGH_WATERMARK, partition.name)
        settings = self._settings.for_topic(partition.topic)
        names = {*(_USED if self._question.as_broker else ()), *(_TIERED if settings.remote_storage_enable else ())}
        for setting in settings.settings:
            if setting.name in names:
                self._used[setting.name, setting.value, setting.origin] = setting
        expiration = self._settings.broker("producer.id.expiration.ms").value
        return Surroundings(
            context=context,
            high_watermark=high_watermark,
            release=self._guess.release,
            settings=settings,
            expiration_ms=expiration if isinstance(expiration, int) else 0,
            now_ms=self._request.now_ms,
        )


def _of_metadata(partition: Partition) -> Finding:
    return found("truncate.metadata-log", partition.path, topic=partition.topic, partition=partition.partition)


def _start_rules(release: Release) -> object:
    """What matters of a release where its start says where to cut; beside replacements nothing is cut."""
    return replace(rules_of(release), completes_swaps=True), recovery_rules(release)


def _has_producers(release: Release) -> bool:
    """What matters of a release where an offset or damage says where to cut: whether there are snapshots."""
    return rules_of(release).has_producers
