"""The image of a cluster, against what its own brokers said through their Admin API just before they stopped."""

from __future__ import annotations

import json
import re
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_core.kafka.sim.metadata_log import UnreadPlace, Until, read_image, stored_records
from kafkalog_core.ops.cluster.image_rows import acl_rows, feature_rows, partition_rows, quota_rows, user_rows
from kafkalog_core.topics.metadata_records import BROKER_RESOURCE, TOPIC_RESOURCE, decode_record, encode_record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafkalog_core.topics.cluster_image import ClusterImage

pytestmark = pytest.mark.corpus

_ACL = re.compile(
    r"\(pattern=ResourcePattern\(resourceType=(\w+), name=(.*), patternType=(\w+)\), "
    r"entry=\(principal=(.*), host=(.*), operation=(\w+), permissionType=(\w+)\)\)"
)
_OF_TOPICS = {"log.retention.ms": "retention.ms", "min.insync.replicas": "min.insync.replicas"}
"""Settings of brokers in these cases, and those of topics that they give a default."""


def _states(corpus: Path, tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """Metadata logs, each with what the cluster said while its log ended where the high watermark is."""
    for sheet in sorted(corpus.glob("modern/*/cluster_state.json")):
        log = sheet.parent / "logdir" / "__cluster_metadata-0"
        if log.is_dir():
            yield log, sheet
    for archive in sorted(corpus.glob("modern/09-*/final/*-metadata.tar.gz")):
        place = tmp_path / archive.name
        with tarfile.open(archive) as packed:
            packed.extractall(place, filter="data")
        (log,) = place.glob("*/__cluster_metadata-0")
        for sheet in sorted(archive.parents[1].glob("state-*.json")):
            yield log, sheet


def test_the_image_is_what_the_live_cluster_said(corpus: Path, tmp_path: Path) -> None:
    compared = 0
    for log, sheet in _states(corpus, tmp_path):
        said = json.loads(sheet.read_text())
        reading = read_image(str(log), until=Until(offset=said["quorum"]["high_watermark"] - 1))
        where = f"{log.parent.parent.name} {sheet.name}"
        assert reading.is_whole, where
        assert not reading.contradicted, where
        image = reading.image
        assert _topics(image) == said["topics"], where
        assert {row["name"]: row["level"] for row in feature_rows(image)} == said["features"], where
        assert reading.end_epoch == said["quorum"]["leader_epoch"], where
        if isinstance(said["acls"], list):
            names = ("resource_type", "resource", "pattern_type", "principal", "host", "operation", "permission")
            entries = {tuple(str(row[name]) for name in names) for row in acl_rows(image)}
            assert entries == {_ACL.fullmatch(text).groups() for text in said["acls"]}, where  # type: ignore[union-attr]
        quotas = {
            "{" + ", ".join(f"{kind}={name}" for kind, name in entity.items()) + "}": {row["name"]: row["value"]}
            for row in quota_rows(image)
            if isinstance(entity := row["entity"], dict)
        }
        assert quotas == said["quotas"], where
        for row in user_rows(image, shows_secrets=False):
            mechanism, iterations = str(row["mechanism"]).replace("-", "_"), row["iterations"]
            assert f"mechanism={mechanism}, iterations={iterations}" in said["scram"][row["user"]], where
        assert len(image.users) == len(said["scram"]), where
        _check_configs(image, said["configs"], where)
        compared += 1
    assert compared > 0


def _topics(image: ClusterImage) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for row in partition_rows(image, list(image.topics), {}, {}):
        name = str(row["topic"])
        internal = name in {"__consumer_offsets", "__transaction_state", "__share_group_state"}
        topic = found.setdefault(name, {"internal": internal, "partitions": [], "topic_id": row["topic_id"]})
        columns = ("elr", "isr", "last_known_elr", "leader", "partition", "replicas")
        topic["partitions"].append({name: row[name] for name in columns})
    return found


def _check_configs(image: ClusterImage, said: dict[str, dict[str, str]], where: str) -> None:
    """The Admin API shows settings of the brokers with those of a topic, where they are not the release's defaults."""
    by_brokers = dict(image.configs_of(BROKER_RESOURCE, ""))
    for name, configs in said.items():
        kind, _, resource = name.partition(":")
        own = dict(image.configs_of(TOPIC_RESOURCE if kind == "TOPIC" else BROKER_RESOURCE, resource))
        if kind == "TOPIC":
            inherited = {_OF_TOPICS[key]: value for key, value in by_brokers.items() if key in _OF_TOPICS}
        else:
            inherited = by_brokers
        assert {**inherited, **own} == configs, (where, name)


def _logs(corpus: Path) -> list[Path]:
    return sorted(path for path in corpus.glob("modern/**/__cluster_metadata-0") if path.is_dir())


def test_every_record_to_the_same_bytes(corpus: Path) -> None:
    count = 0
    for log in _logs(corpus):
        for path in sorted((*log.glob("*.log"), *log.glob("*.checkpoint"), *log.parent.glob("*.checkpoint"))):
            for item in stored_records(str(path), None):
                if isinstance(item, UnreadPlace) or item.control is not None or not item.value:
                    continue
                record = decode_record(item.value)
                assert encode_record(record.name, record.version, record.fields) == item.value, (path, item.offset)
                count += 1
    assert count > 100


def test_a_snapshot_is_the_replay_of_the_log_to_its_offset(corpus: Path) -> None:
    """Controllers wrote these snapshots from their own images."""
    compared = 0
    for log in _logs(corpus):
        if not (log / f"{0:020}.log").exists():
            continue
        for snapshot in sorted(log.glob("*.checkpoint")):
            offset = int(snapshot.name.split("-")[0])
            until = Until(offset=offset - 1)
            by_snapshot, by_log = read_image(str(log), until=until), read_image(str(log), until=until, is_oldest=True)
            if not offset or not by_log.is_whole or by_snapshot.snapshot == by_log.snapshot:
                continue
            image, other = by_snapshot.image, by_log.image
            for name in image.__struct_fields__:
                # No snapshot has the leader of the quorum.
                if name != "leader_change":
                    assert getattr(image, name) == getattr(other, name), (snapshot, name)
            compared += 1
    assert compared > 0
