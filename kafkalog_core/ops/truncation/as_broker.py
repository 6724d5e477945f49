"""Cutting a log where a broker would that starts on it: the start is played through, and its cuts are taken."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkalog_core.findings import found
from kafkalog_core.findings.logs import LATER_RELEASE
from kafkalog_core.format.names import FileKind, fixed_file_name
from kafkalog_core.ops.recovery.partition import PartitionLoad
from kafkalog_core.ops.recovery.results import LoadOptions
from kafkalog_core.ops.truncation.aftermath import Aftermath, epochs_after
from kafkalog_core.ops.truncation.completion import completion_of
from kafkalog_core.ops.truncation.cut import Cut, SegmentCut, cut_at_damage
from kafkalog_core.storage.scan import Run, scan
from kafkalog_core.storage.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.recovery.results import LoadedSegment, LoadProblem, LoadResult
    from kafkalog_core.ops.truncation.aftermath import Surroundings
    from kafkalog_core.ops.truncation.completion import Completion
    from kafkalog_core.storage.partition import Partition

__all__ = ["BrokerCut", "cut_as_broker"]

_CODES: Final = {
    "fatal": "truncate.broker-stops",
    "old-release": LATER_RELEASE,
    "split": "truncate.split-first",
    "unknown": "truncate.not-foreseen",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerCut:
    """What a broker cuts: `cut` None: nothing, or it is not known, for the reason `refusal`.

    With a `completion` it first puts replacements in place; `cuts_more`: it goes on and cuts what comes of that.
    """

    cut: Cut | None = None
    completion: Completion | None = None
    cuts_more: bool = False
    aftermath: Aftermath | None = None
    refusal: Finding | None = None


def cut_as_broker(partition: Partition, around: Surroundings, advance: Callable[[int], None]) -> BrokerCut:
    """Where the next start of a broker cuts this log."""
    if partition.format == "v07":
        return _as_v07(partition, around, advance)
    if around.context.is_clean is None:
        return BrokerCut(refusal=_found(partition, "truncate.no-log-dir", partition.path))
    options = LoadOptions(release=around.release, settings=around.settings, snapshots=around.snapshot_options)
    load = PartitionLoad(partition, around.context, options, advance=advance)
    for _ in load.run():
        pass
    result = load.result
    if result.problem is not None:
        return BrokerCut(refusal=_of_problem(partition, result.problem))
    cuts = bool(result.lost_bytes or result.removed)
    completion = completion_of(partition, result, load.snapshots)
    if completion is not None:
        return BrokerCut(completion=completion, cuts_more=cuts)
    if not cuts:
        return BrokerCut(refusal=_end_lost(partition, result) if result.is_end_lost else None)
    cut = _cut(partition, result)
    open_transactions = () if load.producers is None else tuple(load.producers.open_transactions())
    aftermath = Aftermath(
        snapshots=load.snapshots if options.loader.has_producers else None,
        epochs=None if result.epochs is None else epochs_after(cut, around, result.epochs),
        open_transactions=open_transactions,
    )
    return BrokerCut(cut=cut, aftermath=aftermath)


def _cut(partition: Partition, result: LoadResult) -> Cut:
    cuts = tuple(_segment_cut(each) for each in result.segments if each.lost_bytes)
    new = next((each.base_offset for each in result.segments if each.segment is None), None)
    return Cut(
        partition=partition,
        end_offset=result.end_offset,
        segments=tuple(each for each in cuts if each is not None),
        removed=tuple(each.segment for each in result.removed),
        why_removed=result.removed[0].why if result.removed else "",
        new_base=new,
    )


def _segment_cut(loaded: LoadedSegment) -> SegmentCut | None:
    segment = loaded.segment
    if segment is None:
        return None
    recovery = loaded.recovery
    end_offset, why = loaded.base_offset, "its offsets go back where an index entry would stand"
    if recovery is not None and not loaded.is_emptied:
        end_offset, why = recovery.end_offset, recovery.stop_detail or "no whole batch follows"
    return SegmentCut(
        segment=segment,
        size_bytes=loaded.size_bytes,
        end_offset=end_offset,
        why=f"{why}; {loaded.why}",
        recovery=recovery,
    )


def _as_v07(partition: Partition, around: Surroundings, advance: Callable[[int], None]) -> BrokerCut:
    """Kafka 0.7 recovers the last file after an unclean stop: it ends before the first message that is bad.

    Its log directories hold nothing but partitions and the mark, so that they are not known for what they are.
    """
    mark = fixed_file_name(FileKind.CLEAN_SHUTDOWN)
    if around.context.is_clean or os.path.lexists(f"{os.path.dirname(partition.path)}/{mark}"):
        return BrokerCut()
    cut = cut_at_damage(partition, advance, first=len(partition.segments) - 1)
    return BrokerCut(cut=cut)


def _end_lost(partition: Partition, result: LoadResult) -> Finding:
    """After a clean stop nothing is cut; yet the offsets from the base of the last segment on are given out again."""
    segment = partition.segments[-1]
    last, code = segment.base_offset, "truncate.end-misled"
    with Source.open(segment.files[0].path) as source:
        for item in scan(source, base_offset=None):
            if isinstance(item, Run):
                last = item.batches.column("last_offset")[-1]
            elif item.size_bytes:
                code = "truncate.end-lost"
                break
    return _found(partition, code, segment.files[0].path, offset=result.end_offset, last=last)


def _of_problem(partition: Partition, problem: LoadProblem) -> Finding:
    sentence = problem.sentence.removesuffix(".")
    return _found(partition, _CODES[problem.kind], problem.path, position=problem.position, problem=sentence)


def _found(partition: Partition, code: str, path: str, **details: object) -> Finding:
    return found(code, path, topic=partition.topic, partition=partition.partition, **details)  # type: ignore[arg-type]
