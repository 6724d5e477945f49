"""What happened to nodes: each change of a subtree in the order of the logs, and what differs between two trees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from kafkalog_core.errors import FormatError, StorageError
from kafkalog_core.kafka.sim.zookeeper.data_dir import read_snapshot
from kafkalog_core.kafka.sim.zookeeper.restoring import transactions_from
from kafkalog_core.kafka.sim.zookeeper.tree import Tree, empty_tree, is_next
from kafkalog_core.progress import NO_PROGRESS
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.sim.zookeeper.data_dir import DataDir
    from kafkalog_core.kafka.sim.zookeeper.restoring import UntilZxid
    from kafkalog_core.progress import Progress

__all__ = ["Difference", "NodeEvent", "changes_under", "differing"]


class NodeEvent(Struct, frozen=True, kw_only=True):
    """A change of a node.

    Args:
        path: of the node.
        change: `in-snapshot`: the oldest state that the files have; `missing`: transactions before this one are in no
            file.
        zxid: of the transaction.
        time_ms: when it was made.
        session_id: of the client; None: unknown.
        version: of the data after it; None: the node is gone.
        data: after it.
        before: the data before it.
    """

    path: str
    change: Literal["in-snapshot", "missing", "created", "set", "set-acl", "deleted", "session-closed"]
    zxid: int
    time_ms: int
    session_id: int | None = None
    version: int | None = None
    data: bytes | None = None
    before: bytes | None = None


def changes_under(
    data_dir: DataDir, path: str, until: UntilZxid, findings: list[Finding], progress: Progress = NO_PROGRESS
) -> Iterator[NodeEvent]:
    """Yield the changes of a node and of those below it, from the oldest state that the files have."""
    top = "" if path == "/" else path
    inside = f"{top}/"
    base, tree = _oldest(data_dir)
    values = {}
    for each, node in tree.under(path):
        values[each] = node.data
        stat = node.stat
        yield NodeEvent(
            path=each,
            change="in-snapshot",
            zxid=stat.mzxid,
            time_ms=stat.mtime_ms,
            version=stat.version,
            data=node.data,
        )
    last = base
    for transaction in transactions_from(data_dir, base, findings, progress):
        zxid, time_ms = transaction.zxid, transaction.time_ms
        if (until.zxid is not None and zxid > until.zxid) or (until.time_ms is not None and time_ms > until.time_ms):
            break
        if zxid <= last:
            continue
        if not is_next(zxid, last):
            yield NodeEvent(path=path, change="missing", zxid=zxid, time_ms=time_ms)
        last = zxid
        for action, changed in tree.apply(transaction):
            if changed != top and not changed.startswith(inside):
                continue
            node_now = tree.nodes.get(changed)
            data = None if node_now is None else node_now.data
            yield NodeEvent(
                path=changed,
                change=action,
                zxid=zxid,
                time_ms=time_ms,
                session_id=transaction.session_id,
                version=None if node_now is None else node_now.stat.version,
                data=data,
                before=values.pop(changed, None),
            )
            if node_now is not None:
                values[changed] = data


def _oldest(data_dir: DataDir) -> tuple[int, Tree]:
    """Return the zxid and the tree at which the oldest log begins; without one, those of the oldest snapshot."""
    first = data_dir.logs[0].zxid if data_dir.logs else None
    oldest_first = data_dir.snapshots[::-1]
    before = [file for file in oldest_first if first is not None and file.zxid < first]
    is_whole = first is not None and is_next(first, 0)
    for file in (*before[::-1], *(() if is_whole else oldest_first)):
        try:
            return file.zxid, Tree(read_snapshot(file))
        except (FormatError, StorageError):
            continue
    return 0, empty_tree()


class Difference(Struct, frozen=True, kw_only=True):
    """A node that differs between two trees; `session-closed` never occurs here."""

    path: str
    change: Literal["created", "changed", "deleted"]


def differing(before: Tree, after: Tree, under: str = "/") -> Iterator[Difference]:
    """Yield the nodes of a subtree that were created, changed (data or ACL) or deleted, by their paths.

    A node that was deleted and created again has another czxid: it changed.
    """
    top = "" if under == "/" else under
    for path in sorted(before.nodes.keys() | after.nodes.keys()):
        if path != top and not path.startswith(f"{top}/"):
            continue
        old, new = before.nodes.get(path), after.nodes.get(path)
        if old is None or new is None:
            yield Difference(path=path, change="created" if old is None else "deleted")
        elif (
            old.data != new.data
            or old.stat.czxid != new.stat.czxid
            or old.stat.version != new.stat.version
            or before.acls(old) != after.acls(new)
        ):
            yield Difference(path=path, change="changed")
