"""Kafka's settings: which value counts, where it comes from, what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalog_core.errors import NotFoundError, SettingError
from kafkalog_core.kafka.rules.releases import LATEST, Release
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest, parse_assignment
from kafkalog_core.kafka.rules.setting_table import SETTINGS, Setting, check_topic_values, known_names
from kafkalog_core.kafka.sim.settings import Settings, read_settings

if TYPE_CHECKING:
    from pathlib import Path

HOUR_MS = 3_600_000
RELEASE = Release(4, 3)


def _read(*assignments: str, topics: tuple[str, ...] = (), config: Path | None = None) -> Settings:
    path = None if config is None else str(config)
    return read_settings(SettingsRequest(config=path, assignments=assignments, topic_assignments=topics), RELEASE)


def _of(settings: Settings, name: str, topic: str | None = "orders") -> Setting:
    return next(setting for setting in settings.for_topic(topic).settings if setting.name == name)


def test_defaults_are_kafkas() -> None:
    topic = Settings(release=RELEASE).for_topic("orders")
    assert (topic.segment_bytes, topic.segment_ms, topic.segment_jitter_ms) == (1073741824, 604800000, 0)
    assert (topic.segment_index_bytes, topic.index_interval_bytes) == (10485760, 4096)
    assert (topic.retention_ms, topic.retention_bytes, topic.cleanup_policy) == (604800000, -1, ("delete",))
    assert (topic.file_delete_delay_ms, topic.preallocate, topic.max_message_bytes) == (60000, False, 1048588)
    assert topic.origin("preallocate") == "default of 4.3"


@pytest.mark.parametrize(
    ("name", "release", "value"),
    [
        ("num.recovery.threads.per.data.dir", Release(2, 8), 1),
        ("num.recovery.threads.per.data.dir", Release(4, 0), 2),
        ("log.cleaner.enable", Release(0, 8, 2), False),
        ("log.cleaner.enable", Release(0, 9), True),
        ("message.timestamp.after.max.ms", Release(3, 9), 2**63 - 1),
        ("message.timestamp.after.max.ms", Release(4, 3), HOUR_MS),
        ("max.decompressed.message.bytes", Release(4, 4), 2**31 - 9),
    ],
)
def test_defaults_differ_by_release(name: str, release: Release, value: object) -> None:
    assert Settings(release=release).broker(name).value == value


@pytest.mark.parametrize(
    ("release", "name", "days"),
    [
        (Release(0, 11), "transactional.id.expiration.ms", 7),
        (Release(2, 8, 2), "transactional.id.expiration.ms", 7),
        (Release(3, 3, 2), "transactional.id.expiration.ms", 7),
        (Release(3, 4), "producer.id.expiration.ms", 1),
        (Release(4, 4), "producer.id.expiration.ms", 1),
    ],
)
def test_producers_are_forgotten_by_the_setting_of_the_release(release: Release, name: str, days: int) -> None:
    settings = Settings(release=release)
    assert (settings.producer_expiration().name, settings.producer_expiration_ms) == (name, days * 24 * HOUR_MS)
    both = {"transactional.id.expiration.ms": "5000", "producer.id.expiration.ms": "7000"}
    given = Settings(release=release, assigned=both)
    assert given.producer_expiration_ms == int(both[name]), "the other one means something else in this release"


def test_the_topic_beats_the_command_line_and_that_one_the_file(tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text("log.index.interval.bytes = 1\nnum.network.threads=3\n")
    assert _of(_read(config=config), "index.interval.bytes").value == 1
    assert _of(_read(config=config), "index.interval.bytes").origin == str(config)
    by_broker = "log.index.interval.bytes=2"
    by_topic = "index.interval.bytes=3"
    of_broker = _of(_read(by_broker, config=config), "index.interval.bytes")
    assert (of_broker.value, of_broker.origin) == (2, "--set")
    assert of_broker.gap is not None, "the topic may have a value of its own, which nothing here knows"
    assert _of(_read(by_broker, by_topic, config=config), "index.interval.bytes").value == 3
    settings = _read(by_broker, by_topic, topics=("orders:index.interval.bytes=4",), config=config)
    assert _of(settings, "index.interval.bytes") == Setting(
        "index.interval.bytes", 4, "--topic-config orders", overrides="log.index.interval.bytes=2 of --set"
    )
    assert _of(settings, "index.interval.bytes", "payments").value == 3
    assert _of(settings, "index.interval.bytes", None).value == 3


@pytest.mark.parametrize(
    ("assignments", "name", "value"),
    [
        (("log.roll.hours=2",), "segment.ms", 2 * HOUR_MS),
        (("log.roll.hours=2", "log.roll.ms=5"), "segment.ms", 5),
        (("log.retention.hours=1", "log.retention.minutes=2"), "retention.ms", 120_000),
        (("log.retention.hours=1", "log.retention.minutes=2", "log.retention.ms=3"), "retention.ms", 3),
        (("log.retention.hours=-7",), "retention.ms", -1),
        (("log.flush.scheduler.interval.ms=9",), "flush.ms", 9),
        (("log.flush.interval.ms=8", "log.flush.scheduler.interval.ms=9"), "flush.ms", 8),
        (("segment.bytes=2000000", "internal.segment.bytes=100"), "segment.bytes", 100),
        (("cleanup.policy=compact, delete",), "cleanup.policy", ("compact", "delete")),
        (("cleanup.policy=",), "cleanup.policy", ()),
        (("log.preallocate=TRUE",), "preallocate", True),
        (("log.cleaner.min.cleanable.ratio=0.25",), "min.cleanable.dirty.ratio", 0.25),
    ],
)
def test_one_of_several_names_counts(assignments: tuple[str, ...], name: str, value: object) -> None:
    assert _of(_read(*assignments), name).value == value


def test_a_brokers_own_topics_have_settings_of_their_own() -> None:
    settings = _read("log.segment.bytes=5000000", "offsets.topic.segment.bytes=2000000")
    assert settings.for_topic("__consumer_offsets").segment_bytes == 2000000
    assert settings.for_topic("__consumer_offsets").cleanup_policy == ("compact",)
    assert settings.for_topic("__transaction_state").segment_bytes == 100 * 1024 * 1024
    assert settings.for_topic("orders").segment_bytes == 5000000


def test_the_metadata_log_is_made_from_kafkas_defaults() -> None:
    settings = _read("log.index.interval.bytes=7", "log.segment.bytes=5000000")
    topic = settings.for_topic("__cluster_metadata")
    assert (topic.index_interval_bytes, topic.segment_bytes) == (4096, 1073741824)


@pytest.mark.parametrize(
    ("assignment", "problem"),
    [
        ("log.index.interval.bytes=many", "a whole number"),
        ("log.index.interval.bytes=-1", "at least 0"),
        ("log.segment.bytes=14", "Kafka 4.3 requires at least 1048576"),
        ("log.segment.bytes=4294967296", "32 bits"),
        ("log.preallocate=yes", "true or false"),
        ("log.cleaner.min.cleanable.ratio=nan", "a number"),
    ],
)
def test_a_value_that_it_cannot_have(assignment: str, problem: str) -> None:
    with pytest.raises(SettingError, match=problem) as caught:
        _read(assignment).for_topic("orders")
    assert assignment in str(caught.value)


def test_limits_are_those_of_the_release() -> None:
    request = SettingsRequest(assignments=("log.segment.bytes=14",))
    assert read_settings(request, Release(2, 8)).for_topic("orders").segment_bytes == 14


def test_a_name_that_is_unknown_is_refused_with_the_nearest() -> None:
    with pytest.raises(SettingError, match=r"is log\.index\.interval\.bytes or .* meant"):
        parse_assignment("log.index.intervall.bytes=1")
    with pytest.raises(SettingError, match="not key=value"):
        parse_assignment("preallocate")
    with pytest.raises(SettingError, match="TOPIC:key=value"):
        _read(topics=("orders.preallocate=true",))
    with pytest.raises(SettingError, match=r"log\.preallocate"):
        _read(topics=("orders:log.preallocate=true",))


def test_a_file_that_no_broker_reads(tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text("log.dirs=\\u00zz\n")
    with pytest.raises(SettingError, match="line 1"):
        _read(config=config)
    config.write_text("#" * 70_000)
    with pytest.raises(SettingError, match="this is not a server"):
        _read(config=config)
    with pytest.raises(NotFoundError):
        _read(config=tmp_path / "missing")


def test_every_setting_has_a_value_and_every_name_is_known() -> None:
    names = list(known_names())
    for definition in SETTINGS:
        setting = Settings(release=LATEST).broker(definition.name)
        assert setting.value == definition.default(LATEST)
        assert all(key.name in names for key in definition.keys)


@pytest.mark.parametrize(
    ("release", "name", "text", "words"),
    [
        (LATEST, "retention.ms", "-7", "requires at least -1"),
        (Release(2, 2), "retention.ms", "-7", "requires at least -1"),
        (Release(2, 1), "retention.ms", "-7", None),
        (LATEST, "retention.ms", "-1", None),
        (LATEST, "retention.bytes", "-7", None),
        (LATEST, "min.cleanable.dirty.ratio", "1.5", "allows at most 1"),
        (LATEST, "min.cleanable.dirty.ratio", "1", None),
        (LATEST, "leader.replication.throttled.replicas", "abc", r"expected \* or a list"),
        (LATEST, "leader.replication.throttled.replicas", "0:1, 1:1,", None),
        (LATEST, "follower.replication.throttled.replicas", "*", None),
        (LATEST, "no.such.setting", "1", "Unknown topic config name: no.such.setting"),
        (LATEST, "log.retention.ms", "1", "Unknown topic config name"),
        (Release(3, 9), "message.downconversion.enable", "true", None),
        (LATEST, "message.downconversion.enable", "true", "Unknown topic config name"),
        (Release(3, 9), "message.timestamp.difference.max.ms", "1", None),
        (LATEST, "message.timestamp.difference.max.ms", "1", "Unknown topic config name"),
        (Release(3, 7), "compression.zstd.level", "1", "Unknown topic config name"),
        (LATEST, "compression.zstd.level", "23", "allows at most 22"),
        (LATEST, "compression.type", "zip", "'zip' is not one of uncompressed"),
        (LATEST, "cleanup.policy", "delete,delete", None),
        (LATEST, "compression.gzip.level", "0", "'0' is not one of -1, 1, 2"),
        (Release(4, 3, 1), "max.decompressed.message.bytes", "1", "Unknown topic config name"),
        (Release(4, 2, 1), "max.decompressed.message.bytes", "1", "Unknown topic config name"),
        (Release(4, 2, 2), "max.decompressed.message.bytes", "1", None),
        (LATEST, "max.decompressed.message.bytes", "1", None),
        (LATEST, "cleanup.policy", "delete,", "must not be empty"),
        (Release(4, 1), "cleanup.policy", "delete,delete,", None),
        (LATEST, "cleanup.policy", "", None),
        (LATEST, "message.timestamp.type", "Never", "'Never' is not one of CreateTime"),
        (LATEST, "segment.bytes", "1000", "requires at least 1048576"),
        (LATEST, "internal.segment.bytes", "1000", None),
        (LATEST, "min.insync.replicas", "0", "requires at least 1"),
        (LATEST, "preallocate", "yes", "expected true or false"),
    ],
)
def test_values_of_topics_by_release(release: Release, name: str, text: str, words: str | None) -> None:
    """`LogConfig.validate` of the sources of 2.1.1, 2.2.2, 3.7.1, 3.9.2, 4.1.1, 4.2.0 and 4.3.1.

    The names of 4.2.2 and 4.4.0 are those of their `LogConfig.configNames`.

    That of 4.3.1 was asked about 2,500 names and values, too.
    """
    if words is None:
        check_topic_values({name: text}, release)
        return
    with pytest.raises(SettingError, match=words) as error:
        check_topic_values({name: text}, release)
    assert not str(error.value).startswith("None")


def test_the_broker_takes_any_negative_retention_for_unlimited() -> None:
    """KafkaConfig.getLogRetentionTimeMillis; the topic's own value is checked by LogConfig."""
    assert Settings(release=RELEASE, assigned={"log.retention.ms": "-7"}).for_topic("t").retention_ms == -1
    with pytest.raises(SettingError, match=r"--topic-config t: retention\.ms=-7: Kafka 4\.3 requires at least -1"):
        _ = _read(topics=("t:retention.ms=-7",)).for_topic("t").retention_ms


def test_an_error_shows_the_beginning_of_a_long_value() -> None:
    with pytest.raises(SettingError) as error:
        check_topic_values({"compression.type": "x" * 30_000}, LATEST)
    assert len(str(error.value)) < 500
