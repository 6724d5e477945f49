"""Lowering what the text files at the top of a log directory say of logs that end earlier now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_core.format.checkpoint import OffsetEntry, parse_offset_entry
from kafkalog_core.format.checkpoint_text import CheckpointMend
from kafkalog_core.format.names import FileKind, fixed_file_name
from kafkalog_core.ops.mending.mend import first_of
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalog_core.ops.logdirs.brokerdir import BrokerDir
    from kafkalog_core.storage.changing.changes import Stage

__all__ = ["FOLLOWING", "lower_offsets"]

FOLLOWING: Final = (FileKind.RECOVERY_POINT, FileKind.HIGH_WATERMARK, FileKind.CLEANER_OFFSET)
"""What is lowered behind the cut; the log start is lowered before."""
_NAMES: Final = {
    FileKind.RECOVERY_POINT: "recovery point",
    FileKind.HIGH_WATERMARK: "high watermark",
    FileKind.CLEANER_OFFSET: "offset that the cleaner has come to",
    FileKind.LOG_START_OFFSET: "log start offset",
}


def lower_offsets(
    broker_dir: BrokerDir, kind: FileKind, ends: Mapping[tuple[str | None, int | None], int], stage: Stage
) -> None:
    """Lower the entries of one file that lie above the end of their log; its other lines stay as they are.

    Args:
        broker_dir: the log directory; a file that a broker refuses is left alone.
        kind: of the file.
        ends: where each log ends then, by topic and partition.
        stage: takes the change.
    """
    text = broker_dir.offsets.get(kind)
    if text is None or text.is_refused:
        return
    path = f"{broker_dir.path}/{fixed_file_name(kind)}"
    with Source.open(path) as source:
        mend = CheckpointMend[OffsetEntry](source.read(0, source.size_bytes), parse_offset_entry)
    told: list[str] = []
    for line in mend.lines:
        entry = line.entry
        end = None if entry is None else ends.get((entry.topic, entry.partition))
        if entry is None or end is None or entry.offset <= end:
            continue
        mend.replace(line, f"{entry.topic} {entry.partition} {end}", "its log ends earlier")
        told.append(f"{entry.topic}-{entry.partition} from {entry.offset} to {end}")
    if told:
        content, _ = mend.content()
        stage.write(path, [content], why=f"{_NAMES[kind]} of {first_of(told)}", like=path)
