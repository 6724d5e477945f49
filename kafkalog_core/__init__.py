"""The library's front door: `__all__` is the whole public API, and only these names are stable between releases.

    from kafkalog_core import DumpRequest, Report, dump, resolve

    report = Report()
    for chunk in dump(DumpRequest(targets=tuple(resolve(["/var/lib/kafka"])), level="records"), report):
        for row in chunk.rows():
            ...

`docs/library.md` has an example for each name. A name is imported when it is first used, as kernels and codecs take
time to import that `kafkalog --help` does not need.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kafkalog_core.engine.report import Report
    from kafkalog_core.engine.targets import FileTarget, LogDirTarget, PartitionTarget, Selection, resolve
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
        StoreLostError,
        TruncatedError,
        UnfinishedError,
        UnknownFileError,
        UnsupportedError,
        WorkerLostError,
    )
    from kafkalog_core.filters.expression import Filters
    from kafkalog_core.findings import FINDING_TYPES, Finding
    from kafkalog_core.format.columns import BatchColumns, RecordColumns
    from kafkalog_core.format.decode import PayloadDamage, RecordRun, decode_run
    from kafkalog_core.format.names import FileKind
    from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
    from kafkalog_core.kafka.sim.evidence import ReleaseGuess, infer_release
    from kafkalog_core.kafka.sim.start.segment_views import PartitionView, SegmentView
    from kafkalog_core.ops.compact.compact import compact
    from kafkalog_core.ops.compact.forecast import CompactForecast, CompactRequest
    from kafkalog_core.ops.compact.new_log_dir import compact_to
    from kafkalog_core.ops.dump.dump import dump
    from kafkalog_core.ops.dump.entries import entries
    from kafkalog_core.ops.dump.follow import follow
    from kafkalog_core.ops.dump.runs import DumpRequest
    from kafkalog_core.ops.planners import make_plan
    from kafkalog_core.ops.repair.apply import apply_plan, resume
    from kafkalog_core.ops.repair.context import TargetDir, target_dirs
    from kafkalog_core.ops.repair.loss import Loss
    from kafkalog_core.ops.repair.plan import Plan, PlanDraft, PlanReport, PlanRequest
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
    from kafkalog_core.ops.retain.forecaster import RetainForecast, RetentionForecaster, RetentionOptions
    from kafkalog_core.ops.retain.retain import RetainRequest, retain
    from kafkalog_core.ops.roll.forecast import RollForecast
    from kafkalog_core.ops.roll.roll import RollRequest, roll
    from kafkalog_core.ops.seek import SeekQuestion, SeekRequest, seek
    from kafkalog_core.ops.verify.engine import verify
    from kafkalog_core.ops.verify.request import VerifyRequest
    from kafkalog_core.ops.verify.verdict import PartitionVerdict, PlaceVerdict, SegmentVerdict
    from kafkalog_core.output.chunk import RowChunk, json_line, json_object
    from kafkalog_core.output.tables import TABLES
    from kafkalog_core.storage.changing.changes import Change
    from kafkalog_core.storage.changing.journal import Journal
    from kafkalog_core.storage.changing.lock import LogDirLocks
    from kafkalog_core.storage.changing.writer import Disk, WriteError
    from kafkalog_core.storage.locks import locked_dirs
    from kafkalog_core.storage.logdir import LogDir, read_log_dir
    from kafkalog_core.storage.lookup import Located, PartitionLookup
    from kafkalog_core.storage.lookup_trace import Trace
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
    "DumpRequest",
    "FieldError",
    "FileKind",
    "FileTarget",
    "Filters",
    "Finding",
    "FormatError",
    "Journal",
    "KafkalogError",
    "LimitError",
    "Located",
    "LockedError",
    "LogDir",
    "LogDirLocks",
    "LogDirTarget",
    "Loss",
    "NotFoundError",
    "Partition",
    "PartitionLookup",
    "PartitionTarget",
    "PartitionVerdict",
    "PartitionView",
    "PayloadDamage",
    "PlaceVerdict",
    "Plan",
    "PlanDraft",
    "PlanReport",
    "PlanRequest",
    "PrunePlan",
    "RecordColumns",
    "RecordRun",
    "RefusedError",
    "ReleaseGuess",
    "Report",
    "RetainForecast",
    "RetainRequest",
    "RetentionForecaster",
    "RetentionOptions",
    "RollForecast",
    "RollRequest",
    "RowChunk",
    "Run",
    "ScanOptions",
    "Scope",
    "SeekQuestion",
    "SeekRequest",
    "SegmentVerdict",
    "SegmentView",
    "Selection",
    "SelectionError",
    "SettingError",
    "SettingsRequest",
    "Source",
    "StorageError",
    "StoreLostError",
    "TargetDir",
    "Trace",
    "TruncatedError",
    "UndoPlan",
    "UnfinishedError",
    "UnknownFileError",
    "UnsupportedError",
    "VerifyRequest",
    "WorkerLostError",
    "WriteError",
    "apply_plan",
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
    "target_dirs",
    "verify",
]

_HOMES: Final = {
    "errors": (
        "AccessError ChecksumError CleanError FieldError FormatError KafkalogError LimitError "
        "LockedError NotFoundError RefusedError SelectionError SettingError StorageError TruncatedError "
        "StoreLostError UnfinishedError UnknownFileError UnsupportedError WorkerLostError"
    ),
    "filters.expression": "Filters",
    "findings": "FINDING_TYPES Finding",
    "format.columns": "BatchColumns RecordColumns",
    "format.decode": "PayloadDamage RecordRun decode_run",
    "format.names": "FileKind",
    "kafka.sim.evidence": "ReleaseGuess infer_release",
    "kafka.sim.start.segment_views": "PartitionView SegmentView",
    "kafka.rules.setting_requests": "SettingsRequest",
    "ops.compact.forecast": "CompactForecast CompactRequest",
    "ops.compact.compact": "compact",
    "ops.compact.new_log_dir": "compact_to",
    "ops.dump.dump": "dump",
    "ops.dump.entries": "entries",
    "ops.dump.follow": "follow",
    "ops.planners": "make_plan",
    "engine.report": "Report",
    "ops.dump.runs": "DumpRequest",
    "engine.targets": "FileTarget LogDirTarget PartitionTarget Selection resolve",
    "ops.repair.apply": "apply_plan resume",
    "ops.repair.loss": "Loss",
    "ops.repair.context": "TargetDir target_dirs",
    "ops.repair.plan": "Plan PlanReport PlanRequest PlanDraft",
    "ops.repair.undo": "PrunePlan Scope UndoPlan apply_prune apply_undo plan_prune plan_undo scope_of",
    "ops.retain.retain": "RetainRequest retain",
    "ops.retain.forecaster": "RetainForecast RetentionForecaster RetentionOptions",
    "ops.roll.forecast": "RollForecast",
    "ops.roll.roll": "RollRequest roll",
    "ops.seek": "SeekQuestion SeekRequest seek",
    "ops.verify.engine": "verify",
    "ops.verify.request": "VerifyRequest",
    "ops.verify.verdict": "PartitionVerdict PlaceVerdict SegmentVerdict",
    "output.chunk": "RowChunk json_line json_object",
    "output.tables": "TABLES",
    "storage.changing.changes": "Change",
    "storage.changing.journal": "Journal",
    "storage.changing.lock": "LogDirLocks",
    "storage.changing.writer": "Disk WriteError",
    "storage.locks": "locked_dirs",
    "storage.logdir": "LogDir read_log_dir",
    "storage.lookup": "Located PartitionLookup",
    "storage.lookup_trace": "Trace",
    "storage.partition": "Partition read_partition",
    "storage.scan": "Damage Run ScanOptions scan",
    "storage.source": "Source",
}
"""The public names of each module, by its name below `kafkalog_core`."""

_HOME_OF: Final = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__
