"""Frames of requests and responses: headers by version, and what is no request."""

from __future__ import annotations

import pytest

from kafkalog_core.errors import ProtocolError
from kafkalog_core.wire.frames import (
    UnsupportedVersionError,
    decode_request,
    encode_request,
    encode_response,
)
from kafkalog_core.wire.schemas import api_of, apis

METADATA: dict[str, object] = {
    "topics": [],
    "include_cluster_authorized_operations": False,
    "include_topic_authorized_operations": False,
}


def frame(name: str, version: int, body: dict[str, object], client_id: str | None = "me") -> bytes:
    pieces = encode_request(name, version, body, correlation_id=7, client_id=client_id)
    data = b"".join(map(bytes, pieces))
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    return data[4:]


def test_a_request_as_librdkafka_sends_it() -> None:
    """The first bytes of a connection: ApiVersions 3, with a header of version 2 whose client id is not compact."""
    data = bytes.fromhex(
        "0012 0003 00000001 0007 72646b61666b61 00 0b 6c696272646b61666b61 06 322e302e32 00".replace(" ", "")
    )
    request = decode_request(data)
    assert (request.api.name, request.version, request.correlation_id) == ("ApiVersions", 3, 1)
    assert request.client_id == "rdkafka"
    assert request.body == {"client_software_name": "librdkafka", "client_software_version": "2.0.2"} | {
        field: default for field, default in request.body.items() if not field.startswith("client_software")
    }


@pytest.mark.parametrize(("version", "header_bytes"), [(0, 8), (8, 8), (9, 9), (13, 9)])
def test_the_header_of_a_flexible_version_has_tags(version: int, header_bytes: int) -> None:
    data = frame("Metadata", version, METADATA if version > 0 else {"topics": []}, client_id=None)
    assert data[:10] == (3).to_bytes(2, "big") + version.to_bytes(2, "big") + (7).to_bytes(4, "big") + b"\xff\xff"
    request = decode_request(data)
    assert request.body["topics"] == []
    assert request.client_id is None
    answer = b"".join(map(bytes, encode_response(request.api, version, 7, {"brokers": [], "topics": []} | FULL)))
    assert answer[: header_bytes - 4] == (7).to_bytes(4, "big") + bytes(header_bytes - 8)


FULL = {"controller_id": 0, "cluster_id": None}


def test_the_header_of_an_answer_to_api_versions_never_has_tags() -> None:
    answer = encode_response(api_of(18), 3, 5, {"error_code": 0, "api_keys": [], "throttle_time_ms": 0})
    assert b"".join(map(bytes, answer)) == bytes.fromhex("00000005 0000 01 00000000 00".replace(" ", ""))


def test_an_unknown_version_says_which_are_known() -> None:
    with pytest.raises(UnsupportedVersionError, match="ApiVersions has no version 99") as error:
        decode_request(bytes.fromhex("0012 0063 00000009 ffff".replace(" ", "")))
    assert (error.value.api.key, error.value.version, error.value.correlation_id) == (18, 99, 9)


def test_bytes_after_the_body_are_ignored() -> None:
    """As brokers do: librdkafka 2.16.1 sends three of them in Metadata of version 13."""
    assert (
        decode_request(frame("Metadata", 9, METADATA) + b"\0\0\0").body
        == decode_request(frame("Metadata", 9, METADATA)).body
    )


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00\x12\x00\x03\x00\x00\x00",
        bytes.fromhex("7fff 0000 00000001 ffff".replace(" ", "")),
        bytes.fromhex("0012 ffff 00000001 ffff".replace(" ", "")),
        frame("Metadata", 9, METADATA)[:-1],
    ],
)
def test_what_is_no_request(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_request(data)


def test_the_table_has_every_version_that_clients_send() -> None:
    """The newest versions of Kafka 4.4, and the oldest, which 4.0 removed."""
    newest = {"Produce": 13, "Fetch": 18, "ListOffsets": 11, "Metadata": 13, "OffsetCommit": 10, "OffsetFetch": 10} | {
        "FindCoordinator": 6,
        "JoinGroup": 9,
        "DescribeGroups": 6,
        "ListGroups": 5,
        "DescribeLogDirs": 5,
        "DescribeTopicPartitions": 0,
    }
    known = {api.name: api.versions for api in apis().values()}
    assert {name: known[name].last for name in newest} == newest
    assert {known[name].first for name in newest} == {0}
    assert not {"LeaderAndIsr", "StopReplica", "UpdateMetadata", "Vote", "BrokerRegistration"} & set(known)


def test_a_range_of_a_file_remains_a_piece_between_joined_ones() -> None:
    class Range:
        def __len__(self) -> int:
            return 1 << 30

    place, partition = Range(), {"partition_index": 0, "error_code": 0, "high_watermark": 5}
    partition |= {"aborted_transactions": None, "records": place}
    pieces = encode_response(api_of(1), 12, 7, {"responses": [{"topic": "t", "partitions": [partition]}]})
    assert [type(piece) for piece in pieces] == [bytes, Range, bytes]
    assert pieces[1] is place
