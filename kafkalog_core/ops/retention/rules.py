"""Which passes of retention run over a log, in which order, and who runs them: by release and settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from kafkalog_core.errors import SettingError
from kafkalog_core.format.textfile import parse_int64
from kafkalog_core.ops.logdirs.segment_views import TIME_INDEXES
from kafkalog_core.ops.releases.release import Release

if TYPE_CHECKING:
    from kafkalog_core.ops.releases.setting_values import TopicSettings
    from kafkalog_core.ops.releases.settings import Settings

__all__ = [
    "START_OF_COMPACTED",
    "PassName",
    "RetentionRules",
    "Runner",
    "check_broker_keys",
    "check_settings",
    "release_rules",
    "retention_rules",
]

PassName = Literal["start-offset", "size", "time"]
Runner = Literal["retention", "cleaner", "nobody"]

_BOTH_POLICIES: Final = Release(0, 10, 1)
_BOUNDED: Final = Release(0, 11)
START_OF_COMPACTED: Final = Release(2, 1)
"""From here on the pass by the log start offset runs over compacted logs too (KAFKA-7358)."""
_START_FIRST: Final = Release(3, 0)
_TIERED: Final = Release(3, 6)
_ALL_OF_TIERED: Final = Release(4, 2)
_KNOWN: Final = frozenset({"delete", "compact"})
_SAME_AS_WHOLE: Final = -2


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRules:
    """How retention works on one log.

    Args:
        passes: in their order; each looks at what the one before has left.
        why_none: why there is none, one sentence without its point; null: there are some.
        is_bounded: whether nothing at or above the high watermark goes.
        runner: who runs them: the retention thread, or the cleaner's for compacted topics.
        retention_ms: the limit of time.
        time_setting: the setting that it comes from.
        retention_bytes: the limit of size.
        size_setting: the setting that it comes from.
        is_tiered: whether a segment goes only once it is in remote storage.
    """

    passes: tuple[PassName, ...]
    why_none: str | None
    is_bounded: bool
    runner: Runner
    retention_ms: int
    time_setting: str
    retention_bytes: int
    size_setting: str
    is_tiered: bool


def retention_rules(topic: TopicSettings, settings: Settings) -> RetentionRules:
    """The rules for a topic, by `UnifiedLog.deleteOldSegments` (before 3.0 `Log`, before 0.11 `LogManager`)."""
    release = settings.release
    is_tiered = topic.remote_storage_enable and not topic.remote_log_copy_disable and release >= _TIERED
    is_compacted = "compact" in topic.cleanup_policy
    passes, why_none = _passes(topic.cleanup_policy, release, is_tiered=is_tiered)
    runner: Runner = "cleaner" if is_compacted else "retention"
    if is_compacted and passes and not settings.broker("log.cleaner.enable").value:
        passes = ()
        why_none = "the cleaner runs the retention of compacted topics, and log.cleaner.enable is false"
    is_local_ms = is_tiered and topic.local_retention_ms != _SAME_AS_WHOLE
    is_local_bytes = is_tiered and topic.local_retention_bytes != _SAME_AS_WHOLE
    return RetentionRules(
        passes=passes,
        why_none=why_none,
        is_bounded=release >= _BOUNDED,
        runner=runner if passes else "nobody",
        retention_ms=topic.local_retention_ms if is_local_ms else topic.retention_ms,
        time_setting="local.retention.ms" if is_local_ms else "retention.ms",
        retention_bytes=topic.local_retention_bytes if is_local_bytes else topic.retention_bytes,
        size_setting="local.retention.bytes" if is_local_bytes else "retention.bytes",
        is_tiered=is_tiered,
    )


def _passes(policy: tuple[str, ...], release: Release, *, is_tiered: bool) -> tuple[tuple[PassName, ...], str | None]:
    if "delete" in policy or (not policy and is_tiered and release >= _ALL_OF_TIERED):
        if release < _BOUNDED:
            return ("time", "size"), None
        return (("start-offset", "size", "time") if release >= _START_FIRST else ("time", "size", "start-offset")), None
    if release >= START_OF_COMPACTED:
        return ("start-offset",), None
    return (), f"cleanup.policy is {','.join(policy) or 'empty'}, and of such a log Kafka {release} deletes nothing"


def release_rules(topic: TopicSettings, release: Release) -> object:
    """What matters of a release for what is deleted of a topic; which pass comes first is made up for by the next."""
    is_tiered = topic.remote_storage_enable and not topic.remote_log_copy_disable
    passes, _ = _passes(topic.cleanup_policy, release, is_tiered=is_tiered)
    return frozenset(passes), release >= TIME_INDEXES, is_tiered and release >= _TIERED


def check_settings(topic: TopicSettings, release: Release) -> None:
    """Raises SettingError for settings that contradict each other, as a broker refuses them."""
    policy = topic.cleanup_policy
    where = "" if topic.topic is None else f"topic {topic.topic}: "
    unknown = [each for each in policy if each not in _KNOWN]
    if unknown:
        raise SettingError(f"{where}cleanup.policy={','.join(policy)}: {unknown[0]!r} is neither delete nor compact")
    if len(policy) != 1 and release < _BOTH_POLICIES:
        raise SettingError(f"{where}Kafka {release} takes one cleanup.policy, not {' and '.join(policy) or 'none'}")
    if topic.remote_storage_enable:
        _check_tiered(topic, release, where)


def check_broker_keys(settings: Settings, topic: str | None) -> None:
    """Raises SettingError for a value that a topic may have, and that no broker starts on where it has it itself."""
    for key, text, origin in settings.said("retention.ms", topic):
        if key != "retention.ms" and parse_int64(text.strip()) == 0:
            raise SettingError(f"{origin}: {key}=0: a broker takes -1 (no limit) or 1 and more; a topic takes 0 too")


def _check_tiered(topic: TopicSettings, release: Release, where: str) -> None:
    if release < _TIERED:
        raise SettingError(f"{where}Kafka {release} knows no remote.storage.enable; 3.6 and later do")
    if "compact" in topic.cleanup_policy:
        raise SettingError(f"{where}remote.storage.enable=true goes with no cleanup.policy that compacts")
    for name, local, whole in (
        ("retention.ms", topic.local_retention_ms, topic.retention_ms),
        ("retention.bytes", topic.local_retention_bytes, topic.retention_bytes),
    ):
        if local != _SAME_AS_WHOLE and whole >= 0 and not 0 <= local <= whole:
            raise SettingError(f"{where}local.{name}={local} is more than {name}={whole}; Kafka refuses that")
