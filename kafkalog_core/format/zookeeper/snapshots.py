"""A snapshot of ZooKeeper's tree: sessions, ACLs, nodes, and the sections after them; to values and back.

FileSnap, SerializeUtils, DataTree.serialize and SnapStream of ZooKeeper 3.3 to 3.9 are the rule. A snapshot of a
million nodes is read in seconds: a node keeps its fixed part as bytes until somebody asks for it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.errors import FieldError, FormatError, TruncatedError
from kafkalog_core.format.checksums import ZLIB, crc32
from kafkalog_core.format.zookeeper.jute import Acl, JuteReader, acls_bytes, buffer_bytes, long_bytes, string_bytes
from kafkalog_core.format.zookeeper.layout import (
    ACL_AND_STAT,
    DIGEST_STAT,
    FILE_HEADER,
    INT,
    LAYOUT_ERROR,
    LONG,
    NO_LENGTH,
    SESSION,
    SNAPSHOT_MAGIC,
    SNAPSHOT_SEAL_BYTES,
)
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Snapshot", "SnapshotDigest", "Stat", "Znode", "decode_snapshot", "encode_snapshot", "node_digest"]

_END: Final = "/"
"""The path that ends the nodes: the root itself has the path "" in a snapshot."""
_MIN_ACLS_BYTES: Final = 12
_HEX_DIGESTS_BELOW: Final = 2
"""Versions of the digest below this one are hexadecimal text (ZxidDigest.deserialize)."""
_HEX: Final = re.compile(r"0|[1-9a-f][0-9a-f]{0,15}")
"""As Long.toHexString writes it."""
_MASK: Final = 2**64 - 1
_UNCOUNTED: Final = "/zookeeper/"


class Stat(NamedTuple):
    """StatPersisted, after the id of the node's ACL.

    `cversion` counts the children that were created. A client is shown twice that number less the children that are
    there (DataNode.copyStat), which counts the deleted ones too.
    """

    acl_id: int
    czxid: int
    mzxid: int
    ctime_ms: int
    mtime_ms: int
    version: int
    cversion: int
    aversion: int
    owner: int
    pzxid: int


class Znode:
    """A node: its data, and `packed`, the bytes of its `Stat`."""

    __slots__ = ("data", "packed")

    def __init__(self, data: bytes | None, packed: bytes) -> None:
        self.data = data
        self.packed = packed

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Znode) and (self.data, self.packed) == (other.data, other.packed)

    __hash__ = None  # type: ignore[assignment]  # a replay changes it

    @property
    def stat(self) -> Stat:
        """Its numbers."""
        return Stat._make(ACL_AND_STAT.unpack(self.packed))

    def set_stat(self, stat: Stat) -> None:
        """Replace its numbers."""
        self.packed = ACL_AND_STAT.pack(*stat)


class SnapshotDigest(Struct, frozen=True):
    """The digest of the tree at a transaction (3.6 and later). zxid 0: the server had none; None: a string was."""

    zxid: int
    version: int
    value: int | None


class Snapshot(Struct, kw_only=True):
    """A snapshot.

    Args:
        sessions: timeout in milliseconds by session id.
        acls: the table of ACLs.
        nodes: by path, in the order of the file; the root has the path "".
        digest: None: there is no such section.
        last_zxid: the last transaction when the snapshot was finished (3.9 and later); None: there is no such section.
        version: of the file.
        dbid: of the file.
    """

    sessions: dict[int, int]
    acls: dict[int, tuple[Acl, ...] | None]
    nodes: dict[str, Znode]
    digest: SnapshotDigest | None = None
    last_zxid: int | None = None
    version: int = 2
    dbid: int = -1


# --- from bytes -------------------------------------------------------------------------------------------------------
def decode_snapshot(data: bytes | memoryview) -> Snapshot:
    """Return what a snapshot holds, which was decompressed.

    Raises:
        TruncatedError: the file ends early.
        FieldError: it is not a snapshot, a checksum is wrong, or something appears twice.
    """
    reader = JuteReader(data)
    magic, version, dbid = reader.fields(FILE_HEADER)
    if magic != SNAPSHOT_MAGIC:
        raise FieldError(f"the file begins with {magic!r}, not with {SNAPSHOT_MAGIC!r}", position=0)
    sessions: dict[int, int] = {}
    for _ in range(number := _some(reader, SESSION.size)):
        session_id, timeout_ms = reader.fields(SESSION)
        sessions[session_id] = timeout_ms
    number_of_acls = _some(reader, _MIN_ACLS_BYTES)
    acls = {reader.read_long(): reader.read_acls() for _ in range(number_of_acls)}
    if (len(sessions), len(acls)) != (number, number_of_acls):
        raise FieldError("a session or an ACL appears twice", position=reader.position)
    nodes = _read_nodes(reader)
    _check_seal(reader)
    snapshot = Snapshot(sessions=sessions, acls=acls, nodes=nodes, version=version, dbid=dbid)
    # The sections came one after the other (3.6, 3.9), each can be switched off, and nothing but its size names it.
    if reader.left and reader.left != LONG.size + SNAPSHOT_SEAL_BYTES:
        snapshot.digest = _read_digest(reader)
        _check_seal(reader)
    if reader.left:
        snapshot.last_zxid = reader.read_long()
        _check_seal(reader)
    if reader.left:
        raise FieldError(f"{reader.left} bytes follow the snapshot", position=reader.position)
    return snapshot


def _some(reader: JuteReader, item_bytes: int) -> int:
    number = reader.count(item_bytes)
    if number is None:
        raise FieldError("-1 is not a number of items", position=reader.position)
    return number


def _read_nodes(reader: JuteReader) -> dict[str, Znode]:
    """Return the nodes. The loop has no call per field: there may be millions of nodes."""
    data, at, end = reader.data, reader.position, reader.end
    nodes: dict[str, Znode] = {}
    number, unpack, node_of, fixed = 0, INT.unpack_from, Znode, ACL_AND_STAT.size
    length_size = INT.size
    try:
        while True:
            start = at + length_size
            (length,) = unpack(data, at)
            after = start + length
            if length < 0 or after > end:
                raise _bad_length(length, at)
            path = str(data[start:after], "utf-8", "surrogateescape")
            if path == _END:
                break
            (length,) = unpack(data, after)
            start = after + length_size
            if length >= 0:
                at = start + length
                value = bytes(data[start:at])
            elif length == NO_LENGTH:
                at, value = start, None
            else:
                raise _bad_length(length, after)
            if at + fixed > end:
                raise TruncatedError("the snapshot ends within a node", position=after)
            nodes[path] = node_of(value, bytes(data[at : at + fixed]))
            at += fixed
            number += 1
    except LAYOUT_ERROR as error:
        raise TruncatedError("the snapshot ends before its last node", position=at) from error
    if len(nodes) != number:
        raise FieldError("a path appears twice among the nodes", position=at)
    reader.position = after
    return nodes


def _bad_length(length: int, position: int) -> FormatError:
    if length < 0:
        return FieldError(f"{length} is not a length", position=position)
    return TruncatedError("the snapshot ends within a path", position=position)


def _check_seal(reader: JuteReader) -> None:
    """Check the checksum of everything before it, and the "/" after it (SnapStream.checkSealIntegrity)."""
    at = reader.position
    computed = ZLIB.adler32(reader.data[:at])
    stored = reader.read_long()
    if stored != computed:
        raise FieldError(f"the Adler-32 is {stored:#x}, but that of the bytes before it is {computed:#x}", position=at)
    if reader.read_string() != _END:
        raise FieldError('"/" does not follow the Adler-32', position=at + LONG.size)


def _read_digest(reader: JuteReader) -> SnapshotDigest:
    zxid, version = reader.read_long(), reader.read_int()
    if version >= _HEX_DIGESTS_BELOW:
        return SnapshotDigest(zxid, version, reader.read_long())
    at, text = reader.position, reader.read_string()
    value = None if text is None or not _HEX.fullmatch(text) else int(text, 16)
    if value is None and text is not None:
        raise FieldError(f"{text!r} is not a digest", position=at)
    return SnapshotDigest(zxid, version, value)


# --- to bytes ---------------------------------------------------------------------------------------------------------
def encode_snapshot(snapshot: Snapshot) -> bytes:
    """Return the bytes of a snapshot, not compressed."""
    written = bytearray(FILE_HEADER.pack(SNAPSHOT_MAGIC, snapshot.version, snapshot.dbid))
    written += INT.pack(len(snapshot.sessions))
    for session in snapshot.sessions.items():
        written += SESSION.pack(*session)
    written += INT.pack(len(snapshot.acls))
    for acl_id, acls in snapshot.acls.items():
        written += long_bytes(acl_id) + acls_bytes(acls)
    for path, node in snapshot.nodes.items():
        written += string_bytes(path) + buffer_bytes(node.data) + node.packed
    written += string_bytes(_END)
    _seal(written)
    digest = snapshot.digest
    if digest is not None:
        written += long_bytes(digest.zxid) + INT.pack(digest.version)
        if digest.version < _HEX_DIGESTS_BELOW:
            written += string_bytes(None if digest.value is None else f"{digest.value:x}")
        else:
            written += long_bytes(digest.value or 0)
        _seal(written)
    if snapshot.last_zxid is not None:
        written += long_bytes(snapshot.last_zxid)
        _seal(written)
    return bytes(written)


def _seal(written: bytearray) -> None:
    written += long_bytes(ZLIB.adler32(written)) + string_bytes(_END)


# --- digests ----------------------------------------------------------------------------------------------------------
def node_digest(nodes: Mapping[str, Znode]) -> int:
    """Return the digest of a tree, version 2 (DigestCalculator.calculateDigest, AdHash): a signed long.

    It is the sum of the CRC-32 of each node's path, data and numbers. Nodes below /zookeeper do not count.
    """
    total = 0
    for path, node in nodes.items():
        if path.startswith(_UNCOUNTED):
            continue
        _, czxid, mzxid, ctime, mtime, version, cversion, aversion, owner, pzxid = ACL_AND_STAT.unpack(node.packed)
        value = crc32(path.encode("utf-8", "surrogateescape"))
        if node.data is not None:
            value = crc32(node.data, value)
        numbers = DIGEST_STAT.pack(czxid, mzxid, pzxid, ctime, mtime, version, cversion, aversion, owner)
        total += crc32(numbers, value)
    total &= _MASK
    return total - 2**64 if total >> 63 else total
