"""Rows of nodes and of their changes: `--tree`, `--get`, `--history`, `--diff`."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from kafkalog_core.errors import SelectionError
from kafkalog_core.findings import DENIED
from kafkalog_core.format.zookeeper.layout import TTL_BITS
from kafkalog_core.kafka.sim.zookeeper.changes import changes_under, differing
from kafkalog_core.kafka.sim.zookeeper.tree import node_kind, shown_path
from kafkalog_core.ops.zookeeper.request import RowsFound
from kafkalog_core.output import tables
from kafkalog_core.text import first_of, names_near
from kafkalog_core.topics.cluster_names import is_secret
from kafkalog_core.topics.zookeeper_nodes import HIDDEN, chroots, hide_secrets, read_node

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalog_core.findings import Finding
    from kafkalog_core.format.zookeeper.jute import Acl
    from kafkalog_core.format.zookeeper.snapshots import Znode
    from kafkalog_core.kafka.sim.zookeeper.data_dir import DataDir
    from kafkalog_core.kafka.sim.zookeeper.restoring import UntilZxid
    from kafkalog_core.kafka.sim.zookeeper.tree import Tree
    from kafkalog_core.ops.zookeeper.request import Row
    from kafkalog_core.progress import Progress
    from kafkalog_core.topics.zookeeper_nodes import KafkaNode

__all__ = ["NodeRows", "change_rows", "difference_rows", "normal_path"]

_AT_ONCE: Final = 1000
_SECRET_KINDS: Final = frozenset({"config"})
"""The nodes of Kafka whose fields may have keys and passwords."""
_SECRET_SCHEMES: Final = frozenset({"digest", "super"})


def normal_path(path: str) -> str:
    """Return a path as a client has it: with a slash before it and none after it."""
    return "/" + path.strip("/")


class NodeRows:
    """Makes rows of the nodes of a tree."""

    def __init__(self, tree: Tree, *, shows_secrets: bool) -> None:
        """Take a tree; shows_secrets: whether keys and passwords are in the rows."""
        self._tree = tree
        self._shows_secrets = shows_secrets
        self._children = tree.children()
        self._acl_texts: dict[int, str | None] = {}
        # The longest first: a chroot may be below another
        self._chroots = [(each, f"{each}/") for each in reversed(chroots(tree.nodes))]

    def under(self, path: str) -> Iterator[RowsFound]:
        """Yield the rows of a subtree. Raises SelectionError if there is no such node."""
        self.require(path)
        rows = (self.row(each, node) for each, node in self._tree.under(path, self._children))
        while part := tuple(islice(rows, _AT_ONCE)):
            yield RowsFound(tables.ZNODE, part)

    def of(self, paths: Iterable[str]) -> RowsFound:
        """Return the rows of some nodes. Raises SelectionError."""
        nodes = [(path, self.require(path)) for path in paths]
        return RowsFound(tables.ZNODE, tuple(self.row("" if path == "/" else path, node) for path, node in nodes))

    def require(self, path: str) -> Znode:
        """Return a node. Raises SelectionError, which names the nodes that may be meant."""
        node = self._tree.node(path)
        if node is not None:
            return node
        parent = path
        while parent and parent not in self._tree.nodes:
            parent = parent.rpartition("/")[0]
        names = [each.rpartition("/")[2] for each in self._children.get(parent, ())]
        missing = path[len(parent) + 1 :].partition("/")[0]
        near = [f"{parent}/{name}" for name in names_near(missing, names)]
        meant = f" (is {' or '.join(near)} meant?)" if near else ""
        there = f"{shown_path(parent)} has {first_of(names)}" if names else f"{shown_path(parent)} has no children"
        raise SelectionError(f"there is no node {path}{meant}: {there}")

    def row(self, path: str, node: Znode) -> Row:
        """Return the row of a node."""
        stat = node.stat
        kind = node_kind(stat.owner)
        children = len(self._children.get(path, ()))
        row: Row = {
            "path": shown_path(path),
            "data": _shown(node.data, shows_secrets=self._shows_secrets),
            "czxid": stat.czxid,
            "mzxid": stat.mzxid,
            "pzxid": stat.pzxid,
            "ctime_ms": stat.ctime_ms,
            "mtime_ms": stat.mtime_ms,
            "version": stat.version,
            "cversion": self._tree.shown_cversion(stat, children),
            "aversion": stat.aversion,
            "ephemeral_owner": stat.owner if kind == "ephemeral" else None,
            "lifetime": f"ttl {stat.owner & 2**TTL_BITS - 1} ms" if kind == "ttl" else kind,
            "children": children,
            "acl": self._acls_text(node, stat.acl_id),
        }
        read = self._read(path, node.data)
        if read is not None:
            fields = read.fields if self._shows_secrets or read.kind not in _SECRET_KINDS else hidden(read.fields)
            row |= {"meaning": read.kind, "fields": fields or None, "problem": read.problem}
        return row

    def _read(self, path: str, data: bytes | None) -> KafkaNode | None:
        """Return what a node means to the Kafka cluster that it belongs to; None: to none."""
        for root, prefix in self._chroots:
            if path.startswith(prefix):
                return read_node(path[len(root) :], data)
        return None

    def _acls_text(self, node: Znode, acl_id: int) -> str | None:
        """Return the text of the ACL of a node; None: it is unknown. A tree has few of them."""
        if acl_id not in self._acl_texts:
            acls = self._tree.acls(node)
            self._acl_texts[acl_id] = None if acls is None else ",".join(map(self._acl_text, acls))
        return self._acl_texts[acl_id]

    def _acl_text(self, acl: Acl) -> str:
        name = acl.id or ""
        if acl.scheme in _SECRET_SCHEMES and not self._shows_secrets:
            user, colon, _ = name.partition(":")
            name = f"{user}{colon}{HIDDEN.decode()}" if colon else name
        return f"{acl.scheme}:{name}:{acl.letters}"


def hidden(value: Any) -> Any:
    """Return the fields of a node without keys and passwords."""
    if isinstance(value, str):
        return hide_secrets(value.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")
    if isinstance(value, dict):
        return {name: _without(name, each) for name, each in value.items()}
    return [hidden(each) for each in value] if isinstance(value, list) else value


def _without(name: str, value: Any) -> Any:
    """Return a value as `hidden` does; one in clear text is hidden whole if its name speaks of a secret."""
    is_clear = isinstance(value, str) and "encryptedPassword:" not in value
    return HIDDEN.decode() if is_clear and is_secret(name) else hidden(value)


def change_rows(
    data_dir: DataDir, path: str, until: UntilZxid, findings: list[Finding], progress: Progress, *, shows_secrets: bool
) -> Iterator[RowsFound]:
    """Yield the rows of what happened to a node and to those below it. Raises SelectionError if nothing did."""
    is_empty = True
    events = changes_under(data_dir, path, until, findings, progress)
    rows = (
        {
            "path": shown_path(event.path),
            "change": event.change,
            "zxid": event.zxid,
            "time_ms": event.time_ms,
            "session_id": event.session_id,
            "version": event.version,
            "data": _shown(event.data, shows_secrets=shows_secrets),
            "before": _shown(event.before, shows_secrets=shows_secrets),
        }
        for event in events
    )
    while part := tuple(islice(rows, _AT_ONCE)):
        is_empty = is_empty and all(row["change"] == "missing" for row in part)
        yield RowsFound(tables.ZNODE_CHANGE, part)
    if is_empty and not any(each.code == DENIED for each in findings):  # what may not be read may have one
        raise SelectionError(
            f"no file has a change of {path} or of a node below it: --tree shows the nodes that are there"
        )


def difference_rows(before: Tree, after: Tree, under: str, *, shows_secrets: bool) -> Iterator[RowsFound]:
    """Yield the rows of the nodes that differ."""
    rows = (
        _difference_row(each.path, each.change, before.nodes.get(each.path), after.nodes.get(each.path), shows_secrets)
        for each in differing(before, after, under)
    )
    while part := tuple(islice(rows, _AT_ONCE)):
        yield RowsFound(tables.ZNODE_CHANGE, part)


def _difference_row(path: str, change: str, old: Znode | None, new: Znode | None, shows_secrets: bool) -> Row:
    stat = None if new is None else new.stat
    return {
        "path": shown_path(path),
        "change": change,
        "zxid": None if stat is None else stat.mzxid,
        "time_ms": None if stat is None else stat.mtime_ms,
        "version": None if stat is None else stat.version,
        "data": None if new is None else _shown(new.data, shows_secrets=shows_secrets),
        "before": None if old is None else _shown(old.data, shows_secrets=shows_secrets),
    }


def _shown(data: bytes | None, *, shows_secrets: bool) -> bytes | None:
    """Return the data of a node as it may be shown."""
    return data if data is None or shows_secrets else hide_secrets(data)
