"""Records of the metadata log: as a real controller wrote them, every type of the schemas, and any other bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core.errors import FormatError
from kafkalog_core.format.textfile import uuid_text
from kafkalog_core.topics.metadata_records import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    decode_frame,
    decode_record,
    encode_record,
    is_known,
)
from kafkalog_core.topics.record_decoders import metadata_record_names
from tests.support.metadata_samples import forms, sample

LEVEL = bytes.fromhex("010c00116d657461646174612e76657273696f6e001e00")
TOPIC = bytes.fromhex("01020010706c61696e2e6a6176612e6e6f6e6531f54f6914f445b89151e2f1113c2c0e00")
BROKER = bytes.fromhex(
    "010004000000010099aee0a5d39f4446b6cb1bd86672d4d4000000000000000e020a504c41494e544558540a3132372e302e302e314a9c0000"
    "00080e73686172652e76657273696f6e00000001000e6b726166742e76657273696f6e00000001000e67726f75702e76657273696f6e000000"
    "01001073747265616d732e76657273696f6e0000000100147472616e73616374696f6e2e76657273696f6e000000020021656c696769626c65"
    "2e6c65616465722e7265706c696361732e76657273696f6e0000000100116d657461646174612e76657273696f6e0007001e00000100010011"
    "02cba1b50376e34f4ca2f1af33a03052ed"
)
CONTROLLER = bytes.fromhex(
    "011b000000000169dfa70b70bd4273b4da0a3156bf3a1c00020b434f4e54524f4c4c45520a3132372e302e302e314a9d000000080e67726f75"
    "702e76657273696f6e00000001000e6b726166742e76657273696f6e0000000100116d657461646174612e76657273696f6e0007001e000e73"
    "686172652e76657273696f6e00000001001073747265616d732e76657273696f6e0000000100147472616e73616374696f6e2e76657273696f"
    "6e000000020021656c696769626c652e6c65616465722e7265706c696361732e76657273696f6e000000010000"
)
TOPIC_CONFIG = bytes.fromhex("010400020b73686f702e74656d7030126d61782e6d6573736167652e627974657306373737373700")
BROKER_CONFIG = bytes.fromhex("0104000401116c6f672e726574656e74696f6e2e6d730a36303438303030303100")
LEVELS = {
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "kraft.version": 1,
    "metadata.version": 30,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
}
REAL = [LEVEL, TOPIC, BROKER, CONTROLLER, TOPIC_CONFIG, BROKER_CONFIG]


def test_records_of_a_broker_of_4_3() -> None:
    assert decode_record(LEVEL).fields == {"name": "metadata.version", "feature_level": 30}
    topic = decode_record(TOPIC)
    assert (topic.kind, topic.name, topic.version) == (2, "TopicRecord", 0)
    assert topic.fields["name"] == "plain.java.none"
    assert uuid_text(topic.fields["topic_id"]) == "MfVPaRT0RbiRUeLxETwsDg"
    broker, controller = decode_record(BROKER).fields, decode_record(CONTROLLER).fields
    for fields in (broker, controller):
        assert {each["name"]: each["max_supported_version"] for each in fields["features"]} == LEVELS
        assert [each["host"] for each in fields["end_points"]] == ["127.0.0.1"]
    assert [uuid_text(each) for each in broker["log_dirs"]] == ["y6G1A3bjT0yi8a8zoDBS7Q"]
    assert broker["cordoned_log_dirs"] is None


def test_settings_of_topics_and_brokers() -> None:
    topic = {"resource_type": TOPIC_RESOURCE, "resource_name": "shop.temp0", "name": "max.message.bytes"}
    assert decode_record(TOPIC_CONFIG).fields == {**topic, "value": "77777"}
    assert decode_record(TOPIC_CONFIG[:-7] + b"\0\0").fields == {**topic, "value": None}
    broker = {"resource_type": BROKER_RESOURCE, "resource_name": "", "name": "log.retention.ms"}
    assert decode_record(BROKER_CONFIG).fields == {**broker, "value": "604800001"}


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"\1\x1e\0\0", "the type 30 is unknown"),
        (b"\1\0\5\0", "RegisterBrokerRecord has no version 5"),
        (b"\0" + LEVEL[1:], "the frame version 0 is unknown"),
        (b"\2" + LEVEL[1:], "the frame version 2 is unknown"),
        (LEVEL + b"\0", "ends at byte"),
        (b"", "0 of 1 bytes are left"),
    ],
)
def test_what_no_release_writes(value: bytes, why: str) -> None:
    with pytest.raises(FormatError, match=why):
        decode_record(value)


@pytest.mark.parametrize("value", REAL, ids=["level", "topic", "broker", "controller", "config", "of brokers"])
def test_every_cut_is_an_error(value: bytes) -> None:
    for size in range(len(value)):
        with pytest.raises(FormatError):
            decode_record(value[:size])


@pytest.mark.parametrize("value", REAL, ids=["level", "topic", "broker", "controller", "config", "of brokers"])
def test_real_records_to_the_same_bytes(value: bytes) -> None:
    record = decode_record(value)
    assert encode_record(record.name, record.version, record.fields) == value


@pytest.mark.parametrize(("name", "version"), list(forms()), ids=str)
@pytest.mark.parametrize("number", [3, 8])
def test_every_type_and_version_to_the_same_bytes(name: str, version: int, number: int) -> None:
    fields = sample(name, version, number)
    value = encode_record(name, version, fields)
    assert is_known(value[1], version)
    record = decode_record(value)
    assert (record.name, record.version) == (name, version)
    assert {key: record.fields[key] for key in fields} == fields
    assert encode_record(name, version, record.fields) == value


def test_the_types_of_4_4() -> None:
    """27 types: those that a 4.4.0 controller reads, of which it ignores ZkMigrationStateRecord."""
    assert sorted(metadata_record_names()) == [*range(6), *range(7, 13), 14, 15, *range(17, 30)]


def test_a_frame_of_large_numbers() -> None:
    """Varints of two bytes, which no release writes yet."""
    frame = decode_frame(b"\1\x80\1\x81\1rest")
    assert (frame.version, frame.kind, frame.record_version, frame.fields_at) == (1, 128, 129, 5)
    assert not is_known(128, 0)


@given(st.binary(max_size=60) | st.binary(max_size=40).map(lambda tail: b"\1\0\3" + tail))
def test_any_bytes(value: bytes) -> None:
    try:
        record = decode_record(value)
    except FormatError:
        return
    assert decode_record(encode_record(record.name, record.version, record.fields)).fields == record.fields
