"""The small property files. What a broker refuses was seen in runs of Kafka 4.3.1 on such files."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core.errors import LimitError
from kafkalog_core.format import properties
from kafkalog_core.format.properties import (
    read_clean_shutdown,
    read_meta_properties,
    read_partition_metadata,
    read_quorum_state,
)
from kafkalog_core.format.textfile import Failure

READERS = [read_meta_properties, read_partition_metadata, read_clean_shutdown, read_quorum_state]
# Written by Kafka 3.9.1 in KRaft mode.
META = (
    b"#\n#Sat Nov 21 02:00:53 UTC 2026\nnode.id=1\ndirectory.id=CkJFhEaeSTyUryDfYGaPMA\nversion=1\n"
    b"cluster.id=IWSrTFObMmCQCGC68ClI6w\n"
)
QUORUM = b'{"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
# As its schema of version 0 has it.
QUORUM_V0 = (
    b'{"clusterId":"","leaderId":1,"leaderEpoch":3,"votedId":-1,"appliedOffset":0,'
    b'"currentVoters":[{"voterId":1},{"voterId":2}],"data_version":0}'
)


def pairs(file: properties.PropertyFile) -> list[tuple[str, str | None]]:
    return [(item.key, item.value) for item in file.properties]


def refusal(file: properties.PropertyFile) -> tuple[str, Failure] | None:
    return None if file.refusal is None else (file.refusal.code, file.refusal.failure)


def test_golden_meta() -> None:
    file = read_meta_properties(META)
    assert pairs(file) == [
        ("node.id", "1"),
        ("directory.id", "CkJFhEaeSTyUryDfYGaPMA"),
        ("version", "1"),
        ("cluster.id", "IWSrTFObMmCQCGC68ClI6w"),
    ]
    assert [item.line for item in file.properties] == [3, 4, 5, 6]
    assert file.refusal is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"a=b", [("a", "b")]),
        (b"a:b\nc d\ne", [("a", "b"), ("c", "d"), ("e", "")]),
        (b"  a \t=  b c \n", [("a", "b c ")]),
        (b"a = = b", [("a", "= b")]),
        (b"# c\n  ! c\n\n \t\na=b", [("a", "b")]),
        (b"a\\ b\\:\\=c=d", [("a b:=c", "d")]),
        (b"a=x\\\n   y\\\r\n#z\nb=1", [("a", "xy#z"), ("b", "1")]),
        (b"a=x\\\\\nb=1", [("a", "x\\"), ("b", "1")]),
        (b"a=x\\", [("a", "x")]),
        (b"#c\\\na=b", [("a", "b")]),
        (b"a=\\t\\n\\r\\f\\q\\u0041", [("a", "\t\n\r\fqA")]),
        (b"a=\\\\u00", [("a", "\\u00")]),
        (b"a=\xe9", [("a", "\u00e9")]),
        (b"a=\\ud83d\\ude00\\ud83d", [("a", "\N{GRINNING FACE}\\ud83d")]),
        (b"a=1\na=2", [("a", "1"), ("a", "2")]),
        (b"=b", [("", "b")]),
        (b"", []),
    ],
)
def test_java_properties(text: bytes, expected: list[tuple[str, str]]) -> None:
    file = read_meta_properties(text)
    assert pairs(file) == expected
    assert not file.malformed


def test_a_key_that_stands_twice_has_its_last_value() -> None:
    assert read_meta_properties(b"a=1\nb=2\na=3").get("a") == "3"
    assert read_meta_properties(b"a=1").get("b") is None


def test_a_bad_escape_spoils_the_whole_file_for_java() -> None:
    file = read_meta_properties(b"version=0\nbroker.id=1\\\n\\u00x\ncluster.id=c\n")
    assert pairs(file) == [("version", "0"), ("cluster.id", "c")]
    (line,) = file.malformed
    assert (line.line, line.position, line.size_bytes) == (2, 10, 19)
    assert refusal(file) == ("malformed-line", Failure.IO)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"version=0\nbroker.id=0\n", None),
        (b"broker.id=0\n", None),
        (b"version=0\ncluster.id=c\n", None),
        (b"version=1\nnode.id=1\ncluster.id=c\n", None),
        (b"", ("missing-key", Failure.RUNTIME)),
        (b"version=2\nnode.id=1\ncluster.id=c\n", ("unsupported-version", Failure.RUNTIME)),
        (b"version=x\nnode.id=1\ncluster.id=c\n", ("unsupported-version", Failure.RUNTIME)),
        (b"version=1\nnode.id=one\ncluster.id=c\n", ("bad-node-id", Failure.RUNTIME)),
        (b"version=0\nbroker.id=1.0\n", ("bad-node-id", Failure.RUNTIME)),
        (b"version=1\nbroker.id=1\ncluster.id=c\n", ("missing-key", Failure.RUNTIME)),
        (b"version=1\nnode.id=1\n", ("missing-key", Failure.RUNTIME)),
        (b"broker.id=1\ndirectory.id=x\n", ("bad-directory-id", Failure.RUNTIME)),
        (b"broker.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n", ("bad-directory-id", Failure.RUNTIME)),
    ],
)
def test_meta_properties_that_brokers_refuse(text: bytes, expected: tuple[str, Failure] | None) -> None:
    assert refusal(read_meta_properties(text)) == expected


def test_golden_partition_metadata() -> None:
    file = read_partition_metadata(b"version: 0\ntopic_id: wWOh6xzXRhuvCOO_f0luSA")  # written by Kafka 2.8.2
    assert pairs(file) == [("version", "0"), ("topic_id", "wWOh6xzXRhuvCOO_f0luSA")]
    assert file.refusal is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"version: 7\r\nid:\t wWOh6xzXRhuvCOO_f0luSA\nmore", None),
        (b"", ("too-short", Failure.RUNTIME)),
        (b"version: 0\n", ("too-short", Failure.RUNTIME)),
        (b"hello\n", ("malformed-line", Failure.IO)),
        (b"version:0\ntopic_id: wWOh6xzXRhuvCOO_f0luSA", ("malformed-line", Failure.IO)),
        (b"version: -1\ntopic_id: wWOh6xzXRhuvCOO_f0luSA", ("malformed-line", Failure.IO)),
        (b"version: x\ntopic_id: wWOh6xzXRhuvCOO_f0luSA", ("malformed-line", Failure.IO)),
        (b"version: 0\ntopic_id: ", ("malformed-line", Failure.IO)),
        (b"version: 0\ntopic_id: \xff", ("malformed-line", Failure.IO)),
        (b"version: 0\ntopic_id: wWOh6xzXRhuvCOO_f0luS", ("bad-topic-id", Failure.RUNTIME)),
        (b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", ("zero-topic-id", Failure.IO)),
    ],
)
def test_partition_metadata_that_brokers_refuse(text: bytes, expected: tuple[str, Failure] | None) -> None:
    assert refusal(read_partition_metadata(text)) == expected


def test_lines_of_partition_metadata_that_say_nothing() -> None:
    file = read_partition_metadata(b"version: 0\ntopic_id: wWOh6xzXRhuvCOO_f0luSA\nmore\n")
    assert [(line.line, line.text, line.position) for line in file.malformed] == [(3, "more", 44)]
    assert file.refusal is None


def test_golden_clean_shutdown() -> None:
    assert read_clean_shutdown(b"") == properties.PropertyFile()  # up to Kafka 2.8
    file = read_clean_shutdown(b'{"version":0,"brokerEpoch":8}')  # Kafka 3.9.1
    assert pairs(file) == [("version", "0"), ("brokerEpoch", "8")]


@pytest.mark.parametrize("text", [b"not json", b"[1]", b"{", b'{"a":NaN}', b"\xff", b"[" * 60000, b"1" * 5000])
def test_any_mark_of_a_clean_stop_counts(text: bytes) -> None:
    file = read_clean_shutdown(text)
    assert file.refusal is None
    assert not file.properties
    assert [line.size_bytes for line in file.malformed] == [len(text)]


def test_golden_quorum_state() -> None:
    file = read_quorum_state(QUORUM)  # Kafka 3.9.1
    assert file.refusal is None
    assert pairs(file) == [
        ("leaderId", "1"),
        ("leaderEpoch", "1"),
        ("votedId", "-1"),
        ("votedDirectoryId", "AAAAAAAAAAAAAAAAAAAAAA"),
        ("data_version", "1"),
    ]


def test_quorum_state_of_version_0() -> None:
    file = read_quorum_state(QUORUM_V0)
    assert file.refusal is None
    assert file.get("currentVoters") == '[{"voterId":1},{"voterId":2}]'
    assert read_quorum_state(QUORUM_V0.replace(b'[{"voterId":1},{"voterId":2}]', b"null")).refusal is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", ("empty", Failure.IO)),
        (b"\n", ("malformed-line", Failure.IO)),
        (b"[]", ("malformed-line", Failure.IO)),
        (b"\xff", ("malformed-line", Failure.IO)),
        (b"{}", ("missing-key", Failure.IO)),
        (b'{"data_version":0}', ("missing-key", Failure.RUNTIME)),
        (QUORUM.replace(b'"data_version":1', b'"data_version":2'), ("unsupported-version", Failure.RUNTIME)),
        (QUORUM.replace(b'"data_version":1', b'"data_version":1.0'), ("unsupported-version", Failure.RUNTIME)),
        (QUORUM.replace(b'"data_version":1', b'"data_version":true'), ("unsupported-version", Failure.RUNTIME)),
        (QUORUM.replace(b'"leaderId":1', b'"leaderId":"1"'), ("bad-value", Failure.RUNTIME)),
        (QUORUM.replace(b'"leaderId":1', b'"leaderId":null'), ("bad-value", Failure.RUNTIME)),
        (QUORUM.replace(b"votedDirectoryId", b"other"), ("missing-key", Failure.RUNTIME)),
    ],
)
def test_quorum_state_that_brokers_refuse(text: bytes, expected: tuple[str, Failure]) -> None:
    assert refusal(read_quorum_state(text)) == expected


def test_a_broker_reads_the_first_line_of_quorum_state_alone() -> None:
    file = read_quorum_state(QUORUM + b"\n\nmore\n")
    assert file.refusal is None
    assert [line.line for line in file.malformed] == [3]


def test_json_of_every_type() -> None:
    file = read_clean_shutdown(b'{"a":null,"b":true,"c":"x","d":1.5,"e":{"f":[1]},"a":2,"g":"\\ud800"}')
    assert pairs(file) == [
        ("a", None),
        ("b", "true"),
        ("c", "x"),
        ("d", "1.5"),
        ("e", '{"f":[1]}'),
        ("a", "2"),
        ("g", "\\ud800"),
    ]


@pytest.mark.parametrize("read", READERS)
def test_a_file_far_too_large_is_refused(read) -> None:
    with pytest.raises(LimitError):
        read(b"x" * (properties.MAX_PROPERTY_FILE_BYTES + 1))


@given(st.dictionaries(st.text(max_size=10), st.text(max_size=20)))
def test_properties_round_trip(values: dict[str, str]) -> None:
    def escape(text: str) -> str:
        units = text.encode("utf-16-be", "surrogatepass")
        return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))

    text = "".join(f"{escape(key)}={escape(value)}\n" for key, value in values.items())
    assert pairs(read_meta_properties(text.encode("ascii"))) == list(values.items())


@given(st.dictionaries(st.text(max_size=10), st.text(max_size=20) | st.integers() | st.booleans() | st.none()))
def test_json_round_trip(values: dict[str, object]) -> None:
    found = pairs(read_clean_shutdown(json.dumps(values).encode()))
    expected = {key: value if isinstance(value, str | None) else json.dumps(value) for key, value in values.items()}
    assert found == list(expected.items())


@given(
    st.binary(max_size=100)
    | st.text(alphabet='{}[]":,\\u0dab=: \n\r#!', max_size=60).map(str.encode)
    | st.text(alphabet="version: 0-AQ\n", max_size=60).map(str.encode)
)
def test_any_bytes(data: bytes) -> None:
    for read in READERS:
        file = read(data)
        for item in file.properties:
            item.key.encode()
            (item.value or "").encode()


def test_every_cut() -> None:
    for length in range(len(QUORUM)):
        assert read_quorum_state(QUORUM[:length]).refusal is not None
    for length in range(len(META)):
        read_meta_properties(META[:length])
