"""The requests of a live broker without sockets: topics, settings, batches, transactions, groups, upkeep."""

from __future__ import annotations

import errno
import shutil
import struct
import subprocess
import sys
import zlib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_core.engine.targets import resolve
from kafkalog_core.errors import SettingError, StorageError
from kafkalog_core.format.compression import compress
from kafkalog_core.kafka.sim.metadata_log import read_image
from kafkalog_core.livebroker.disks.live_disks import LiveDisks
from kafkalog_core.livebroker.disks.live_settings import LiveSettings
from kafkalog_core.livebroker.disks.upkeep import Upkeep
from kafkalog_core.livebroker.logs.log_dir_failure import ClosedLogError
from kafkalog_core.ops.verify.engine import verify
from kafkalog_core.ops.verify.request import VerifyRequest
from kafkalog_core.serve.metrics.network_counts import Metrics
from kafkalog_core.serve.network.answers import Close, NoResponse, PendingAnswer
from kafkalog_core.serve.topics.fetch_requests import FetchRequests
from kafkalog_core.storage.changing.writer import Disk
from kafkalog_core.wire.error_codes import ErrorCode
from tests.livebroker.consuming import offsets
from tests.serve.groups.group_requests import OF_T, commit_offset, committed, described_group, join
from tests.serve.network.network_server import Events
from tests.support.asking import response
from tests.support.live_state import NOW_MS, TRANSACTIONAL, Clock, Live, Payer, batch_of, living, sent_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalog_core.kafka.rules.setting_table import TopicSettings
    from kafkalog_core.livebroker.logs.live_log import LiveLog

DAY_MS = 86_400_000
BY_BROKER = {"num_partitions": -1, "replication_factor": -1}
NO_MEMBER = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    """A live broker over an empty directory."""
    with living(tmp_path) as found:
        yield found


# --- the directory ----------------------------------------------------------------------------------------------------
def test_an_empty_directory_becomes_that_of_a_cluster_which_is_there_at_the_next_start(tmp_path: Path) -> None:
    with living(tmp_path) as live:
        live.create("t", 2, retention_ms="60000")
        assert live.produce("t", batch_of(b"a"), 1)["base_offset"] == 0
        identity, known = live.disks.cluster_id, live.disks.topic_id("t")
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    assert set(read_image(str(tmp_path / "__cluster_metadata-0")).image.topic_ids) == {"t"}
    with living(tmp_path) as live:
        assert not (tmp_path / ".kafka_cleanshutdown").exists(), "a crash from here on is no clean stop"
        assert (live.disks.cluster_id, live.disks.topic_id("t")) == (identity, known)
        assert live.disks.topic_configs("t") == {"retention.ms": "60000"}
        assert offsets(live, "t", 1) == [0]
    request = VerifyRequest(targets=tuple(resolve([str(tmp_path)])), now_ms=NOW_MS, level="records")
    found = [each for verdict in verify(request) for each in verdict.findings if each.severity != "info"]
    assert found == []


def features(live: Live, version: int = 4) -> tuple[dict[str, tuple[int, int]], dict[str, int], int]:
    """What ApiVersions says of features: those that are supported, those of the cluster, and their epoch."""
    answer = live.ask("ApiVersions", version, client_software_name="test", client_software_version="1")
    supported = {each["name"]: (each["min_version"], each["max_version"]) for each in answer["supported_features"]}
    finalized = {each["name"]: each["max_version_level"] for each in answer["finalized_features"]}
    assert all(each["max_version_level"] == each["min_version_level"] for each in answer["finalized_features"])
    return supported, finalized, answer["finalized_features_epoch"]


def test_features_are_those_of_the_metadata_log(tmp_path: Path) -> None:
    """The ranges are those in the response of a broker of 4.3.1, which leaves out those from 0 on before version 4."""
    with living(tmp_path) as live:
        supported, finalized, epoch = features(live)
        assert supported == {
            "metadata.version": (7, 30),
            "group.version": (0, 1),
            "share.version": (0, 1),
            "eligible.leader.replicas.version": (0, 1),
        }
        assert (finalized, epoch) == ({"metadata.version": 25, "group.version": 1}, 1)
        assert features(live, 3)[0] == {"metadata.version": (7, 30)}
        live.disks.enable_share_groups()
        with live.disks.changing() as cluster:
            cluster.set_feature("transaction.version", 2)  # a Java producer would leave out AddPartitionsToTxn
        assert features(live)[1:] == (finalized | {"share.version": 1}, 3)
        assert live.ask("ApiVersions", 2)["finalized_features"] == []
    with living(tmp_path) as live:
        assert features(live)[1:] == (finalized | {"share.version": 1}, 3)


def test_a_directory_is_locked_while_it_is_written(tmp_path: Path) -> None:
    with living(tmp_path):
        assert (tmp_path / ".lock").exists()
    with pytest.raises(StorageError, match="no such directory"):
        LiveDisks(str(tmp_path / "none"), LiveSettings(), clock_ms=Clock(), new_id=bytes)


def test_after_a_crash_logs_are_recovered_as_a_broker_recovers_them(tmp_path: Path) -> None:
    with living(tmp_path) as live:
        live.create("t")
        live.produce("t", batch_of(b"a"))
        live.produce("t", batch_of(b"b"))
    log = tmp_path / "t-0" / "00000000000000000000.log"
    (tmp_path / ".kafka_cleanshutdown").unlink()
    (tmp_path / "recovery-point-offset-checkpoint").unlink()
    log.write_bytes(log.read_bytes()[:-3])
    with living(tmp_path) as live:
        assert any("kafkalog recover" in note for note in live.notes), live.notes
        assert offsets(live, "t") == [0]
        assert live.produce("t", batch_of(b"c"))["base_offset"] == 1


def test_a_leader_epoch_is_in_its_file_before_the_recovery_point_is_after_its_first_batch(tmp_path: Path) -> None:
    """The append does not wait for the file: until a flush has written it, a crash leaves it to the recovery."""
    (tmp_path / "live").mkdir()
    with living(tmp_path / "live") as live:
        live.create("t")
        live.produce("t", batch_of(b"a"))
        path = Path(live.log("t").path, "leader-epoch-checkpoint")
        assert (path.exists(), live.log("t").recovery_point) == (False, 0)
        shutil.copytree(tmp_path / "live", tmp_path / "crashed")
        live.log("t").sync()
        assert (path.read_text(), live.log("t").recovery_point) == ("0\n1\n0 0\n", 1)
    with living(tmp_path / "crashed") as live:
        live.produce("t", batch_of(b"b"))
    assert (tmp_path / "crashed" / "t-0" / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("log.retention.ms=x", "expected"),
        ("nonsense=1", "not a setting of a live broker"),
        ("num.partitions=0", "at least 1"),
        ("group.max.size=0", "at least 1"),
        ("group.max.size=2147483648", "at most 2147483647"),
        ("quota.window.num=0", "at least 1"),
        ("quota.window.size.seconds=0", "at least 1"),
        ("auto.create.topics.enable=maybe", "true or false"),
        ("num.partitions", "KEY=VALUE"),
    ],
)
def test_a_setting_that_no_broker_takes_is_refused(text: str, reason: str) -> None:
    with pytest.raises(SettingError, match=reason):
        LiveSettings.of([text])


def test_the_size_of_groups_is_a_setting_with_the_default_of_brokers(tmp_path: Path) -> None:
    names = ("group.max.size", "group.consumer.max.size")
    assert [LiveSettings().number(name) for name in names] == [2**31 - 1] * 2

    def beat(name: str) -> ErrorCode:
        body = {"group_id": "modern", "member_id": name, "member_epoch": 0, "instance_id": None, "rack_id": None}
        body |= {"rebalance_timeout_ms": 1000, "subscribed_topic_names": ["t"], "subscribed_topic_regex": None}
        answer = live.ask("ConsumerGroupHeartbeat", 1, **body, server_assignor=None, topic_partitions=[])
        return ErrorCode(answer["error_code"])

    with living(tmp_path, None, *(f"{name}=1" for name in names)) as live:
        join(live, "classic")
        body = {"group_id": "classic", "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "member_id": ""}
        body |= {
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        }
        assert live.ask("JoinGroup", 5, **body)["error_code"] == ErrorCode.GROUP_MAX_SIZE_REACHED
        assert [beat("one"), beat("two"), beat("one")] == [ErrorCode.NONE, ErrorCode.GROUP_MAX_SIZE_REACHED, 0]


class NoSpace(Disk):
    """A disk that has room for two more partitions, and then for none."""

    left = 10**9

    def step(self, what: str, path: str) -> None:
        if what == "mkdir":
            self.left -= 1
            if self.left < 0:
                raise OSError(errno.ENOSPC, "No space left on device")


def test_a_topic_that_does_not_fit_leaves_nothing_and_can_be_created_later(tmp_path: Path) -> None:
    disk = NoSpace()
    disks = LiveDisks(str(tmp_path), LiveSettings(), clock_ms=Clock(), new_id=lambda: b"i" * 16, disk=disk)
    disk.left = 2
    with pytest.raises(StorageError, match="no space left"):
        disks.create_topic("t", 4, {})
    assert not list(tmp_path.glob("t-*"))
    disk.left = 10
    assert disks.create_topic("t", 2, {}).partition_count == 2
    disk.left = 1
    with pytest.raises(StorageError, match="no space left"):
        disks.add_partitions("t", 6)
    assert sorted(path.name for path in tmp_path.glob("t-*")) == ["t-0", "t-1"]
    disks.close()


# --- topics -----------------------------------------------------------------------------------------------------------
def test_topics_are_created_grown_and_deleted(live: Live, tmp_path: Path) -> None:
    assert live.create("t", 2)["num_partitions"] == 2
    assert live.create("t")["error_code"] == ErrorCode.TOPIC_ALREADY_EXISTS
    live.produce("t", batch_of(b"a"))
    held = live.fetch("t")
    for count, code in ((4, ErrorCode.NONE), (3, ErrorCode.INVALID_PARTITIONS)):
        topics = [{"name": "t", "count": count, "assignments": None}]
        answer = live.ask("CreatePartitions", 2, topics=topics, timeout_ms=0, validate_only=False)
        assert answer["results"][0]["error_code"] == code
    assert sorted(path.name for path in tmp_path.glob("t-*")) == ["t-0", "t-1", "t-2", "t-3"]
    answer = live.ask("DeleteTopics", 4, topic_names=["t", "u"], timeout_ms=0)
    codes = {each["name"]: each["error_code"] for each in answer["responses"]}
    assert codes == {"t": ErrorCode.NONE, "u": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert not list(tmp_path.glob("t-*"))
    assert b"a" in sent_bytes(held), "a range that is being sent can still be read"
    assert live.produce("t", batch_of(b"a"))["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert live.create("t")["error_code"] == ErrorCode.NONE
    assert offsets(live, "t") == []


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"name": "a b"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"num_partitions": 0}, ErrorCode.INVALID_PARTITIONS),
        ({"replication_factor": 3}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"replication_factor": 0}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"configs": [{"name": "retention.ms", "value": "x"}]}, ErrorCode.INVALID_CONFIG),
        ({"configs": [{"name": "what", "value": "x"}]}, ErrorCode.INVALID_CONFIG),
        ({"configs": [{"name": "compression.type", "value": "x"}]}, ErrorCode.INVALID_CONFIG),
        ({"configs": [{"name": "compression.type", "value": "\0" * 30_000}]}, ErrorCode.INVALID_CONFIG),
        ({"configs": [{"name": "x" * 30_000, "value": "x" * 30_000}]}, ErrorCode.INVALID_CONFIG),
        ({"configs": [{"name": "retention.ms", "value": "-7"}]}, ErrorCode.INVALID_CONFIG),
        ({"configs": [{"name": "min.cleanable.dirty.ratio", "value": "1.5"}]}, ErrorCode.INVALID_CONFIG),
        ({"configs": [{"name": "leader.replication.throttled.replicas", "value": "abc"}]}, ErrorCode.INVALID_CONFIG),
        ({"configs": [{"name": "remote.storage.enable", "value": "true"}]}, ErrorCode.INVALID_CONFIG),
        ({"assignments": [{"partition_index": 0, "broker_ids": [1]}]}, ErrorCode.INVALID_REQUEST),
        (
            {
                "num_partitions": -1,
                "replication_factor": -1,
                "assignments": [{"partition_index": 0, "broker_ids": [7]}],
            },
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
        (
            {
                "num_partitions": -1,
                "replication_factor": -1,
                "assignments": [{"partition_index": 0, "broker_ids": [1]}],
            },
            ErrorCode.NONE,
        ),
        (BY_BROKER, ErrorCode.NONE),
    ],
)
def test_a_topic_that_no_broker_creates_is_refused(live: Live, changes: dict[str, Any], code: ErrorCode) -> None:
    topic = {"name": "t", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []} | changes
    answer = live.ask("CreateTopics", 5, topics=[topic], timeout_ms=0, validate_only=False)
    assert answer["topics"][0]["error_code"] == code
    assert not (answer["topics"][0]["error_message"] or "").startswith("None")
    assert bool(live.disks.topics) == (code == ErrorCode.NONE)


def test_topics_whose_metrics_have_the_same_name_collide(live: Live) -> None:
    """`Topic.hasCollision`: metrics have `_` for `.`."""
    assert live.create("a.b_c")["error_code"] == ErrorCode.NONE
    for name in ("a_b_c", "a.b.c", "a_b.c"):
        refused = live.create(name)
        assert refused["error_code"] == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert refused["error_message"] == f"Topic '{name}' collides with existing topic: a.b_c"
        live.ask("Metadata", 4, topics=[{"name": name}], allow_auto_topic_creation=True)
    assert list(live.disks.topics) == ["a.b_c"]


def test_a_setting_of_an_older_broker_is_kept_where_another_one_is_changed(live: Live) -> None:
    """A topic of a release with message.format.version is altered, but not with an invalid change."""
    live.create("t")
    with live.disks.changing() as cluster:
        topic = cluster.image.topic("t")
        assert topic is not None
        cluster.set_configs(topic, {"message.format.version": "2.8"})
    live.disks.set_configs("t", {"retention.ms": "5"})
    for changes in ({"message.format.version": "3.0"}, {"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"}):
        with pytest.raises(SettingError) as error:
            live.disks.set_configs("t", changes)
        assert "None" not in str(error.value)
    assert live.disks.topic_configs("t") == {"message.format.version": "2.8", "retention.ms": "5"}


@pytest.mark.parametrize("version", [10, 11, 12, 13])
def test_metadata_without_a_name_or_by_id(live: Live, version: int) -> None:
    """`KafkaApis.handleTopicMetadataRequest`: errors in versions 10 and 11; since 12 names do not count next to ids."""
    live.create("t")
    topic_id, other_id = live.disks.topic_id("t"), bytes(15) + b"x"
    asked = {"allow_auto_topic_creation": True} | dict.fromkeys(
        ("include_topic_authorized_operations", *(["include_cluster_authorized_operations"] if version == 10 else [])),
        False,
    )

    def rows(*topics: tuple[str | None, bytes | None]) -> list[tuple[Any, ...]]:
        body = [{"name": name, "topic_id": at} for name, at in topics]
        answer = live.ask("Metadata", version, topics=body, **asked)
        return [(each["error_code"], each["name"], each["topic_id"]) for each in answer["topics"]]

    by_id = rows(("new", bytes(16)), ("", topic_id), (None, other_id))
    if version < 12:
        assert rows((None, bytes(16))) == [(ErrorCode.INVALID_REQUEST, "", bytes(16))]
        assert [code for code, _, _ in by_id] == [ErrorCode.INVALID_REQUEST] * 3
    else:
        assert by_id == [(ErrorCode.NONE, "t", topic_id), (ErrorCode.UNKNOWN_TOPIC_ID, None, other_id)]
    assert list(live.disks.topics) == ["t"]


def test_a_topic_that_a_client_asks_for_is_created_and_known_to_its_next_request(live: Live) -> None:
    body = {"topics": [{"name": "new"}], "allow_auto_topic_creation": True}
    assert live.ask("Metadata", 4, **body)["topics"][0]["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert live.ask("Metadata", 4, **body)["topics"][0]["error_code"] == ErrorCode.NONE
    other = {"topics": [{"name": "other"}], "allow_auto_topic_creation": False}
    live.ask("Metadata", 4, **other)
    assert "other" not in live.disks.topics


def described(live: Live, kind: int, name: str, keys: list[str] | None) -> dict[str, tuple[str, int]]:
    """Value and source of some settings."""
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    (result,) = live.ask("DescribeConfigs", 4, resources=[resource])["results"]
    return {each["name"]: (each["value"], each["config_source"]) for each in result["configs"]}


def test_settings_are_changed_and_count_at_once(live: Live) -> None:
    live.create("t")

    def alter(kind: int, name: str, *changes: tuple[str, int, str | None]) -> int:
        configs = [{"name": key, "config_operation": how, "value": value} for key, how, value in changes]
        resource = {"resource_type": kind, "resource_name": name, "configs": configs}
        answer = live.ask("IncrementalAlterConfigs", 0, resources=[resource], validate_only=False)
        code: int = answer["responses"][0]["error_code"]
        return code

    assert alter(2, "t", ("max.message.bytes", 0, "100")) == ErrorCode.NONE
    assert described(live, 2, "t", ["max.message.bytes"]) == {"max.message.bytes": ("100", 1)}
    assert live.produce("t", batch_of(b"x" * 200))["error_code"] == ErrorCode.MESSAGE_TOO_LARGE
    assert alter(2, "t", ("max.message.bytes", 1, None)) == ErrorCode.NONE
    assert live.produce("t", batch_of(b"x" * 200))["error_code"] == ErrorCode.NONE
    assert alter(2, "t", ("cleanup.policy", 2, "compact")) == ErrorCode.NONE
    assert described(live, 2, "t", ["cleanup.policy"])["cleanup.policy"] == ("delete,compact", 1)
    assert alter(2, "t", ("cleanup.policy", 3, "delete")) == ErrorCode.NONE
    assert live.produce("t", batch_of(b"x", key=None))["error_code"] == ErrorCode.INVALID_RECORD
    assert alter(2, "t", ("what", 0, "1")) == ErrorCode.INVALID_CONFIG
    assert alter(2, "none", ("retention.ms", 0, "1")) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    node = str(live.disks.node_id)
    assert alter(4, node, ("log.flush.interval.messages", 0, "7")) == ErrorCode.NONE
    assert described(live, 4, node, ["log.flush.interval.messages"])["log.flush.interval.messages"] == ("7", 2)
    assert alter(4, node, ("zookeeper.connect", 0, "7")) == ErrorCode.INVALID_REQUEST
    resource = {"resource_type": 2, "resource_name": "t", "configs": [{"name": "retention.ms", "value": "5"}]}
    live.ask("AlterConfigs", 1, resources=[resource], validate_only=False)
    assert live.disks.topic_configs("t") == {"retention.ms": "5"}


def test_a_broker_says_what_user_interfaces_ask_for(tmp_path: Path) -> None:
    """Names and defaults as a broker of 4.3.1 has them."""
    with living(tmp_path, None, "num.partitions=3") as live:
        found = described(live, 4, str(live.disks.node_id), None)
        port = live.broker.addresses[0].port
    assert (
        found.items()
        >= {
            "num.partitions": ("3", 4),
            "min.insync.replicas": ("1", 5),
            "auto.create.topics.enable": ("true", 5),
            "default.replication.factor": ("1", 5),
            "offsets.topic.num.partitions": ("2", 4),
            "log.dirs": (str(tmp_path), 4),
            "node.id": ("1", 4),
            "broker.id": ("1", 4),
            "listeners": (f"PLAINTEXT://127.0.0.1:{port}", 4),
            "advertised.listeners": (f"PLAINTEXT://127.0.0.1:{port}", 4),
            "compression.type": ("producer", 5),
            "log.retention.ms": ("-1", 4),
        }.items()
    )
    assert "log.message.timestamp.difference.max.ms" not in found, "it went with 4.0"


def test_settings_say_where_their_values_come_from(live: Live) -> None:
    """The broker has log.retention.ms=-1 from its start (`live_state.SETTINGS`)."""
    live.create("t")
    resource = {"resource_type": 2, "resource_name": "t", "configuration_keys": ["retention.ms", "segment.bytes"]}

    def synonyms(key: str, *, wanted: bool = True) -> list[tuple[str, str, int]]:
        (result,) = live.ask("DescribeConfigs", 4, resources=[resource], include_synonyms=wanted)["results"]
        (found,) = (each for each in result["configs"] if each["name"] == key)
        assert not wanted or found["config_source"] == found["synonyms"][0]["source"]
        return [(each["name"], each["value"], each["source"]) for each in found["synonyms"]]

    default = ("log.retention.hours", "168", 5)
    assert synonyms("segment.bytes") == [("log.segment.bytes", str(1 << 30), 5)]
    assert synonyms("segment.bytes", wanted=False) == []
    assert synonyms("retention.ms") == [("log.retention.ms", "-1", 4), default]
    live.disks.set_broker_configs({"log.retention.ms": "7"})
    assert synonyms("retention.ms") == [("log.retention.ms", "7", 2), ("log.retention.ms", "-1", 4), default]
    live.disks.set_configs("t", {"retention.ms": "8"})
    assert synonyms("retention.ms")[:2] == [("retention.ms", "8", 1), ("log.retention.ms", "7", 2)]


class Counting(Disk):
    """A disk that counts its steps by the kind of step and the name of the file."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[tuple[str, str]] = []

    def step(self, what: str, path: str) -> None:
        self.steps.append((what, path.rpartition("/")[2]))


def test_requests_do_not_wait_for_the_disk_more_than_they_must(tmp_path: Path) -> None:
    """A new segment is fsynced with its records (`LogSegment.open`), and a checkpoint is written if it changed."""
    disk = Counting()
    disks = LiveDisks(str(tmp_path), LiveSettings(), clock_ms=Clock(), new_id=lambda: b"i" * 16, disk=disk)
    try:
        disks.create_topic("t", 1, {})
        disk.steps.clear()
        assert disks.partition("t", 0) is not None
        assert [what for what, _ in disk.steps if what == "fsync"] == []
        disks.checkpoint()
        disk.steps.clear()
        disks.checkpoint()
        assert disk.steps == []
        disks.delete_topic("t")
        renamed = {name for what, name in disk.steps if what == "rename"}
        assert "recovery-point-offset-checkpoint" in renamed
        assert "cleaner-offset-checkpoint" not in renamed
    finally:
        disks.close()


def test_settings_of_a_topic_are_found_once(live: Live) -> None:
    live.create("t", retention_ms="5")
    before = live.disks.settings_of("t")
    assert before is live.disks.settings_of("t")
    config = {"name": "retention.ms", "config_operation": 0, "value": "6"}
    resource = {"resource_type": 2, "resource_name": "t", "configs": [config]}
    live.ask("IncrementalAlterConfigs", 1, resources=[resource], validate_only=False)
    assert live.disks.settings_of("t").retention_ms == 6
    resource |= {"resource_type": 4, "resource_name": ""}
    resource["configs"] = [config | {"name": "log.segment.bytes", "value": "2000000"}]
    live.ask("IncrementalAlterConfigs", 1, resources=[resource], validate_only=False)
    assert live.disks.settings_of("t").segment_bytes == 2_000_000


def test_settings_of_kerberos_are_kept_as_on_a_broker_without_it(live: Live) -> None:
    name = "sasl.kerberos.min.time.before.relogin"

    def change(value: str) -> int:
        config = {"name": name, "config_operation": 0, "value": value}
        resource = {"resource_type": 4, "resource_name": str(live.disks.node_id), "configs": [config]}
        answer = live.ask("IncrementalAlterConfigs", 1, resources=[resource], validate_only=False)
        return int(answer["responses"][0]["error_code"])

    assert change("often") == ErrorCode.INVALID_CONFIG
    assert change("58000") == ErrorCode.NONE
    resource = {"resource_type": 4, "resource_name": str(live.disks.node_id), "configuration_keys": [name]}
    answer = live.ask("DescribeConfigs", 1, resources=[resource], include_synonyms=False)
    (config,) = answer["results"][0]["configs"]
    assert (config["value"], config["config_source"], config["read_only"]) == ("58000", 2, False)


# --- batches ----------------------------------------------------------------------------------------------------------
def test_idempotent_producers_get_the_old_offset_for_what_they_send_again(live: Live) -> None:
    live.create("t")

    def send(sequence: int, epoch: int = 0, *values: bytes) -> tuple[int, int]:
        batch = batch_of(*(values or (b"a", b"b")), producer_id=7, producer_epoch=epoch, base_sequence=sequence)
        answer = live.produce("t", batch)
        return answer["error_code"], answer["base_offset"]

    assert [send(sequence) for sequence in (0, 2, 4)] == [(0, 0), (0, 2), (0, 4)]
    assert send(2) == (0, 2)
    assert send(8) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert send(3, 1) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert send(0, 1) == (0, 6)
    assert send(6, 0) == (ErrorCode.INVALID_PRODUCER_EPOCH, -1)
    assert live.log("t").log_end_offset == 8


def test_batches_that_no_broker_takes_are_refused(live: Live) -> None:
    live.create("t")
    good = batch_of(b"abc", b"def")
    flipped = bytearray(good)
    flipped[-1] ^= 1
    assert live.produce("t", bytes(flipped))["error_code"] == ErrorCode.CORRUPT_MESSAGE
    assert live.produce("t", good[:-2])["error_code"] == ErrorCode.CORRUPT_MESSAGE
    assert live.produce("t", good + good)["error_code"] == ErrorCode.INVALID_RECORD
    assert live.produce("t", b"")["error_code"] == ErrorCode.INVALID_RECORD
    assert live.produce("t", batch_of(b"a", attributes=0x20))["error_code"] == ErrorCode.INVALID_RECORD
    assert live.produce("t", batch_of(b"a", attributes=TRANSACTIONAL))["error_code"] == ErrorCode.INVALID_RECORD
    assert live.produce("t", batch_of(b"a"), acks=3)["error_code"] == ErrorCode.INVALID_REQUIRED_ACKS
    late = live.produce("t", batch_of(b"a", time_ms=NOW_MS + 2 * DAY_MS))
    assert late["error_code"] == ErrorCode.INVALID_TIMESTAMP
    assert [each["batch_index"] for each in late["record_errors"]] == [0]
    assert live.produce("__consumer_offsets", good)["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert live.produce("t", good, version=2)["error_code"] == ErrorCode.NONE
    live.create("safe", min_insync_replicas="2")  # Partition.effectiveMinIsr: no more than there are replicas
    assert live.produce("safe", good)["error_code"] == ErrorCode.NONE
    assert offsets(live, "t") == [0, 1]


def test_acks_0_has_no_answer_and_an_error_closes_the_connection(live: Live) -> None:
    live.create("t")
    for topic, kind in (("t", NoResponse), ("none", Close)):
        data = [{"name": topic, "partition_data": [{"index": 0, "records": batch_of(b"a")}]}]
        answer = live.send("Produce", 9, transactional_id=None, acks=0, timeout_ms=0, topic_data=data)
        assert isinstance(answer, kind)
    assert live.log("t").log_end_offset == 1


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_topics_may_store_another_codec_than_producers_send(live: Live, codec: int) -> None:
    live.create("t", compression_type="gzip")
    live.create("flat", compression_type="uncompressed", message_timestamp_type="LogAppendTime")
    for topic in ("t", "flat"):
        answer = live.produce(topic, batch_of(b"abc" * 50, b"def", codec=codec, time_ms=NOW_MS - 5))
        assert answer["error_code"] == ErrorCode.NONE
        assert answer["log_append_time_ms"] == (-1 if topic == "t" else NOW_MS)
        assert offsets(live, topic) == [0, 1]
    assert live.log("flat").latest(is_committed=False).offset == 2
    found = live.log("flat").offset_for_time(NOW_MS)
    assert found is not None
    assert (found.offset, found.timestamp_ms) == (0, NOW_MS)


def message_v1(key: bytes, value: bytes, *, attributes: int = 0, offset: int = 0) -> bytes:
    """A message of magic 1, as clients before 0.11 send it."""
    body = struct.pack(">bbq", 1, attributes, NOW_MS) + struct.pack(">i", len(key)) + key
    body += struct.pack(">i", len(value)) + value
    sealed = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", offset, len(sealed)) + sealed


def test_messages_of_old_clients_become_batches(live: Live) -> None:
    live.create("t")
    plain = message_v1(b"k", b"one") + message_v1(b"k", b"two", offset=1)
    assert live.produce("t", plain, version=2)["base_offset"] == 0
    wrapped = message_v1(b"", compress(1, plain, magic=1), attributes=1, offset=1)
    wrapped = wrapped.replace(struct.pack(">i", 0), struct.pack(">i", -1), 0)
    assert live.produce("t", wrapped, version=2)["error_code"] == ErrorCode.NONE
    assert live.produce("t", plain[:-1] + b"X", version=2)["error_code"] == ErrorCode.CORRUPT_MESSAGE
    assert live.produce("t", plain, version=9)["error_code"] == ErrorCode.INVALID_RECORD
    assert offsets(live, "t") == [0, 1, 2, 3]
    data = sent_bytes(live.fetch("t"))
    assert data.count(b"two") >= 1


def test_a_fetch_waits_for_an_append_until_it_has_enough(live: Live) -> None:
    live.create("t")
    answer = live.fetch("t", max_wait_ms=500, min_bytes=1)
    assert isinstance(answer, PendingAnswer)
    assert answer.take(live.clock.seconds()) is None
    live.produce("t", batch_of(b"here"))
    assert b"here" in sent_bytes(answer)
    hungry = live.fetch("t", max_wait_ms=500, min_bytes=10_000)
    assert isinstance(hungry, PendingAnswer)
    live.produce("t", batch_of(b"more"))
    assert hungry.take(live.clock.seconds()) is None
    late = hungry.take(live.clock.seconds() + 1)
    assert late is not None
    assert b"more" in sent_bytes(late)
    gone = live.fetch("t", 2, max_wait_ms=500)
    assert isinstance(gone, PendingAnswer)
    gone.abandon()
    live.produce("t", batch_of(b"again"))


def test_a_waiting_request_that_fails_does_not_fail_the_append(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events = Events()
    metrics = Metrics(events)
    with living(tmp_path, observer=metrics) as live:
        live.create("t")
        other, waiting = (live.fetch("t", max_wait_ms=500, min_bytes=1) for _ in range(2))
        with monkeypatch.context() as patched:
            patched.setattr(FetchRequests, "_read_all", _failing_once(FetchRequests._read_all))
            assert live.produce("t", batch_of(b"one"))["error_code"] == ErrorCode.NONE
        assert b"one" in sent_bytes(waiting), "the others are called"
        assert live.produce("t", batch_of(b"two"))["error_code"] == ErrorCode.NONE
        ((what, error),) = events.of("network_error")  # it is not called again
        assert (what, str(error)) == ("a request that waits for t-0", "a bug")
        assert metrics.counts().sums["errors"] == 1
        assert isinstance(other, PendingAnswer)
        assert other.is_open, "it is answered at its deadline"


def _failing_once(real: Callable[..., Any]) -> Callable[..., Any]:
    """A function that fails when it is called first."""
    failures = [ValueError("a bug")]

    def called(*given: Any) -> Any:
        if failures:
            raise failures.pop()
        return real(*given)

    return called


def test_records_are_deleted_up_to_an_offset(live: Live) -> None:
    live.create("t")
    live.produce("t", batch_of(b"a", b"b", b"c"))

    def delete(offset: int) -> tuple[int, int]:
        topics = [{"name": "t", "partitions": [{"partition_index": 0, "offset": offset}]}]
        (topic,) = live.ask("DeleteRecords", 1, topics=topics, timeout_ms=0)["topics"]
        return topic["partitions"][0]["error_code"], topic["partitions"][0]["low_watermark"]

    assert delete(2) == (0, 2)
    assert delete(9) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert offsets(live, "t") == [2]
    assert delete(-1) == (0, 3)
    live.create("c", cleanup_policy="compact")
    topics = [{"name": "c", "partitions": [{"partition_index": 0, "offset": 0}]}]
    (topic,) = live.ask("DeleteRecords", 1, topics=topics, timeout_ms=0)["topics"]
    assert topic["partitions"][0]["error_code"] == ErrorCode.POLICY_VIOLATION


def test_elections_and_reassignments_have_one_answer(live: Live) -> None:
    live.create("t")
    node = live.disks.node_id
    for replicas, code in (([node], 0), ([9], ErrorCode.INVALID_REPLICA_ASSIGNMENT), (None, 85)):
        topics = [{"name": "t", "partitions": [{"partition_index": 0, "replicas": replicas}]}]
        answer = live.ask("AlterPartitionReassignments", 0, timeout_ms=0, topics=topics)
        assert answer["responses"][0]["partitions"][0]["error_code"] == code
    asked = [{"topic": "t", "partitions": [0, 5]}]
    (result,) = live.ask("ElectLeaders", 1, election_type=0, topic_partitions=asked, timeout_ms=0)[
        "replica_election_results"
    ]
    codes = [each["error_code"] for each in result["partition_result"]]
    assert codes == [ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


# --- transactions -----------------------------------------------------------------------------------------------------


def test_a_transaction_counts_once_it_is_committed(live: Live) -> None:
    live.create("t")
    payer = Payer(live)
    assert payer.send("t", b"early") == ErrorCode.INVALID_TXN_STATE, "the partition was not added"
    assert payer.add("t") == 0
    assert payer.send("t", b"a", b"b") == 0
    assert payer.commit_offsets("g", "t", 5) == 0
    assert committed(live, "g", "t") == (-1, 0)
    assert committed(live, "g", "t", is_stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert offsets(live, "t", is_committed=True) == []
    assert payer.end(is_commit=True) == 0
    assert payer.end(is_commit=True) == 0, "the answer may have been lost"
    assert payer.end(is_commit=False) == ErrorCode.INVALID_TXN_STATE
    assert offsets(live, "t", is_committed=True) == [0, 1]
    assert committed(live, "g", "t", is_stable=True) == (5, 0)
    assert payer.add("t") == 0
    assert payer.send("t", b"gone") == 0
    assert payer.commit_offsets("g", "t", 9) == 0
    assert payer.end(is_commit=False) == 0
    assert offsets(live, "t", is_committed=True) == [0, 1]
    assert committed(live, "g", "t") == (5, 0)


def test_a_new_producer_of_a_transactional_id_fences_the_old_one(live: Live) -> None:
    live.create("t")
    old = Payer(live)
    old.add("t")
    old.send("t", b"a")
    assert Payer(live).answer["error_code"] == ErrorCode.CONCURRENT_TRANSACTIONS, "it is aborted first"
    new = Payer(live)
    assert (new.id, new.epoch) == (old.id, old.epoch + 2)
    assert old.send("t", b"b") == ErrorCode.INVALID_PRODUCER_EPOCH
    assert old.end(is_commit=True) == ErrorCode.PRODUCER_FENCED
    assert old.add("t") == ErrorCode.PRODUCER_FENCED
    assert new.add("t") == new.send("t", b"c") == new.end(is_commit=True) == 0
    assert offsets(live, "t", is_committed=True) == [2]
    again = Payer(live, producer_id=new.id, producer_epoch=new.epoch)
    assert again.epoch == new.epoch + 1
    assert Payer(live, producer_id=new.id, producer_epoch=new.epoch).epoch == again.epoch, "a lost answer"
    assert Payer(live, producer_id=new.id, producer_epoch=old.epoch).answer["error_code"] == ErrorCode.PRODUCER_FENCED


def test_requests_of_transactions_are_refused_as_brokers_refuse_them(live: Live) -> None:
    live.create("t")
    assert Payer(live, "").answer["error_code"] == ErrorCode.INVALID_REQUEST
    assert Payer(live, transaction_timeout_ms=0).answer["error_code"] == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert Payer(live, transaction_timeout_ms=10**7).answer["error_code"] == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert Payer(live, producer_id=5).answer["error_code"] == ErrorCode.INVALID_REQUEST
    payer = Payer(live)
    assert payer.add("none") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    payer.id += 1
    assert payer.add("t") == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert payer.end(is_commit=True) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    payer.id -= 1
    assert payer.end(is_commit=True) == ErrorCode.INVALID_TXN_STATE
    first, second = (live.ask("InitProducerId", 0, transactional_id=None, transaction_timeout_ms=1) for _ in range(2))
    assert first["producer_id"] != second["producer_id"]


def test_a_transaction_that_takes_too_long_is_aborted(live: Live) -> None:
    live.create("t")
    payer = Payer(live)
    payer.add("t")
    payer.send("t", b"a")
    live.clock.now_ms += 59_000
    live.broker.sweep()
    assert live.log("t").last_stable_offset() == 0
    live.clock.now_ms += 2_000
    live.broker.sweep()
    assert live.log("t").last_stable_offset() == live.log("t").log_end_offset
    assert payer.send("t", b"b") == ErrorCode.INVALID_PRODUCER_EPOCH
    (state,) = live.ask("DescribeTransactions", 0, transactional_ids=["payer"])["transaction_states"]
    assert state["transaction_state"] == "CompleteAbort"
    listed = live.ask(
        "ListTransactions", 1, state_filters=["CompleteAbort", "What"], producer_id_filters=[], duration_filter=-1
    )
    assert [each["transactional_id"] for each in listed["transaction_states"]] == ["payer"]
    assert listed["unknown_state_filters"] == ["What"]
    live.clock.now_ms += 8 * DAY_MS
    live.broker._upkeep.run()
    (state,) = live.ask("DescribeTransactions", 0, transactional_ids=["payer"])["transaction_states"]
    assert state["error_code"] == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_transactions_and_groups_go_on_after_a_restart(tmp_path: Path) -> None:
    with living(tmp_path) as live:
        live.create("t")
        payer = Payer(live)
        payer.add("t")
        payer.send("t", b"a")
        payer.commit_offsets("g", "t", 3)
        commit_offset(live, "other", "t", 2)
        producers = live.ask("DescribeProducers", 0, topics=[{"name": "t", "partition_indexes": [0, 9]}])
        rows = producers["topics"][0]["partitions"]
        assert rows[0]["active_producers"][0]["current_txn_start_offset"] == 0
        assert rows[1]["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with living(tmp_path) as live:
        assert committed(live, "other", "t") == (2, 0)
        assert committed(live, "g", "t", is_stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        payer.live = live
        assert payer.send("t", b"b") == 0
        assert payer.end(is_commit=True) == 0
        assert offsets(live, "t", is_committed=True) == [0, 1]
        assert committed(live, "g", "t", is_stable=True) == (3, 0)
        assert Payer(live, "another").id != payer.id


def test_who_looks_for_a_coordinator_finds_its_topic(live: Live) -> None:
    """`KafkaApis.getCoordinator` creates it, before any group or transaction is there."""
    for key_type, topic in enumerate(("__consumer_offsets", "__transaction_state")):
        assert topic not in live.disks.topics
        answer = live.ask("FindCoordinator", 4, key_type=key_type, coordinator_keys=["a", "b"])
        assert {each["error_code"] for each in answer["coordinators"]} == {ErrorCode.NONE}
        assert len(live.disks.topics[topic].copies) == 2


def test_no_coordinator_is_found_whose_topic_cannot_be_created(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live.disks, "create_topic", _full)
    answer = live.ask("FindCoordinator", 2, key="g", key_type=0)
    assert (answer["error_code"], answer["node_id"]) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)


def _full(*_: Any) -> None:
    raise StorageError("No space left on device")


# --- groups -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [5, 9])
def test_a_static_leader_comes_back_in_every_version_of_the_request(live: Live, version: int) -> None:
    body = {
        "group_id": "g",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "member_id": "",
        "group_instance_id": "one",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"x"}],
    }
    joined = live.send("JoinGroup", version, **body)
    assert isinstance(joined, PendingAnswer)
    live.broker.sweep()
    first = response("JoinGroup", version, joined.take(0))
    sync = {"group_id": "g", "generation_id": 1, "member_id": first["member_id"], "group_instance_id": "one"}
    assert isinstance(live.send("SyncGroup", 3, assignments=[], **sync), PendingAnswer)
    again = live.ask("JoinGroup", version, **body)
    assert (again["error_code"], again["generation_id"]) == (0, 1)
    assert again["member_id"] != first["member_id"]
    is_follower = again["leader"] != again["member_id"]
    assert is_follower == (version < 9), "it makes no other assignment"


def test_a_group_and_its_members_are_in_the_log(tmp_path: Path) -> None:
    with living(tmp_path) as live:
        live.create("t")
        member = join(live, "g")
        assert described_group(live, "g") == ("Stable", [member])
        assert commit_offset(live, "g", "t", 4, member_id=member, generation_id_or_member_epoch=1) == 0
        assert (
            commit_offset(live, "g", "t", 4, member_id="x", generation_id_or_member_epoch=1)
            == ErrorCode.UNKNOWN_MEMBER_ID
        )
    with living(tmp_path) as live:
        assert described_group(live, "g") == ("Stable", [member])
        beat = {"group_id": "g", "generation_id": 1, "member_id": member, "group_instance_id": None}
        assert live.ask("Heartbeat", 3, **beat)["error_code"] == 0
        answer = live.ask("OffsetDelete", 0, group_id="g", topics=OF_T)
        assert answer["topics"][0]["partitions"][0]["error_code"] == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        assert live.ask("DeleteGroups", 1, groups_names=["g"])["results"][0]["error_code"] == ErrorCode.NON_EMPTY_GROUP
        live.clock.now_ms += 11_000
        live.broker.sweep()
        assert described_group(live, "g") == ("Empty", [])
    with living(tmp_path) as live:
        assert described_group(live, "g") == ("Empty", [])
        assert committed(live, "g", "t") == (4, 0)
        codes = [each["error_code"] for each in live.ask("DeleteGroups", 1, groups_names=["g", "none"])["results"]]
        assert codes == [0, ErrorCode.GROUP_ID_NOT_FOUND]
    with living(tmp_path) as live:
        assert described_group(live, "g") == ("Dead", [])
        assert committed(live, "g", "t") == (-1, 0)


def test_offsets_are_deleted_expire_and_go_with_their_topic(live: Live) -> None:
    live.create("t")
    live.create("u")
    assert commit_offset(live, "g", "t", 1) == commit_offset(live, "g", "u", 1) == 0
    assert commit_offset(live, "g", "none", 1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    long = {"committed_metadata": "x" * 5000}
    assert commit_offset(live, "g", "t", 1, partition=long) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    answer = live.ask("OffsetDelete", 0, group_id="g", topics=OF_T)
    assert answer["error_code"] == 0
    assert committed(live, "g", "t") == (-1, 0)
    assert live.ask("OffsetDelete", 0, group_id="no", topics=[])["error_code"] == ErrorCode.GROUP_ID_NOT_FOUND
    live.ask("DeleteTopics", 4, topic_names=["u"], timeout_ms=0)
    live.create("u")
    assert committed(live, "g", "u") == (-1, 0)
    commit_offset(live, "old", "t", 1)
    live.clock.now_ms += 8 * DAY_MS
    commit_offset(live, "young", "t", 1)
    live.broker.expire_offsets()
    assert (committed(live, "old", "t"), committed(live, "young", "t")) == ((-1, 0), (1, 0))


def test_a_group_has_a_session_timeout_of_its_own(live: Live) -> None:
    """`GroupConfig`: consumer.session.timeout.ms and consumer.heartbeat.interval.ms are those of one group."""

    def change(name: str, value: str) -> int:
        config = {"name": name, "config_operation": 0, "value": value}
        resource = {"resource_type": 32, "resource_name": "g", "configs": [config]}
        answer = live.ask("IncrementalAlterConfigs", 1, resources=[resource], validate_only=False)
        return int(answer["responses"][0]["error_code"])

    def join(group: str) -> dict[str, Any]:
        body = {"group_id": group, "member_id": f"m-{group}", "member_epoch": 0, "instance_id": None, "rack_id": None}
        body |= {"rebalance_timeout_ms": 1000, "subscribed_topic_names": ["t"], "subscribed_topic_regex": None}
        return live.ask("ConsumerGroupHeartbeat", 1, **body, server_assignor=None, topic_partitions=[])

    live.create("t")
    assert change("consumer.session.timeout.ms", "44999") == ErrorCode.INVALID_CONFIG
    assert change("consumer.session.timeout.ms", "60000") == ErrorCode.NONE
    assert change("consumer.heartbeat.interval.ms", "6000") == ErrorCode.NONE
    assert [join(group)["heartbeat_interval_ms"] for group in ("g", "other")] == [6000, 5000]
    members = []
    for passed_ms in (44_000, 2_000, 13_000, 2_000):
        live.clock.now_ms += passed_ms
        live.broker.sweep()
        groups = live.ask("ConsumerGroupDescribe", 0, group_ids=["g", "other"], include_authorized_operations=False)
        members.append([len(each["members"]) for each in groups["groups"]])
    assert members == [[1, 1], [1, 0], [1, 0], [0, 0]]


def test_a_group_whose_sessions_have_just_ended_can_be_deleted(live: Live) -> None:
    identity = {"group_id": "g", "member_id": "", "group_instance_id": "i"}
    protocols = {"protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}]}
    live.send("JoinGroup", 5, **identity, **protocols, session_timeout_ms=6000, rebalance_timeout_ms=6000)
    live.broker.sweep()
    live.clock.now_ms += 5_999
    delete = partial(live.ask, "DeleteGroups", 1, groups_names=["g"])
    assert delete()["results"][0]["error_code"] == ErrorCode.NON_EMPTY_GROUP
    live.clock.now_ms += 6_001
    assert delete()["results"][0]["error_code"] == ErrorCode.NONE


# --- upkeep -----------------------------------------------------------------------------------------------------------
def upkeep_of(live: Live) -> Upkeep:
    """The background work, whose failures are errors."""

    def fail(what: str, error: BaseException) -> None:
        raise AssertionError(what) from error

    return Upkeep(live.disks, live.clock, failed=fail)


def test_retention_deletes_what_is_too_old_or_too_much(tmp_path: Path) -> None:
    with living(tmp_path, None, "log.segment.bytes=1048576") as live:
        live.create("aged", retention_ms="1000", segment_bytes="1048576")
        live.create("sized", retention_bytes="1500000", segment_bytes="1048576")
        for topic in ("aged", "sized"):
            for number in range(4):
                live.produce(topic, batch_of(b"x" * 900_000, time_ms=NOW_MS + number))
        live.clock.now_ms += 1001
        upkeep_of(live).retain()
        assert live.log("aged").log_start_offset == 1
        assert offsets(live, "sized")[0] > 0
        live.clock.now_ms += 5000
        upkeep_of(live).retain()
        assert offsets(live, "aged") == []
        assert live.log("aged").log_end_offset == 4
        upkeep_of(live).flush()
        live.clock.now_ms += 10**6
        upkeep_of(live).run()
    with living(tmp_path) as live:
        assert (live.log("aged").log_start_offset, live.log("aged").log_end_offset) == (4, 4)


def test_compaction_keeps_the_last_value_of_a_key(tmp_path: Path) -> None:
    settings = {"cleanup_policy": "compact", "segment_bytes": "1048576", "min_cleanable_dirty_ratio": "0.01"}
    with living(tmp_path) as live:
        live.create("c", **settings)
        for number in range(12):
            live.produce("c", batch_of(b"x" * 300_000, key=f"k{number % 3}".encode()))
        assert len(live.log("c").segments) > 3
        before = live.log("c").size_bytes
        held = live.log("c").read(0, 100, is_committed=False)
        upkeep_of(live).compact()
        assert live.log("c").size_bytes < before
        held.pieces[0].file.release()
        kept = offsets(live, "c")
        active = live.log("c").segments[-1].base_offset
        assert kept == sorted({*range(active - 3, active), *range(active, 12)})
        live.produce("c", batch_of(b"y", key=b"k0"))
    with living(tmp_path) as live:
        assert offsets(live, "c") == [*kept, 12]
        assert live.disks.cleaner_offset("c", 0) == active
    request = VerifyRequest(targets=tuple(resolve([str(tmp_path / "c-0")])), now_ms=NOW_MS, level="records")
    assert [each.code for verdict in verify(request) for each in verdict.findings if each.severity == "error"] == []
    assert not list((tmp_path / "c-0").glob("*.swap"))
    assert not list((tmp_path / "c-0").glob("*.cleaned"))


class DeletingDisk(Disk):
    """A disk on which a client deletes a topic before one of the steps of the broker's background work."""

    def __init__(self) -> None:
        self.live: Live | None = None
        self.log: LiveLog | None = None
        self.steps_left = 0

    def step(self, what: str, path: str) -> None:
        live, log = self.live, self.log
        if live is None or log is None or log.lock._is_owned() or live.disks._lock._is_owned():  # type: ignore[attr-defined]
            return  # the deletion waits for the lock
        self.steps_left -= 1
        if self.steps_left < 0:
            self.live = None
            answer = live.ask("DeleteTopics", 4, topic_names=["c"], timeout_ms=0)
            assert answer["responses"][0]["error_code"] == 0


def test_a_topic_may_be_deleted_at_any_step_of_its_compaction(tmp_path: Path) -> None:
    """The clean ends there, the log directory stays online, and a new topic of the name was never cleaned."""
    settings = {"cleanup_policy": "compact", "segment_bytes": "1048576", "min_cleanable_dirty_ratio": "0.01"}
    disk, steps = DeletingDisk(), 0
    with living(tmp_path, disk=disk) as live:
        while True:
            live.create("c", **settings)
            for number in range(4):
                live.produce("c", batch_of(b"x" * 600_000, key=b"%d" % (number % 2)))
            disk.live, disk.log, disk.steps_left = live, live.log("c"), steps
            upkeep_of(live).compact()
            assert not live.disks.is_offline
            if disk.live is not None:
                break
            assert live.disks.cleaner_offset("c", 0) is None
            steps += 1
        disk.live = None
        assert live.disks.cleaner_offset("c", 0) is not None
        assert steps > 3
        assert live.failures == []


def test_a_topic_may_be_deleted_while_retention_is_about_to_delete_its_segments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with living(tmp_path) as live:
        live.create("t", segment_bytes="1048576", retention_ms="1000")
        live.create("u")
        for number in range(4):
            live.produce("t", batch_of(b"x" * 900_000, time_ms=NOW_MS + number))
        live.clock.now_ms += DAY_MS
        log, settings_of = live.log("t"), live.disks.settings_of

        def deleting(name: str) -> TopicSettings:
            """The settings of a topic, which is deleted before anything is done with them."""
            found = settings_of(name)
            if name == "t":
                live.ask("DeleteTopics", 4, topic_names=["t"], timeout_ms=0)
            return found

        monkeypatch.setattr(live.disks, "settings_of", deleting)
        upkeep_of(live).retain()
        assert log.is_deleted
        for act in (
            partial(log.delete_segments, [0]),
            partial(log.advance_start, log.log_end_offset),
            partial(log.append, bytearray(batch_of(b"x"))),
            log.roll,
        ):
            with pytest.raises(ClosedLogError, match="was deleted"):
                act()
        assert not live.disks.is_offline
        assert live.failures == []
        assert live.produce("u", batch_of(b"x"))["error_code"] == 0


def test_a_second_broker_cannot_take_the_directory(tmp_path: Path) -> None:
    with living(tmp_path):
        command = [
            sys.executable,
            "-m",
            "kafkalog_cli",
            "serve",
            "--read-write",
            str(tmp_path),
            "--listen",
            "127.0.0.1:0",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 3
        assert "lock" in done.stderr
