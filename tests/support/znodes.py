"""Real directories of ZooKeeper servers (`fixtures/zookeeper/`), and trees as their clients were shown them."""

from __future__ import annotations

import base64
import io
import json
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kafkalog_core.kafka.sim.zookeeper.tree import node_kind, shown_path

if TYPE_CHECKING:
    from kafkalog_core.kafka.sim.zookeeper.tree import Tree

__all__ = ["SERVERS", "dumped", "shown_lines", "shown_nodes", "unpacked"]

FIXTURES: Final = Path(__file__).resolve().parents[2] / "fixtures" / "zookeeper"
SERVERS: Final = ("3.4.10", "3.5.9", "3.6.3", "3.8.4", "3.9.3")
"""Releases of ZooKeeper of which there is a directory with every kind of transaction."""
_STAT: Final = ("czxid", "mzxid", "pzxid", "ctime", "mtime", "version", "cversion", "aversion", "ephemeralOwner")


def unpacked(name: str, place: Path) -> Path:
    """The directory of an archive, unpacked."""
    directory = place / name
    with tarfile.open(fileobj=io.BytesIO((FIXTURES / f"{name}.tgz").read_bytes())) as tar:
        tar.extractall(directory, filter="data")
    return directory


def shown_nodes(tree: Tree) -> dict[str, dict[str, Any]]:
    """All nodes in the form of the corpus: data, stat and ACL as a client is shown them."""
    children = tree.children()
    found = {}
    for path, node in tree.nodes.items():
        stat, number = node.stat, len(children.get(path, ()))
        numbers = (
            *(stat.czxid, stat.mzxid, stat.pzxid, stat.ctime_ms, stat.mtime_ms, stat.version),
            *(tree.shown_cversion(stat, number), stat.aversion),
            stat.owner if node_kind(stat.owner) == "ephemeral" else 0,
        )
        found[shown_path(path)] = {
            "data_b64": None if node.data is None else base64.b64encode(node.data).decode(),
            "stat": dict(zip(_STAT, numbers, strict=True))
            | {"dataLength": len(node.data or b""), "numChildren": number},
            "acl": [{"perms": acl.rights, "scheme": acl.scheme, "id": acl.id} for acl in tree.acls(node) or ()],
        }
    return found


def shown_lines(tree: Tree) -> set[str]:
    """The same as ZooKeeperTree.java prints it, a line for each node."""
    lines = set()
    for path, node in shown_nodes(tree).items():
        stat = node["stat"]
        numbers = " ".join(str(stat[name]) for name in (*_STAT, "numChildren"))
        acls = "".join(f"{acl['perms']} {acl['scheme']} {acl['id']};" for acl in node["acl"])
        data = "-" if node["data_b64"] is None else node["data_b64"]
        lines.add("\t".join((base64.b64encode(path.encode()).decode(), data, numbers, acls)))
    return lines


def dumped(path: Path) -> dict[str, Any]:
    """The tree that was dumped from the live server, `tree.json`."""
    tree: dict[str, Any] = json.loads(path.read_text())
    return tree
