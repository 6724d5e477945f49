"""Raising what the log-start-offset-checkpoint says of logs that begin later now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.format.checkpoint import OffsetEntry, parse_offset_entry
from kafkalog_core.format.checkpoint_text import CheckpointMend, encode_offset_checkpoint
from kafkalog_core.format.names import FileKind, fixed_file_name
from kafkalog_core.ops.mending.mend import first_of
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalog_core.ops.logdirs.brokerdir import BrokerDir, Key
    from kafkalog_core.storage.changing.changes import Stage

__all__ = ["raise_log_starts"]


def raise_log_starts(broker_dir: BrokerDir, starts: Mapping[Key, int], stage: Stage) -> None:
    """Stage the checkpoint with these log starts where they are higher than what it has; other lines stay.

    Args:
        broker_dir: the log directory; a file that a broker refuses is left alone.
        starts: where logs begin, by topic and partition.
        stage: takes the change.
    """
    kind = FileKind.LOG_START_OFFSET
    path = f"{broker_dir.path}/{fixed_file_name(kind)}"
    text = broker_dir.offsets.get(kind)
    if text is None:
        entries = [(topic, number, offset) for (topic, number), offset in sorted(starts.items())]
        told = [f"{topic}-{number} is {offset}" for topic, number, offset in entries]
        stage.write(path, [encode_offset_checkpoint(entries)], why=_why(told), like=broker_dir.path)
        return
    if text.is_refused:
        return
    with Source.open(path) as source:
        mend = CheckpointMend[OffsetEntry](source.read(0, source.size_bytes), parse_offset_entry)
    missing = dict(starts)
    told = []
    for line in mend.lines:
        entry = line.entry
        offset = None if entry is None else missing.pop((entry.topic, entry.partition), None)
        if entry is None or offset is None or entry.offset >= offset:
            continue
        mend.replace(line, f"{entry.topic} {entry.partition} {offset}", "its log begins later")
        told.append(f"{entry.topic}-{entry.partition} from {entry.offset} to {offset}")
    for (topic, number), offset in sorted(missing.items()):
        mend.add(f"{topic} {number} {offset}", "its log begins later")
        told.append(f"{topic}-{number} to {offset}")
    if told:
        content, _ = mend.content()
        stage.write(path, [content], why=_why(told), like=path)


def _why(told: list[str]) -> str:
    return f"log start offset of {first_of(told)}"
