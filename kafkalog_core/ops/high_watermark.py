"""The high watermark that a broker has checkpointed for a partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.errors import SelectionError, StorageError
from kafkalog_core.format.checkpoint import OffsetEntry, read_offset_checkpoint
from kafkalog_core.format.names import FileKind, fixed_file_name
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.ops.logfiles import Unit

__all__ = ["read_high_watermark"]


def read_high_watermark(unit: Unit) -> int:
    """From the log directory around a partition. Raises SelectionError where it names none."""
    where = f"{unit.topic}-{unit.partition}"
    if unit.log_dir is None:
        raise SelectionError(f"no high watermark is known of {where}: it is in no log directory", path=unit.path)
    name = fixed_file_name(FileKind.HIGH_WATERMARK)
    path = f"{unit.log_dir}/{name}"
    found = None
    try:
        with Source.open(path) as source:
            for entry in read_offset_checkpoint(_pieces(source)):
                if isinstance(entry, OffsetEntry) and (entry.topic, entry.partition) == (unit.topic, unit.partition):
                    found = entry.offset
    except StorageError as error:
        raise SelectionError(f"no high watermark is known of {where}: {error}") from error
    if found is None:
        raise SelectionError(f"no high watermark is known of {where}: {name} does not name it", path=path)
    return found


def _pieces(source: Source) -> Iterator[bytes]:
    position = 0
    while piece := source.read(position, 64 * 1024):
        yield piece
        position += len(piece)
