"""The data directories of an ensemble: which one is read, what the others lack, and its tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.kafka.sim.zookeeper.data_dir import read_data_dir
from kafkalog_core.kafka.sim.zookeeper.ensemble import best_of, differences, end_of, majority_zxid
from kafkalog_core.kafka.sim.zookeeper.restoring import restore
from kafkalog_core.kafka.sim.zookeeper.tree import zxid_text
from kafkalog_core.ops.zookeeper.request import RowsFound
from kafkalog_core.output import tables
from kafkalog_core.storage.paths import real
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.sim.zookeeper.data_dir import DataDir
    from kafkalog_core.kafka.sim.zookeeper.ensemble import ServerEnd
    from kafkalog_core.kafka.sim.zookeeper.restoring import Restored
    from kafkalog_core.ops.zookeeper.request import Row, ZookeeperRequest
    from kafkalog_core.progress import Progress

__all__ = ["Chosen", "choose_server", "restore_server"]


class Chosen(Struct, kw_only=True):
    """The server that is read.

    Args:
        data_dir: its files.
        servers: the row of each server.
        notes: sentences about the choice.
        findings: about the others.
    """

    data_dir: DataDir
    servers: RowsFound
    notes: list[str]
    findings: list[Finding]


def choose_server(request: ZookeeperRequest, progress: Progress) -> Chosen:
    """Return the server that an election would prefer. Raises StorageError, UnknownFileError."""
    # Of a server that is named twice, as dataDir and as version-2 in it, the files count once: it has one vote.
    servers: dict[str, DataDir] = {}
    for path in request.data_dirs:
        found = read_data_dir(path, request.txn_log_dir)
        servers.setdefault(real((found.snapshots or found.logs)[0].path), found)
    dirs = list(servers.values())
    if len(dirs) == 1:
        # Read once: the end is known when it is restored.
        return Chosen(data_dir=dirs[0], servers=RowsFound(tables.ZOOKEEPER_SERVER, ()), notes=[], findings=[])
    ends = [end_of(data_dir, progress) for data_dir in dirs]
    best = best_of(ends)
    findings = list(differences(ends, best, progress))
    having = sum(end.last_zxid >= best.last_zxid for end in ends)
    reading = (
        f"{best.data_dir.path} is read, the server with the highest epoch ({best.epoch}) and zxid "
        f"({zxid_text(best.last_zxid)}), which {having} of {len(ends)} servers here have"
    )
    notes = [reading]
    common = majority_zxid(ends)
    if common < best.last_zxid:
        notes.append(
            f"a majority of the servers here has the transactions up to {zxid_text(common)} only: the later ones may "
            "never have been committed; --at shows the tree at that zxid"
        )
    rows = tuple(_server_row(end, is_read=end is best) for end in ends)
    return Chosen(
        data_dir=best.data_dir, servers=RowsFound(tables.ZOOKEEPER_SERVER, rows), notes=notes, findings=findings
    )


def restore_server(request: ZookeeperRequest, progress: Progress) -> tuple[Chosen, Restored]:
    """Return the server that `choose_server` does, and its tree. Raises SelectionError too."""
    chosen = choose_server(request, progress)
    return chosen, restore(chosen.data_dir, request.until, progress)


def _server_row(end: ServerEnd, *, is_read: bool) -> Row:
    return {
        "path": end.data_dir.path,
        "server_id": end.data_dir.server_id,
        "epoch": end.epoch,
        "last_zxid": end.last_zxid,
        "time_ms": None if end.last is None else end.last.time_ms,
        "is_read": is_read,
    }
