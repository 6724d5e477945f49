"""What may be wrong with a small file, as values: bytes without a meaning, and what a broker does with the file.

`dump` and `verify` report the same about the same file: the first as rows (`entry_rows`), the second as findings. The
codes are those of `findings.index_files`, the damage reasons those of `ENTRY_DAMAGE`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from kafkalog_core.findings import found
from kafkalog_core.format.names import FileKind, FileState
from kafkalog_core.format.properties import NO_IDS
from kafkalog_core.format.textfile import Failure
from kafkalog_core.output.chunk import RowChunk
from kafkalog_core.output.tables import DAMAGE, FINDING
from kafkalog_core.structs import Struct, replace

if TYPE_CHECKING:
    from kafkalog_core.findings import Finding, Severity
    from kafkalog_core.format.textfile import FileRefusal, MalformedLine

__all__ = [
    "ACTIONS_ON_NUMBERS",
    "EntryDamage",
    "EntryFile",
    "damage_row",
    "fault_row",
    "place_of_rows",
    "unreadable_row",
]


_NO_START: Final = "Does not start."
_OFFLINE_AFTER_READING: Final = "Takes it for empty; 2.8 to 4.x take the whole log directory offline as well."
_OFFLINE_WITH_PARTITION: Final = (
    "Does not load the partition and takes the whole log directory offline. Releases before 3.2 do not start."
)
_REFUSED_ACTIONS: Final = {
    (FileKind.RECOVERY_POINT, Failure.IO): f"{_OFFLINE_AFTER_READING} 0.8.2 to 0.10.0 do not start.",
    (
        FileKind.RECOVERY_POINT,
        Failure.RUNTIME,
    ): "Takes it for empty and recovers every segment. 0.8.2 to 0.10.0 do not start.",
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
_CHECKPOINTS: Final = (
    FileKind.RECOVERY_POINT,
    FileKind.LOG_START_OFFSET,
    FileKind.HIGH_WATERMARK,
    FileKind.CLEANER_OFFSET,
)
ACTIONS_ON_NUMBERS: Final = frozenset(_REFUSED_ACTIONS[kind, Failure.RUNTIME] for kind in _CHECKPOINTS)
"""What brokers from 3.1 on do with a checkpoint that has a wrong number; for those before it is a malformed line."""
_ACTION_OF_KIND: Final = {
    FileKind.META_PROPERTIES: "Takes the log directory offline; does not start where it is the only one, or has the "
    "metadata log.",
    FileKind.QUORUM_STATE: _NO_START,
}
_CODE_GROUPS: Final = {
    FileKind.META_PROPERTIES: "meta",
    FileKind.PARTITION_METADATA: "partition-metadata",
    FileKind.QUORUM_STATE: "quorum-state",
}


class EntryDamage(Struct, frozen=True, kw_only=True):
    """Bytes without a meaning; `reason` is one of `ENTRY_DAMAGE`."""

    position: int
    size_bytes: int
    reason: str
    detail: str

    @property
    def severity(self) -> Severity:
        """The severity: brokers since 2.8 read the entries before an incomplete one."""
        return "warning" if self.reason == "partial-entry" else "error"


class EntryFile(Struct, frozen=True, kw_only=True):
    """A small file; topic and partition are those of its directory, None where that is not of a partition.

    `base_offset` is that of the file's name, None where it has none.
    """

    path: str
    kind: FileKind
    state: FileState = FileState.LIVE
    topic: str | None = None
    partition: int | None = None
    base_offset: int | None = None

    @property
    def code_group(self) -> str:
        """The first part of the codes of text files like this one."""
        return _CODE_GROUPS.get(self.kind, "checkpoint")

    def finding(
        self,
        code: str,
        *,
        position: int | None = None,
        size_bytes: int | None = None,
        offset: int | None = None,
        severity: Severity | None = None,
        **details: object,
    ) -> Finding:
        """Return a finding of the catalog about this file; `details` are the values that its message names."""
        return found(
            code,
            self.path,
            topic=self.topic,
            partition=self.partition,
            position=position,
            size_bytes=size_bytes,
            offset=offset,
            severity=severity,
            hides_records=False,
            **details,
        )

    def malformed_line(self, line: MalformedLine) -> Finding | EntryDamage:
        """Return the finding about a line that is not valid."""
        if self.kind is FileKind.CLEAN_SHUTDOWN:
            code = "clean-shutdown.malformed"
            return self.finding(code, position=line.position, size_bytes=line.size_bytes, problem=line.problem)
        problem = f"line {line.line}: {line.problem}"
        if self.state is FileState.TEMPORARY:
            return self.finding("file.unfinished", position=line.position, size_bytes=line.size_bytes, problem=problem)
        return EntryDamage(position=line.position, size_bytes=line.size_bytes, reason="malformed-line", detail=problem)

    def refused(self, refusal: FileRefusal, *, position: int | None = None, size_bytes: int | None = None) -> Finding:
        """Return the finding about a text file that a broker refuses, at the refused line where that is known."""
        if self.state is FileState.TEMPORARY:
            return self.finding("file.unfinished", position=position, size_bytes=size_bytes, problem=refusal.problem)
        code = f"{self.code_group}.{refusal.code}"
        action = _ACTION_OF_KIND.get(self.kind) or _REFUSED_ACTIONS.get((self.kind, refusal.failure))
        if self.kind is FileKind.META_PROPERTIES and refusal.problem == NO_IDS:
            # a file of version 0 may have no ids (`MetaProperties.Builder`), so only `MetaPropertiesEnsemble.verify`
            # misses the node id, and ends the process
            action = _NO_START
        finding = self.finding(code, position=position, size_bytes=size_bytes, problem=refusal.problem)
        return replace(finding, broker_action=action)


def place_of_rows(file: EntryFile) -> dict[str, object]:
    """Return the columns that name the place of a row."""
    return {"topic": file.topic, "partition": file.partition, "segment": os.path.basename(file.path)}


def fault_row(file: EntryFile, fault: Finding | EntryDamage) -> RowChunk:
    """Return the one row of a fault."""
    if isinstance(fault, EntryDamage):
        return damage_row(file, fault.position, fault.size_bytes, fault.reason, fault.detail)
    return RowChunk(FINDING, [fault.row()])


def damage_row(file: EntryFile, position: int, size_bytes: int, reason: str, detail: str) -> RowChunk:
    """Return one damage row; `reason` is one of `ENTRY_DAMAGE`."""
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
    """Return the damage row of bytes that the disk cannot read."""
    return damage_row(file, position, size_bytes, "unreadable", f"the disk cannot read {size_bytes} bytes here")
