"""Whether a log is compacted at all, as far as the disk can tell."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kafkalog_core.format.names import METADATA_TOPIC, DirectoryState, FileKind
from kafkalog_core.ops.releases.settings import Setting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalog_core.ops.logdirs.brokerdir import BrokerDir
    from kafkalog_core.ops.releases.settings import Settings, TopicSettings

__all__ = ["cleaned_topics", "is_inferred", "why_never_cleaned", "why_not_current", "with_known_policy"]

_POLICY: Final = "cleanup.policy"
_COMPACT: Final = "compact"
_DEFAULT: Final = "default"
_HINT: Final = "--topic-config TOPIC:cleanup.policy=compact"
_CLEANED: Final = "inferred: the cleaner's checkpoint has an entry for a partition of the topic"
_ASIDE: Final[Mapping[DirectoryState, str]] = {
    DirectoryState.FUTURE: "brokers clean a replica that moves here only once it has taken the other one's place",
    DirectoryState.STRAY: "it is a stray replica, which brokers neither serve nor clean",
}


def why_not_current(state: DirectoryState) -> tuple[str, str] | None:
    """The state of a log that no cleaner looks at, as it is no current one, and why; null: it is one."""
    return ("not-compacted", _ASIDE[state]) if state in _ASIDE else None


def cleaned_topics(broker_dir: BrokerDir | None) -> frozenset[str]:
    """Topics of which the cleaner's checkpoint has an entry for some partition."""
    text = None if broker_dir is None else broker_dir.offsets.get(FileKind.CLEANER_OFFSET)
    return frozenset() if text is None or text.is_refused else frozenset(topic for topic, _ in text.file.entries)


def is_inferred(topic: TopicSettings) -> bool:
    """Whether nobody says that the topic is compacted, and a cleaner has been at it."""
    return topic.origin(_POLICY) == _CLEANED


def with_known_policy(topic: TopicSettings, *, is_cleaned: bool) -> TopicSettings:
    """The settings of a topic, compacted where nobody says what its policy is and a cleaner has been at it.

    `is_cleaned`: whether the cleaner's checkpoint has an entry for one of its partitions.
    """
    if not is_cleaned or _COMPACT in topic.cleanup_policy or not topic.origin(_POLICY).startswith(_DEFAULT):
        return topic
    policy = (_COMPACT,)
    settings = [
        Setting(_POLICY, policy, _CLEANED) if setting.name == _POLICY else setting for setting in topic.settings
    ]
    return replace(topic, cleanup_policy=policy, settings=tuple(settings))


def why_never_cleaned(settings: Settings, topic: TopicSettings, *, has_cleaned: bool) -> tuple[str, str] | None:
    """The state of a log that no cleaner ever takes, and why; null: it is compacted.

    `has_cleaned`: whether a cleaner has been at work in the log directory, which then is not off by default.
    """
    if topic.topic == METADATA_TOPIC:
        return "not-compacted", "the metadata log is cut behind its snapshots, not compacted"
    if _COMPACT not in topic.cleanup_policy:
        policy, origin = ",".join(topic.cleanup_policy) or "empty", topic.origin(_POLICY)
        hint = f"; where it is not, say so: {_HINT}" if origin.startswith(_DEFAULT) else ""
        return "not-compacted", f"cleanup.policy is {policy} ({origin}{hint})"
    enabled = settings.broker("log.cleaner.enable")
    if not enabled.value and not (has_cleaned and enabled.origin.startswith(_DEFAULT)):
        return "cleaner-off", f"log.cleaner.enable is false ({enabled.origin}), so that no broker compacts anything"
    threads = settings.broker("log.cleaner.threads")
    if not threads.value:
        return "cleaner-off", f"log.cleaner.threads is 0 ({threads.origin}), so that no broker compacts anything"
    return None
