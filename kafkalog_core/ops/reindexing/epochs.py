"""The leader-epoch-checkpoint of a partition, old against the leader epochs of the batches."""

from __future__ import annotations

import os
from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

from kafkalog_core.errors import NotFoundError
from kafkalog_core.format.checkpoint import EpochEntry
from kafkalog_core.format.checkpoint_text import encode_epoch_checkpoint
from kafkalog_core.format.names import FileKind, fixed_file_name
from kafkalog_core.ops.logdirs.textfiles import read_epochs
from kafkalog_core.ops.reading.entry_faults import EntryFile
from kafkalog_core.ops.recovery.epochs import EpochCache, EpochStart
from kafkalog_core.ops.reindexing.indexes import is_same, what_is_wrong
from kafkalog_core.ops.reindexing.steps import Step
from kafkalog_core.ops.sink import Sink
from kafkalog_core.ops.verify import verdict
from kafkalog_core.ops.verify.epochs import check_epochs, first_start_offset

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalog_core.ops.logdirs.textfiles import EpochText
    from kafkalog_core.ops.releases.release import Release
    from kafkalog_core.storage.partition import Partition

__all__ = ["EpochExtent", "epochs_step"]


class EpochExtent(NamedTuple):
    """What part of a log its leader epochs are told of.

    Args:
        first_offset: no epoch starts before it.
        log_start: from here on the file must know all.
        end_offset: of the log.
        has_legacy: whether messages of older formats are in it, at which a broker forgets the epochs before.
        is_start_known: whether `log_start` is what the broker had; else the first entry of the file may be higher.
    """

    first_offset: int
    log_start: int
    end_offset: int
    has_legacy: bool
    is_start_known: bool


def epochs_step(
    partition: Partition,
    log_epochs: Sequence[EpochStart],
    extent: EpochExtent,
    release: Release,
    sink: Sink,
    *,
    writes_all: bool,
) -> Step | None:
    """The file, where it is to be written. Raises StorageError.

    What a broker read of it stays and epochs that it does not know are added, as a recovery does; where it contradicts
    the batches, these count.

    Args:
        partition: has a segment.
        log_epochs: leader epochs of the batches, each with its first offset, ascending.
        extent: from where to where epochs are told.
        release: whose rules.
        sink: takes what is wrong with it.
        writes_all: whether it is written anew where it is right and differs.
    """
    path = f"{partition.path}/{fixed_file_name(FileKind.LEADER_EPOCH)}"
    text = _read(path, partition)
    found = Sink()
    if text is not None:
        for finding in text.findings:
            found.put(finding)
        whole = (extent.first_offset, extent.end_offset)
        known_from = extent.log_start if extent.is_start_known else max(extent.log_start, first_start_offset(text) or 0)
        starts = _starts(log_epochs, known_from, has_legacy=extent.has_legacy)
        check_epochs(text, starts, whole, found, is_clean=False, is_compacted=True)
    for finding in found.findings:
        sink.put(finding)
    wrong = what_is_wrong(found.findings, path)
    old = [] if text is None else _entries(text)
    cache = EpochCache(old if wrong is None else _agreeing(old, log_epochs), release)
    for each in log_epochs:
        cache.assign(each)
    cache.cut_start(extent.log_start)
    cache.cut_end(extent.end_offset)
    content = encode_epoch_checkpoint(cache.entries)
    why = wrong
    if text is None:
        why = "it is missing" if log_epochs else None
    elif why is None and writes_all:
        why = "it is not the one that a recovery leaves"
    if why is None or (text is not None and is_same(path, content)):
        return None
    log = partition.segments[-1].log
    text_of_counts = f"{why}; {len(old)} epochs before, {len(cache.entries)} after"
    return Step(kind="write", path=path, why=text_of_counts, content=content, like="" if log is None else log.path)


def _starts(log_epochs: Sequence[EpochStart], known_from: int, *, has_legacy: bool) -> list[verdict.EpochStart]:
    """What the file must know: nothing of what a broker forgot when it went back to an older format."""
    if has_legacy:
        return []
    return [
        verdict.EpochStart(each.epoch, each.start_offset, 0, each.start_offset - 1)
        for each in log_epochs
        if each.start_offset >= known_from
    ]


def _read(path: str, partition: Partition) -> EpochText | None:
    if not os.path.lexists(path):
        return None
    file = EntryFile(path=path, kind=FileKind.LEADER_EPOCH, topic=partition.topic, partition=partition.partition)
    try:
        return read_epochs(file)
    except NotFoundError:
        return None


def _entries(text: EpochText) -> list[EpochStart]:
    return [
        EpochStart(placed.entry.leader_epoch, placed.entry.start_offset)
        for placed in text.entries
        if isinstance(placed.entry, EpochEntry) and min(placed.entry.leader_epoch, placed.entry.start_offset) >= 0
    ]


def _agreeing(old: Sequence[EpochStart], log_epochs: Sequence[EpochStart]) -> list[EpochStart]:
    """The epochs of the log, and those between them that had no batches where they can have stood."""
    epochs = [each.epoch for each in log_epochs]
    agreeing = list(log_epochs)
    for each in old:
        at = bisect_left(epochs, each.epoch)
        if at < len(epochs) and epochs[at] == each.epoch:
            continue
        is_behind = at == 0 or log_epochs[at - 1].start_offset < each.start_offset
        is_before = at == len(epochs) or each.start_offset < log_epochs[at].start_offset
        if is_behind and is_before:
            agreeing.append(each)
    return sorted(agreeing)
