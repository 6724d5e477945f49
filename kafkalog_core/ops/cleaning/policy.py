"""Whether a log is compacted at all, by its settings and its state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.format.names import METADATA_TOPIC, DirectoryState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalog_core.ops.releases.setting_values import TopicSettings
    from kafkalog_core.ops.releases.settings import Settings

__all__ = ["why_never_cleaned", "why_not_current"]

_COMPACT: Final = "compact"
_HINT: Final = "--topic-config TOPIC:cleanup.policy=compact"
_ASIDE: Final[Mapping[DirectoryState, str]] = {
    DirectoryState.FUTURE: "brokers clean a replica that moves here only once it has taken the other one's place",
    DirectoryState.STRAY: "it is a stray replica, which brokers neither serve nor clean",
}


def why_not_current(state: DirectoryState) -> tuple[str, str] | None:
    """The state of a log that no cleaner looks at, as it is no current one, and why; null: it is one."""
    return ("not-compacted", _ASIDE[state]) if state in _ASIDE else None


def why_never_cleaned(settings: Settings, topic: TopicSettings) -> tuple[str, str] | None:
    """Return the state of a log that no cleaner ever takes, and why; None: it is compacted."""
    if topic.topic == METADATA_TOPIC:
        return "not-compacted", "the metadata log is cut behind its snapshots, not compacted"
    if _COMPACT not in topic.cleanup_policy:
        policy = topic.setting("cleanup.policy")
        hint = "" if policy.gap is None else f"; if the topic is compacted, state it: {_HINT}"
        return "not-compacted", f"cleanup.policy is {policy.text or 'empty'} ({policy.source}{hint})"
    enabled = settings.broker("log.cleaner.enable")
    if not enabled.value:
        return "cleaner-off", f"log.cleaner.enable is false ({enabled.source}), so that no broker compacts anything"
    threads = settings.broker("log.cleaner.threads")
    if not threads.value:
        return "cleaner-off", f"log.cleaner.threads is 0 ({threads.origin}), so that no broker compacts anything"
    return None
