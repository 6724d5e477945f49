"""What a live broker does in the background: flush, checkpoint, delete by retention, compact.

`kafka.sim.retention` and `kafka.sim.cleaner` decide; this module carries their decisions out on open logs.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import KafkalogError, StorageError
from kafkalog_core.format.index import encode_txn_entry
from kafkalog_core.format.names import METADATA_TOPIC, FileKind, FileState, segment_file_name
from kafkalog_core.kafka.rules.cleaner_rules import clean_config, cleaning_rules
from kafkalog_core.kafka.rules.releases import LATEST
from kafkalog_core.kafka.sim.cleaner.clean import next_pass
from kafkalog_core.kafka.sim.cleaner.log import CleanLog, CleanSegment, LastRecord
from kafkalog_core.kafka.sim.retention.rules import RetainedLog, check, retention_rules
from kafkalog_core.kafka.sim.start.segment_views import SegmentView
from kafkalog_core.livebroker.logs.live_log import LiveSegment
from kafkalog_core.progress import Advance
from kafkalog_core.storage.changing.writer import Attributes, Disk
from kafkalog_core.structs import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kafkalog_core.kafka.sim.cleaner.clean import Group
    from kafkalog_core.livebroker.disks.live_disks import LiveDisks
    from kafkalog_core.livebroker.logs.live_log import LiveLog

__all__ = ["Upkeep"]

_NS_PER_MS: Final = 1_000_000
_RULES: Final = cleaning_rules(LATEST)
_ORIGIN: Final = "the log"
_CHECKPOINT_MS: Final = 5_000  # replica.high.watermark.checkpoint.interval.ms
_CLEANER_MEMORY_BYTES: Final = 64 * 1024 * 1024


class _StoppedError(Exception):
    """Ends a task where nothing is half written: the broker is closing."""


class Upkeep:
    """The tasks, each at its interval. One thread calls `run`."""

    def __init__(
        self,
        disks: LiveDisks,
        clock_ms: Callable[[], int],
        *,
        failed: Callable[[str, BaseException], None],
        disk: Disk | None = None,
        more: Mapping[str, tuple[int, Callable[[], None]]] | None = None,
    ) -> None:
        """Take the disks.

        failed: receives what failed, and the error; the task is tried again at its next turn. more: other tasks by
            name, each with its interval in milliseconds.
        """
        self._disks = disks
        self._clock_ms = clock_ms
        self._failed = failed
        self._disk = disk or disks.disk
        broker = disks.configs.broker
        self._tasks: dict[str, tuple[int, Callable[[], None]]] = {
            "flush": (1_000, self.flush),
            "checkpoint": (_CHECKPOINT_MS, disks.checkpoint),
            "retention": (int(broker("log.retention.check.interval.ms").text), self.retain),
            "compaction": (int(broker("log.cleaner.backoff.ms").text), self.compact),
            **(more or {}),
        }
        now_ms = clock_ms()
        self._due_ms = {name: now_ms + interval_ms for name, (interval_ms, _) in self._tasks.items()}
        self._flushed_ms: dict[tuple[str, int], int] = {}
        self._is_stopped = False

    def run(self) -> None:
        """Do what is due; nothing after a write has failed."""
        # A broker whose log directory is offline changes nothing in it (`LogDirFailureChannel`).
        if self._disks.is_offline:
            return
        with suppress(_StoppedError):
            for name, (interval_ms, task) in self._tasks.items():
                self._check_stopped()
                now_ms = self._clock_ms()
                if now_ms >= self._due_ms[name]:
                    # Set before the task, so that a task that fails waits for its next turn.
                    self._due_ms[name] = now_ms + interval_ms
                    self._guard(name, task)

    def stop(self) -> None:
        """Make `run` return soon, from any thread: a clean is abandoned (`LogCleanerManager.abortCleaning`)."""
        self._is_stopped = True

    def _check_stopped(self, _: int = 0) -> None:
        if self._is_stopped:
            raise _StoppedError

    def _guard(self, what: str, task: Callable[[], None]) -> None:
        try:
            task()
        # One task's failure does not keep the others from their turns.
        except (KafkalogError, OSError) as error:
            self._failed(what, error)

    def flush(self) -> None:
        """Write rolled segments to the disk, and active ones whose flush.ms is over."""
        now_ms = self._clock_ms()
        # As `LogManager.flushDirtyLogs`: flush.ms counts from the last flush of each log.
        for key, log in self._logs():
            flush_ms = self._disks.settings_of(key[0]).flush_ms
            is_due = now_ms - self._flushed_ms.setdefault(key, now_ms) >= flush_ms
            if is_due:
                self._flushed_ms[key] = now_ms
            log.sync(with_active=is_due)

    # --- retention ----------------------------------------------------------------------------------------------------
    def retain(self) -> None:
        """Delete what the settings of its topic no longer keep (`LogManager.cleanupLogs`)."""
        # All partitions, also those that no client has used: `LogManager.cleanupLogs` goes through every log.
        for key, log in self._logs(all_partitions=True):
            self._guard(f"retention of {key[0]}-{key[1]}", partial(self._retain, key[0], log))

    def _retain(self, topic: str, log: LiveLog) -> None:
        now_ms = self._clock_ms()
        rules = retention_rules(self._disks.settings_of(topic), self._disks.configs.settings)
        if not rules.passes:
            return
        # From the decision to the deletion: an append may roll a segment in between.
        with log.lock:
            if log.is_deleted:  # by a client, since the partitions were listed
                return
            end, segments = log.log_end_offset, log.segments
            views = tuple(
                SegmentView(
                    base_offset=each.base_offset,
                    next_offset=end if each is segments[-1] else after,
                    size_bytes=each.size_bytes,
                    max_timestamp_ms=each.max_timestamp_ms,
                    max_timestamp_origin=_ORIGIN,
                    mtime_ms=each.mtime_ms or now_ms,
                    is_active=each is segments[-1],
                    path=each.path,
                )
                for each, after in zip(segments, [*(each.base_offset for each in segments[1:]), end], strict=True)
            )
            state = RetainedLog(segments=views, start_offset=log.log_start_offset, high_watermark=end, end_offset=end)
            deleted = check(state, rules, now_ms, {}).deleted
            if deleted:
                log.delete_segments([each.segment.base_offset for each in deleted])
        if deleted:
            # The log start offset has moved: written at once, so that a crash does not bring the old one back.
            self._disks.checkpoint()

    # --- compaction ---------------------------------------------------------------------------------------------------
    def compact(self) -> None:
        """Clean the logs of compacted topics that are dirty enough (`LogCleaner`)."""
        for key, log in self._logs(all_partitions=True):
            if "compact" in self._disks.settings_of(key[0]).cleanup_policy:
                self._guard(f"compaction of {key[0]}-{key[1]}", partial(self._clean, *key, log))

    def _clean(self, topic: str, number: int, log: LiveLog) -> None:
        settings = self._disks.settings_of(topic)
        config = clean_config(self._disks.configs.settings, settings, memory_bytes=_CLEANER_MEMORY_BYTES)
        now_ms = self._clock_ms()
        # Taken before the look at the log: only segments that exist now can be exchanged.
        segments = {each.base_offset: each for each in log.segments}
        # The active segment is never cleaned (`LogCleanerManager.cleanableOffsets`).
        if len(segments) < 2:
            return
        state = _clean_log(topic, number, log, self._disks.cleaner_offset(topic, number))
        progress = Advance(self._check_stopped)
        _, work = next_pass(state, replace(config, is_cleaner_on=True), _RULES, now_ms, progress=progress)
        if work is None:
            return
        try:
            work.build(None)
            for group in work.run():
                self._write(group, log, [segments[each.base_offset] for each in group.sources])
            self._disks.note_cleaned(topic, number, log, work.end_offset)
        except (StorageError, OSError):
            if not log.is_deleted:  # LogManager.asyncDelete aborts the clean
                raise
        finally:
            work.release()

    def _write(self, group: Group, log: LiveLog, old: list[LiveSegment]) -> None:
        """Write a cleaned segment next to the others under names that a broker's start deletes, then exchange them."""
        base = group.base_offset
        attributes = Attributes.of_new_file(old[-1].path)
        path = f"{log.path}/{segment_file_name(base, FileKind.LOG, FileState.CLEANED)}"
        # Files of an earlier attempt that failed have the same names.
        self._sweep(log.path, base)
        with ExitStack() as undo, self._disk.new_file(path) as file:
            undo.callback(self._sweep, log.path, base)
            for chunk in group.chunks():
                file.write(chunk.data)
            # The time of the last source, as `Cleaner.cleanSegments` sets it.
            file.finish(attributes, group.mtime_ns)
            undo.pop_all()
        indexes = group.indexes
        contents = {
            FileKind.OFFSET_INDEX: bytes(indexes.offset_index),
            FileKind.TIME_INDEX: bytes(indexes.time_index or b""),
        }
        if group.aborted:
            contents[FileKind.TXN_INDEX] = b"".join(
                encode_txn_entry(each.producer_id, each.first_offset, each.last_offset, each.last_stable_offset)
                for each in group.aborted
            )
        for kind, content in contents.items():
            name = segment_file_name(base, kind, FileState.CLEANED)
            self._disk.write_file(f"{log.path}/{name}", (content,), attributes, group.mtime_ns)
        for kind in (*contents, FileKind.LOG):  # the log last: what is .swap is complete then
            source, target = (segment_file_name(base, kind, state) for state in (FileState.CLEANED, FileState.SWAP))
            self._disk.rename(f"{log.path}/{source}", f"{log.path}/{target}")
        new = LiveSegment(
            base,
            f"{log.path}/{segment_file_name(base, FileKind.LOG)}",
            size_bytes=group.size_bytes,
            end_offset=old[-1].end_offset,
            max_timestamp_ms=indexes.max_timestamp_ms,
            mtime_ms=group.mtime_ns // _NS_PER_MS,
        )
        # The log has been deleted or cut meanwhile: the clean is of no use.
        if not log.exchange(new, old):
            self._sweep(log.path, base)

    def _sweep(self, directory: str, base: int) -> None:
        for state in (FileState.CLEANED, FileState.SWAP):
            for kind in (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX):
                path = f"{directory}/{segment_file_name(base, kind, state)}"
                if os.path.lexists(path):
                    self._disk.unlink(path)

    def _logs(self, *, all_partitions: bool = False) -> Iterable[tuple[tuple[str, int], LiveLog]]:
        """Return the partitions, except the metadata log, which has rules of its own."""
        opened = self._disks.opened()
        keys = (
            [(topic.name, number) for topic in self._disks.topics.values() for number in topic.copies]
            if all_partitions
            else list(opened)
        )
        for key in keys:
            self._check_stopped()
            log = opened.get(key) or self._disks.partition(*key)
            if key[0] != METADATA_TOPIC and log is not None and not log.is_deleted:
                yield key, log


def _clean_log(topic: str, number: int, log: LiveLog, checkpoint: int | None) -> CleanLog:
    """Return a log as the cleaner sees it."""
    # Segments and producers have to be of the same moment.
    with log.lock:
        states = log.producers()
        unstable = states.first_unstable_offset
        segments = tuple(
            CleanSegment(
                base_offset=each.base_offset,
                path=each.path,
                size_bytes=each.size_bytes,
                mtime_ns=each.mtime_ms * _NS_PER_MS,
                largest_timestamp_ms=each.max_timestamp_ms if each.max_timestamp_ms >= 0 else each.mtime_ms,
                index_path=_existing(log.path, each.base_offset, FileKind.OFFSET_INDEX),
                txnindex_path=_existing(log.path, each.base_offset, FileKind.TXN_INDEX),
            )
            for each in log.segments
        )
        producers = {
            each.producer_id: LastRecord(
                each.last_offset if each.last_offset >= 0 else None, each.producer_epoch, each.last_sequence
            )
            for each in states.snapshot_entries()
        }
        return CleanLog(
            topic=topic,
            partition=number,
            path=log.path,
            segments=segments,
            log_start_offset=log.log_start_offset,
            high_watermark=log.high_watermark,
            end_offset=log.log_end_offset,
            first_unstable_offset=unstable,
            open_transaction=next(iter(states.open_transactions()), None),
            checkpoint=checkpoint,
            producers=producers,
        )


def _existing(directory: str, base: int, kind: FileKind) -> str | None:
    path = f"{directory}/{segment_file_name(base, kind)}"
    return path if os.path.exists(path) else None
