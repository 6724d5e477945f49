"""Records of the cluster metadata log, as a real controller wrote them, and any other bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core.errors import FormatError
from kafkalog_core.topics.metadata_records import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    ConfigValue,
    FeatureLevel,
    Registration,
    TopicCreated,
    TopicRemoved,
    decode_metadata_record,
)

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


def test_records_of_a_broker_of_4_3() -> None:
    assert decode_metadata_record(LEVEL) == FeatureLevel(name="metadata.version", level=30)
    assert decode_metadata_record(TOPIC) == TopicCreated(name="plain.java.none", topic_id="MfVPaRT0RbiRUeLxETwsDg")
    log_dirs = ("y6G1A3bjT0yi8a8zoDBS7Q",)
    assert decode_metadata_record(BROKER) == Registration(node_id=1, highest_levels=LEVELS, log_dirs=log_dirs)
    assert decode_metadata_record(CONTROLLER) == Registration(node_id=1, highest_levels=LEVELS)
    assert decode_metadata_record(b"\1\x09\0" + TOPIC[-17:]) == TopicRemoved(topic_id="MfVPaRT0RbiRUeLxETwsDg")


def test_registrations_of_brokers_of_older_versions() -> None:
    """Version 2 brought whether the broker migrates, after its number; version 1 whether it is about to stop."""
    known = decode_metadata_record(BROKER)
    second = b"\1\0\2" + BROKER[3:]
    first = b"\1\0\1" + BROKER[3:7] + BROKER[8:]
    oldest = b"\1\0\0" + first[3:-21] + first[-20:]
    assert [decode_metadata_record(each) for each in (second, first, oldest)] == [known] * 3


def test_settings_of_topics_and_brokers() -> None:
    topic = {"resource_type": TOPIC_RESOURCE, "resource_name": "shop.temp0", "name": "max.message.bytes"}
    assert decode_metadata_record(TOPIC_CONFIG) == ConfigValue(**topic, value="77777")
    assert decode_metadata_record(TOPIC_CONFIG[:-7] + b"\0\0") == ConfigValue(**topic, value=None)
    broker = {"resource_type": BROKER_RESOURCE, "resource_name": "", "name": "log.retention.ms"}
    assert decode_metadata_record(BROKER_CONFIG) == ConfigValue(**broker, value="604800001")


@pytest.mark.parametrize(
    "value",
    [b"\1\x14\0\0", b"\1\x1d\0\0\0\0\3\0", b"\0" + LEVEL[1:], b"\2" + LEVEL[1:]],
    ids=["no-op", "unregister", "0", "2"],
)
def test_other_records_are_none(value: bytes) -> None:
    assert decode_metadata_record(value) is None


@pytest.mark.parametrize(
    "value", [LEVEL, TOPIC, BROKER, CONTROLLER, TOPIC_CONFIG], ids=["level", "topic", "broker", "controller", "config"]
)
def test_every_cut_is_an_error(value: bytes) -> None:
    ends_at = 1 if value in {LEVEL, TOPIC, TOPIC_CONFIG} else 1 if value == CONTROLLER else 0
    for size in range(3, len(value) - ends_at):
        with pytest.raises(FormatError):
            decode_metadata_record(value[:size])


@given(st.binary(max_size=60) | st.binary(max_size=40).map(lambda tail: b"\1\0\3" + tail))
def test_any_bytes(value: bytes) -> None:
    try:
        decode_metadata_record(value)
    except FormatError:
        return
