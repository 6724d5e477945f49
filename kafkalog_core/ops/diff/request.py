"""What `kafkalog diff` is asked, and what it finds, as an item that becomes rows."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from kafkalog_core.format.layout import MAX_BATCH_BYTES
from kafkalog_core.output import tables
from kafkalog_core.output.chunk import RowChunk
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.engine.targets import Target

__all__ = ["DiffFound", "DiffRequest", "Row", "Side", "difference"]

Row = dict[str, object]


class Side(Struct, frozen=True, kw_only=True):
    """One of the two copies.

    Args:
        label: OLD or NEW.
        paths: as they were given.
        targets: log directories or partition directories of one broker, from `targets.resolve`.
        zookeeper_dirs: data directories of ZooKeeper servers.
    """

    label: str
    paths: tuple[str, ...]
    targets: tuple[Target, ...]
    zookeeper_dirs: tuple[str, ...] = ()


class DiffRequest(Struct, frozen=True, kw_only=True):
    """The request of `kafkalog diff`.

    Args:
        old: the copy of before.
        new: the copy of after.
        now_ms: the time that counts as now, for transactions that have timed out.
        topics: globs of the topics whose changes are wanted; empty: all changes.
        is_deep: whether the checksum of each batch is computed, for which each byte is read.
        jobs: the most processes.
        max_batch_bytes: larger batches are damage.
    """

    old: Side
    new: Side
    now_ms: int
    topics: tuple[str, ...] = ()
    is_deep: bool = False
    jobs: int = 1
    max_batch_bytes: int = MAX_BATCH_BYTES

    @property
    def has_zookeeper(self) -> bool:
        """Whether a ZooKeeper server of both sides is there, so that the groups in them can be compared."""
        return bool(self.old.zookeeper_dirs and self.new.zookeeper_dirs)

    def takes(self, topic: object) -> bool:
        """Return whether the changes of a topic are wanted."""
        return not self.topics or any(fnmatchcase(str(topic), glob) for glob in self.topics)


class DiffFound(Struct, frozen=True, kw_only=True):
    """The result.

    Args:
        differences: `difference` rows, the most important first.
        findings: `finding` rows: of what cannot be read.
        notes: sentences about what was not compared, and about what was left out.
        partitions: number of partitions whose logs were compared.
        old: the paths of OLD.
        new: the paths of NEW.
        is_deep: whether the checksums of batches were computed.
    """

    differences: tuple[Row, ...]
    findings: tuple[Row, ...]
    notes: tuple[str, ...]
    partitions: int
    old: tuple[str, ...]
    new: tuple[str, ...]
    is_deep: bool

    def chunks(self) -> Iterator[RowChunk]:
        """Yield all rows."""
        for table, rows in ((tables.DIFFERENCE, self.differences), (tables.FINDING, self.findings)):
            if rows:
                yield RowChunk(table, rows)


def difference(kind: str, change: str, what: str, **columns: object) -> Row:
    """Return a `difference` row."""
    return {"kind": kind, "change": change, "what": what, **columns}
