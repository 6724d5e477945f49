"""Offsets that a broker has checkpointed for its partitions: high watermarks and log start offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.errors import NotFoundError
from kafkalog_core.format.checkpoint import OffsetEntry, read_offset_checkpoint
from kafkalog_core.format.names import FileKind, fixed_file_name
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.ops.logfiles import Unit

__all__ = ["Checkpoints"]

_Offsets = dict[tuple[str, int], int]
_PIECE_BYTES = 64 * 1024


class Checkpoints:
    """Offset checkpoints of log directories; each file is read once."""

    def __init__(self) -> None:
        self._files: dict[str, _Offsets] = {}

    def high_watermark(self, unit: Unit) -> int | None:
        """None where the checkpoint does not name the partition, or it is in no log directory."""
        return self._offset(unit, FileKind.HIGH_WATERMARK)

    def log_start_offset(self, unit: Unit) -> int:
        """0 where none is written down: the log starts with its first segment then."""
        return self._offset(unit, FileKind.LOG_START_OFFSET) or 0

    def _offset(self, unit: Unit, kind: FileKind) -> int | None:
        if unit.log_dir is None or unit.topic is None or unit.partition is None:
            return None
        path = f"{unit.log_dir}/{fixed_file_name(kind)}"
        if path not in self._files:
            self._files[path] = _read(path)
        return self._files[path].get((unit.topic, unit.partition))


def _read(path: str) -> _Offsets:
    """All readable entries; of two for one partition the last counts. Raises AccessError."""
    offsets: _Offsets = {}
    try:
        with Source.open(path) as source:
            for entry in read_offset_checkpoint(_pieces(source)):
                if isinstance(entry, OffsetEntry):
                    offsets[entry.topic, entry.partition] = entry.offset
    except NotFoundError:
        return {}
    return offsets


def _pieces(source: Source) -> Iterator[bytes]:
    position = 0
    while piece := source.read(position, _PIECE_BYTES):
        yield piece
        position += len(piece)
