"""Which passes run, in which order, by release and settings; and which settings no broker takes."""

from __future__ import annotations

import pytest

from kafkalog_core.errors import SettingError
from kafkalog_core.kafka.rules.releases import Release, parse_release
from kafkalog_core.kafka.sim.retention.rules import check_broker_keys, check_settings, release_rules, retention_rules
from kafkalog_core.kafka.sim.settings import Settings
from tests.kafka.retention.views import rules

ALL = ("start-offset", "size", "time")
SINCE_0_11 = ("time", "size", "start-offset")
TIERED = {"remote_storage_enable": "true", "retention_ms": "1000", "retention_bytes": "500"}


@pytest.mark.parametrize(
    ("release", "policy", "passes"),
    [
        ("4.3.1", "delete", ALL),
        ("4.3.1", "compact,delete", ALL),
        ("4.3.1", "compact", ("start-offset",)),
        ("4.3.1", "", ("start-offset",)),
        ("3.9.1", "delete", ALL),
        ("3.0", "delete", ALL),
        ("2.8.2", "delete", SINCE_0_11),
        ("2.1", "compact", ("start-offset",)),
        ("2.0.1", "compact", ()),
        ("0.11", "delete", SINCE_0_11),
        ("0.10.2.2", "delete", ("time", "size")),
        ("2.8.2", "compact", ("start-offset",)),
        ("2.8.2", "", ("start-offset",)),
        ("0.11.0.3", "compact", ()),
        ("0.11.0.3", "delete", SINCE_0_11),
        ("0.10.0.1", "delete", ("time", "size")),
        ("0.8.2.2", "compact", ()),
    ],
)
def test_passes(release: str, policy: str, passes: tuple[str, ...]) -> None:
    found = rules(parse_release(release), cleanup_policy=policy, log_cleaner_enable="true")
    assert found.passes == passes
    assert (found.runner == "nobody") == (not passes)
    assert (found.why_none is None) == bool(passes)


def test_nothing_bounds_retention_before_0_11() -> None:
    assert not rules(Release(0, 10, 2)).is_bounded
    assert rules(Release(0, 11)).is_bounded


def test_the_cleaner_runs_the_retention_of_compacted_topics() -> None:
    assert rules(cleanup_policy="compact,delete").runner == "cleaner"
    assert rules(cleanup_policy="delete").runner == "retention"
    off = rules(cleanup_policy="compact,delete", log_cleaner_enable="false")
    assert (off.runner, off.passes) == ("nobody", ())
    assert off.why_none is not None
    assert "log.cleaner.enable" in off.why_none
    assert rules(cleanup_policy="delete", log_cleaner_enable="false").passes == ALL


def test_tiered_topics_go_by_their_local_limits() -> None:
    found = rules(**TIERED, local_retention_ms="10", local_retention_bytes="-2")
    assert found.is_tiered
    assert (found.retention_ms, found.time_setting) == (10, "local.retention.ms")
    assert (found.retention_bytes, found.size_setting) == (500, "retention.bytes")
    found = rules(**TIERED, local_retention_ms="10", remote_log_copy_disable="true")
    assert not found.is_tiered
    assert (found.retention_ms, found.time_setting) == (1000, "retention.ms")
    assert rules(**TIERED, cleanup_policy="").passes == ALL


@pytest.mark.parametrize(
    ("release", "is_tiered", "passes"), [((3, 5), False, "start-offset"), ((3, 6), True, "start-offset")]
)
def test_remote_storage_counts_from_3_6_on(release: tuple[int, int], is_tiered: bool, passes: str) -> None:
    found = rules(Release(*release), **TIERED, cleanup_policy="")
    assert (found.is_tiered, found.passes) == (is_tiered, (passes,))


@pytest.mark.parametrize(("release", "passes"), [((4, 1), ("start-offset",)), ((4, 2), ALL)])
def test_tiered_topics_without_a_policy_since_4_2(release: tuple[int, int], passes: tuple[str, ...]) -> None:
    assert rules(Release(*release), **TIERED, cleanup_policy="").passes == passes


@pytest.mark.parametrize(
    ("before", "since", "assigned", "are_alike"),
    [
        ("0.10", "0.10.1", {}, False),
        ("0.10.2", "0.11", {}, False),
        ("0.10.2", "0.11", {"cleanup.policy": "compact"}, True),
        ("2.0", "2.1", {"cleanup.policy": "compact"}, False),
        ("2.0", "2.1", {}, True),
        ("2.8", "3.0", {}, True),
        ("3.5", "3.6", {}, True),
        ("3.5", "3.6", {"remote.storage.enable": "true"}, False),
        ("3.9", "4.0", {"remote.storage.enable": "true"}, True),
        ("4.1", "4.2", {"remote.storage.enable": "true", "cleanup.policy": ""}, False),
    ],
)
def test_releases_that_delete_alike(before: str, since: str, assigned: dict[str, str], are_alike: bool) -> None:
    topic = Settings(release=Release(4, 3), assigned=assigned).for_topic("t")
    assert (release_rules(topic, parse_release(before)) == release_rules(topic, parse_release(since))) is are_alike


@pytest.mark.parametrize(
    ("release", "assigned", "words"),
    [
        ("0.10", {"cleanup.policy": "compact,delete"}, "takes one cleanup.policy"),
        ("3.5", {"remote.storage.enable": "true"}, "knows no remote.storage.enable"),
        ("4.3", {"cleanup.policy": "delete,squash"}, "'squash' is not one of compact, delete"),
        ("0.9", {"cleanup.policy": ""}, "takes one cleanup.policy, not none"),
        ("0.9", {"cleanup.policy": "compact,delete"}, "takes one cleanup.policy"),
        ("2.8", {"remote.storage.enable": "true"}, "knows no remote.storage.enable"),
        ("4.3", {"remote.storage.enable": "true", "cleanup.policy": "compact"}, "a cleanup.policy that compacts"),
        (
            "4.3",
            {"remote.storage.enable": "true", "retention.ms": "5", "local.retention.ms": "6"},
            "local.retention.ms=6 is more than retention.ms=5",
        ),
        (
            "4.3",
            {"remote.storage.enable": "true", "retention.bytes": "5", "local.retention.bytes": "-1"},
            "local.retention.bytes=-1 is more than retention.bytes=5",
        ),
        (
            "2.3",
            {"min.compaction.lag.ms": "6", "max.compaction.lag.ms": "5"},
            "=6 is more than max.compaction.lag.ms=5",
        ),
        (
            "4.3",
            {
                "remote.storage.enable": "true",
                "remote.log.copy.disable": "true",
                "retention.ms": "5",
                "local.retention.ms": "4",
            },
            "local.retention.ms=4 is not retention.ms=5",
        ),
    ],
)
def test_settings_that_no_broker_takes(release: str, assigned: dict[str, str], words: str) -> None:
    settings = Settings(release=parse_release(release), assigned=assigned)
    with pytest.raises(SettingError, match=words):
        check_settings(settings.for_topic("t"), settings.release)


@pytest.mark.parametrize("key", ["log.retention.ms", "log.retention.minutes", "log.retention.hours"])
def test_zero_is_for_topics_alone(key: str) -> None:
    with pytest.raises(SettingError, match="a topic takes 0 too"):
        check_broker_keys(Settings(release=Release(4, 3), assigned={key: "0"}), "t")
    check_broker_keys(Settings(release=Release(4, 3), assigned={"retention.ms": "0", key: "5"}), "t")


@pytest.mark.parametrize(
    ("release", "assigned"),
    [("0.10.1", {"cleanup.policy": "compact,delete"}), ("3.6", {"remote.storage.enable": "true"})],
)
def test_settings_that_a_broker_takes_since(release: str, assigned: dict[str, str]) -> None:
    check_settings(Settings(release=parse_release(release), assigned=assigned).for_topic("t"), parse_release(release))


def test_settings_that_a_broker_takes() -> None:
    for assigned in ({}, {"cleanup.policy": ""}, {"remote.storage.enable": "true", "local.retention.ms": "5"}):
        settings = Settings(release=Release(4, 3), assigned=assigned)
        check_settings(settings.for_topic("t"), settings.release)
        assert retention_rules(settings.for_topic("t"), settings).passes
