"""The fixed parts of ZooKeeper's files, from zookeeper.jute and FileTxnLog, FileSnap, DataTree of ZooKeeper 3.3 to 3.9.

All numbers are big-endian (BinaryOutputArchive writes through DataOutputStream).
"""

from __future__ import annotations

from struct import Struct, error
from typing import Final

__all__ = [
    "ACL_AND_STAT",
    "CLOSE_SESSION",
    "CONTAINER_OWNER",
    "CREATES",
    "DELETES",
    "DIGEST_STAT",
    "END_OF_TXN",
    "EPOCH_SHIFT",
    "FILE_HEADER",
    "FILE_VERSION",
    "FRAME",
    "INT",
    "LAYOUT_ERROR",
    "LOG_MAGIC",
    "LONG",
    "MIN_TXN_BYTES",
    "MULTI",
    "NODE_ZXIDS",
    "NO_LENGTH",
    "OPEN_ACL_ID",
    "OWNER_AT",
    "PADDING_BYTES",
    "SESSION",
    "SNAPSHOT_MAGIC",
    "SNAPSHOT_SEAL_BYTES",
    "TTL_BITS",
    "TTL_OWNER",
    "TXN_DIGEST",
    "TXN_HEADER",
    "TXN_NAMES",
    "Layout",
]

Layout = Struct
"""The type of a fixed layout."""

# --- files ------------------------------------------------------------------------------------------------------------
SNAPSHOT_MAGIC: Final = b"ZKSN"
LOG_MAGIC: Final = b"ZKLG"
FILE_VERSION: Final = 2
FILE_HEADER: Final = Struct(">4siq")
"""FileHeader: magic, version, dbid (-1 in snapshots, 0 in logs)."""
INT: Final = Struct(">i")
LONG: Final = Struct(">q")
LAYOUT_ERROR: Final = error
"""What a layout raises where the bytes end before it does."""
NO_LENGTH: Final = -1
"""The length of a string, a buffer or a vector that is None."""
EPOCH_SHIFT: Final = 32
"""A zxid is the epoch of the leader in the upper 32 bits, and a counter that begins at 1 in the lower ones."""

# --- snapshots --------------------------------------------------------------------------------------------------------
SESSION: Final = Struct(">qi")
"""A session of a snapshot: id, timeout in milliseconds (SerializeUtils.serializeSnapshot)."""
ACL_AND_STAT: Final = Struct(">qqqqqiiiqq")
"""The end of a node: id of its ACL, then StatPersisted: czxid, mzxid, ctime, mtime, version, cversion, aversion,
ephemeralOwner, pzxid."""
NODE_ZXIDS: Final = Struct(">8xqq36xq")
"""Of the same bytes czxid, mzxid and pzxid alone, in less time."""
OWNER_AT: Final = slice(52, 60)
"""Where `ACL_AND_STAT` has the ephemeralOwner."""
OPEN_ACL_ID: Final = -1
"""ReferenceCountedACLCache.OPEN_UNSAFE_ACL_ID: everybody may do everything; it is not in the table of ACLs."""
SNAPSHOT_SEAL_BYTES: Final = 13
"""SnapStream.sealStream: the Adler-32 as a long, and the string "/"."""
CONTAINER_OWNER: Final = -(2**63)
"""The ephemeralOwner of a container node (EphemeralType.CONTAINER_EPHEMERAL_OWNER)."""
TTL_OWNER: Final = 0xFF00
"""The upper 16 bits of the ephemeralOwner of a node with a time to live (EphemeralType.TTL)."""
TTL_BITS: Final = 40
"""The bits below, which hold that time in milliseconds."""
DIGEST_STAT: Final = Struct(">qqqqqiiiq")
"""What DigestCalculator.calculateDigest takes of a stat: czxid, mzxid, pzxid, ctime, mtime, version, cversion,
aversion, ephemeralOwner."""

# --- transaction logs -------------------------------------------------------------------------------------------------
FRAME: Final = Struct(">qi")
"""Before a transaction: the Adler-32 of its bytes as a long, and their number (Util.marshallTxnEntry, FileTxnLog)."""
END_OF_TXN: Final = 0x42
"""The byte after each transaction (Util.writeTxnBytes)."""
TXN_HEADER: Final = Struct(">qiqqi")
"""TxnHeader: clientId, cxid, zxid, time, type."""
TXN_DIGEST: Final = Struct(">iq")
"""TxnDigest of ZooKeeper 3.6 and later: version, digest of the whole tree after the transaction."""
MIN_TXN_BYTES: Final = TXN_HEADER.size
PADDING_BYTES: Final = 64 * 1024 * 1024
"""FilePadding: a log is preallocated with zeros by 64 MiB at a time."""

TXN_NAMES: Final = {
    1: "create",
    2: "delete",
    5: "set",
    7: "set-acl",
    13: "check",
    14: "multi",
    15: "create",
    16: "reconfig",
    19: "create-container",
    20: "delete-container",
    21: "create-ttl",
    -1: "error",
    -10: "create-session",
    -11: "close-session",
}
"""The types of transactions (ZooDefs.OpCode). 15 is create2, whose client gets the stat of the node too."""
CREATES: Final = frozenset({1, 15, 19, 21})
DELETES: Final = frozenset({2, 20})
MULTI: Final = 14
CLOSE_SESSION: Final = -11
