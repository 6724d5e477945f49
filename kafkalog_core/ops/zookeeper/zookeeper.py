"""`kafkalog zookeeper`: what a dead ZooKeeper server knew, its nodes, and what happened to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalog_core.findings import found
from kafkalog_core.format.names import FileKind, fixed_file_name
from kafkalog_core.kafka.sim.named_dirs import identity_of
from kafkalog_core.kafka.sim.zookeeper.data_dir import read_data_dir
from kafkalog_core.kafka.sim.zookeeper.restoring import restore
from kafkalog_core.kafka.sim.zookeeper.tree import zxid_text
from kafkalog_core.ops.zookeeper.nodes import NodeRows, change_rows, difference_rows, hidden, normal_path
from kafkalog_core.ops.zookeeper.rebalance import owner_rows
from kafkalog_core.ops.zookeeper.request import RowsFound, ZookeeperBasis, ZookeeperFound, rows_of
from kafkalog_core.ops.zookeeper.servers import choose_server, restore_server
from kafkalog_core.progress import NO_PROGRESS
from kafkalog_core.text import count_of, moment
from kafkalog_core.topics.zookeeper_state import kafka_states

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence

    from kafkalog_core.engine.report import Report
    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.sim.zookeeper.restoring import Restored, UntilZxid
    from kafkalog_core.ops.zookeeper.request import Row, ZookeeperRequest
    from kafkalog_core.ops.zookeeper.servers import Chosen
    from kafkalog_core.progress import Progress
    from kafkalog_core.topics.zookeeper_state import KafkaState

__all__ = ["check_cluster_ids", "difference", "get_nodes", "history", "owners", "summary", "tree"]

Item = RowsFound | ZookeeperFound | ZookeeperBasis


def summary(request: ZookeeperRequest, report: Report, progress: Progress = NO_PROGRESS) -> Generator[Item, None, None]:
    """Yield the servers, each cluster of the tree, the nodes if they are wanted, then what the answer depends on.

    Raises SelectionError, StorageError and UnknownFileError.
    """
    chosen, restored = restore_server(request, progress)
    states = kafka_states(restored.tree.nodes)

    def items() -> Iterator[Item]:
        if chosen.servers.rows:
            yield chosen.servers
        for state in states:
            yield ZookeeperFound(_cluster_row(restored, state, shows_secrets=request.shows_secrets), state)
        if not states:
            yield ZookeeperFound(_tree_row(restored), None)
        if request.has_nodes:
            yield from NodeRows(restored.tree, shows_secrets=request.shows_secrets).under(request.under)

    more = [note for state in states for note in state.problems]
    ids, notes = check_cluster_ids(request.log_dirs, states)
    yield from _counted(items(), report)
    yield _basis(report, chosen, restored, [*notes, *more], ids)


def tree(request: ZookeeperRequest, report: Report, progress: Progress = NO_PROGRESS) -> Generator[Item, None, None]:
    """Yield the nodes of a subtree, then what the answer depends on. Raises as `summary`."""
    chosen, restored = restore_server(request, progress)
    nodes = NodeRows(restored.tree, shows_secrets=request.shows_secrets)
    yield from _counted(nodes.under(request.under), report)
    yield _basis(report, chosen, restored)


def get_nodes(
    request: ZookeeperRequest, paths: Sequence[str], report: Report, progress: Progress = NO_PROGRESS
) -> Generator[Item, None, None]:
    """Yield some nodes, then what the answer depends on. Raises as `summary`."""
    chosen, restored = restore_server(request, progress)
    nodes = NodeRows(restored.tree, shows_secrets=request.shows_secrets)
    yield from _counted((nodes.of(map(normal_path, paths)),), report)
    yield _basis(report, chosen, restored)


def history(
    request: ZookeeperRequest, path: str, report: Report, progress: Progress = NO_PROGRESS
) -> Generator[Item, None, None]:
    """Yield what happened to a node and to those below it, then what the answer depends on. Raises as `summary`."""
    chosen = choose_server(request, progress)
    rows = change_rows(
        chosen.data_dir,
        normal_path(path),
        request.until,
        chosen.findings,
        progress,
        shows_secrets=request.shows_secrets,
    )
    yield from _counted(rows, report)
    logs = chosen.data_dir.logs
    first = f"the logs begin at {zxid_text(logs[0].zxid)}" if logs else "there is no log"
    yield _counted_basis(report, ZookeeperBasis(notes=(*chosen.notes, first), findings=tuple(chosen.findings)))


def difference(
    request: ZookeeperRequest, other: UntilZxid | str, report: Report, progress: Progress = NO_PROGRESS
) -> Generator[Item, None, None]:
    """Yield the nodes that differ from another moment, or from another data directory. Raises as `summary`."""
    chosen, restored = restore_server(request, progress)
    before = restore(read_data_dir(other)) if isinstance(other, str) else restore(chosen.data_dir, other, progress)
    rows = difference_rows(before.tree, restored.tree, request.under, shows_secrets=request.shows_secrets)
    yield from _counted(rows, report)
    named = other if isinstance(other, str) else "before"
    more = [finding for finding in before.findings if finding not in restored.findings]
    notes = [f"from {_moment_text(before)} ({named}) to {_moment_text(restored)}"]
    yield _basis(report, chosen, restored, notes, more)


def owners(
    request: ZookeeperRequest, group: str, report: Report, progress: Progress = NO_PROGRESS
) -> Generator[Item, None, None]:
    """Yield who should own the partitions of an old group, and who does. Raises as `summary`."""
    chosen, restored = restore_server(request, progress)
    found_rows, notes = owner_rows(kafka_states(restored.tree.nodes), group)
    yield from _counted((found_rows,), report)
    yield _basis(report, chosen, restored, notes)


# --- what the answer depends on ---------------------------------------------------------------------------------------
def _basis(
    report: Report,
    chosen: Chosen,
    restored: Restored,
    notes: Iterable[str] = (),
    findings: Iterable[Finding] = (),
) -> ZookeeperBasis:
    basis = ZookeeperBasis(
        notes=(*notes, *chosen.notes, *_restoring_notes(restored)),
        findings=(*restored.findings, *chosen.findings, *findings),
        can_be_restored=restored.can_be_restored,
    )
    return _counted_basis(report, basis)


def _restoring_notes(restored: Restored) -> Iterator[str]:
    begin = "an empty tree" if restored.snapshot is None else restored.snapshot.path
    applied = count_of(restored.transactions, "transaction")
    yield f"the tree is that of {_moment_text(restored)}: {begin}, then {applied}"
    if restored.is_cut:
        yield "later transactions are left out"
    if restored.digest_is_equal:
        yield "the digest of the tree is the one that the last transaction recorded"


def _moment_text(restored: Restored) -> str:
    time = "" if restored.time_ms is None else f", {moment(restored.time_ms)}"
    return f"zxid {zxid_text(restored.last_zxid)}{time}"


def _counted_basis(report: Report, basis: ZookeeperBasis) -> ZookeeperBasis:
    for finding in basis.findings:
        report.add_finding(finding.row())
    report.rows += len(basis.findings)
    return basis


def _counted(items: Iterable[Item], report: Report) -> Iterator[Item]:
    for item in items:
        report.rows += sum(chunk.count for chunk in rows_of(item))
        yield item


def check_cluster_ids(log_dirs: Iterable[str], states: Sequence[KafkaState]) -> tuple[list[Finding], list[str]]:
    """Return findings about log directories of other clusters, and notes about those that agree."""
    known = sorted({state.cluster_id for state in states if state.cluster_id is not None})
    findings, equal = [], []
    for path in log_dirs:
        cluster_id = identity_of(path).cluster_id
        if cluster_id is None or not known:
            continue
        if cluster_id in known:
            equal.append(path)
            continue
        file = f"{path}/{fixed_file_name(FileKind.META_PROPERTIES)}"
        findings.append(found("zookeeper.other-cluster", file, found=cluster_id, expected=" or ".join(known)))
    notes = [f"the cluster id is that of meta.properties in {', '.join(equal)}"] if equal else []
    return findings, notes


# --- rows -------------------------------------------------------------------------------------------------------------
def _tree_row(restored: Restored) -> Row:
    snapshot = restored.snapshot
    return {
        "path": restored.data_dir.path,
        "can_be_restored": restored.can_be_restored,
        "missing": sum(last - first + 1 for first, last in restored.gaps),
        "digest_is_equal": restored.digest_is_equal,
        "snapshot": None if snapshot is None else snapshot.path,
        "transactions": restored.transactions,
        "last_zxid": restored.last_zxid,
        "time_ms": restored.time_ms,
        "znodes": len(restored.tree.nodes),
        "sessions": len(restored.tree.sessions),
    }


def _cluster_row(restored: Restored, state: KafkaState, *, shows_secrets: bool) -> Row:
    topics = state.topics.values()
    brokers: dict[str, Any] = {
        str(number): {name: value for name, value in fields.items() if name != "broker"}
        for number, fields in sorted(state.brokers.items())
    }
    row = _tree_row(restored) | {
        "chroot": state.chroot,
        "cluster_id": state.cluster_id,
        "brokers": brokers,
        "controller": None if state.controller is None else state.controller.get("broker"),
        "controller_epoch": state.controller_epoch,
        "topics": len(state.topics),
        "partitions": state.partitions,
        "deletions": sum(topic.is_deleted for topic in topics),
        "reassignments": state.reassignments,
        "configs": len(state.configs),
        "acls": len(state.acls),
        "users": len(state.users),
        "tokens": len(state.tokens),
        "old_groups": len(state.groups),
        "migration": state.migration,
        "features": state.features,
        "producer_ids": state.producer_ids,
    }
    return row if shows_secrets else hidden(row)
