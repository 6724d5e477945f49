"""A site, partition by partition, as retention sees it: the settings, the rules and a forecast of each."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import RefusedError, SelectionError, StorageError
from kafkalog_core.findings import Finding, found
from kafkalog_core.format.names import METADATA_TOPIC, DirectoryState
from kafkalog_core.ops.logdirs.brokerdir import read_broker_dir
from kafkalog_core.ops.logdirs.segment_views import PartitionView, check_now, read_partition_view
from kafkalog_core.ops.plans.sites import not_assigned
from kafkalog_core.ops.releases.release_evidence import infer_release
from kafkalog_core.ops.releases.settings import read_settings
from kafkalog_core.ops.retention.custom import load_policies
from kafkalog_core.ops.retention.forecast import Question, forecast
from kafkalog_core.ops.retention.rules import check_broker_keys, check_settings, retention_rules
from kafkalog_core.storage.file_codes import code_of_error
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.segment import SegmentState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalog_core.ops.logdirs.brokerdir import BrokerDir
    from kafkalog_core.ops.plans.sites import Site
    from kafkalog_core.ops.progress import Progress
    from kafkalog_core.ops.releases.release import Release
    from kafkalog_core.ops.releases.release_evidence import ReleaseGuess
    from kafkalog_core.ops.releases.setting_values import Setting, TopicSettings
    from kafkalog_core.ops.releases.settings import Settings, SettingsRequest
    from kafkalog_core.ops.retention.forecast import Forecast
    from kafkalog_core.storage.logdir import PartitionPath

__all__ = ["Look", "Survey", "Wanted", "look", "settings_of", "used_settings"]

_SERVED: Final = frozenset({DirectoryState.CURRENT, DirectoryState.FUTURE})
_USED: Final = ("cleanup.policy", "retention.ms", "retention.bytes", "file.delete.delay.ms")
_TIERED: Final = ("remote.storage.enable", "remote.log.copy.disable", "local.retention.ms", "local.retention.bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is asked of retention.

    Args:
        kafka: release and settings.
        now_ms: the moment.
        policies: further ones, as `MODULE:FUNCTION`.
        log_start_offset: of the one partition that is meant, in place of what the disk says; null: that.
    """

    kafka: SettingsRequest
    now_ms: int
    policies: tuple[str, ...] = ()
    log_start_offset: int | None = None


class Survey:
    """One site.

    Args:
        site: where.
        wanted: what is asked.

    Raises SettingError, SelectionError for files by themselves, StorageError.
    """

    def __init__(self, site: Site, wanted: Wanted) -> None:
        if site.files:
            raise SelectionError("retention is of whole partitions; name a directory", path=site.files[0].path)
        if wanted.log_start_offset is not None and len(site.partitions) != 1:
            raise SelectionError("--log-start-offset is of one log: name one partition directory", path=site.root)
        self.site = site
        self.guess: ReleaseGuess = infer_release(site.root, kafka=wanted.kafka.kafka)
        log_dir = site.log_dir
        self.settings: Settings = read_settings(wanted.kafka, self.guess.release, site.log_dir_path, site.beside)
        self.broker_dir: BrokerDir | None = None if log_dir is None else read_broker_dir(log_dir)
        self._wanted = wanted
        self._policies = load_policies(wanted.policies)

    @cached_property
    def strays(self) -> dict[str, Finding]:
        """Partitions that the broker does not keep at its next start, by path: nothing is deleted of them by then."""
        return not_assigned(self.site, self.settings.server, self._wanted.kafka.kafka)

    def forecasts(self, progress: Progress, jobs: int = 1) -> Iterator[Forecast | Finding]:
        """A forecast of each partition that a broker serves or fills, and what is to be said of others.

        Args:
            progress: asked for leave to go on after each partition.
            jobs: partitions that are read at the same time: a disk that has to seek serves several in one sweep. Where
                all is in memory already the threads wait for each other, and more than one takes longer.

        Raises RefusedError where now lies before all data, or the wanted log start behind the high watermark.
        """
        threads = ThreadPoolExecutor(jobs)
        try:
            seen = []
            for each in threads.map(look, self.looks()):
                progress.advance(0)
                seen.append(each)
        finally:
            threads.shutdown(cancel_futures=True)
        yield from self.foreseen(seen)

    def looks(self) -> Iterator[Look]:
        """What there is to be looked at. Raises SettingError for settings that no broker takes."""
        for place in self.site.partitions:
            name = place.name
            if name.state not in _SERVED:
                continue
            topic = self.settings.for_topic(name.topic)
            if name.topic != METADATA_TOPIC:
                check_broker_keys(self.settings, name.topic)
                check_settings(topic, self.guess.release)
            yield Look(place=place, topic=topic, broker_dir=self.broker_dir, release=self.guess.release)

    def foreseen(self, seen: Iterable[PartitionView | Finding]) -> Iterator[Forecast | Finding]:
        """The forecasts, of what came of all looks, in their order. Raises RefusedError as `forecasts` does."""
        known = [each if isinstance(each, Finding) else self._question(each) for each in seen]
        check_now((each.view for each in known if isinstance(each, Question)), self._wanted.now_ms)
        for each in known:
            yield each if isinstance(each, Finding) else forecast(each)

    def _question(self, view: PartitionView) -> Question:
        topic = self.settings.for_topic(view.topic)
        self._check_start(view)
        return Question(
            view=view,
            topic=topic,
            rules=retention_rules(topic, self.settings),
            now_ms=self._wanted.now_ms,
            custom=self._policies,
            log_start_offset=self._start_of(view),
            origins={setting.name: self._origin(setting, topic) for setting in settings_of(topic)},
        )

    def _origin(self, setting: Setting, topic: TopicSettings) -> str:
        """Where a value comes from, by which key, and which others it overrules."""
        said = self.settings.said(setting.name, topic.topic)
        if not said:
            return setting.source
        key = said[0][0]
        text = setting.origin if key == setting.name else f"{setting.origin}: {key}"
        overruled = [f"{other}={value} of {where}" for other, value, where in said[1:]]
        text = f"{text}, before {' and '.join(overruled)}" if overruled else text
        return text if setting.gap is None else f"{text}, assumed: {setting.gap.why}"

    def _start_of(self, view: PartitionView) -> int | None:
        """The log start that is wanted; a broker only ever raises it."""
        wanted = self._wanted.log_start_offset
        return None if wanted is None else max(wanted, view.log_start_offset)

    def _check_start(self, view: PartitionView) -> None:
        wanted = self._wanted.log_start_offset
        if wanted is not None and wanted > view.high_watermark:
            raise RefusedError(
                f"the log start offset cannot be {wanted}: the high watermark is {view.high_watermark} "
                f"({view.high_watermark_origin}), and a broker refuses an offset above it; give a lower "
                "--log-start-offset",
                path=view.path,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A partition that is to be looked at, in this process or another one."""

    place: PartitionPath
    topic: TopicSettings
    broker_dir: BrokerDir | None
    release: Release

    def light(self) -> Look:
        """The same without what the log directory says of other partitions."""
        around = None if self.broker_dir is None else self.broker_dir.only(self.place.name)
        return replace(self, broker_dir=around)


def look(asked: Look) -> PartitionView | Finding:
    """The segments of a partition; a finding where nothing of it can be foreseen."""
    place, name = asked.place, asked.place.name
    where = {"topic": name.topic, "partition": name.partition}
    if name.topic == METADATA_TOPIC:
        return found("retain.metadata-log", place.path, **where)  # type: ignore[arg-type]
    try:
        partition = read_partition(place.path)
        view = read_partition_view(partition, asked.broker_dir, asked.topic, asked.release)
    except StorageError as error:
        return found(code_of_error(error), error.path or place.path, reason=error.message, **where)  # type: ignore[arg-type]
    if view is None:
        problem = "it is of Kafka 0.7" if partition.format == "v07" else "its last segment cannot be read"
        problem = problem if partition.segments else "it has no segment"
        return found("retain.not-foreseen", place.path, problem=problem, **where)  # type: ignore[arg-type]
    first = _comes_first(view)
    return view if first is None else found("retain.not-foreseen", place.path, problem=first, **where)  # type: ignore[arg-type]


def _comes_first(view: PartitionView) -> str | None:
    """Why the next start of a broker makes another log of it first; null: it does not, as far as can be seen."""
    if any(segment.state is SegmentState.SWAP for segment in view.partition.other_segments):
        return "a replacement waits to take the place of segments, and a broker that starts puts it there first"
    if view.log_start_offset > view.end_offset:
        start, end = view.log_start_offset, view.end_offset
        return f"its checkpointed log start {start} lies behind its end {end}, so that a broker that starts deletes it"
    return None


def settings_of(topic: TopicSettings) -> list[Setting]:
    """What counts of the settings of a topic."""
    names = {*_USED, *(_TIERED if topic.remote_storage_enable else ())}
    return [setting for setting in topic.settings if setting.name in names]


def used_settings(topics: Iterable[TopicSettings]) -> tuple[Setting, ...]:
    """What counted, each value and origin once."""
    used = {
        (setting.name, setting.value, setting.origin): setting for topic in topics for setting in settings_of(topic)
    }
    return tuple(used.values())
