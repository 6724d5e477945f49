"""Records of Kafka's own topics: what real brokers wrote, what the stock dump tool shows, and what is no record."""

from __future__ import annotations

import json
import random
import re
from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_core.format.names import parse_directory_name
from kafkalog_core.text import json_text
from kafkalog_core.topics.record_decoders import DECODED_TOPICS, Decoded, decoder_of, text_decoder_of
from kafkalog_core.wire.codec import UNKNOWN_TAGS, codec
from kafkalog_core.wire.schemas import names, schema_of
from tests.support.build import unsigned_varint
from tests.support.corpus import goldens
from tests.support.logs import dump_rows
from tests.support.messages import message

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GROUPS = "__consumer_offsets"
SHOWN = re.compile(r"\| offset: (\d+) .*? headerKeys: \[.*?\] (?:key: (\{.*?\}) )?payload: (.*)")
"""A record as the stock tool shows it with one of its decoders."""


def encoded(name: str, version: int, fields: dict[str, Any]) -> bytes:
    return b"".join(map(bytes, codec(name, version).encode(fields)))


def commit_key(group: str = "g") -> bytes:
    return b"\0\1" + encoded("OffsetCommitKey", 0, {"group": group, "topic": "t", "partition": 2})


def commit_value(version: int = 3, **more: Any) -> bytes:
    fields = {"offset": 7, "leader_epoch": 1, "metadata": "", "commit_timestamp": 9, "expire_timestamp": -1, **more}
    return version.to_bytes(2, "big") + encoded("OffsetCommitValue", version, fields)


def decoded(key: bytes | None, value: bytes | None, topic: str = GROUPS) -> Decoded:
    decode = decoder_of(topic)
    assert decode is not None
    return decode(key, value)


# --- real records -----------------------------------------------------------------------------------------------------
QUICK = ("08-internal-3.9.1", "08-internal-4.3.1", "03-transactions-4.3.1")
"""The cases that the quick tier reads; the tests with the mark read all of them."""


def logs_of(corpus: Path, origin: str) -> Iterator[tuple[str, Path]]:
    roots = [corpus] if origin == "corpus" else [corpus / "modern" / case for case in QUICK]
    for directory in sorted(each for root in roots for each in root.rglob("__*-*")):
        topic = parse_directory_name(directory.name).topic
        if topic in DECODED_TOPICS and directory.is_dir() and any(directory.glob("*.log")):
            yield topic, directory


def records_of(directory: Path) -> Iterator[tuple[int, bytes | None, bytes | None]]:
    for row in dump_rows(directory, level="records"):
        if row["type"] == "record" and row["control_type"] is None:
            yield row["offset"], row["key"], row["value"]


def is_encoded_back(found: Decoded, key: bytes | None, value: bytes | None) -> bool:
    """Whether the messages of a record are encoded to the same bytes."""
    messages = []
    if found.key is not None:
        assert key is not None
        name, head = found.key["name"], 2
        messages.append((f"{name}Key", 0, key[head:]))
        if value is not None:
            messages.append((f"{name}Value", found.value["version"], value[head:]))
    elif found.value is not None:
        assert value is not None
        numbers = (1, found.value["type"], found.value["version"])
        frame = b"".join(map(unsigned_varint, numbers))
        assert value.startswith(frame)
        messages.append((f"{found.value['name']}Record", found.value["version"], value[len(frame) :]))
    return all(
        encoded(name, version, codec(name, version).decode_whole(data)) == data for name, version, data in messages
    )


@pytest.mark.parametrize("topic", DECODED_TOPICS)
@pytest.mark.parametrize("origin", ["fixtures", pytest.param("corpus", marks=pytest.mark.corpus)])
def test_every_record_that_real_brokers_wrote(topic: str, origin: str, request: pytest.FixtureRequest) -> None:
    """`fixtures/` has those of 3.9.1 and 4.3.1 in the quick tier; the corpus those of 0.8.2 to 4.4.0."""
    corpus = request.getfixturevalue("corpus")
    decode, text_of = decoder_of(topic), text_decoder_of(topic)
    assert decode is not None
    assert text_of is not None
    kinds: dict[str, int] = {}
    for other, directory in logs_of(corpus, origin):
        if other != topic:
            continue
        for offset, key, value in records_of(directory):
            found, text = decode(key, value), text_of(key, value)
            assert found.problem is None, (directory, offset)
            assert is_encoded_back(found, key, value), (directory, offset)
            assert (text.key, text.value) == tuple(
                None if each is None else json_text(each) for each in (found.key, found.value)
            )
            name = (found.key or found.value)["name"]
            kinds[name] = kinds.get(name, 0) + 1
    wanted = {
        GROUPS: {"OffsetCommit", "GroupMetadata", "ConsumerGroupMemberMetadata", "ShareGroupMetadata"},
        "__transaction_state": {"TransactionLog"},
        "__share_group_state": {"ShareSnapshot", "ShareUpdate"},
        "__cluster_metadata": {"Topic", "Partition", "PartitionChange", "Config", "RegisterBroker", "NoOp"},
    }
    assert kinds.keys() >= wanted.get(topic, set())


def shown_by_the_tool(path: Path) -> Iterator[tuple[str, int, Any, Any]]:
    """File, offset, key and value of each record that the stock tool has decoded as JSON."""
    for section in goldens.sections(path):
        for line in section.lines:
            match = SHOWN.fullmatch(line)
            if match is None or not match[3].startswith(("{", "<DELETE>", "null")):
                continue
            value = json.loads(match[3]) if match[3].startswith("{") else None
            if match[2] is not None or value is not None:
                yield section.file, int(match[1]), json.loads(match[2]) if match[2] else None, value


def as_the_tool_shows(found: Any) -> Any:
    """A decoded key or value in the tool's form: numbers are texts, no names, and no versions of blobs."""
    if found is None:
        return None
    shown = dict(found)
    name = shown.pop("name") if "name" in shown else None
    if "version" in shown and name is not None:
        return shown | {"type": "_".join(re.findall("[A-Z][a-z]*", name)).upper() + "_RECORD"}
    for number in ("type", "version"):
        if number in shown:
            shown[number] = str(shown[number])
    for member in shown["data"].get("members", []):
        for blob in (member.get("subscription"), member.get("assignment")):
            if isinstance(blob, dict):
                del blob["version"]
    return shown


@pytest.mark.parametrize("origin", ["fixtures", pytest.param("corpus", marks=pytest.mark.corpus)])
def test_it_is_what_the_stock_dump_tool_shows(origin: str, request: pytest.FixtureRequest) -> None:
    """DumpLogSegments of 4.x with --offsets-decoder, --transaction-log-decoder, ...; older ones have other forms."""
    root = request.getfixturevalue("corpus")
    compared: dict[str, int] = {}
    for path in sorted((root / "modern").rglob("golden/__*.dump.txt.gz")):
        directory = path.parent.parent / "logdir" / path.name.removesuffix(".dump.txt.gz")
        topic = parse_directory_name(directory.name).topic
        decode = decoder_of(topic)
        if decode is None or not directory.is_dir() or (origin == "fixtures" and "08-internal-4.3.1" not in str(path)):
            continue
        rows: dict[tuple[str, int], Decoded] = {
            (row["segment"], row["offset"]): decode(row["key"], row["value"])
            for row in dump_rows(directory, level="records")
            if row["type"] == "record" and row["control_type"] is None
        }
        for file, offset, key, value in shown_by_the_tool(path):
            if (file, offset) not in rows:  # a snapshot, or a record of a control batch
                continue
            found = rows[file, offset]
            assert as_the_tool_shows(found.value) == value, (path, file, offset)
            if key is not None:
                assert as_the_tool_shows(found.key) == key, (path, file, offset)
            compared[str(topic)] = compared.get(str(topic), 0) + 1
    wanted = {GROUPS, "__transaction_state", "__share_group_state", "__cluster_metadata"}
    assert compared.keys() == wanted, compared
    assert sum(compared.values()) > 250, compared


# --- made records -----------------------------------------------------------------------------------------------------
def test_a_commit() -> None:
    found = decoded(commit_key(), commit_value(4, topic_id=bytes(15) + b"\1"))
    assert found.key == {"type": 1, "name": "OffsetCommit", "data": {"group": "g", "topic": "t", "partition": 2}}
    assert found.value["version"] == 4
    assert found.value["data"] == {
        "offset": 7,
        "leaderEpoch": 1,
        "metadata": "",
        "commitTimestamp": 9,
        "topicId": "AAAAAAAAAAAAAAAAAAAAAQ",
    }
    assert decoded(commit_key(), None) == (found.key, None, None), "a tombstone"


def test_tags_of_a_later_release_are_shown() -> None:
    value = commit_value(4, **{UNKNOWN_TAGS: [(9, b"\xff")]})
    assert decoded(commit_key(), value).value["data"]["unknownTags"] == [{"tag": 9, "data": "/w=="}]


def member(subscription: bytes, assignment: bytes) -> dict[str, Any]:
    return {
        "member_id": "m",
        "group_instance_id": None,
        "client_id": "c",
        "client_host": "/h",
        "rebalance_timeout": 1,
        "session_timeout": 2,
        "subscription": subscription,
        "assignment": assignment,
    }


def group_of(subscription: bytes, assignment: bytes, protocol_type: str = "consumer") -> Decoded:
    fields = {
        "protocol_type": protocol_type,
        "generation": 1,
        "protocol": "range",
        "leader": "m",
        "current_state_timestamp": 5,
        "members": [member(subscription, assignment)],
    }
    key = b"\0\2" + encoded("GroupMetadataKey", 0, {"group": "g"})
    return decoded(key, b"\0\3" + encoded("GroupMetadataValue", 3, fields))


# as a consumer of 4.3.1 wrote them
SUBSCRIPTION = bytes.fromhex("0003 00000001 0002 7474 ffffffff 00000000 ffffffff ffff".replace(" ", ""))
ASSIGNMENT = bytes.fromhex("0003 00000001 0002 7474 00000002 00000000 00000001 ffffffff".replace(" ", ""))


def test_subscriptions_and_assignments_of_consumers_are_objects() -> None:
    found = group_of(SUBSCRIPTION, ASSIGNMENT)
    assert found.problem is None
    (shown,) = found.value["data"]["members"]
    assert shown["subscription"] == {
        "version": 3,
        "topics": ["tt"],
        "userData": None,
        "ownedPartitions": [],
        "generationId": -1,
        "rackId": None,
    }
    assert shown["assignment"] == {
        "version": 3,
        "assignedPartitions": [{"topic": "tt", "partitions": [0, 1]}],
        "userData": None,
    }


def test_fields_of_a_later_protocol_are_not_read() -> None:
    """`ConsumerProtocol.deserializeVersion`: a later version is read as the newest known one."""
    found = group_of(b"\0\x09" + SUBSCRIPTION[2:] + b"more", b"")
    assert found.problem is None
    assert found.value["data"]["members"][0]["subscription"]["version"] == 9
    assert found.value["data"]["members"][0]["assignment"] == ""


def test_blobs_of_other_protocol_types_are_bytes() -> None:
    found = group_of(b"\0\1\0", b"", protocol_type="connect")
    assert found.problem is None
    assert found.value["data"]["members"][0]["subscription"] == "AAEA"


@pytest.mark.parametrize(
    ("blob", "why"), [(b"\0", "has 1 bytes"), (b"\xff\xff", "version -1"), (SUBSCRIPTION[:9], "bytes are left")]
)
def test_a_blob_that_does_not_decode_is_shown_as_bytes(blob: bytes, why: str) -> None:
    found = group_of(blob, ASSIGNMENT)
    assert found.problem is not None
    assert found.problem.startswith("the subscription of a group's member does not decode: ")
    assert why in found.problem
    (shown,) = found.value["data"]["members"]
    assert isinstance(shown["subscription"], str)
    assert shown["assignment"]["version"] == 3


# --- what is no record ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("key", "value", "what"),
    [
        (None, b"", "the key has no type"),
        (b"\0", b"", "the key has no type"),
        (b"\0\x63", b"", "the key has the unknown type 99"),
        (b"\xff\xff", b"", "the key has the unknown type -1"),
        (commit_key()[:-1], None, "OffsetCommitKey of version 0 does not follow its schema"),
        (commit_key() + b"\0", None, "OffsetCommitKey of version 0 does not follow its schema"),
        (b"\0\2\0\2\xff\xfe", None, "GroupMetadataKey of version 0 does not follow its schema"),  # no UTF-8
    ],
)
def test_a_key_that_does_not_decode(key: bytes | None, value: bytes | None, what: str) -> None:
    decode = text_decoder_of(GROUPS)
    assert decode is not None
    found = decode(key, value)
    assert found[:2] == (None, None)
    assert found.problem is not None
    assert found.problem.what == what


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (b"", "the value has no version"),
        (b"\0", "the value has no version"),
        (b"\0\x09", "OffsetCommitValue has no version 9"),
        (b"\xff\xff", "OffsetCommitValue has no version -1"),
        (commit_value()[:-1], "OffsetCommitValue of version 3 does not follow its schema"),
        (commit_value() + b"\0", "OffsetCommitValue of version 3 does not follow its schema"),
    ],
)
def test_a_value_that_does_not_decode_leaves_the_key(value: bytes, what: str) -> None:
    decode = text_decoder_of(GROUPS)
    assert decode is not None
    for _ in range(2):
        found = decode(commit_key(), value)
        assert found.key is not None
        assert found.value is None
        assert found.problem is not None
        assert found.problem.what == what


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (None, "the record has no value"),
        (b"", "the value has no frame: "),
        (b"\1\2", "the value has no frame: "),
        (b"\xff" * 9, "the value has no frame: "),
        (b"\2\2\0", "the value has the unknown frame version 2"),
        (b"\1\x63\0", "the value has the unknown type 99"),
        (b"\1\2\7", "TopicRecord has no version 7"),
        (b"\1\2\0\xff", "TopicRecord of version 0 does not follow its schema: "),
        (b"\1\2\0" + encoded("TopicRecord", 0, {"name": "t", "topic_id": bytes(16)}) + b"\0", "TopicRecord of version"),
    ],
)
def test_a_framed_value_that_does_not_decode(value: bytes | None, problem: str) -> None:
    found = decoded(None, value, "__cluster_metadata")
    assert found[:2] == (None, None)
    assert str(found.problem).startswith(problem)


def test_a_topic_has_its_own_types() -> None:
    """Type 0 is a legacy commit, a transactional id, a share partition, a segment of tiered storage, a registration."""
    key = b"\0\0" + encoded("TransactionLogKey", 0, {"transactional_id": "tx"})
    assert decoded(key, None, "__transaction_state").key["name"] == "TransactionLog"
    assert decoded(key, None, GROUPS).problem is not None
    value = b"\1\2\0" + encoded(
        "RemotePartitionDeleteMetadataRecord",
        0,
        {
            "topic_id_partition": {"name": "t", "id": bytes(16), "partition": 1},
            "broker_id": 2,
            "event_timestamp_ms": 3,
            "remote_partition_delete_state": 0,
        },
    )
    found = decoded(None, value, "__remote_log_metadata")
    assert (found.value["name"], found.value["data"]["brokerId"]) == ("RemotePartitionDeleteMetadata", 2)
    assert decoded(None, value, "__cluster_metadata").problem is not None


def test_other_topics_are_not_decoded() -> None:
    assert [decoder_of(topic) for topic in (None, "orders", "__connect-offsets")] == [None] * 3


def test_more_keys_than_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkalog_core.topics.record_decoders._KEPT_KEYS", 3)
    names = [f"g{number}" for number in range(8)] + ["g" * 400]
    for _ in range(2):
        found = [decoded(commit_key(name), commit_value()) for name in names]
        assert [each.key["data"]["group"] for each in found] == names
        assert all(each.value["data"]["offset"] == 7 for each in found)


def test_every_record_type_of_the_schemas_is_in_one_topic() -> None:
    dice = random.Random(1)
    for name in sorted(name for name in names() if name.endswith(("Key", "Record"))):
        schema = schema_of(name, 0)
        fields = message(schema.fields, 0, dice)
        if schema.kind == "coordinator-key":
            records = [(int(schema.key or 0).to_bytes(2, "big") + encoded(name, 0, fields), None)]
        elif schema.kind == "metadata":
            records = [(None, b"\1" + unsigned_varint(schema.key or 0) + b"\0" + encoded(name, 0, fields))]
        else:
            continue
        shown = [decoded(*records[0], topic) for topic in DECODED_TOPICS]
        found = [(each.key or each.value)["name"] for each in shown if each.problem is None]
        assert name in [f"{each}Key" for each in found] + [f"{each}Record" for each in found]
