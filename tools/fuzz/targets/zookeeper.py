"""ZooKeeper's files: transactions, snapshots, logs, and what Kafka's nodes mean."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, TypeVar

from kafkalog_core.errors import FormatError
from kafkalog_core.format.checksums import ZLIB
from kafkalog_core.format.zookeeper.layout import LONG
from kafkalog_core.format.zookeeper.snapshots import decode_snapshot, encode_snapshot
from kafkalog_core.format.zookeeper.transactions import decode_transaction, encode_transaction
from kafkalog_core.format.zookeeper.txn_log import encode_log
from kafkalog_core.kafka.sim.zookeeper.data_dir import ZxidFile
from kafkalog_core.kafka.sim.zookeeper.tree import empty_tree
from kafkalog_core.kafka.sim.zookeeper.txn_files import transactions_of
from kafkalog_core.progress import NO_PROGRESS
from kafkalog_core.text import json_text
from kafkalog_core.topics.zookeeper_nodes import hide_secrets, read_node
from tools.fuzz.memory import check, memory_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalog_core.findings import Finding

__all__ = ["NODES", "zookeeper_logs", "zookeeper_nodes", "zookeeper_records", "zookeeper_snapshots"]

NODES: Final = (
    "/brokers/ids/1",
    "/brokers/topics/t",
    "/brokers/topics/t/partitions/0/state",
    "/config/users/u",
    "/consumers/g/ids/c",
    "/controller",
    "/kafka-acl/Topic/t",
    "/consumers/g/offsets/t/0",
    "/migration",
)
_SEAL_BYTES: Final = 13
Decoded = TypeVar("Decoded")


def _value(decode: Callable[[bytes], Decoded], data: bytes) -> Decoded | str:
    """The value, or the text of one of our errors."""
    try:
        return decode(data)
    except FormatError as error:
        return str(error)


def zookeeper_records(data: bytes) -> object:
    """Decode an entry of a log, which is encoded again, and applied to a tree."""
    found = _value(decode_transaction, data)
    if isinstance(found, str):
        return found
    check(encode_transaction(found) == data, "another entry")
    tree = empty_tree()
    changes = tree.apply(found)
    check(all(change.path in tree.nodes for change in changes if change.action == "created"), "a node is not there")
    return repr(found)


def zookeeper_snapshots(data: bytes) -> object:
    """Decode a snapshot; the first byte: whether its last checksum is put in order (1 bit)."""
    if data[:1] < b"\x80" and len(data) > _SEAL_BYTES:
        body = data[1:-_SEAL_BYTES]
        data = b"\0" + body + LONG.pack(ZLIB.adler32(body)) + b"\0\0\0\1/"
    found = _value(decode_snapshot, data[1:])
    if isinstance(found, str):
        return found
    check(encode_snapshot(found) == data[1:], "another snapshot")
    return repr(list(found.nodes))


def zookeeper_logs(data: bytes) -> object:
    """Read a log through its damage; the first byte: whether the rest is one entry with its frame (1 bit)."""
    file = encode_log(iter((data[1:],)), padding_bytes=20) + data[1:] if data[:1] < b"\x80" else data[1:]
    findings: list[Finding] = []
    found = list(transactions_of(ZxidFile(path=memory_path(file), zxid=0), findings, NO_PROGRESS))
    size = len(file)
    check(all(0 <= (each.position or 0) <= size for each in findings), "a finding outside of the file")
    check(all((each.position or 0) + (each.size_bytes or 0) <= size for each in findings), "more bytes than there are")
    return repr((found, [(each.code, each.position, each.size_bytes) for each in findings]))


def zookeeper_nodes(data: bytes) -> object:
    """Read what a node means; the first byte: which one."""
    node = read_node(NODES[(data or b"\0")[0] % len(NODES)], data[1:])
    if node is None:
        return None
    text = json_text(node.fields)
    check(json.loads(text) is not None, "no JSON")
    shown = hide_secrets(data)
    check(hide_secrets(shown) == shown, "hidden twice it is another text")
    return text
