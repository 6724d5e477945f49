"""The headers of batches, at every level: what contradicts itself or the batch before, and the segment's figures."""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkalog_core.findings.logs import DAMAGE_CODES
from kafkalog_core.format import kernels
from kafkalog_core.format.columns import FORMAT_NAMES
from kafkalog_core.format.headers import header_contradictions
from kafkalog_core.format.kernels import constants as k
from kafkalog_core.format.layout import MAX_INT32, MAX_INT64
from kafkalog_core.ops.sink import SHOWN
from kafkalog_core.ops.verify.verdict import EpochStart, OffsetGap

if TYPE_CHECKING:
    from kafkalog_core.format.columns import BatchColumns
    from kafkalog_core.ops.sink import Sink
    from kafkalog_core.ops.verify.check import SegmentTask
    from kafkalog_core.storage.scan import Damage, Run

__all__ = ["BatchCheck", "SegmentFigures"]

DAY_MS: Final = 24 * 60 * 60 * 1000
FUTURE_MS: Final = DAY_MS
"""How far ahead of the check a timestamp may be: brokers allow an hour (4.x) or anything, clocks and zones differ."""
MOST_EPOCHS: Final = 16 * 1024
"""Leader epochs that are kept of one segment: no cluster elects so many leaders while it writes one."""
NOT_KNOWN: Final = -2
"""The last offset before a place that is damaged: what is missing there is no sign of compaction."""

_CODES: Final = {
    k.ODD_EPOCH: "batch.bad-epoch",
    k.ODD_TIMES: "batch.timestamp-order",
    k.ODD_ATTRIBUTES: "batch.unknown-attributes",
    k.ODD_CODEC: "batch.unknown-codec",
    k.ODD_OVERFLOW: "segment.offset-overflow",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFigures:
    """What the headers tell of a segment. Offsets and timestamps are null where there are none.

    Args:
        batches: whole ones.
        records: those that headers count.
        first_offset: null too where only its content tells it: of a compressed message of v07, v0 and v1.
        last_offset: of the last batch; of v07 the address behind it.
        first_timestamp_ms: the largest timestamp of the first batch that has one, as rolling takes it.
        max_timestamp_ms: the largest of all.
        formats: names of those that occur, `v0`, `v1`, `v2` or `v07`.
        epochs: where leader epochs start; where they go back there is a finding and no start. Of very many the first.
        epoch_behind: the last leader epoch, where `epochs` are not all.
        is_thinned: whether a batch holds fewer records than its offsets span, as compaction leaves them.
        gaps: the first places where offsets are in no batch, and nothing is damaged.
        gap_count: all such places.
        uncounted: batches whose headers do not count their records; 0 where they are opened.
    """

    batches: int
    records: int
    first_offset: int | None
    last_offset: int | None
    first_timestamp_ms: int | None
    max_timestamp_ms: int | None
    formats: tuple[str, ...]
    epochs: tuple[EpochStart, ...]
    epoch_behind: int | None
    is_thinned: bool
    gaps: tuple[OffsetGap, ...]
    gap_count: int
    uncounted: int


class BatchCheck:
    """Checks headers run by run and gathers `figures`; `has_producers`: whether the last run has batches of any."""

    def __init__(self, task: SegmentTask, sink: Sink) -> None:
        self._sink = sink
        self._path = "" if task.segment.log is None else task.segment.log.path
        self._now_ms = task.now_ms
        self._epochs: list[EpochStart] = []
        self._gaps: list[OffsetGap] = []
        self._shown: Counter[int] = Counter()
        base_offset = min(task.segment.base_offset, MAX_INT64)
        self._state = state = array("q", bytes(8 * k.BC_SIZE))
        state[k.BC_LARGEST] = MAX_INT64 if task.is_v07 else min(base_offset + MAX_INT32, MAX_INT64)
        state[k.BC_FUTURE_FROM] = min(task.now_ms + FUTURE_MS, MAX_INT64)
        state[k.BC_PREVIOUS] = base_offset - 1
        for cell in (k.BC_EPOCH, k.BC_FIRST, k.BC_LAST, k.BC_FIRST_TIME, k.BC_MAX_TIME):
            state[cell] = -1
        self._last_offset = base_offset - 1
        self._is_opened = task.level == "records"
        self._uncounted = 0
        self.has_producers = False

    def run(self, run: Run) -> None:
        """Check all headers of a run."""
        batches, state = run.batches, self._state
        state[k.BC_PRODUCERS] = 0
        row = kernels.check_batches(batches, 0, state)
        while row < batches.count:
            odd = state[k.BC_ODD]
            if odd & k.ODD_EPOCH_BACK:
                self._epoch_back(batches, row)
            if odd & k.ODD_EPOCH_START:
                self._begin_epoch(batches, row)
            if odd & ~k.ODD_EPOCH_START:
                self._odd(odd, batches.row(row))
            row = kernels.check_batches(batches, row + 1, state)
        self.has_producers = state[k.BC_PRODUCERS] > 0
        counts = batches.column("record_count")
        if not self._is_opened and min(counts, default=0) < 0:
            self._uncounted += sum(count < 0 for count in counts)
        self._last_offset = batches.column("last_offset")[-1]
        for contradiction in header_contradictions(batches):
            position = batches.column("position")[contradiction.batch]
            code = DAMAGE_CODES[contradiction.reason]
            self._sink.add(
                code,
                self._path,
                position=position,
                size_bytes=batches.column("size_bytes")[contradiction.batch],
                offset=batches.column("base_offset")[contradiction.batch],
                detail=contradiction.detail,
            )

    def damage(self, damage: Damage) -> None:
        """What is missing here is no hole that compaction left."""
        del damage
        self._state[k.BC_PREVIOUS] = NOT_KNOWN

    def finish(self, size_bytes: int) -> None:
        """Say what is said once for a file, and count what was too often to be said each time."""
        del size_bytes
        state = self._state
        for bit, code in (*_CODES.items(), (k.ODD_EPOCH_BACK, "batch.epoch-back")):
            more = state[k.BC_MORE + bit.bit_length() - 1]
            if more:
                self._sink.count_more(code, self._path, more)
        if state[k.BC_FUTURE]:
            largest = state[k.BC_MAX_TIME]
            days = (largest - self._now_ms) // DAY_MS
            self._once("batch.future-timestamp", k.BC_FUTURE, k.BC_FUTURE_AT, largest=largest, days=days)
        if state[k.BC_NEGATIVE]:
            self._once("batch.negative-timestamp", k.BC_NEGATIVE, k.BC_NEGATIVE_AT)

    @property
    def figures(self) -> SegmentFigures:
        """What is known so far."""
        state = self._state
        first, last = state[k.BC_FIRST], state[k.BC_LAST]
        return SegmentFigures(
            batches=state[k.BC_BATCHES],
            records=state[k.BC_RECORDS],
            first_offset=first if first >= 0 else None,
            last_offset=last if state[k.BC_BATCHES] else None,
            first_timestamp_ms=_known(state[k.BC_FIRST_TIME]),
            max_timestamp_ms=_known(state[k.BC_MAX_TIME]),
            formats=tuple(name for magic, name in FORMAT_NAMES.items() if state[k.BC_FORMATS] >> magic & 1),
            epochs=tuple(self._epochs),
            epoch_behind=state[k.BC_EPOCH] if state[k.BC_MORE + k.ODD_EPOCH_START.bit_length() - 1] else None,
            is_thinned=state[k.BC_THINNED] > 0,
            gaps=tuple(self._gaps),
            gap_count=len(self._gaps) + state[k.BC_MORE + k.ODD_GAP.bit_length() - 1],
            uncounted=self._uncounted,
        )

    def _once(self, code: str, count: int, position: int, largest: int = 0, days: int = 0) -> None:
        self._sink.add(
            code, self._path, position=self._state[position], count=self._state[count], largest=largest, days=days
        )

    def _begin_epoch(self, batches: BatchColumns, row: int) -> None:
        """One more leader epoch; from the last one that is kept on they are counted alone."""
        self._epochs.append(self._epoch_start(batches, row))
        if len(self._epochs) >= MOST_EPOCHS:
            self._state[k.BC_MUTED] |= k.ODD_EPOCH_START

    def _epoch_start(self, batches: BatchColumns, row: int) -> EpochStart:
        base, last = batches.column("base_offset")[row], batches.column("last_offset")
        return EpochStart(
            epoch=batches.column("leader_epoch")[row],
            offset=last[row] if base < 0 else base,
            position=batches.column("position")[row],
            last_before=last[row - 1] if row else self._last_offset,
        )

    def _epoch_back(self, batches: BatchColumns, row: int) -> None:
        """Leader epochs go back at a row: either it is wrong or those before it are, and what follows tells which."""
        state = self._state
        self._show(k.ODD_EPOCH_BACK)
        epochs, positions = batches.column("leader_epoch"), batches.column("position")
        here = self._epoch_start(batches, row)
        higher = self._epochs[-1] if self._epochs else None
        if row + 1 < batches.count:
            is_here = epochs[row + 1] >= state[k.BC_BEFORE]
        else:
            is_here = higher is None or row == 0 or positions[row - 1] != higher.position
        if higher is None or higher.epoch != state[k.BC_BEFORE] or is_here:
            wrong, where, beside = here, "before", state[k.BC_BEFORE]
            state[k.BC_EPOCH] = state[k.BC_BEFORE]
        else:
            wrong, where, beside = self._epochs.pop(), "behind", here.epoch
        self._sink.add(
            "batch.epoch-back",
            self._path,
            position=wrong.position,
            offset=wrong.offset,
            epoch=wrong.epoch,
            where=where,
            beside=beside,
        )

    def _show(self, bit: int) -> None:
        """One more finding for a bit: the last one that is shown mutes it."""
        self._shown[bit] += 1
        if self._shown[bit] == SHOWN:
            self._state[k.BC_MUTED] |= bit

    def _odd(self, odd: int, batch: dict[str, int]) -> None:
        """One batch with what is odd of it, and an epoch that starts with it."""
        offset = batch["last_offset"] if batch["base_offset"] < 0 else batch["base_offset"]
        if odd & k.ODD_GAP:
            self._gaps.append(OffsetGap(batch["position"], self._state[k.BC_EXPECTED], batch["base_offset"] - 1))
            if len(self._gaps) == SHOWN:
                self._state[k.BC_MUTED] |= k.ODD_GAP
        for bit, code in _CODES.items():
            if not odd & bit:
                continue
            self._show(bit)
            self._sink.add(
                code,
                self._path,
                position=batch["position"],
                size_bytes=batch["size_bytes"],
                offset=batch["last_offset"] if bit == k.ODD_OVERFLOW else offset,
                epoch=batch["leader_epoch"],
                first=batch["base_timestamp_ms"],
                largest=batch["max_timestamp_ms"],
                attributes=batch["attributes"] & 0xFFFF,
                codec=batch["codec"],
                magic=batch["format"],
            )


def _known(timestamp_ms: int) -> int | None:
    return timestamp_ms if timestamp_ms >= 0 else None
