"""What `kafkalog zookeeper` is asked, and what it finds, as items that become rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalog_core.kafka.sim.zookeeper.restoring import UntilZxid
from kafkalog_core.output import tables
from kafkalog_core.output.chunk import RowChunk
from kafkalog_core.structs import Struct, field

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.findings import Finding
    from kafkalog_core.output.schema import Table
    from kafkalog_core.topics.zookeeper_state import KafkaState

__all__ = ["Row", "RowsFound", "ZookeeperBasis", "ZookeeperFound", "ZookeeperRequest", "rows_of"]

Row = dict[str, Any]


class ZookeeperRequest(Struct, frozen=True, kw_only=True):
    """The request of `kafkalog zookeeper`.

    Args:
        data_dirs: of the servers of one ensemble.
        txn_log_dir: dataLogDir of the only server; None: its logs are in its data directory.
        log_dirs: log directories of Kafka, whose cluster id must be that of the tree.
        until: the moment that is asked for.
        under: the subtree that is shown.
        has_nodes: whether the nodes are wanted, and not only what they say of the cluster.
        shows_secrets: whether keys and passwords are shown.
    """

    data_dirs: tuple[str, ...]
    txn_log_dir: str | None = None
    log_dirs: tuple[str, ...] = ()
    until: UntilZxid = field(default_factory=UntilZxid)
    under: str = "/"
    has_nodes: bool = True
    shows_secrets: bool = False


class RowsFound(Struct, frozen=True):
    """Some rows of one type."""

    table: Table
    rows: tuple[Row, ...]


class ZookeeperFound(Struct, frozen=True):
    """A Kafka cluster of the tree, and its row; None: there is none in the tree."""

    row: Row
    state: KafkaState | None


class ZookeeperBasis(Struct, frozen=True, kw_only=True):
    """What the answer depends on.

    Args:
        notes: sentences.
        findings: about the files.
        can_be_restored: whether the tree has every change.
    """

    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    can_be_restored: bool = True


def rows_of(item: RowsFound | ZookeeperFound | ZookeeperBasis) -> Iterator[RowChunk]:
    """Yield the rows of an item."""
    if isinstance(item, RowsFound):
        if item.rows:
            yield RowChunk(item.table, item.rows)
    elif isinstance(item, ZookeeperFound):
        yield RowChunk(tables.ZOOKEEPER, (item.row,))
    elif item.findings:
        yield RowChunk(tables.FINDING, tuple(finding.row() for finding in item.findings))
