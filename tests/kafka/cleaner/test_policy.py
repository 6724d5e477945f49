"""Whether a log is compacted, and settings that contradict each other."""

from __future__ import annotations

import pytest

from kafkalog_core.errors import SettingError
from kafkalog_core.format.names import METADATA_TOPIC, DirectoryState
from kafkalog_core.kafka.rules.cleaner_rules import check_cleaner_settings, why_never_cleaned, why_not_current
from kafkalog_core.kafka.rules.releases import Release
from kafkalog_core.kafka.sim.settings import Settings
from kafkalog_core.structs import replace

CLEANED = {"orders": "/data/cleaner-offset-checkpoint"}


def test_a_cleaned_log_is_compacted_where_nobody_says_otherwise() -> None:
    settings = Settings(cleaned=CLEANED)
    policy = settings.for_topic("orders").setting("cleanup.policy")
    assert (policy.value, policy.gap) == (("compact",), None)
    assert policy.origin.startswith("inferred: the cleaner's checkpoint /data/cleaner-offset-checkpoint has an entry")
    assert why_never_cleaned(settings, settings.for_topic("orders")) is None
    assert settings.for_topic("others").cleanup_policy == ("delete",)


def test_others_keep_the_default() -> None:
    never = why_never_cleaned(Settings(), Settings().for_topic("orders"))
    assert never is not None
    assert never[0] == "not-compacted"
    assert never[1].startswith("cleanup.policy is delete (default of ")


def test_what_is_said_beats_what_is_inferred() -> None:
    settings = Settings(assigned={"cleanup.policy": "delete"}, cleaned=CLEANED)
    assert settings.for_topic("orders").cleanup_policy == ("compact",), "it is said of all topics"
    settings = Settings(assigned={"cleanup.policy": "delete"}, cleaned=CLEANED, names_topics=True)
    assert settings.for_topic("orders").cleanup_policy == ("delete",)
    both = Settings(of_topics={"orders": {"cleanup.policy": "compact,delete"}}, cleaned=CLEANED).for_topic("orders")
    assert both.cleanup_policy == ("compact", "delete")


def test_a_policy_of_the_whole_broker_does_not_beat_what_shows_that_the_topic_is_compacted() -> None:
    """Where the settings of topics are not known, the broker's are those of other topics."""
    settings = Settings(server={"log.cleanup.policy": "delete"}, config_path="server.properties", cleaned=CLEANED)
    assert settings.for_topic("orders").cleanup_policy == ("compact",)


def test_the_metadata_log_and_a_cleaner_that_is_off() -> None:
    settings = Settings(assigned={"cleanup.policy": "compact", "log.cleaner.enable": "false"})
    never = why_never_cleaned(settings, settings.for_topic(METADATA_TOPIC))
    assert never is not None
    assert "snapshots" in never[1]
    off = why_never_cleaned(settings, settings.for_topic("orders"))
    assert off == ("cleaner-off", "log.cleaner.enable is false (--set), so that no broker compacts anything")


def test_a_cleaner_without_threads() -> None:
    settings = Settings(assigned={"cleanup.policy": "compact", "log.cleaner.threads": "0"})
    off = why_never_cleaned(settings, settings.for_topic("orders"))
    assert off == ("cleaner-off", "log.cleaner.threads is 0 (--set), so that no broker compacts anything")


def test_a_cleaner_that_was_off_by_default_is_on_where_it_has_cleaned() -> None:
    settings = Settings(release=Release(0, 8, 2), assigned={"cleanup.policy": "compact"})
    topic = settings.for_topic("orders")
    off = why_never_cleaned(settings, topic)
    assert off is not None
    assert off[0] == "cleaner-off"
    assert why_never_cleaned(replace(settings, cleaner="/data/cleaner-offset-checkpoint"), topic) is None


def test_the_defaults_are_allowed() -> None:
    for release in (Release(0, 8, 2), Release(2, 8, 2), Release(4, 3, 1)):
        settings = Settings(release=release)
        check_cleaner_settings(settings, settings.for_topic("orders"))


def test_lags_that_contradict_each_other_do_so_since_there_are_two() -> None:
    assigned = {"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "5"}
    old = Settings(release=Release(2, 2), assigned=assigned)
    check_cleaner_settings(old, old.for_topic("orders"))
    new = Settings(release=Release(2, 3), assigned=assigned)
    with pytest.raises(SettingError, match=r"min.compaction.lag.ms=9 and max.compaction.lag.ms=5 \(topic orders\)"):
        check_cleaner_settings(new, new.for_topic("orders"))


@pytest.mark.parametrize(
    ("assigned", "sentence"),
    [
        ({"min.cleanable.dirty.ratio": "1.5"}, "Kafka 4.4 allows at most 1"),
        ({"min.cleanable.dirty.ratio": "-0.1"}, "at least 0"),
        ({"cleanup.policy": "shrink"}, "'shrink' is not one of compact, delete"),
        ({"log.cleaner.threads": "128"}, "gives each of 128 cleaner threads 1048576 bytes"),
        ({"log.cleaner.io.buffer.size": "1"}, "leaves 1 cleaner threads no byte to read with"),
    ],
)
def test_values_that_no_broker_takes(assigned: dict[str, str], sentence: str) -> None:
    settings = Settings(assigned=assigned)
    with pytest.raises(SettingError, match=sentence):
        check_cleaner_settings(settings, settings.for_topic("orders"))


@pytest.mark.parametrize("state", list(DirectoryState))
def test_cleaners_look_at_current_logs_alone(state: DirectoryState) -> None:
    never = why_not_current(state)
    assert (never is None) == (state not in {DirectoryState.FUTURE, DirectoryState.STRAY})
    assert never is None or never[0] == "not-compacted"
