"""The rows of `usage`, the largest first; the row of the directory comes last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.ops.usage.disk_items import INDEXES, LEFTOVERS, ItemKind
from kafkalog_core.output import tables, usages
from kafkalog_core.output.chunk import RowChunk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkalog_core.ops.usage.sums import By, DirUsage, Key, KindSum, SpaceShare

__all__ = ["directory_row", "rows_of", "share_row", "usage_rows"]

Row = dict[str, object]

_PARTS: Final[dict[str, frozenset[ItemKind]]] = {
    "active_bytes": frozenset({ItemKind.ACTIVE}),
    "closed_bytes": frozenset({ItemKind.CLOSED}),
    "index_bytes": INDEXES,
    "leftover_bytes": LEFTOVERS,
    "moving_bytes": frozenset({ItemKind.FUTURE, ItemKind.SWAP}),
    "stray_bytes": frozenset({ItemKind.STRAY}),
    "journal_bytes": frozenset({ItemKind.JOURNAL}),
    "foreign_bytes": frozenset({ItemKind.FOREIGN}),
}
_OTHER: Final = frozenset(ItemKind).difference(*_PARTS.values())


def usage_rows(found: DirUsage) -> Iterator[RowChunk]:
    """Yield the rows of a directory."""
    yield RowChunk(usages.USAGE, [{"path": found.path} | row for row in rows_of(found.shares, found.by)])
    yield RowChunk(usages.USAGE_DIRECTORY, [directory_row(found)])
    if found.findings:
        yield RowChunk(tables.FINDING, [finding.row() for finding in found.findings])


def rows_of(shares: Mapping[Key, SpaceShare], by: By) -> list[Row]:
    """Return the `usage` rows of shares without their directory, the largest first."""
    if by == "kind":
        kinds = shares[None, None].kinds if shares else {}
        rows = [{"kind": kind.value} | _sums(total) for kind, total in kinds.items()]
    else:
        rows = [{"topic": topic, "partition": number} | share_row(each) for (topic, number), each in shares.items()]
    return sorted(rows, key=lambda row: (-_allocated(row), str(row)))


def directory_row(found: DirUsage) -> Row:
    """Return the row of a directory: its sums, and its file system."""
    return {
        "path": found.path,
        "is_whole": found.is_whole,
        "file_system_bytes": found.file_system_bytes,
        "free_bytes": found.free_bytes,
        "now_ms": found.now_ms,
        "retention_problem": found.retention_problem,
        "assumptions": "\n".join(one.sentence for one in found.assumptions) or None,
    } | share_row(found.total)


def share_row(share: SpaceShare) -> Row:
    """Return the columns of a share."""
    parts = {name: share.allocated(kinds) for name, kinds in (*_PARTS.items(), ("other_bytes", _OTHER))}
    # As `freeze` leaves them: deleting one name of a file frees nothing.
    linked = sum(share.kinds[kind].linked_bytes for kind in LEFTOVERS & share.kinds.keys())
    parts["leftover_bytes"] -= linked
    parts["other_bytes"] += linked
    return {
        **_sums(share.total),
        **parts,
        "retention_bytes": share.retention_bytes,
        "retention_segments": share.retention_segments,
        "next_due_ms": share.next_due_ms,
        "unforeseen_partitions": share.unforeseen,
        "compaction_bytes": share.compaction_bytes,
    }


def _allocated(row: Row) -> int:
    value = row["allocated_bytes"]
    return value if isinstance(value, int) else 0


def _sums(total: KindSum) -> Row:
    return {
        "files": total.files,
        "bytes": total.size_bytes,
        "allocated_bytes": total.allocated_bytes,
        "sparse_files": total.sparse_files,
        "linked_files": total.linked_files,
        "linked_bytes": total.linked_bytes,
        "slack_bytes": total.slack_bytes,
        "slack_allocated_bytes": total.slack_allocated_bytes,
    }
