"""What topics and brokers are configured with by the cluster metadata log, and how much it counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.ops.releases.cluster_configs import ClusterConfigs, read_cluster_configs
from kafkalog_core.ops.releases.release import LATEST
from kafkalog_core.ops.releases.settings import Setting, SettingsRequest, read_settings
from tests.build import Record, batch_v2

if TYPE_CHECKING:
    from pathlib import Path

TOPIC, BROKER = 2, 4
ID = bytes(range(16))


def _text(text: str | None) -> bytes:
    return b"\0" if text is None else bytes([len(text) + 1]) + text.encode()


def _config(kind: int, resource: str, name: str, value: str | None) -> bytes:
    return b"\1\4\0" + bytes([kind]) + _text(resource) + _text(name) + _text(value) + b"\0"


def _created(name: str) -> bytes:
    return b"\1\2\0" + _text(name) + ID + b"\0"


REMOVED = b"\1\x09\0" + ID + b"\0"


def _log_dir(path: Path, *values: bytes, damage: bytes = b"") -> str:
    """Each value is a batch of a segment of its own where there is damage in the first, else all are in one."""
    partition = path / "__cluster_metadata-0"
    partition.mkdir()
    (path / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=7\n")
    batches = [
        batch_v2([Record(offset=offset, timestamp_ms=1, key=None, value=value)]) for offset, value in enumerate(values)
    ]
    if damage:
        (partition / f"{0:020}.log").write_bytes(batches[0] + damage)
        (partition / f"{1:020}.log").write_bytes(b"".join(batches[1:]))
    else:
        (partition / f"{0:020}.log").write_bytes(b"".join(batches))
    return str(path)


def test_the_last_value_counts_and_a_removed_one_does_not(tmp_path: Path) -> None:
    log_dir = _log_dir(
        tmp_path,
        _config(TOPIC, "orders", "retention.ms", "1"),
        _config(TOPIC, "orders", "retention.ms", "2"),
        _config(TOPIC, "orders", "segment.bytes", "100"),
        _config(TOPIC, "orders", "segment.bytes", None),
        _config(BROKER, "7", "log.retention.ms", "3"),
        _config(BROKER, "8", "log.retention.ms", "4"),
        _config(BROKER, "", "log.roll.ms", "5"),
        _config(BROKER, "7", "ssl.keystore.password", "secret"),
    )
    configs = read_cluster_configs(log_dir)
    assert configs.topics == {"orders": {"retention.ms": "2"}}
    assert configs.broker == {"log.retention.ms": "3"}
    assert configs.brokers == {"log.roll.ms": "5"}
    assert configs.is_whole


def test_a_topic_that_is_removed_takes_its_settings_with_it(tmp_path: Path) -> None:
    config = _config(TOPIC, "orders", "retention.ms", "1")
    assert read_cluster_configs(_log_dir(tmp_path, _created("orders"), config, REMOVED)).topics == {}


def test_a_directory_without_the_log_has_none(tmp_path: Path) -> None:
    assert read_cluster_configs(str(tmp_path)) == ClusterConfigs()


def test_damage_is_told_with_every_value(tmp_path: Path) -> None:
    config = _config(TOPIC, "orders", "retention.ms", "1")
    log_dir = _log_dir(tmp_path, _created("orders"), config, damage=b"\xff" * 40)
    settings = read_settings(SettingsRequest(), LATEST, log_dir).for_topic("orders")
    assert settings.retention_ms == 1
    assert settings.origin("retention.ms") == f"{log_dir}/__cluster_metadata-0, which is damaged"


def test_what_beats_it_and_what_it_beats(tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text("log.retention.ms=1\nlog.roll.ms=1\nlog.index.interval.bytes=1\n")
    log_dir = _log_dir(
        tmp_path,
        _config(TOPIC, "orders", "retention.ms", "2"),
        _config(BROKER, "", "log.roll.ms", "3"),
    )
    origin = f"{log_dir}/__cluster_metadata-0"

    def value(name: str, *assignments: str, topics: tuple[str, ...] = ()) -> tuple[object, str]:
        request = SettingsRequest(config=str(config), assignments=assignments, topic_assignments=topics)
        settings = read_settings(request, LATEST, log_dir).for_topic("orders")
        found: Setting = next(each for each in settings.settings if each.name == name)
        return found.value, found.origin

    assert value("retention.ms") == (2, origin)
    assert value("retention.ms", "log.retention.ms=9") == (2, origin)
    assert value("retention.ms", "retention.ms=9") == (9, "--set")
    assert value("retention.ms", topics=("orders:retention.ms=8",)) == (8, "--topic-config orders")
    assert value("segment.ms") == (3, origin)
    assert value("segment.ms", "log.roll.ms=9") == (9, "--set")
    assert value("index.interval.bytes") == (1, str(config))
