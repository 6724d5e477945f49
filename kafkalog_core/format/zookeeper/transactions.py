"""The transactions of a ZooKeeper log: header, operation, and the digest of the tree after it; to values and back.

SerializeUtils.deserializeTxn of ZooKeeper 3.3 to 3.9 is the rule. Three things depend on the bytes that are left: a
create without the cversion of the parent (CreateTxnV0, before 3.4), a closed session without its nodes (before 3.6, or
with closeSessionTxn.enabled=false), and the digest (3.6 and later, with digest.enabled).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import FieldError, FormatError
from kafkalog_core.format.zookeeper.jute import (
    Acl,
    JuteReader,
    acls_bytes,
    buffer_bytes,
    int_bytes,
    long_bytes,
    string_bytes,
)
from kafkalog_core.format.zookeeper.layout import (
    CLOSE_SESSION,
    CREATES,
    DELETES,
    INT,
    MULTI,
    TXN_DIGEST,
    TXN_HEADER,
    TXN_NAMES,
)
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Operation", "Transaction", "TreeDigest", "decode_transaction", "encode_transaction"]

_CREATE, _CREATE2, _CREATE_CONTAINER, _CREATE_TTL = 1, 15, 19, 21
_SETS: Final = frozenset({5, 16})
_SET_ACL, _CHECK, _ERROR, _CREATE_SESSION = 7, 13, -1, -10
_MIN_OPERATION_BYTES: Final = 8
_BOOL: Final = (b"\0", b"\1")


class Operation(Struct, frozen=True, kw_only=True):
    """What a transaction does. Which fields have a value follows from its type.

    Args:
        type: see `TXN_NAMES`.
        path: of the node.
        data: of a created or changed node.
        acls: of a created node, and those that replace others.
        is_ephemeral: whether the session owns the created node.
        parent_cversion: how many children the parent has had, with this one; None: the record does not say.
        version: of the data or of the ACL after the change; the one that a check compares.
        ttl_ms: time to live of a created node.
        timeout_ms: of a created session.
        error: the code of an operation that failed (KeeperException.Code).
        paths: the ephemeral nodes of a closed session; None: the record does not name them.
        operations: those of a multi.
    """

    type: int
    path: str = ""
    data: bytes | None = None
    acls: tuple[Acl, ...] | None = None
    is_ephemeral: bool = False
    parent_cversion: int | None = None
    version: int = 0
    ttl_ms: int = 0
    timeout_ms: int = 0
    error: int = 0
    paths: tuple[str | None, ...] | None = None
    operations: tuple[Operation, ...] = ()

    @property
    def name(self) -> str:
        """The name of its type."""
        return TXN_NAMES.get(self.type, str(self.type))


class TreeDigest(Struct, frozen=True):
    """The digest of the whole tree after a transaction, and the version of its computation."""

    version: int
    value: int


class Transaction(Struct, frozen=True, kw_only=True):
    """A transaction.

    Args:
        session_id: of the client.
        cxid: number of the request in its session.
        zxid: number of the transaction in the cluster.
        time_ms: when the leader made it.
        operation: what it does.
        digest: None: the record has none.
    """

    session_id: int
    cxid: int
    zxid: int
    time_ms: int
    operation: Operation
    digest: TreeDigest | None = None


# --- from bytes -------------------------------------------------------------------------------------------------------
def decode_transaction(data: bytes | memoryview) -> Transaction:
    """Return the transaction that an entry of a log holds.

    Raises:
        TruncatedError: the entry ends early.
        FieldError: the type is not one of ZooKeeper's, a length is negative, or bytes are left.
    """
    reader = JuteReader(data)
    session_id, cxid, zxid, time_ms, kind = reader.fields(TXN_HEADER)
    operation = _read_operation(kind, reader)
    digest = None
    if reader.left:
        if reader.left != TXN_DIGEST.size:
            raise FieldError(f"{reader.left} bytes follow the transaction", position=reader.position)
        digest = TreeDigest(*reader.fields(TXN_DIGEST))
    return Transaction(session_id=session_id, cxid=cxid, zxid=zxid, time_ms=time_ms, operation=operation, digest=digest)


def _read_operation(kind: int, reader: JuteReader) -> Operation:
    if kind in CREATES:
        return _read_create(kind, reader)
    if kind in DELETES:
        return Operation(type=kind, path=reader.read_path())
    if kind in _SETS:
        return Operation(type=kind, path=reader.read_path(), data=reader.read_buffer(), version=reader.read_int())
    read = _READERS.get(kind)
    if read is None:
        raise FieldError(f"{kind} is not a type of transaction", position=reader.position)
    return read(reader)


def _read_create(kind: int, reader: JuteReader) -> Operation:
    path, data, acls = reader.read_path(), reader.read_buffer(), reader.read_acls()
    is_ephemeral = reader.read_bool() if kind in {_CREATE, _CREATE2} else False
    # CreateTxnV0 ends here; deserializeTxn meets the end of the entry and reads it again as that.
    has_cversion = kind != _CREATE or reader.left not in {0, TXN_DIGEST.size}
    cversion = reader.read_int() if has_cversion else None
    ttl_ms = reader.read_long() if kind == _CREATE_TTL else 0
    return Operation(
        type=kind,
        path=path,
        data=data,
        acls=acls,
        is_ephemeral=is_ephemeral,
        parent_cversion=cversion,
        ttl_ms=ttl_ms,
    )


def _read_set_acl(reader: JuteReader) -> Operation:
    return Operation(type=_SET_ACL, path=reader.read_path(), acls=reader.read_acls(), version=reader.read_int())


def _read_multi(reader: JuteReader) -> Operation:
    number = reader.count(_MIN_OPERATION_BYTES)
    operations = []
    for _ in range(number or 0):
        at, kind, body = reader.position, reader.read_int(), reader.read_buffer()
        # MultiTxn holds no other one (PrepRequestProcessor refuses it), so that the depth is bounded.
        if kind == MULTI or body is None:
            raise FieldError("an operation of a multi has no body, or is a multi itself", position=at)
        inner = JuteReader(body)
        operations.append(_read_operation(kind, inner))
        if inner.left:
            raise FieldError(f"{inner.left} bytes follow an operation of a multi", position=at)
    if number is None:
        raise FieldError("a multi has no list of operations", position=reader.position)
    return Operation(type=MULTI, operations=tuple(operations))


def _read_close_session(reader: JuteReader) -> Operation:
    """Return the end of a session. A body is a list of paths that ends where the entry or its digest does."""
    start = reader.position
    try:
        paths = reader.read_strings()
    except FormatError:
        paths = None
    if paths is None or reader.left not in {0, TXN_DIGEST.size}:
        # Without a list, the digest begins here.
        reader.position = start
        paths = None
    return Operation(type=CLOSE_SESSION, paths=paths)


_READERS: Final[dict[int, Callable[[JuteReader], Operation]]] = {
    _SET_ACL: _read_set_acl,
    _CHECK: lambda reader: Operation(type=_CHECK, path=reader.read_path(), version=reader.read_int()),
    MULTI: _read_multi,
    _ERROR: lambda reader: Operation(type=_ERROR, error=reader.read_int()),
    _CREATE_SESSION: lambda reader: Operation(type=_CREATE_SESSION, timeout_ms=reader.read_int()),
    CLOSE_SESSION: _read_close_session,
}


# --- to bytes ---------------------------------------------------------------------------------------------------------
def encode_transaction(transaction: Transaction) -> bytes:
    """Return the bytes of an entry."""
    header = TXN_HEADER.pack(
        transaction.session_id,
        transaction.cxid,
        transaction.zxid,
        transaction.time_ms,
        transaction.operation.type,
    )
    digest = transaction.digest
    tail = b"" if digest is None else TXN_DIGEST.pack(digest.version, digest.value)
    return header + _body(transaction.operation) + tail


def _body(operation: Operation) -> bytes:
    kind, path = operation.type, string_bytes(operation.path)
    if kind in CREATES:
        return path + _created(operation)
    if kind in DELETES:
        return path
    if kind == MULTI:
        inner = [INT.pack(each.type) + buffer_bytes(_body(each)) for each in operation.operations]
        return INT.pack(len(inner)) + b"".join(inner)
    if kind == CLOSE_SESSION:
        paths = operation.paths
        return b"" if paths is None else INT.pack(len(paths)) + b"".join(map(string_bytes, paths))
    if kind in {_ERROR, _CREATE_SESSION}:
        return int_bytes(operation.error if kind == _ERROR else operation.timeout_ms)
    middle = b"" if kind == _CHECK else acls_bytes(operation.acls) if kind == _SET_ACL else buffer_bytes(operation.data)
    return path + middle + int_bytes(operation.version)


def _created(operation: Operation) -> bytes:
    """Return what follows the path of a created node."""
    parts = [buffer_bytes(operation.data), acls_bytes(operation.acls)]
    if operation.type in {_CREATE, _CREATE2}:
        parts.append(_BOOL[operation.is_ephemeral])
    if operation.parent_cversion is not None:
        parts.append(int_bytes(operation.parent_cversion))
    if operation.type == _CREATE_TTL:
        parts.append(long_bytes(operation.ttl_ms))
    return b"".join(parts)
