"""One partition: where its log is cut, what is lost, or why it is left unchanged. The work of one process."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkalog_core.findings import found
from kafkalog_core.format.names import FileKind
from kafkalog_core.kafka.logdir.bounds import log_bounds
from kafkalog_core.kafka.rules import rules_of
from kafkalog_core.ops.repair.context import waiting_replacement
from kafkalog_core.ops.repair.loss import measure_loss
from kafkalog_core.ops.truncate.as_broker import cut_as_broker
from kafkalog_core.ops.truncate.cut import HiddenOffset, cut_at_damage, cut_at_offset
from kafkalog_core.ops.truncate.staging import companion_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.repair.context import PartitionFacts
    from kafkalog_core.ops.repair.loss import Loss
    from kafkalog_core.ops.truncate.as_broker import SwapCompletion
    from kafkalog_core.ops.truncate.cut import Cut
    from kafkalog_core.ops.truncate.staging import CompanionFiles
    from kafkalog_core.storage.partition import Partition

__all__ = ["CutRequest", "PartitionCut", "search"]


@dataclass(frozen=True, slots=True)
class CutRequest:
    """Where to cut: at the batch that holds an offset; else where a broker would, or at the first damage."""

    to_offset: int | None = None
    as_broker: bool = False


@dataclass(slots=True)
class PartitionCut:
    """What was found of one partition; `cut` None: it is left as it is. With a cut there is what has to follow it."""

    partition: Partition
    cut: Cut | None = None
    completion: SwapCompletion | None = None
    companions: CompanionFiles | None = None
    findings: list[Finding] = field(default_factory=list)
    refusals: list[Finding] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)

    @property
    def changes(self) -> bool:
        """Whether something is done here."""
        return self.cut is not None or self.completion is not None

    def add(self, code: str, path: str, **details: object) -> None:
        """Something that was seen."""
        self.findings.append(self._finding(code, path, details))

    def refuse(self, code: str, path: str, **details: object) -> None:
        """Return why nothing is done here."""
        self.refusals.append(self._finding(code, path, details))

    def _finding(self, code: str, path: str, details: dict[str, object]) -> Finding:
        topic, number = self.partition.topic, self.partition.partition
        return found(code, path, topic=topic, partition=number, **details)  # type: ignore[arg-type]


def search(
    partition: Partition, request: CutRequest, facts: PartitionFacts, advance: Callable[[int], None]
) -> PartitionCut:
    """Find the cut of one partition.

    Args:
        partition: has segments.
        request: where to cut.
        facts: what its log directory says of it, the release and the settings.
        advance: called with the bytes that are read.
    """
    told = 0

    def tell(size_bytes: int) -> None:
        nonlocal told
        told += size_bytes
        advance(size_bytes)

    answer = PartitionCut(partition)
    cut, companions = _cut(answer, request, facts, tell)
    if cut is not None and not cut.is_empty and (request.as_broker or not _is_blocked(answer)):
        answer.cut, answer.companions = cut, companions or companion_files(cut, facts)
        _tell(answer, cut, answer.companions, facts)
    advance(sum(segment.size_bytes for segment in partition.segments) - told)
    return answer


def _cut(
    answer: PartitionCut, request: CutRequest, facts: PartitionFacts, advance: Callable[[int], None]
) -> tuple[Cut | None, CompanionFiles | None]:
    if request.as_broker:
        result = cut_as_broker(answer.partition, facts, advance)
        answer.refusals += [result.refusal] if result.refusal is not None else []
        if result.completion is not None:
            _complete(answer, result.completion, facts, cuts_more=result.cuts_more)
        return result.cut, result.companions
    if request.to_offset is None:
        return cut_at_damage(answer.partition, advance), None
    return _at_offset(answer, request.to_offset, facts, advance), None


def _complete(answer: PartitionCut, completion: SwapCompletion, facts: PartitionFacts, *, cuts_more: bool) -> None:
    """Replacements that wait are put in place, as a start does it."""
    answer.completion = completion
    path = answer.partition.path
    names = ", ".join(os.path.basename(file.path) for file in completion.moved if file.name.kind is FileKind.LOG)
    replaced = [file.name.raw for file, _ in completion.replaced if file.name.kind is FileKind.LOG]
    answer.add(
        "truncate.completes",
        path,
        names=names or os.path.basename(completion.moved[0].path),
        replaced=", ".join(replaced) or "no log",
    )
    for span in completion.lost:
        loss = measure_loss(answer.partition, [span], facts.high_watermark)
        answer.losses += [loss] if loss is not None else []
    if cuts_more:
        answer.add("truncate.cuts-more", path)


def _at_offset(answer: PartitionCut, offset: int, facts: PartitionFacts, advance: Callable[[int], None]) -> Cut | None:
    partition = answer.partition
    first_base = partition.segments[0].base_offset
    start = log_bounds(first_base, facts.context, rules_of(facts.release)).local_start
    if offset < start:
        answer.refuse("truncate.outside", partition.path, offset=start, wanted=offset, start=start)
        return None
    cut = cut_at_offset(partition, offset, advance)
    if isinstance(cut, HiddenOffset):
        answer.refuse("truncate.hidden", cut.path, position=cut.position, damage=cut.reason, wanted=offset)
        return None
    if cut.is_empty and offset > cut.end_offset:
        answer.refuse("truncate.beyond-end", partition.path, offset=cut.end_offset, wanted=offset, end=cut.end_offset)
        return None
    if cut.inside is not None:
        first, last = cut.inside
        answer.add("truncate.whole-batch", partition.path, wanted=offset, first=first, last=last)
    return cut


def _is_blocked(answer: PartitionCut) -> bool:
    """Return whether a finished replacement waits, which would bring back what is cut."""
    waiting = waiting_replacement(answer.partition)
    if waiting is not None:
        answer.refuse("truncate.replacement", waiting.path, name=os.path.basename(waiting.path))
    return waiting is not None


def _tell(answer: PartitionCut, cut: Cut, companions: CompanionFiles, facts: PartitionFacts) -> None:
    path = answer.partition.path
    answer.add("truncate.cut", path, offset=cut.end_offset, what=_what(cut))
    for spans in _spans(cut):
        loss = measure_loss(answer.partition, spans, facts.high_watermark)
        answer.losses += [loss] if loss is not None else []
    if companions.obstacle is not None:
        log_path, obstacle = companions.obstacle
        answer.add("truncate.snapshot-not-made", log_path, position=obstacle.position, damage=obstacle.reason)
    if companions.open_transactions:
        first = min(each.first_offset for each in companions.open_transactions)
        answer.add("truncate.open-transactions", path, offset=first, count=len(companions.open_transactions))


def _what(cut: Cut) -> str:
    """Return what is deleted, in words."""
    parts = []
    for each in cut.segments:
        lost = each.segment.size_bytes - each.size_bytes
        name = os.path.basename(each.segment.files[0].path)
        parts.append(f"{lost:,} bytes from byte {each.size_bytes} of {name} on go ({each.why})")
    if cut.removed:
        count, size_bytes = len(cut.removed), sum(segment.size_bytes for segment in cut.removed)
        names = "1 segment is deleted" if count == 1 else f"{count} segments are deleted"
        parts.append(f"{names}, with {size_bytes:,} bytes ({cut.why_removed})")
    return "; ".join(parts)


def _spans(cut: Cut) -> Iterator[list[tuple[str, int]]]:
    """Pieces that go: logs and the byte from which on, those that follow each other together."""
    rest = [(segment.files[0].path, 0) for segment in cut.removed]
    for each in cut.segments[:-1] if rest else cut.segments:
        yield [(each.segment.files[0].path, each.size_bytes)]
    if rest:
        last = [(each.segment.files[0].path, each.size_bytes) for each in cut.segments[-1:]]
        yield [*last, *rest]
