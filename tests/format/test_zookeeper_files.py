"""ZooKeeper's records: to values and back to the same bytes, and any bytes are a value or one of our errors."""

from __future__ import annotations

import gzip
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core.errors import FieldError, FormatError, TruncatedError
from kafkalog_core.format.zookeeper.jute import OPEN_ACL, Acl, JuteReader
from kafkalog_core.format.zookeeper.layout import FILE_HEADER
from kafkalog_core.format.zookeeper.snapshots import (
    Snapshot,
    SnapshotDigest,
    Stat,
    Znode,
    decode_snapshot,
    encode_snapshot,
)
from kafkalog_core.format.zookeeper.transactions import (
    Operation,
    Transaction,
    TreeDigest,
    decode_transaction,
    encode_transaction,
)
from kafkalog_core.format.zookeeper.txn_log import (
    LogEntry,
    LogStop,
    check_log_header,
    encode_log,
    find_entry,
    frame_bytes,
    read_entry,
)
from tests.support.for_each import for_each
from tests.support.znodes import SERVERS, unpacked

if TYPE_CHECKING:
    from pathlib import Path

PATHS = st.text(min_size=1, max_size=12)
DATA = st.none() | st.binary(max_size=20)
INTS = st.integers(-(2**31), 2**31 - 1)
LONGS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.none() | st.text(max_size=8)
ACLS = st.none() | st.lists(st.builds(Acl, INTS, TEXTS, TEXTS), max_size=3).map(tuple)
SIMPLE = st.one_of(
    st.builds(
        Operation,
        type=st.sampled_from((1, 15)),
        path=PATHS,
        data=DATA,
        acls=ACLS,
        is_ephemeral=st.booleans(),
        parent_cversion=INTS,
    ),
    st.builds(Operation, type=st.just(19), path=PATHS, data=DATA, acls=ACLS, parent_cversion=INTS),
    st.builds(Operation, type=st.just(21), path=PATHS, data=DATA, acls=ACLS, parent_cversion=INTS, ttl_ms=LONGS),
    st.builds(Operation, type=st.sampled_from((2, 20)), path=PATHS),
    st.builds(Operation, type=st.sampled_from((5, 16)), path=PATHS, data=DATA, version=INTS),
    st.builds(Operation, type=st.just(7), path=PATHS, acls=ACLS, version=INTS),
    st.builds(Operation, type=st.just(13), path=PATHS, version=INTS),
    st.builds(Operation, type=st.just(-1), error=INTS),
    st.builds(Operation, type=st.just(-10), timeout_ms=INTS),
)
OPERATIONS = st.one_of(
    SIMPLE,
    st.builds(Operation, type=st.just(14), operations=st.lists(SIMPLE, max_size=4).map(tuple)),
    st.builds(Operation, type=st.just(-11), paths=st.lists(PATHS, max_size=3).map(tuple)),
)
TRANSACTIONS = st.builds(
    Transaction,
    session_id=LONGS,
    cxid=INTS,
    zxid=LONGS,
    time_ms=LONGS,
    operation=OPERATIONS,
    digest=st.none() | st.builds(TreeDigest, INTS, LONGS),
)


@given(TRANSACTIONS)
def test_a_transaction_is_read_as_it_was_written(transaction: Transaction) -> None:
    assert decode_transaction(encode_transaction(transaction)) == transaction


@pytest.mark.parametrize("version", SERVERS)
def test_every_record_of_real_servers_has_the_same_bytes_again(version: str, tmp_path: Path) -> None:
    logs = 0
    for path in (unpacked(version, tmp_path) / "data" / "version-2").iterdir():
        data = path.read_bytes()
        if path.name.startswith("log."):
            check_log_header(data)
            entries, at = [], FILE_HEADER.size
            while isinstance(entry := read_entry(data, at, is_last=True), LogEntry):
                raw = data[entry.start : entry.end]
                assert encode_transaction(decode_transaction(raw)) == raw
                entries.append(raw)
                at = entry.next_position
            assert entry == LogStop("end", at)
            assert encode_log(iter(entries), padding_bytes=len(data) - at) == data
            logs += 1
        elif path.suffix == ".gz":
            content = gzip.decompress(data)
            assert encode_snapshot(decode_snapshot(content)) == content
        elif path.name.startswith("snapshot.") and path.suffix != ".snappy":
            assert encode_snapshot(decode_snapshot(data)) == data
    assert logs


def _transaction(operation: Operation, digest: TreeDigest | None = None) -> Transaction:
    return Transaction(session_id=1, cxid=2, zxid=3, time_ms=4, operation=operation, digest=digest)


@for_each([None, TreeDigest(2, 5)])
def test_a_closed_session_without_its_nodes_is_no_list(digest: TreeDigest | None) -> None:
    """Before 3.6, and where closeSessionTxn.enabled is false: the digest comes at once."""
    transaction = _transaction(Operation(type=-11), digest)
    assert decode_transaction(encode_transaction(transaction)) == transaction


@for_each([None, TreeDigest(2, 5)])
def test_a_create_before_3_4_has_no_cversion(digest: TreeDigest | None) -> None:
    transaction = _transaction(Operation(type=1, path="/a", data=b"x", acls=OPEN_ACL, parent_cversion=None), digest)
    assert decode_transaction(encode_transaction(transaction)) == transaction


@for_each(
    [
        (Operation(type=3, error=0), "is not a type"),
        (Operation(type=14, operations=(Operation(type=14),)), "is a multi itself"),
    ]
)
def test_what_no_server_writes_is_an_error(case: tuple[Operation, str]) -> None:
    operation, text = case
    with pytest.raises(FieldError, match=text):
        decode_transaction(encode_transaction(_transaction(operation)))


@given(TRANSACTIONS, st.data())
def test_a_cut_transaction_is_one_of_our_errors_or_another_one(transaction: Transaction, data: st.DataObject) -> None:
    raw = encode_transaction(transaction)
    cut = raw[: data.draw(st.integers(0, len(raw) - 1))]
    try:
        again = decode_transaction(cut)
    except FormatError:
        return
    assert encode_transaction(again) == cut


@given(st.binary(max_size=200))
def test_any_bytes_are_a_value_or_one_of_our_errors(data: bytes) -> None:
    for decode in (decode_transaction, decode_snapshot):
        with suppress(FormatError):
            decode(data)


def snapshot(**fields: object) -> Snapshot:
    nodes = {}
    for path in ("", "/a", "/a/\udcff"):
        nodes[path] = Znode(None if path else b"", b"")
        nodes[path].set_stat(Stat(-1, 1, 2, 3, 4, 5, 6, 7, 8, 9))
    parts: dict[str, object] = {"sessions": {7: 30000}, "acls": {1: OPEN_ACL, 2: None}, "nodes": nodes}
    return Snapshot(**(parts | fields))  # type: ignore[arg-type]


@for_each(
    [
        {},
        {"digest": SnapshotDigest(5, 2, -7)},
        {"digest": SnapshotDigest(0, 2, 0), "last_zxid": 9},
        {"last_zxid": 9},
        {"digest": SnapshotDigest(5, 1, 0xABC)},
        {"digest": SnapshotDigest(5, 1, None)},
    ]
)
def test_a_snapshot_has_its_sections(fields: dict[str, object]) -> None:
    """Of 3.4 and 3.5, 3.6, 3.9, of 3.9 without digests, and of builds whose digest was text."""
    written = snapshot(**fields)
    raw = encode_snapshot(written)
    again = decode_snapshot(raw)
    assert again == written
    assert encode_snapshot(again) == raw


def test_a_snapshot_that_is_cut_or_changed_is_an_error() -> None:
    raw = encode_snapshot(snapshot(digest=SnapshotDigest(5, 2, 6)))
    for end in range(len(raw) - 33):
        with pytest.raises(FormatError):
            decode_snapshot(raw[:end])
    for position in range(len(raw)):
        changed = bytearray(raw)
        changed[position] ^= 0x40
        with pytest.raises(FormatError):
            decode_snapshot(changed)


def test_what_a_vector_declares_is_checked_before_memory_is_taken() -> None:
    with pytest.raises(TruncatedError, match="do not fit"):
        JuteReader(b"\x7f\xff\xff\xff").read_acls()


@for_each([b"", b"\0" * 100])
def test_a_log_ends_at_the_end_of_the_file_and_at_zeros(rest: bytes) -> None:
    assert read_entry(rest, 0, is_last=True) == LogStop("end", 0)


def test_why_there_is_no_entry() -> None:
    whole = frame_bytes(encode_transaction(_transaction(Operation(type=2, path="/a"))))
    assert read_entry(whole, 0, is_last=True) == LogEntry(0, 12, len(whole) - 1)
    assert read_entry(whole[:-1], 0, is_last=True) == LogStop("partial", 0)
    assert read_entry(whole[:-1], 0, is_last=False) == LogStop("more", 0, len(whole))
    assert read_entry(whole[:5], 0, is_last=False) == LogStop("more", 0, 12)
    assert read_entry(whole[:-1] + b"\0", 0, is_last=True) == LogStop("partial", 0)
    assert read_entry(b"\0" * 7 + b"\1" + whole[8:], 0, is_last=True) == LogStop("checksum", 0)
    assert read_entry(whole[:8] + b"\x80" + whole[9:], 0, is_last=True) == LogStop("length", 0)
    assert find_entry(b"\0" * 50 + b"junk" + whole, 0, is_last=True) == 54
    assert find_entry(whole[1:], 0, is_last=True) is None
    with pytest.raises(FieldError, match="not with"):
        check_log_header(b"ZKSN" + bytes(12))
    with pytest.raises(TruncatedError):
        check_log_header(b"ZK")
