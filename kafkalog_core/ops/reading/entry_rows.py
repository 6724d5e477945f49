"""Faults of small files as rows."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kafkalog_core.ops.reading.entry_faults import EntryDamage
from kafkalog_core.ops.reading.rows import RowChunk
from kafkalog_core.tables import DAMAGE, FINDING

if TYPE_CHECKING:
    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.reading.entry_faults import EntryFile

__all__ = ["damage_row", "fault_row", "place_of_rows", "unreadable_row"]


def place_of_rows(file: EntryFile) -> dict[str, object]:
    """The columns that say where a row comes from."""
    return {"topic": file.topic, "partition": file.partition, "segment": os.path.basename(file.path)}


def fault_row(file: EntryFile, fault: Finding | EntryDamage) -> RowChunk:
    """The one row of a fault."""
    if isinstance(fault, EntryDamage):
        return damage_row(file, fault.position, fault.size_bytes, fault.reason, fault.detail)
    return RowChunk(FINDING, [fault.row()])


def damage_row(file: EntryFile, position: int, size_bytes: int, reason: str, detail: str) -> RowChunk:
    """One damage row; `reason` is one of `ENTRY_DAMAGE`."""
    damage = EntryDamage(position=position, size_bytes=size_bytes, reason=reason, detail=detail)
    row = {
        "position": position,
        "size_bytes": size_bytes,
        "reason": reason,
        "detail": detail,
        "severity": damage.severity,
    }
    return RowChunk(DAMAGE, [place_of_rows(file) | row])


def unreadable_row(file: EntryFile, position: int, size_bytes: int) -> RowChunk:
    """The damage row of bytes that the disk cannot read."""
    return damage_row(file, position, size_bytes, "unreadable", f"the disk cannot read {size_bytes} bytes here")
