"""The whole public API of kafkalog: what a program may import, and nothing else is promised.

    from kafkalog_core import DumpRequest, Report, dump, resolve

    report = Report()
    for chunk in dump(DumpRequest(targets=tuple(resolve(["/var/lib/kafka"])), level="records"), report):
        for row in chunk.rows():
            ...

Names are imported when they are first used: kernels and codecs cost time that `kafkalog --help` does not spend.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkalog_core.errors import (
        AccessError,
        ChecksumError,
        CleanError,
        FieldError,
        FormatError,
        KafkalogError,
        LimitError,
        LockedError,
        NotFoundError,
        RefusedError,
        SelectionError,
        SettingError,
        StorageError,
        TruncatedError,
        UnfinishedError,
        UnknownFileError,
        UnsupportedError,
        WorkerLostError,
    )
    from kafkalog_core.findings import FINDING_TYPES, Finding
    from kafkalog_core.format.columns import BatchColumns, RecordColumns
    from kafkalog_core.format.decode import PayloadDamage, RecordRun, decode_run
    from kafkalog_core.kafka.evidence import ReleaseGuess, infer_release
    from kafkalog_core.kafka.logdir.segment_views import PartitionView, SegmentView
    from kafkalog_core.kafka.settings import SettingsRequest
    from kafkalog_core.ops.compact.compact import CompactRequest, compact
    from kafkalog_core.ops.compact.forecast import CompactForecast
    from kafkalog_core.ops.compact.to_dir import compact_to
    from kafkalog_core.ops.dump.dump import dump
    from kafkalog_core.ops.dump.entries import entries
    from kafkalog_core.ops.dump.follow import follow
    from kafkalog_core.ops.reading.report import Report
    from kafkalog_core.ops.reading.runs import DumpRequest
    from kafkalog_core.ops.reading.selection import Filters
    from kafkalog_core.ops.reading.targets import FileTarget, LogDirTarget, PartitionTarget, Selection, resolve
    from kafkalog_core.ops.repair.apply import apply_draft, resume
    from kafkalog_core.ops.repair.loss import Loss
    from kafkalog_core.ops.repair.plan import Draft, Outcome, Plan, PlanRequest, Site, make_plan, sites_of
    from kafkalog_core.ops.repair.undo import (
        PrunePlan,
        Scope,
        UndoPlan,
        apply_prune,
        apply_undo,
        plan_prune,
        plan_undo,
        scope_of,
    )
    from kafkalog_core.ops.retain.retain import Retained, RetainRequest, retain
    from kafkalog_core.ops.retain.survey import Survey
    from kafkalog_core.ops.roll.forecast import RollForecast
    from kafkalog_core.ops.roll.roll import RollRequest, roll
    from kafkalog_core.ops.seek.seek import Question, SeekRequest, seek
    from kafkalog_core.ops.verify.engine import VerifyRequest, verify
    from kafkalog_core.ops.verify.verdict import PartitionVerdict, PlaceVerdict, SegmentVerdict
    from kafkalog_core.rows.chunk import RowChunk, json_line, json_object
    from kafkalog_core.rows.tables import TABLES
    from kafkalog_core.storage.changing.changes import Change
    from kafkalog_core.storage.changing.journal import Journal
    from kafkalog_core.storage.changing.lock import LogDirLocks, locked_dirs
    from kafkalog_core.storage.changing.writer import Disk, WriteError
    from kafkalog_core.storage.logdir import LogDir, read_log_dir
    from kafkalog_core.storage.lookup import PartitionLookup
    from kafkalog_core.storage.partition import Partition, read_partition
    from kafkalog_core.storage.scan import Damage, Run, ScanOptions, scan
    from kafkalog_core.storage.source import Source

__all__ = [
    "FINDING_TYPES",
    "TABLES",
    "AccessError",
    "BatchColumns",
    "Change",
    "ChecksumError",
    "CleanError",
    "CompactForecast",
    "CompactRequest",
    "Damage",
    "Disk",
    "Draft",
    "DumpRequest",
    "FieldError",
    "FileTarget",
    "Filters",
    "Finding",
    "FormatError",
    "Journal",
    "KafkalogError",
    "LimitError",
    "LockedError",
    "LogDir",
    "LogDirLocks",
    "LogDirTarget",
    "Loss",
    "NotFoundError",
    "Outcome",
    "Partition",
    "PartitionLookup",
    "PartitionTarget",
    "PartitionVerdict",
    "PartitionView",
    "PayloadDamage",
    "PlaceVerdict",
    "Plan",
    "PlanRequest",
    "PrunePlan",
    "Question",
    "RecordColumns",
    "RecordRun",
    "RefusedError",
    "ReleaseGuess",
    "Report",
    "RetainRequest",
    "Retained",
    "RollForecast",
    "RollRequest",
    "RowChunk",
    "Run",
    "ScanOptions",
    "Scope",
    "SeekRequest",
    "SegmentVerdict",
    "SegmentView",
    "Selection",
    "SelectionError",
    "SettingError",
    "SettingsRequest",
    "Site",
    "Source",
    "StorageError",
    "Survey",
    "TruncatedError",
    "UndoPlan",
    "UnfinishedError",
    "UnknownFileError",
    "UnsupportedError",
    "VerifyRequest",
    "WorkerLostError",
    "WriteError",
    "apply_draft",
    "apply_prune",
    "apply_undo",
    "compact",
    "compact_to",
    "decode_run",
    "dump",
    "entries",
    "follow",
    "infer_release",
    "json_line",
    "json_object",
    "locked_dirs",
    "make_plan",
    "plan_prune",
    "plan_undo",
    "read_log_dir",
    "read_partition",
    "resolve",
    "resume",
    "retain",
    "roll",
    "scan",
    "scope_of",
    "seek",
    "sites_of",
    "verify",
]

_HOMES = {
    "errors": (
        "AccessError ChecksumError CleanError FieldError FormatError KafkalogError LimitError LockedError "
        "NotFoundError RefusedError SelectionError SettingError StorageError TruncatedError UnfinishedError "
        "UnknownFileError UnsupportedError WorkerLostError"
    ),
    "findings": "FINDING_TYPES Finding",
    "format.columns": "BatchColumns RecordColumns",
    "format.decode": "PayloadDamage RecordRun decode_run",
    "ops.repair.apply": "apply_draft resume",
    "ops.compact.forecast": "CompactForecast",
    "ops.compact.to_dir": "compact_to",
    "ops.compact.compact": "CompactRequest compact",
    "ops.dump.dump": "dump",
    "ops.dump.entries": "entries",
    "ops.dump.follow": "follow",
    "kafka.logdir.segment_views": "PartitionView SegmentView",
    "ops.repair.loss": "Loss",
    "kafka.evidence": "ReleaseGuess infer_release",
    "ops.reading.report": "Report",
    "ops.retain.retain": "RetainRequest Retained retain",
    "ops.retain.survey": "Survey",
    "ops.roll.roll": "RollRequest roll",
    "ops.roll.forecast": "RollForecast",
    "rows.chunk": "RowChunk json_line json_object",
    "ops.seek.seek": "Question SeekRequest seek",
    "ops.reading.runs": "DumpRequest",
    "ops.reading.selection": "Filters",
    "kafka.settings": "SettingsRequest",
    "ops.repair.plan": "Draft Outcome Plan PlanRequest Site make_plan sites_of",
    "ops.reading.targets": "FileTarget LogDirTarget PartitionTarget Selection resolve",
    "ops.repair.undo": "PrunePlan Scope UndoPlan apply_prune apply_undo plan_prune plan_undo scope_of",
    "ops.verify.engine": "VerifyRequest verify",
    "ops.verify.verdict": "PartitionVerdict PlaceVerdict SegmentVerdict",
    "storage.changing.changes": "Change",
    "storage.changing.journal": "Journal",
    "storage.changing.lock": "LogDirLocks locked_dirs",
    "storage.logdir": "LogDir read_log_dir",
    "storage.lookup": "PartitionLookup",
    "storage.partition": "Partition read_partition",
    "storage.scan": "Damage Run ScanOptions scan",
    "storage.source": "Source",
    "storage.changing.writer": "Disk WriteError",
    "rows.tables": "TABLES",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__
