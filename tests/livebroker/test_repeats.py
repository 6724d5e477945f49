"""A request that names something many times is answered as if it named it once, in every API.

The limit of a request's elements bounds the request: its answer would be as many times larger as what each element is
answered with, and so would the work.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from kafkalog_core.livebroker.logs.live_log import LiveLog
from kafkalog_core.livebroker.topics.config_requests import ConfigRequests
from kafkalog_core.serve.network.repeats import distinct_groups
from tests.support.asking import ask
from tests.support.authorization import HEARTBEAT, OFFSET
from tests.support.live_state import Live, Payer, batch_of, living
from tests.support.serving import serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.format.snapshot import ProducerEntry

DEMO: Final = Path(__file__).resolve().parents[2] / "fixtures" / "demo"
TIMES: Final = 50
OF_LIVE_BROKERS: Final = frozenset({"ConsumerGroupDescribe", "ShareGroupDescribe", "DescribeShareGroupOffsets"})
NO_AUTH: Final = {"include_authorized_operations": False}
ASKED: Final = {"partition_index": 0, "timestamp": -1, "max_num_offsets": 100}
ROWS: Final[list[tuple[str, int, str, Any, dict[str, Any]]]] = [
    # API, version, field with the elements, element, other fields
    ("Metadata", 7, "topics", {"name": "t"}, {"allow_auto_topic_creation": False}),
    ("DescribeTopicPartitions", 0, "topics", {"name": "t"}, {"response_partition_limit": 2000, "cursor": None}),
    ("DescribeProducers", 0, "topics", {"name": "t", "partition_indexes": [0] * TIMES}, {}),
    ("DescribeTransactions", 0, "transactional_ids", "payer", {}),
    ("DescribeLogDirs", 1, "topics", {"topic": "t", "partitions": [0] * TIMES}, {}),
    ("ListOffsets", 0, "topics", {"name": "t", "partitions": [ASKED] * TIMES}, {"replica_id": -1}),
    ("DescribeGroups", 5, "groups", "g", NO_AUTH),
    ("ConsumerGroupDescribe", 1, "group_ids", "g", NO_AUTH),
    ("ShareGroupDescribe", 1, "group_ids", "s", NO_AUTH),
    ("OffsetFetch", 5, "topics", {"name": "t", "partition_indexes": [0] * TIMES}, {"group_id": "g"}),
    (
        *("OffsetFetch", 8, "groups"),
        {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0] * TIMES}]},
        {"require_stable": False},
    ),
    ("OffsetFetch", 8, "groups", {"group_id": "g", "topics": None}, {"require_stable": False}),
    (
        *("DescribeShareGroupOffsets", 1, "groups"),
        {"group_id": "s", "topics": [{"topic_name": "t", "partitions": [0] * TIMES}]},
        {},
    ),
    ("DescribeShareGroupOffsets", 1, "groups", {"group_id": "s", "topics": None}, {}),
    (
        *("DescribeConfigs", 4, "resources"),
        {"resource_type": 4, "resource_name": "1", "configuration_keys": None},
        {"include_synonyms": True, "include_documentation": False},
    ),
]


def once(value: Any) -> Any:
    """An element with each of its repeated parts once."""
    if isinstance(value, dict):
        return {key: once(each) for key, each in value.items()}
    return [once(value[0])] if isinstance(value, list) and value else value


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A live broker with producers, a transaction, a group with offsets and members, and a share group."""
    with living(tmp_path_factory.mktemp("log")) as found:
        found.create("t", segment_bytes="1048576")
        for number in range(4):
            found.produce("t", batch_of(b"v" * 600_000, producer_id=number, producer_epoch=0, base_sequence=0))
        payer = Payer(found)
        payer.add("t")
        payer.commit_offsets("other", "t", 1)
        committed = {"topics": [{"name": "t", "partitions": [OFFSET | {"committed_metadata": "m" * 4000}]}]}
        nobody = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
        found.ask("OffsetCommit", 8, group_id="g", **nobody, **committed)
        for _ in range(2):  # the first one creates __consumer_offsets
            found.ask("ConsumerGroupHeartbeat", 1, **HEARTBEAT)
        beat = {"group_id": "s", "member_id": "m", "member_epoch": 0, "rack_id": None, "subscribed_topic_names": ["t"]}
        found.ask("ShareGroupHeartbeat", 1, **beat)
        yield found


@pytest.mark.parametrize(
    ("name", "version", "field", "element", "others"), ROWS, ids=[f"{each[0]}-{each[1]}-{each[2]}" for each in ROWS]
)
def test_what_is_asked_for_many_times_is_answered_once(
    live: Live, name: str, version: int, field: str, element: Any, others: dict[str, Any]
) -> None:
    found = live.ask(name, version, **{field: [once(element)]}, **others)
    assert live.ask(name, version, **{field: [element] * TIMES}, **others) == found
    with serving(DEMO) as broker:
        if name not in OF_LIVE_BROKERS:
            found = ask(broker.dispatcher, name, version, {field: [once(element)], **others})
            assert ask(broker.dispatcher, name, version, {field: [element] * TIMES, **others}) == found


def test_the_producers_of_a_partition_are_read_once(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[LiveLog] = []
    producers = LiveLog.active_producers

    def counted(self: LiveLog) -> list[ProducerEntry]:
        reads.append(self)
        return producers(self)

    monkeypatch.setattr(LiveLog, "active_producers", counted)
    topics = [{"name": "t", "partition_indexes": [0] * TIMES}] * 2
    (topic,) = live.ask("DescribeProducers", 0, topics=topics)["topics"]
    (partition,) = topic["partitions"]
    assert {each["producer_id"] for each in partition["active_producers"]} >= {0, 1, 2, 3}
    assert len(reads) == 1


def test_a_resource_is_described_once_with_all_its_keys(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row for each key would cost as much as the whole resource."""
    described: list[Any] = []
    real = ConfigRequests._described

    def counted(self: ConfigRequests, asked: dict[str, Any], **options: bool) -> dict[str, Any]:
        described.append(asked)
        return real(self, asked, **options)

    monkeypatch.setattr(ConfigRequests, "_described", counted)
    keys = [f"k{number}" for number in range(TIMES)] + ["node.id", "log.retention.ms"]
    rows = [{"resource_type": 4, "resource_name": "1", "configuration_keys": [each]} for each in keys]
    options = {"include_synonyms": False, "include_documentation": False}
    (result,) = live.ask("DescribeConfigs", 4, resources=rows, **options)["results"]
    assert {each["name"] for each in result["configs"]} == {"node.id", "log.retention.ms"}
    assert len(described) == 1


def test_a_group_is_asked_for_the_topics_of_all_its_rows() -> None:
    rows: list[dict[str, Any]] = [
        {"group_id": "g", "member_id": "m", "topics": [{"name": "a"}]},
        {"group_id": "h", "member_id": None, "topics": None},
        {"group_id": "g", "member_id": "n", "topics": [{"name": "b"}]},
        {"group_id": "h", "member_id": None, "topics": [{"name": "c"}]},
    ]
    assert distinct_groups(rows) == [
        {"group_id": "g", "member_id": "m", "topics": [{"name": "a"}, {"name": "b"}]},
        {"group_id": "h", "member_id": None, "topics": None},
    ]
    assert rows[0]["topics"] == [{"name": "a"}], "the request is not changed"
