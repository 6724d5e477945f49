"""What of a log file is no batch: every `Damage` of the scan as a finding, with the offsets that are lost in it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from kafkalog_core.findings import found
from kafkalog_core.findings.logs import DAMAGE_CODES, ZERO_TAIL
from kafkalog_core.ops.sink import SHOWN
from kafkalog_core.storage.items import BATCHES_TO_JUDGE, batch_too_high, last_places
from kafkalog_core.storage.scan import APPEND_CUT

if TYPE_CHECKING:
    from kafkalog_core.findings import Finding
    from kafkalog_core.format.columns import DamageColumns
    from kafkalog_core.ops.sink import Sink
    from kafkalog_core.ops.verify.check import SegmentTask
    from kafkalog_core.storage.scan import Damage, Run

__all__ = ["FramingCheck"]

FILE_CUT: Final = "a file that was cut, as no append goes on in it"


_TAILS: Final = frozenset({"torn-tail", "zero-filled"})
"""What is judged by whether it is the file's end."""


class FramingCheck:
    """Damaged places wait for the batch behind them, which tells what offsets are lost in them.

    What a broker does about them depends on what is around the segment: `findings.logs.DAMAGE_REASONS` leads back from
    the codes to the reasons, for whoever knows that.
    """

    def __init__(self, task: SegmentTask, sink: Sink) -> None:
        self._task = task
        self._sink = sink
        self._path = "" if task.segment.log is None else task.segment.log.path
        self._waiting: list[Damage] = []
        self._waiting_of: Counter[str] = Counter()
        self._waiting_more = 0
        self._more: Counter[str] = Counter()
        self._last: list[tuple[int, ...]] = [(0, 0, max(task.segment.base_offset, 0) - 1)]

    def run(self, run: Run) -> None:
        """What was damaged before it ends at its first offset."""
        batches = run.batches
        if self._waiting:
            first = batches.column("base_offset")[0]
            if first < 0:  # a compressed message: where it starts only its content knows
                self._put(f", up to those of the compressed message that ends with {batches.column('last_offset')[0]}")
            else:
                self._put(None, first)
        self._last = [*self._last, *last_places(batches)][-BATCHES_TO_JUDGE:]

    def bulk(self, run: Run, damaged: DamageColumns) -> None:
        """Count what nobody looks at any more, and take the whole batches between it."""
        sizes, rows, count = damaged.column("size_bytes").tolist(), damaged.column("row").tolist(), run.batches.count
        orders = sizes.count(0)
        self._more["crc-mismatch"] += len(sizes) - orders
        self._more["offset-order"] += orders
        self._waiting_more += rows.count(0)
        if count:
            self.run(run)
            self._waiting_more = sum(row == count and size > 0 for row, size in zip(rows, sizes, strict=True))

    def damage(self, damage: Damage) -> None:
        """Take one damaged place."""
        if damage.size_bytes:
            self._wait(damage)
            return
        position, detail = damage.position, damage.detail
        wrong = batch_too_high(self._last)
        if wrong is not None:
            position, last = wrong
            detail = f"they end with {last}, but the batch behind it, at byte {damage.position}, has lower ones"
        code = DAMAGE_CODES[damage.reason]
        self._sink.add(code, self._path, position=position, offset=damage.next_offset, detail=detail)

    def finish(self, size_bytes: int) -> None:
        """What is damaged at the end of the file has no batch behind it."""
        del size_bytes
        if self._waiting:
            self._put("")
        for reason, count in self._more.items():
            if count:
                self._sink.count_more(DAMAGE_CODES[reason], self._path, count)

    def _wait(self, damage: Damage) -> None:
        """Keep so many of one reason as are shown, and count the others."""
        if damage.reason not in _TAILS and self._waiting_of[damage.reason] >= SHOWN:
            self._waiting_more += 1
            self._more[damage.reason] += 1
            return
        self._waiting_of[damage.reason] += 1
        self._waiting.append(damage)

    def _put(self, open_end: str | None, behind: int | None = None) -> None:
        """Findings for all that waits; `behind`: offset of the next batch, `open_end`: what is said without."""
        waiting, self._waiting = self._waiting, []
        count, self._waiting_more = len(waiting) + self._waiting_more, 0
        self._waiting_of.clear()
        lost = _lost(waiting[0].next_offset, behind, open_end)
        if lost and count > 1:
            lost += f" (these are {count} damaged places in a row)"
        for damage in waiting:
            self._sink.put(self._finding(damage, lost))

    def _finding(self, damage: Damage, lost: str) -> Finding:
        task = self._task
        code = ZERO_TAIL if damage.is_zeros else DAMAGE_CODES[damage.reason]
        return found(
            code,
            self._path,
            topic=task.topic,
            partition=task.partition,
            position=damage.position,
            size_bytes=damage.size_bytes,
            offset=damage.next_offset,
            severity=None if task.is_last or code != ZERO_TAIL else "error",
            end=damage.position + damage.size_bytes - 1,
            detail=damage.detail if task.is_last else damage.detail.replace(APPEND_CUT, FILE_CUT),
            lost=lost,
        )


def _lost(first: int | None, behind: int | None, open_end: str | None) -> str:
    """What offsets are lost from `first` on, as the end of a sentence."""
    if first is None:
        return ""
    if behind is None:
        return f"; nothing of offset {first} and above can be read here{open_end}"
    if behind <= first:
        return "; no offsets are missing here"
    if behind == first + 1:
        return f"; nothing of offset {first} can be read"
    return f"; nothing of offsets {first} to {behind - 1} can be read"
