"""Records of Kafka's own topics, as real brokers wrote them: each is decoded and encoded to the same bytes."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.errors import ProtocolError
from kafkalog_core.wire.codec import codec
from kafkalog_core.wire.schemas import names, schema_of
from tests.support.logs import dump_rows

if TYPE_CHECKING:
    from pathlib import Path

OF_OTHERS = {"TransactionLogKey", "ShareSnapshotKey", "ShareUpdateKey"}
OF_GROUPS = {
    schema_of(name, 0).key: name.removesuffix("Key")
    for name in names()
    if name.endswith("Key") and name not in OF_OTHERS
}


def records_of(corpus: Path, topic: str) -> list[tuple[bytes, bytes | None]]:
    found = []
    for directory in sorted(corpus.rglob(f"{topic}-*")):
        if directory.is_dir() and any(each.stat().st_size for each in directory.glob("*.log")):
            rows = dump_rows(directory, level="records")
            found += [
                (row["key"], row["value"])
                for row in rows
                if row["type"] == "record" and row["control_type"] is None and row["key"] is not None
            ]
    return found


def kind_of(key: bytes, topic: str) -> str:
    (number,) = struct.unpack_from(">h", key)
    return {0: "TransactionLog"}[number] if topic == "__transaction_state" else OF_GROUPS[number]


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_what_coordinators_wrote(corpus: Path, topic: str) -> None:
    found = records_of(corpus, topic)
    kinds = set()
    for key, value in found:
        kind = kind_of(key, topic)
        head = codec(f"{kind}Key", 0)
        assert b"".join(map(bytes, head.encode(head.decode_whole(key[2:])))) == key[2:]
        if value is not None:
            (version,) = struct.unpack_from(">h", value)
            one = codec(f"{kind}Value", version)
            assert b"".join(map(bytes, one.encode(one.decode_whole(value[2:])))) == value[2:], (kind, version)
            kinds.add((kind, version))
    wanted = {("OffsetCommit", 1), ("OffsetCommit", 3), ("OffsetCommit", 4), ("GroupMetadata", 3)}
    assert kinds >= (wanted if topic == "__consumer_offsets" else {("TransactionLog", 0), ("TransactionLog", 1)})


def test_a_key_is_no_message_of_another_type() -> None:
    with pytest.raises(ProtocolError):
        codec("GroupMetadataKey", 0).decode_whole(b"\x00\x05group\x00")
