"""What `kafkalog cluster` is asked, and what it finds, as an item that becomes rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.kafka.sim.metadata_log import EVERYTHING, Until
from kafkalog_core.output import clusters, tables
from kafkalog_core.output.chunk import RowChunk
from kafkalog_core.structs import Struct, field

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.engine.targets import Target
    from kafkalog_core.output.schema import Table

__all__ = ["ChangeBasis", "ClusterFound", "ClusterRequest", "Row", "chunks_of_changes"]

Row = dict[str, object]


class ClusterRequest(Struct, frozen=True, kw_only=True):
    """The request of `kafkalog cluster`.

    Args:
        targets: log directories, directories of metadata logs, snapshots, from `targets.resolve`.
        zookeeper_dirs: data directories of ZooKeeper servers, which are read instead of a metadata log.
        topics: globs of the topics that are shown; empty: all.
        brokers: ids of the nodes that are shown; empty: all.
        until: the moment of the image.
        zxid: the last transaction of the image, for a tree of ZooKeeper; None: `until` says it.
        shows_secrets: whether passwords and keys are shown.
        has_partitions: whether a row for each partition is wanted, of which a cluster may have hundreds of thousands.
    """

    targets: tuple[Target, ...]
    zookeeper_dirs: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    brokers: frozenset[int] = frozenset()
    until: Until = EVERYTHING
    zxid: int | None = None
    shows_secrets: bool = False
    has_partitions: bool = True


class ChangeBasis(Struct, frozen=True, kw_only=True):
    """What an answer about changes (`--history`, `--diff`) depends on. It comes with the changes.

    Args:
        between: what was read: one log, or two images in the order of `--diff`.
        gaps: what is unknown, each as the end of a sentence; empty: nothing is.
        notes: sentences.
    """

    between: tuple[str, ...]
    gaps: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def chunks_of_changes(item: RowChunk | ChangeBasis) -> Iterator[RowChunk]:
    """Yield the rows of an item of `--history` or `--diff`."""
    if isinstance(item, RowChunk):
        yield item


class ClusterFound(Struct, kw_only=True):
    """The one result: the rows of each table, and sentences about what they depend on."""

    cluster: Row
    features: list[Row] = field(default_factory=list)
    brokers: list[Row] = field(default_factory=list)
    controllers: list[Row] = field(default_factory=list)
    topics: list[Row] = field(default_factory=list)
    partitions: list[Row] = field(default_factory=list)
    configs: list[Row] = field(default_factory=list)
    acls: list[Row] = field(default_factory=list)
    quotas: list[Row] = field(default_factory=list)
    users: list[Row] = field(default_factory=list)
    tokens: list[Row] = field(default_factory=list)
    directories: list[Row] = field(default_factory=list)
    findings: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def tables(self) -> tuple[tuple[Table, list[Row]], ...]:
        """The rows of each table, in the order in which they are written."""
        return (
            (clusters.CLUSTER, [self.cluster]),
            (clusters.CLUSTER_FEATURE, self.features),
            (clusters.CLUSTER_BROKER, self.brokers),
            (clusters.CLUSTER_CONTROLLER, self.controllers),
            (clusters.CLUSTER_TOPIC, self.topics),
            (clusters.CLUSTER_PARTITION, self.partitions),
            (clusters.CLUSTER_CONFIG, self.configs),
            (clusters.CLUSTER_ACL, self.acls),
            (clusters.CLUSTER_QUOTA, self.quotas),
            (clusters.CLUSTER_USER, self.users),
            (clusters.CLUSTER_TOKEN, self.tokens),
            (clusters.CLUSTER_DIRECTORY, self.directories),
            (tables.FINDING, self.findings),
        )

    def chunks(self) -> Iterator[RowChunk]:
        """Yield all rows, table by table."""
        for table, rows in self.tables:
            if rows:
                yield RowChunk(table, rows)
