"""The tree of ZooKeeper's nodes, and what each transaction does to it.

DataTree.processTxn of ZooKeeper 3.4 to 3.9 is the rule. Failures of single operations are ignored in a replay: a fuzzy
snapshot has the effects of some of the transactions that follow it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from kafkalog_core.format.zookeeper.jute import OPEN_ACL
from kafkalog_core.format.zookeeper.layout import (
    CONTAINER_OWNER,
    CREATES,
    DELETES,
    EPOCH_SHIFT,
    MULTI,
    NODE_ZXIDS,
    OPEN_ACL_ID,
    OWNER_AT,
    TTL_BITS,
    TTL_OWNER,
)
from kafkalog_core.format.zookeeper.snapshots import Snapshot, Stat, Znode, node_digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalog_core.format.zookeeper.jute import Acl
    from kafkalog_core.format.zookeeper.transactions import Operation, Transaction

__all__ = [
    "NodeChange",
    "NodeKind",
    "Tree",
    "empty_tree",
    "is_next",
    "node_kind",
    "parent_path",
    "shown_path",
    "zxid_text",
]

NodeKind = Literal["persistent", "ephemeral", "container", "ttl"]
Action = Literal["created", "set", "set-acl", "deleted", "session-closed"]

_CREATE, _SET, _SET_ACL, _CREATE_CONTAINER, _CREATE_TTL, _ERROR = 1, frozenset({5, 16}), 7, 19, 21, -1
_CREATE_SESSION, _CLOSE_SESSION = -10, -11
_NO_OWNER: Final = bytes(8)
_BUILT_IN: Final = ("", "/zookeeper", "/zookeeper/quota")
"""The nodes of a tree without a snapshot (DataTree)."""


class NodeChange(NamedTuple):
    """What a transaction did to a node. `session-closed`: it deleted the node of a session that ended."""

    action: Action
    path: str


def zxid_text(zxid: int) -> str:
    """Return a zxid as ZooKeeper's own tools and file names write it."""
    return f"{zxid:#x}"


def parent_path(path: str) -> str:
    """Return the path of the parent as the tree has it: "" is the root."""
    return path.rpartition("/")[0]


def shown_path(path: str) -> str:
    """Return the path of a node as a client has it."""
    return path or "/"


def node_kind(owner: int) -> NodeKind:
    """Return what an ephemeralOwner means (EphemeralType.get, with extended types of 3.5.3 and later)."""
    if not owner:
        return "persistent"
    if owner == CONTAINER_OWNER:
        return "container"
    return "ttl" if owner >> 48 & 0xFFFF == TTL_OWNER else "ephemeral"


class Tree:
    """All nodes, sessions and ACLs. The root has the path ""."""

    def __init__(self, snapshot: Snapshot, *, counts_deletes: bool = False) -> None:
        """Take over what a snapshot holds: its values are changed.

        counts_deletes: whether the cversion counts deleted children too, as before 3.4.
        """
        self.counts_deletes = counts_deletes
        self.nodes = snapshot.nodes
        self.sessions = snapshot.sessions
        self.acl_table = snapshot.acls
        self._acl_ids = {acls: acl_id for acl_id, acls in snapshot.acls.items()}
        self._owned: dict[int, set[str]] = {}
        for path, node in self.nodes.items():
            if node.packed[OWNER_AT] != _NO_OWNER:
                self._own(path, node.stat.owner)

    # --- reading ------------------------------------------------------------------------------------------------------
    def node(self, path: str) -> Znode | None:
        """Return the node of a client's path; None: there is none."""
        return self.nodes.get("" if path == "/" else path)

    def acls(self, node: Znode) -> tuple[Acl, ...] | None:
        """Return the ACL of a node; None: the table of the snapshot does not have it."""
        acl_id = node.stat.acl_id
        return OPEN_ACL if acl_id == OPEN_ACL_ID else self.acl_table.get(acl_id)

    def children(self) -> dict[str, list[str]]:
        """Return the paths of the children of each node that has some, sorted."""
        found: dict[str, list[str]] = {}
        for path in self.nodes:
            if path:
                found.setdefault(parent_path(path), []).append(path)
        for paths in found.values():
            paths.sort()
        return found

    def shown_cversion(self, stat: Stat, children: int) -> int:
        """Return the number of changes of children that a client is shown (DataNode.copyStat, since 3.4)."""
        return stat.cversion if self.counts_deletes else stat.cversion * 2 - children

    def under(self, path: str, children: Mapping[str, Sequence[str]] | None = None) -> Iterator[tuple[str, Znode]]:
        """Yield the paths and nodes of a subtree, the parent first, children by their names.

        children: what `children` returns; None: it is not known yet.
        """
        top = "" if path == "/" else path
        children = self.children() if children is None else children
        waiting = [top] if top in self.nodes else []
        while waiting:
            each = waiting.pop()
            yield each, self.nodes[each]
            waiting += reversed(children.get(each, ()))

    def digest(self) -> int:
        """Return the digest of the tree, version 2."""
        return node_digest(self.nodes)

    def newest_zxid(self) -> int:
        """Return the largest zxid that a node shows: a fuzzy snapshot has the effects of transactions after its own."""
        newest = 0
        unpack = NODE_ZXIDS.unpack
        for node in self.nodes.values():
            czxid, mzxid, pzxid = unpack(node.packed)
            # Without `max` of four: there may be millions of nodes
            if mzxid > newest or pzxid > newest or czxid > newest:
                newest = max(newest, czxid, mzxid, pzxid)
        return newest

    # --- replay -------------------------------------------------------------------------------------------------------
    def apply(self, transaction: Transaction) -> list[NodeChange]:
        """Apply a transaction; return what it changed, in order."""
        operation = transaction.operation
        if operation.type == MULTI:
            # DataTree.processTxn: if one operation failed, none is applied. Those before it have their own types.
            if any(each.type == _ERROR for each in operation.operations):
                return []
            return [change for each in operation.operations for change in self._apply(each, transaction)]
        return self._apply(operation, transaction)

    def _apply(self, operation: Operation, transaction: Transaction) -> list[NodeChange]:
        kind = operation.type
        if kind in CREATES:
            return self._create(operation, transaction)
        if kind in DELETES:
            return self._delete(operation.path, transaction.zxid, "deleted")
        if kind in _SET or kind == _SET_ACL:
            return self._set(operation, transaction)
        if kind == _CREATE_SESSION:
            self.sessions[transaction.session_id] = operation.timeout_ms
        elif kind == _CLOSE_SESSION:
            return self._close_session(operation, transaction)
        return []

    def _create(self, operation: Operation, transaction: Transaction) -> list[NodeChange]:
        path, zxid = operation.path, transaction.zxid
        parent = self.nodes.get(parent_path(path))
        if parent is None:  # NoNodeException
            return []
        exists = path in self.nodes
        # A node that is there already was in the fuzzy snapshot (NodeExistsException); DataTree.processTxn then counts
        # it for the parent of a plain create alone.
        if not exists or operation.type == _CREATE:
            stat = parent.stat
            given = operation.parent_cversion
            cversion = stat.cversion + 1 if given is None or given < 0 else given
            # Since 3.6 only a larger cversion counts, as replays over a fuzzy snapshot may repeat a create. 3.4 sets it
            # in any case, which is the same where each transaction is applied once.
            if cversion > stat.cversion:
                parent.set_stat(stat._replace(cversion=cversion, pzxid=zxid))
        if exists:
            return []
        if operation.type == _CREATE_CONTAINER:
            owner = CONTAINER_OWNER
        elif operation.type == _CREATE_TTL:
            owner = (TTL_OWNER << 48 | operation.ttl_ms & 2**TTL_BITS - 1) - 2**64
        else:
            owner = transaction.session_id if operation.is_ephemeral else 0
        time_ms = transaction.time_ms
        node = Znode(operation.data, b"")
        node.set_stat(Stat(self._acl_id(operation.acls), zxid, zxid, time_ms, time_ms, 0, 0, 0, owner, zxid))
        self.nodes[path] = node
        if owner:
            self._own(path, owner)
        return [NodeChange("created", path)]

    def _delete(self, path: str, zxid: int, action: Action) -> list[NodeChange]:
        node = self.nodes.pop(path, None)
        if node is None:
            return []
        owned = self._owned.get(node.stat.owner)
        if owned is not None:
            owned.discard(path)
        parent = self.nodes.get(parent_path(path))
        if parent is not None:
            # Since 3.4 the cversion counts what is created alone (DataTree.deleteNode).
            stat = parent.stat
            cversion = stat.cversion + self.counts_deletes
            parent.set_stat(stat._replace(cversion=cversion, pzxid=max(zxid, stat.pzxid)))
        return [NodeChange(action, path)]

    def _set(self, operation: Operation, transaction: Transaction) -> list[NodeChange]:
        node = self.nodes.get(operation.path)
        if node is None:
            return []
        stat = node.stat
        if operation.type == _SET_ACL:
            node.set_stat(stat._replace(acl_id=self._acl_id(operation.acls), aversion=operation.version))
            return [NodeChange("set-acl", operation.path)]
        node.data = operation.data
        node.set_stat(stat._replace(mzxid=transaction.zxid, mtime_ms=transaction.time_ms, version=operation.version))
        return [NodeChange("set", operation.path)]

    def _close_session(self, operation: Operation, transaction: Transaction) -> list[NodeChange]:
        """Delete the nodes of a session: those that the tree has, and those that the record names (3.6 and later)."""
        self.sessions.pop(transaction.session_id, None)
        paths = self._owned.pop(transaction.session_id, set()) | {path for path in operation.paths or () if path}
        return [change for path in sorted(paths) for change in self._delete(path, transaction.zxid, "session-closed")]

    def _own(self, path: str, owner: int) -> None:
        if node_kind(owner) == "ephemeral":
            self._owned.setdefault(owner, set()).add(path)

    def _acl_id(self, acls: tuple[Acl, ...] | None) -> int:
        """Return the id of an ACL, which is new if the table does not have it (ReferenceCountedACLCache)."""
        if acls is None or acls == OPEN_ACL:
            return OPEN_ACL_ID
        if acls not in self._acl_ids:
            self._acl_ids[acls] = max([0, *self.acl_table]) + 1
            self.acl_table[self._acl_ids[acls]] = acls
        return self._acl_ids[acls]


def empty_tree(*, counts_deletes: bool = False) -> Tree:
    """Return the tree of a server without a snapshot."""
    tree = Tree(Snapshot(sessions={}, acls={}, nodes={}), counts_deletes=counts_deletes)
    for path in _BUILT_IN:
        node = Znode(b"", b"")
        node.set_stat(Stat(OPEN_ACL_ID, 0, 0, 0, 0, 0, 0, 0, 0, 0))
        tree.nodes[path] = node
    return tree


def is_next(zxid: int, before: int) -> bool:
    """Return whether a transaction may follow another one without one between: each epoch begins with counter 1."""
    counter = zxid & 2**EPOCH_SHIFT - 1
    return zxid == before + 1 or (counter == 1 and zxid >> EPOCH_SHIFT > before >> EPOCH_SHIFT)
