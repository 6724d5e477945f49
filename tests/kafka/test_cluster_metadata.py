"""What topics and brokers are configured with by the cluster metadata log, and how much it counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalog_core.engine.named_dirs import NamedDirs
from kafkalog_core.kafka.rules.releases import LATEST
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.kafka.sim.cluster_metadata import ClusterConfigs, read_copies
from kafkalog_core.kafka.sim.named_dirs import node_of_config, related_dirs
from kafkalog_core.kafka.sim.settings import read_settings
from tests.support.clusters import (
    BROKER,
    TOPIC,
    config_record,
    removed_record,
    topic_record,
    write_meta,
    write_metadata_log,
)

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog_core.kafka.rules.setting_table import Setting


def _log_dir(path: Path, *values: bytes, damage: bytes = b"") -> str:
    write_metadata_log(write_meta(path), *values, damage=damage)
    return str(path)


def test_the_last_value_counts_and_a_removed_one_does_not(tmp_path: Path) -> None:
    log_dir = _log_dir(
        tmp_path,
        config_record(TOPIC, "orders", "retention.ms", "1"),
        config_record(TOPIC, "orders", "retention.ms", "2"),
        config_record(TOPIC, "orders", "segment.bytes", "100"),
        config_record(TOPIC, "orders", "segment.bytes", None),
        config_record(BROKER, "7", "log.retention.ms", "3"),
        config_record(BROKER, "8", "log.retention.ms", "4"),
        config_record(BROKER, "", "log.roll.ms", "5"),
        config_record(BROKER, "7", "ssl.keystore.password", "secret"),
    )
    configs = read_copies([log_dir]).configs("7", log_dir)
    assert configs.topics == {"orders": {"retention.ms": "2"}}
    assert configs.broker == {"log.retention.ms": "3"}
    assert configs.brokers == {"log.roll.ms": "5"}
    assert configs.is_whole


def test_a_topic_that_is_removed_takes_its_settings_with_it(tmp_path: Path) -> None:
    config = config_record(TOPIC, "orders", "retention.ms", "1")
    log_dir = _log_dir(tmp_path, topic_record("orders"), config, removed_record())
    assert read_copies([log_dir]).configs("7", None).topics == {}


def test_copies_that_end_alike_and_contradict_each_other(tmp_path: Path) -> None:
    """The directory's own copy is used, and the others are named, whichever of them comes first."""
    dirs = [
        _log_dir(tmp_path / str(value), config_record(TOPIC, "orders", "retention.ms", str(value))) for value in (1, 2)
    ]
    dirs.append(_log_dir(tmp_path / "short"))
    unset = _log_dir(tmp_path / "unset", config_record(TOPIC, "orders", "retention.ms", None))
    assert (
        read_copies([dirs[0], unset])
        .configs("7", dirs[0])
        .contradictions("orders", "retention.ms")
        .endswith(f"{unset}/__cluster_metadata-0 does not set retention.ms")
    )
    copies = read_copies(dirs)
    for own, other, value in ((dirs[0], dirs[1], 1), (dirs[1], dirs[0], 2)):
        configs = copies.configs("7", own)
        assert configs.topics == {"orders": {"retention.ms": str(value)}}
        assert configs.contradictions("orders", "retention.ms") == (
            f", contradicted by a copy that ends at the same offset: {other}/__cluster_metadata-0 has "
            f"retention.ms={3 - value}"
        )
        assert configs.contradictions("orders", "segment.bytes") == ""
        assert configs.contradictions("other", "retention.ms") == ""


def test_a_directory_without_the_log_has_none(tmp_path: Path) -> None:
    assert read_copies([str(tmp_path)]).configs("7", None) == ClusterConfigs()


def test_damage_is_told_with_every_value(tmp_path: Path) -> None:
    config = config_record(TOPIC, "orders", "retention.ms", "1")
    log_dir = _log_dir(tmp_path, topic_record("orders"), config, damage=b"\xff" * 40)
    settings = read_settings(SettingsRequest(), LATEST, log_dir).for_topic("orders")
    assert settings.retention_ms == 1
    assert settings.origin("retention.ms") == f"{log_dir}/__cluster_metadata-0, which is damaged"


def test_what_beats_it_and_what_it_beats(tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text("log.retention.ms=1\nlog.roll.ms=1\nlog.index.interval.bytes=1\n")
    log_dir = _log_dir(
        tmp_path,
        config_record(TOPIC, "orders", "retention.ms", "2"),
        config_record(BROKER, "", "log.roll.ms", "3"),
    )
    origin = f"{log_dir}/__cluster_metadata-0"

    def value(name: str, *assignments: str, topics: tuple[str, ...] = (), names: bool = False) -> tuple[object, str]:
        request = SettingsRequest(
            config=str(config), assignments=assignments, topic_assignments=topics, names_topics=names
        )
        settings = read_settings(request, LATEST, log_dir).for_topic("orders")
        found: Setting = next(each for each in settings.settings if each.name == name)
        return found.value, found.source

    assert value("retention.ms") == (2, origin)
    assert value("retention.ms", "log.retention.ms=9") == (2, origin)
    held = f"{origin}, kept against retention.ms=9: the topic is not named"
    assert value("retention.ms", "retention.ms=9") == (2, held)
    beaten = f"overrides retention.ms=2 of {origin}"
    assert value("retention.ms", "retention.ms=9", names=True) == (9, f"--set, {beaten}")
    assert value("retention.ms", topics=("orders:retention.ms=8",)) == (8, f"--topic-config orders, {beaten}")
    of_another = ("orders:segment.ms=8",)
    assert value("retention.ms", "retention.ms=9", topics=of_another) == (9, f"--set, {beaten}"), "the topic is named"
    assert value("retention.ms", "retention.ms=2") == (2, origin)
    assert value("segment.ms") == (3, origin)
    assert value("segment.ms", "log.roll.ms=9") == (9, "--set")
    assert value("index.interval.bytes") == (1, str(config))


@pytest.mark.parametrize("cluster", ["clusters", "cluster", "copies", ""])
def test_a_cluster_id_may_be_any_text_and_an_empty_one_is_none(cluster: str, tmp_path: Path) -> None:
    paths = [str(write_meta(tmp_path / name, cluster=cluster)) for name in "ab"]
    for _ in range(2):
        own, dirs = related_dirs(paths[0], NamedDirs(paths), {})
        assert own.cluster_id == (cluster or None)
        assert [each.path for each in dirs] == (paths if cluster else paths[:1])


def test_the_number_of_a_node_under_either_name() -> None:
    assert node_of_config({"broker.id": "3"}) == "3"
    assert node_of_config({"node.id": "4", "process.roles": "broker"}) == "4"
    assert node_of_config({"log.dirs": "/data"}) is None
