"""What a compaction is asked for: the request, and the task of each partition, which other processes can take."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from kafkalog_core.format.layout import MAX_BATCH_BYTES
from kafkalog_core.kafka.cleaner.rules import clean_config
from kafkalog_core.kafka.settings import SettingsRequest
from kafkalog_core.storage.partition import partition_name

if TYPE_CHECKING:
    from kafkalog_core.command_lines import CommandLine
    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.cleaner.rules import CleanConfig
    from kafkalog_core.kafka.logdir.segment_views import PartitionView
    from kafkalog_core.kafka.setting_table import TopicSettings
    from kafkalog_core.ops.reading.targets import Target
    from kafkalog_core.ops.repair.context import DirContext

__all__ = ["CompactRequest", "CompactTask"]

_READS: Final = 2
"""Passes over the log: a clean reads the dirty part twice and the rest once, and most of a log is dirty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactRequest:
    """What to simulate.

    Args:
        targets: partitions and log directories, from `targets.resolve`.
        now_ms: the time that counts as now, in milliseconds since 1970.
        kafka: release and settings.
        memory_bytes: size of the offset map, in bytes; None: as the settings have it.
        max_passes: the most cleans of a partition; None: until nothing more is cleanable.
        force: whether a log is cleaned below the dirty ratio too.
        biggest: the number of largest keys to report.
        jobs: processes, each with its own offset map.
        max_batch_bytes: size of the largest batch that is read, in bytes, decompressed too.
        command_line: the command line, for commands to paste; None: unknown.
    """

    targets: tuple[Target, ...]
    now_ms: int
    kafka: SettingsRequest = field(default_factory=SettingsRequest)
    memory_bytes: int | None = None
    max_passes: int | None = None
    force: bool = False
    biggest: int = 0
    jobs: int = 1
    max_batch_bytes: int = MAX_BATCH_BYTES
    command_line: CommandLine | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactTask:
    """One partition to simulate or to clean: plain values, which other processes can take.

    Args:
        path: path of its directory.
        topic: topic of the directory's name.
        partition: partition number of the directory's name.
        context: what is known of its log directory.
        options: the request, without its targets.
        of_topic: settings of its topic.
        never: state of a log that the cleaner never takes, and why; None: the log is compacted.
        stray: why the broker does not keep the partition at its next start; None: it does.
        view: its segments; None: it has none, or it is never cleaned.
        size_bytes: size of its logs, in bytes.
    """

    path: str
    topic: str | None
    partition: int | None
    context: DirContext
    options: CompactRequest
    of_topic: TopicSettings
    never: tuple[str, str] | None
    stray: Finding | None
    view: PartitionView | None = None
    size_bytes: int = 0

    @property
    def expected_bytes(self) -> int:
        """Bytes of log that a simulation reads."""
        return 0 if self.never is not None or self.view is None else _READS * self.size_bytes

    def config(self) -> CleanConfig:
        """Return what counts for the cleans of the log. Raises SettingError; not for a log that is never cleaned."""
        config = clean_config(self.context.settings, self.of_topic, memory_bytes=self.options.memory_bytes)
        return replace(config, is_cleaner_on=True)  # else `never` says so; up to 0.8 it is off by default

    def light(self) -> CompactTask:
        """Return the task without what its log directory shows of other partitions, for another process."""
        return replace(self, context=self.context.only(partition_name(self.path)))

    def place(self) -> dict[str, object]:
        """Return the columns that name the partition."""
        return {"topic": self.topic, "partition": self.partition}
