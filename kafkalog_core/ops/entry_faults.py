"""What may be wrong with the small files, as rows: damage and findings.

The codes are those of `findings.small_files`, the damage reasons those of `findings.damage.ENTRY_DAMAGE`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkalog_core.findings import FINDING_TYPES
from kafkalog_core.format.names import FileKind, FileState
from kafkalog_core.format.textfile import Failure
from kafkalog_core.ops.rows import RowChunk
from kafkalog_core.tables import DAMAGE, FINDING

if TYPE_CHECKING:
    from kafkalog_core.format.textfile import MalformedLine, Refusal

__all__ = ["EntryFile"]


_NO_START: Final = "Does not start."
_OFFLINE_AFTER_READING: Final = "Takes it for empty; 4.x takes the whole log directory offline as well."
_OFFLINE_WITH_PARTITION: Final = "Does not load the partition and takes the whole log directory offline."
_REFUSED_ACTIONS: Final = {
    (FileKind.RECOVERY_POINT, Failure.IO): f"{_OFFLINE_AFTER_READING} 0.8.2 to 0.10.0 do not start.",
    (FileKind.RECOVERY_POINT, Failure.RUNTIME): "Takes it for empty and recovers every segment.",
    (FileKind.LOG_START_OFFSET, Failure.IO): _OFFLINE_AFTER_READING,
    (FileKind.LOG_START_OFFSET, Failure.RUNTIME): "Takes it for empty: deleted records come back.",
    (
        FileKind.HIGH_WATERMARK,
        Failure.IO,
    ): "Takes the whole log directory offline when its first partition gets a role.",
    (FileKind.HIGH_WATERMARK, Failure.RUNTIME): "Starts, but can serve no partition of the log directory.",
    (FileKind.CLEANER_OFFSET, Failure.IO): _OFFLINE_AFTER_READING,
    (FileKind.CLEANER_OFFSET, Failure.RUNTIME): "Starts, but its cleaner fails.",
    (FileKind.LEADER_EPOCH, Failure.IO): _OFFLINE_WITH_PARTITION,
    (FileKind.LEADER_EPOCH, Failure.RUNTIME): _NO_START,
    (FileKind.PARTITION_METADATA, Failure.IO): _OFFLINE_WITH_PARTITION,
    (FileKind.PARTITION_METADATA, Failure.RUNTIME): _NO_START,
}
_ACTION_OF_KIND: Final = {
    FileKind.META_PROPERTIES: "Takes the log directory offline; does not start where it is the only one.",
    FileKind.QUORUM_STATE: _NO_START,
}
_CODE_GROUPS: Final = {
    FileKind.META_PROPERTIES: "meta",
    FileKind.PARTITION_METADATA: "partition-metadata",
    FileKind.QUORUM_STATE: "quorum-state",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryFile:
    """The file that rows are about; topic and partition are those of its directory, null where that is of no partition.

    `base_offset` is that of the file's name, null where it has none.
    """

    path: str
    kind: FileKind
    state: FileState
    topic: str | None
    partition: int | None
    base_offset: int | None

    @property
    def place(self) -> dict[str, object]:
        """The columns that say where a row comes from."""
        segment = os.path.basename(self.path)
        return {"topic": self.topic, "partition": self.partition, "segment": segment}

    def damage(self, position: int, size_bytes: int, reason: str, detail: str) -> RowChunk:
        """One damage row; `reason` is one of `ENTRY_DAMAGE`."""
        severity = "warning" if reason == "partial-entry" else "error"  # brokers since 2.8 read on before it
        row = {"position": position, "size_bytes": size_bytes, "reason": reason, "detail": detail, "severity": severity}
        return RowChunk(DAMAGE, [self.place | row])

    def unreadable(self, position: int, size_bytes: int) -> RowChunk:
        """The damage row of bytes that the disk cannot read."""
        return self.damage(position, size_bytes, "unreadable", f"the disk cannot read {size_bytes} bytes here")

    def finding(
        self, code: str, *, position: int | None = None, size_bytes: int | None = None, **details: object
    ) -> RowChunk:
        """One finding row; `code` is one of `FINDING_TYPES`, `details` are what its message names."""
        kind = FINDING_TYPES[code]
        return self._finding(
            code,
            kind.message.format(size_bytes=size_bytes, **details),
            kind.broker_action,
            position=position,
            size_bytes=size_bytes,
        )

    def malformed_line(self, line: MalformedLine) -> RowChunk:
        """The row of a line that says nothing."""
        if self.kind is FileKind.CLEAN_SHUTDOWN:
            code = "clean-shutdown.malformed"
            return self.finding(code, position=line.position, size_bytes=line.size_bytes, problem=line.problem)
        problem = f"line {line.line}: {line.problem}"
        if self.state is FileState.TEMPORARY:
            return self.finding("file.unfinished", position=line.position, size_bytes=line.size_bytes, problem=problem)
        return self.damage(line.position, line.size_bytes, "malformed-line", problem)

    def refused(self, refusal: Refusal) -> RowChunk:
        """The finding row of a text file that a broker refuses."""
        if self.state is FileState.TEMPORARY:
            return self.finding("file.unfinished", problem=refusal.problem)
        code = f"{_CODE_GROUPS.get(self.kind, 'checkpoint')}.{refusal.code}"
        action = _ACTION_OF_KIND.get(self.kind) or _REFUSED_ACTIONS.get((self.kind, refusal.failure))
        return self._finding(code, FINDING_TYPES[code].message.format(problem=refusal.problem), action)

    def _finding(
        self,
        code: str,
        message: str,
        broker_action: str | None,
        *,
        position: int | None = None,
        size_bytes: int | None = None,
    ) -> RowChunk:
        row = {
            "code": code,
            "severity": FINDING_TYPES[code].severity,
            "file": self.path,
            "topic": self.topic,
            "partition": self.partition,
            "position": position,
            "size_bytes": size_bytes,
            "message": message,
            "broker_action": broker_action,
            "cure": FINDING_TYPES[code].cure,
        }
        return RowChunk(FINDING, [row])
