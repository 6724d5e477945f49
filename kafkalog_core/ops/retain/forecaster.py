"""Forecasts of retention for one log directory, also with policies of the user's own and with other settings."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from functools import partial
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING, Final, Self, TypeVar, cast

from kafkalog_core.errors import RefusedError, SelectionError, SettingError, StorageError
from kafkalog_core.findings import Finding, found
from kafkalog_core.format.names import METADATA_TOPIC, DirectoryState
from kafkalog_core.format.textfile import parse_int64
from kafkalog_core.kafka.rules.setting_requests import parse_assignment
from kafkalog_core.kafka.rules.setting_table import SETTINGS
from kafkalog_core.kafka.sim.retention.forecast import Event, RetentionQuestion, Schedule, forecast
from kafkalog_core.kafka.sim.retention.rules import Judgement, check_broker_keys, check_settings, retention_rules
from kafkalog_core.kafka.sim.start.segment_views import PartitionView, check_now, read_partition_view
from kafkalog_core.ops.repair.context import distinct_settings, read_context, waiting_replacement
from kafkalog_core.refusals import Refusal, WayOut
from kafkalog_core.storage.access import code_of_error
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.structs import Struct, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kafkalog_core.kafka.rules.releases import Release
    from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
    from kafkalog_core.kafka.rules.setting_table import Setting, TopicSettings
    from kafkalog_core.kafka.sim.logdir.top_files import BrokerDir
    from kafkalog_core.kafka.sim.retention.forecast import Forecast
    from kafkalog_core.kafka.sim.retention.rules import Policy
    from kafkalog_core.kafka.sim.settings import Settings
    from kafkalog_core.kafka.sim.start.segment_views import SegmentView
    from kafkalog_core.ops.repair.assumptions import Assumption
    from kafkalog_core.ops.repair.context import TargetDir
    from kafkalog_core.ops.repair.held_options import HeldOption
    from kafkalog_core.progress import Progress
    from kafkalog_core.storage.logdir import PartitionPath

__all__ = [
    "RetainForecast",
    "RetentionForecaster",
    "RetentionOptions",
    "Scenario",
    "ScenarioResult",
    "ViewTask",
    "load_policies",
    "read_view",
    "settings_of",
    "totals",
    "under",
    "used_settings",
]


Result = TypeVar("Result")


def load_policies(names: Iterable[str]) -> dict[str, Policy]:
    """Return the policy functions of these names, which run after Kafka's rules. Raises SettingError if one is missing.

    A function raises SettingError too if it fails or gives too few answers, because a deletion may depend on them.
    """
    return {name: _guarded(name, _load(name)) for name in names}


def _load(name: str) -> Policy:
    module_name, separator, function_name = name.partition(":")
    if not separator or not module_name or not function_name or module_name.startswith("."):
        raise SettingError(f"the policy {name!r} is not written as MODULE:FUNCTION")
    module = _called(name, "cannot be imported", lambda: import_module(module_name))
    function = getattr(module, function_name, None)
    if function is None:
        raise SettingError(f"the policy {name!r} does not exist: {module_name} has no {function_name}")
    if not callable(function):
        raise SettingError(f"the policy {name!r} is not a function")
    return cast("Policy", function)


def _guarded(name: str, function: Policy) -> Policy:
    def policy(segments: Sequence[SegmentView], now_ms: int) -> Sequence[Judgement | bool]:
        count = len(segments)
        # One more than needed: a generator without an end must not be drained, and too many answers are an error like
        # too few.
        answers = _called(name, "failed", lambda: list(islice(function(segments, now_ms), count + 1)))
        if len(answers) != count:
            given = f"only {len(answers)}" if len(answers) < count else "more"
            raise SettingError(f"the policy {name!r} was asked about {count} segments and gave {given} answers")
        for segment, answer in zip(segments, answers, strict=True):
            if not isinstance(answer, bool | Judgement):
                raise SettingError(
                    f"the policy {name!r} gave {answer!r} for the segment at {segment.base_offset}, which is neither "
                    "true nor false"
                )
        return answers

    return policy


def _not_named(segments: Sequence[SegmentView], now_ms: int) -> Iterator[Judgement]:
    """A policy of the user's own, for a topic on which it does not act: it deletes nothing."""
    del now_ms
    for _ in segments:
        yield Judgement(False, "the topic is not named (--topic), and it has settings of its own")


def _called(name: str, what: str, call: Callable[[], Result]) -> Result:
    """Return the result of a policy's code; its output is redirected to stderr, because stdout is the result."""
    try:
        # A policy that prints would otherwise mix its text with rows of JSON.
        with redirect_stdout(sys.stderr):
            return call()
    except ImportError as error:
        raise SettingError(f"the policy {name!r} {what}: {error}") from error
    # SystemExit too: a policy is somebody's script, and an exit in it must not end the command without a sentence.
    except (Exception, SystemExit) as error:
        raise SettingError(f"the policy {name!r} {what}: {type(error).__name__}: {error}") from error


_POLICY: Final = "--policy"
_SERVED: Final = frozenset({DirectoryState.CURRENT, DirectoryState.FUTURE})
_USED: Final = ("cleanup.policy", "retention.ms", "retention.bytes", "file.delete.delay.ms")
_LIMITS: Final = ("retention.ms", "retention.bytes", "cleanup.policy")
_TIERED: Final = ("remote.storage.enable", "remote.log.copy.disable", "local.retention.ms", "local.retention.bytes")


class RetentionOptions(Struct, frozen=True, kw_only=True):
    """The options of a retention forecast.

    Args:
        kafka: release and settings.
        now_ms: the time that counts as now, in milliseconds since 1970.
        policies: further policies, as `MODULE:FUNCTION`.
        log_start_offset: log start offset of the only selected partition; None: that of the disk.
    """

    kafka: SettingsRequest
    now_ms: int
    policies: tuple[str, ...] = ()
    log_start_offset: int | None = None


class RetentionForecaster:
    """Forecasts of the partitions of one directory.

    Args:
        target: the directory, and its selected partitions.
        wanted: the options.

    Raises SettingError, SelectionError for single files, StorageError.
    """

    def __init__(self, target: TargetDir, wanted: RetentionOptions) -> None:
        target.check_no_files("retention works on whole partitions: name a partition directory")
        if wanted.log_start_offset is not None and len(target.partitions) != 1:
            raise SelectionError(
                "--log-start-offset applies to one log: name one partition directory", path=target.root
            )
        self.context = read_context(target, wanted.kafka, wanted.now_ms)
        # Raises for settings that cannot be read, before any log is read
        _ = self.context.settings
        self._wanted = wanted
        self._policies = load_policies(wanted.policies)

    def forecasts(self, progress: Progress, jobs: int = 1) -> Iterator[Forecast | Finding]:
        """Yield a forecast of each current or future partition, or a finding if nothing of it can be predicted.

        Args:
            progress: called after each partition; it may raise an error to stop.
            jobs: partitions that are read at the same time: a disk that seeks serves several in one sweep. If all files
                are cached, the threads wait for each other, and more than one takes longer.

        Raises RefusedError if now is before all data, or the given log start offset is above the high watermark.
        """
        threads = ThreadPoolExecutor(jobs)
        try:
            seen = []
            for each in threads.map(read_view, self.view_tasks()):
                progress.advance(0)
                seen.append(each)
        finally:
            # After an error or Ctrl-C, partitions that were not begun are not read.
            threads.shutdown(cancel_futures=True)
        yield from self.forecasts_of(seen)

    def view_tasks(self) -> Iterator[ViewTask]:
        """Yield the partitions to read. Raises SettingError for settings that every broker refuses."""
        context = self.context
        for place in context.target.partitions:
            name = place.name
            if name.state not in _SERVED:
                # LogManager.cleanupLogs looks at current and future logs only.
                continue
            topic = self._settings_of(name.topic)
            # KafkaRaftLog has a retention of its own (metadata.max.retention.bytes and .ms), and ignores topic
            # settings.
            if name.topic != METADATA_TOPIC:
                check_broker_keys(context.settings, name.topic)
                check_settings(topic, context.release)
            yield ViewTask(place=place, topic=topic, broker_dir=context.broker_dir, release=context.release)

    def forecasts_of(self, seen: Iterable[PartitionView | Finding]) -> Iterator[Forecast | Finding]:
        """Yield the forecasts of partitions that were read elsewhere. Raises RefusedError as `forecasts` does."""
        known = [each if isinstance(each, Finding) else self._question(each) for each in seen]
        # All before the first answer: one view with a timestamp after `now` shows that the clock is wrong for the
        # others too.
        check_now((each.view for each in known if isinstance(each, RetentionQuestion)), self._wanted.now_ms)
        for each in known:
            yield each if isinstance(each, Finding) else forecast(each)

    def forecast_of(self, view: PartitionView) -> Forecast:
        """Return the forecast of one partition that was read elsewhere; the caller checks the clock by `check_now`."""
        return forecast(self._question(view))

    def _settings_of(self, name: str | None) -> TopicSettings:
        """Return the settings of a topic. A policy of the user's own acts against those of its retention."""
        topic = self.context.settings.for_topic(name)
        for policy in self._policies:
            topic = self.context.settings.held_against(topic, _LIMITS, f"{_POLICY} {policy}")
        return topic

    def _question(self, view: PartitionView) -> RetentionQuestion:
        topic = self._settings_of(view.topic)
        held = {option for setting in topic.settings for option in setting.held}
        self._check_start(view)
        return RetentionQuestion(
            view=view,
            topic=topic,
            rules=retention_rules(topic, self.context.settings),
            now_ms=self._wanted.now_ms,
            custom={
                name: _not_named if f"{_POLICY} {name}" in held else policy for name, policy in self._policies.items()
            },
            log_start_offset=self._start_of(view),
            origins={setting.name: self._origin(setting, topic) for setting in settings_of(topic)},
        )

    def _origin(self, setting: Setting, topic: TopicSettings) -> str:
        """Return where a value comes from, under which key, and which other values it overrides."""
        given = self.context.settings.said(setting.name, topic.topic)
        if not given:
            return setting.source
        key = given[0][0]
        text = setting.origin if key == setting.name else f"{setting.origin}: {key}"
        overridden = [f"{other}={value} of {where}" for other, value, where in given[1:]]
        return setting.source_of(f"{text}, overrides {' and '.join(overridden)}" if overridden else text)

    def _start_of(self, view: PartitionView) -> int | None:
        """Return the given log start offset, at least the current one, which no broker lowers; None: none is given."""
        wanted = self._wanted.log_start_offset
        # UnifiedLog.maybeIncrementLogStartOffset only raises; a lower offset than the present one changes nothing.
        return None if wanted is None else max(wanted, view.log_start_offset)

    def _check_start(self, view: PartitionView) -> None:
        wanted = self._wanted.log_start_offset
        # DeleteRecords above the high watermark is refused with OffsetOutOfRangeException
        # (UnifiedLog.maybeIncrementLogStartOffset).
        if wanted is not None and wanted > view.high_watermark:
            reason = (
                f"the log start offset cannot be {wanted}: the high watermark is {view.high_watermark} "
                f"({view.bounds.high_watermark.origin}), and a broker refuses an offset above it"
            )
            highest = WayOut("give the highest possible offset", options=f"--log-start-offset {view.high_watermark}")
            raise RefusedError(Refusal(reason, (highest,)), path=view.path)


class ViewTask(Struct, frozen=True, kw_only=True):
    """A partition to read, in this process or another one."""

    place: PartitionPath
    topic: TopicSettings
    broker_dir: BrokerDir | None
    release: Release

    def light(self) -> ViewTask:
        """Return the task without what its log directory contains about other partitions, for another process."""
        # A cluster's log directory has thousands of entries in its checkpoints, and each task would carry all of them
        # to its worker.
        around = None if self.broker_dir is None else self.broker_dir.only(self.place.name)
        return replace(self, broker_dir=around)


def read_view(asked: ViewTask) -> PartitionView | Finding:
    """Return the segments of a partition; a finding if nothing of it can be predicted."""
    place, name = asked.place, asked.place.name
    found_here = partial(found, topic=name.topic, partition=name.partition)
    if name.topic == METADATA_TOPIC:
        return found_here("retain.metadata-log", place.path)
    try:
        partition = read_partition(place.path)
        # As after a start: a check runs in a broker that has loaded the log, with the offsets that the load leaves.
        view = read_partition_view(partition, asked.broker_dir, asked.topic, asked.release, after_start=True)
    except StorageError as error:
        return found_here(code_of_error(error), error.path or place.path, reason=error.message)
    if view is None:
        problem = "it is of Kafka 0.7" if partition.format == "v07" else "its last segment cannot be read"
        problem = problem if partition.segments else "it has no segment"
        return found_here("retain.not-foreseen", place.path, problem=problem)
    first = _comes_first(view)
    return view if first is None else found_here("retain.not-foreseen", place.path, problem=first)


def _comes_first(view: PartitionView) -> str | None:
    """Return why the next start of a broker changes the log first; None: no reason is known."""
    # A replacement changes sizes, times and the number of segments; any forecast of the files as they are would be
    # about another log.
    if waiting_replacement(view.partition) is not None:
        return "a finished replacement of segments is waiting, and a broker completes it first when it starts"
    # LogLoader.recoverLog deletes every segment of a log that ends below its checkpointed log start offset.
    if view.log_start_offset > view.end_offset:
        start, end = view.log_start_offset, view.end_offset
        return (
            f"its checkpointed log start offset {start} is above its log end offset {end}, so a broker that starts "
            "deletes the log"
        )
    return None


def settings_of(topic: TopicSettings) -> list[Setting]:
    """Return the settings of a topic on which retention depends."""
    names = {*_USED, *(_TIERED if topic.remote_storage_enable else ())}
    return [setting for setting in topic.settings if setting.name in names]


def used_settings(topics: Iterable[TopicSettings]) -> tuple[Setting, ...]:
    """Return the settings on which the retention of topics depends, each value and origin once."""
    return distinct_settings(setting for topic in topics for setting in settings_of(topic))


class Scenario(Struct, frozen=True):
    """Assumed settings, as the user wrote them, and by their names."""

    text: str
    assignments: tuple[tuple[str, str], ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `key=value`, several separated by commas; a value may contain commas too. Raises SettingError."""
        parts: list[str] = []
        for piece in text.split(","):
            # A comma separates settings only if what follows has a `=`: `cleanup.policy=compact,delete` is one value.
            if "=" in piece or not parts:
                parts.append(piece.strip())
            else:
                parts[-1] += f",{piece.strip()}"
        assignments = tuple(parse_assignment(part) for part in parts)
        names = [name for name, _ in assignments]
        for name, value in assignments:
            if names.count(name) > 1:
                raise SettingError(f"{name} is given twice; repeat --what-if for one column more")
            if (parse_int64(value) or 0) < -1:
                raise SettingError(f"{name}={value} is out of range: nothing below -1 (-1: unlimited) has a meaning")
        return cls(text, assignments)


class ScenarioResult(Struct, frozen=True, kw_only=True):
    """What is kept of a partition, or of all (`topic` None), in a scenario; `scenario` None: with the real settings."""

    scenario: str | None
    topic: str | None = None
    partition: int | None = None
    kept_segments: int = 0
    kept_bytes: int = 0
    kept_offsets: int = 0
    deleted_segments: int = 0
    deleted_bytes: int = 0
    new_log_start_offset: int | None = None

    @classmethod
    def of(cls, scenario: str | None, forecast: Forecast) -> Self:
        """Return the result of a forecast."""
        view = forecast.question.view
        return cls(
            scenario=scenario,
            topic=view.topic,
            partition=view.number,
            kept_segments=len(forecast.checked.log.segments),
            kept_bytes=forecast.kept_bytes,
            kept_offsets=forecast.kept_offsets,
            deleted_segments=len(forecast.deleted),
            deleted_bytes=forecast.deleted_bytes,
            new_log_start_offset=forecast.checked.log.start_offset,
        )

    def plus(self, other: ScenarioResult) -> ScenarioResult:
        """Return the sum of several partitions."""
        return replace(
            self,
            kept_segments=self.kept_segments + other.kept_segments,
            kept_bytes=self.kept_bytes + other.kept_bytes,
            kept_offsets=self.kept_offsets + other.kept_offsets,
            deleted_segments=self.deleted_segments + other.deleted_segments,
            deleted_bytes=self.deleted_bytes + other.deleted_bytes,
        )


def under(question: RetentionQuestion, settings: Settings, scenario: Scenario) -> Forecast:
    """Return the forecast under the settings of a scenario, which beat all others. Raises SettingError."""
    assigned = dict(scenario.assignments)
    topic_name = question.topic.topic
    try:
        # The scenario names no topic, and still acts on all: it is a question, nothing is deleted by it.
        changed = replace(_overridden(settings, assigned), names_topics=True)
        topic = changed.for_topic(topic_name)
        check_settings(topic, settings.release)
    except SettingError as error:
        raise SettingError(f"--what-if {scenario.text}: {error.message}") from error
    return forecast(replace(question, topic=topic, rules=retention_rules(topic, changed)))


def totals(outcomes: Iterable[ScenarioResult]) -> list[ScenarioResult]:
    """Return the sum of each scenario over all partitions, in the order of the scenarios."""
    sums: dict[str | None, ScenarioResult] = {}
    for outcome in outcomes:
        sums[outcome.scenario] = sums.get(outcome.scenario, ScenarioResult(scenario=outcome.scenario)).plus(outcome)
    return list(sums.values())


def _overridden(settings: Settings, values: Mapping[str, str]) -> Settings:
    """Return the settings with some values that override all others, for each topic too."""
    assigned = dict(values)
    silenced: set[str] = set()
    for definition in SETTINGS:
        # Reversed, because the last key that is given wins below, and `keys` has the strongest first (log.retention.ms
        # before .minutes before .hours).
        names = {key.name: key.factor for key in reversed(definition.keys)}
        if definition.of_topics:
            names |= {definition.name: 1} | ({} if definition.override is None else {definition.override: 1})
        given = [name for name in names if name in values]
        if not given:
            continue
        # Every other spelling of the setting loses its value, or log.retention.ms of server.properties would beat an
        # assumed retention.ms.
        silenced |= names.keys()
        if definition.of_topics and given[-1] != definition.override:
            value = values[given[-1]]
            number = parse_int64(value)
            assigned[definition.name] = value if number is None else str(number * names[given[-1]])
    return replace(
        settings,
        assigned={name: text for name, text in settings.assigned.items() if name not in silenced} | assigned,
        of_topics={
            topic: {name: text for name, text in texts.items() if name not in silenced}
            for topic, texts in settings.of_topics.items()
        },
    )


class RetainForecast(Struct, frozen=True, kw_only=True):
    """The forecast of one partition.

    Args:
        forecast: what the next check deletes.
        findings: findings about it.
        outcomes: the result of each scenario, after that of the real settings.
        events: deletions up to the requested time.
        schedule: when the broker checks.
        assumptions: assumed values because of which records would be deleted; empty if they are accepted.
        held: options that do not act on the topic, because it is not named.
    """

    forecast: Forecast
    findings: tuple[Finding, ...]
    outcomes: tuple[ScenarioResult, ...] = ()
    events: tuple[Event, ...] = ()
    schedule: Schedule
    assumptions: tuple[Assumption, ...] = ()
    held: tuple[HeldOption, ...] = ()
