"""The cleaner's filter: which records and batches of a run are retained, and the bytes of the cleaned log.

Source: MemoryRecords.filterTo. The caller decides about transactions and producers and passes one byte of bits for each
batch. Wrappers of magic 0 and 1, which older releases wrote, are rebuilt in `clean_terms`.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkalog_core.format import kernels
from kafkalog_core.format.clean_terms import (
    COPIED_FORMS,
    FLAT,
    Filtered,
    FilterRules,
    Form,
    RecordTally,
    flatten,
    mark_rewritten,
    rewrap,
)
from kafkalog_core.format.columns import BatchColumns, RecordColumns
from kafkalog_core.format.compression import PayloadDamage, compress
from kafkalog_core.format.kernels import constants as n
from kafkalog_core.format.layout import MAGIC_V2, MAX_BATCH_BYTES, RECORD_BATCH_OVERHEAD
from kafkalog_core.format.offset_map import CLEAN_ROWS, DecodedBatches, whole_batches

if TYPE_CHECKING:
    from kafkalog_core.format.clean_terms import HeavyKeys
    from kafkalog_core.format.offset_map import OffsetMap

__all__ = ["RunFilter"]

_TROUBLES: Final = (
    (
        n.TROUBLE_EMPTY,
        "empty-legacy",
        "none of its records is retained, but the batch must be: a message of magic 0 or 1 cannot be emptied",
    ),
    (
        n.TROUBLE_ORDER,
        "record-order",
        "the offsets of its retained records decrease, so the batch cannot be rebuilt",
    ),
    (n.TROUBLE_TIME, "record-time", "a timestamp is negative, so the batch cannot be rebuilt"),
    (n.TROUBLE_PRODUCER, "producer-fields", "a batch with these producer fields cannot be rebuilt"),
)
_FIRST_OUTPUT_BYTES: Final = 1024 * 1024


class RunFilter:
    """A filter of runs of batches, one after another, by the offsets in a map.

    Attributes:
        tally: records of all runs so far, by reason.
    """

    def __init__(
        self,
        offset_map: OffsetMap,
        rules: FilterRules | None = None,
        *,
        now_ms: int,
        delete_retention_ms: int,
        heavy: HeavyKeys | None = None,
    ) -> None:
        self.tally = RecordTally()
        self._heavy = heavy
        self._map = offset_map
        self._rules = rules or FilterRules()
        self._state = array("q", bytes(8 * n.J_SIZE))
        self._state[n.J_RULES] = _rule_bits(self._rules)
        self._state[n.J_NOW], self._state[n.J_HORIZON] = now_ms, _as_java_adds(now_ms, delete_retention_ms)
        self._records = RecordColumns(CLEAN_ROWS)
        self._digests = array("q", bytes(16 * CLEAN_ROWS))
        self._reasons = bytearray(CLEAN_ROWS)
        self._output = memoryview(kernels.uncleared(_FIRST_OUTPUT_BYTES))
        self._columns = BatchColumns(0)
        self._parts: list[tuple[bytes, list[int]]] = []  # of a batch larger than the columns

    def filter(
        self,
        memory: memoryview,
        batches: BatchColumns,
        bits: bytes | None = None,
        *,
        retains_legacy: bool,
        begins: int | None = None,
        position: int = 0,
        max_bytes: int = MAX_BATCH_BYTES,
    ) -> Filtered:
        """Return the retained part of a run of batches.

        Args:
            memory: the buffer that the spans of `batches` refer to.
            batches: rows filled by a walk.
            bits: the `BIT_*` of each batch, one byte each; `None`: no bits.
            retains_legacy: tombstones are retained in batches without a delete horizon.
            begins: file position of the first byte of `memory`; `None`: that of the first batch.
            position: byte position of the output in the cleaned log.
            max_bytes: the largest inflated payload of one batch.
        """
        count = batches.count
        bits = bytes(count) if bits is None else bits
        cells = array("q", bytes(8 * n.K_SIZE * count))
        if self._columns.capacity < count:
            self._columns = BatchColumns(count)
        self._columns.count = 0
        self._state[n.J_RETAINS] = retains_legacy
        run = _Run(memory, batches, bits, cells, max_bytes, array("q", bytes(8 * n.O_SIZE)))
        run.state[n.O_OUTPUT], run.state[n.O_RULES] = position, self._state[n.J_RULES]
        run.state[n.O_BEGINS] = (batches.column("position")[0] if count else 0) if begins is None else begins
        damage = None
        for piece in whole_batches(memory, batches, bits, self._records, max_bytes=max_bytes):
            damage = piece if isinstance(piece, PayloadDamage) else self._filter_piece(run, piece)
            if damage is not None:
                break
        self._parts.clear()
        rows = count if damage is None else damage.batch
        return Filtered(rows, self._output[: run.state[n.O_FILLED]], self._columns, cells, damage)

    def _filter_piece(self, run: _Run, piece: DecodedBatches) -> PayloadDamage | None:
        """Judge the records of a piece and write its batches, unless more records of its only batch follow."""
        offsets = self._map
        last = kernels.judge(
            piece.memory,
            piece.batches,
            run.bits,
            self._records,
            piece.first,
            piece.last,
            piece.is_whole,
            self._state,
            offsets.state,
            offsets.table,
            self._digests,
            self._reasons,
            run.cells,
            self.tally.cells,
        )
        if self._heavy is not None:
            self._heavy.weigh(piece.memory, self._records, self._reasons, self._digests)
        if not piece.is_whole or self._parts:
            inner = self._records.column("offset").tolist() if self._stays_legacy(run, piece.first) else []
            self._parts.append((bytes(self._reasons[: self._records.count]), inner))
        if not piece.is_whole:
            return None
        if not self._rules.converts_legacy and run.batches.column("codec")[piece.first]:
            mark_rewritten(piece, run.cells, self._rules.wrappers)
        if self._parts and run.cell(piece.first, n.K_OUTCOME) == n.OUTCOME_REBUILT and last > piece.first:
            damage = self._write_large(run, piece)
        else:
            damage = self._write(run, piece, last)
        self._parts.clear()
        if damage is None and last < piece.last:
            damage = run.trouble(last)
        return damage

    def _write(self, run: _Run, piece: DecodedBatches, last: int) -> PayloadDamage | None:
        """Write the retained part of the batches of a piece up to row `last` (exclusive)."""
        run.state[n.O_BATCH], run.state[n.O_RECORD] = piece.first, 0
        while True:
            result = kernels.write_batches(
                run.memory,
                piece.memory,
                piece.batches,
                self._records,
                self._reasons,
                run.cells,
                last,
                self._output,
                self._columns,
                run.state,
            )
            if result == n.WRITE_DONE:
                return None
            if result == n.WRITE_ROOM:
                self._grow(run)
            elif result == n.WRITE_PACK:
                self._pack(run)
            else:
                self._rewrap(run, piece)

    def _write_large(self, run: _Run, piece: DecodedBatches) -> PayloadDamage | None:
        """Rebuild a batch that is larger than the columns: its records are decoded a second time, in parts."""
        row = piece.first
        state = run.state
        if self._stays_legacy(run, row):
            state[n.O_BATCH] = row
            self._rewrap(run, piece)
            return None
        state[n.O_BATCH], state[n.O_END] = row, state[n.O_FILLED] + RECORD_BATCH_OVERHEAD
        one = run.batches.part(0, row + 1)
        reasons = b"".join(some for some, _ in self._parts)
        at = 0
        for part in whole_batches(run.memory, one, run.bits, self._records, max_bytes=run.max_bytes, first=row):
            if isinstance(part, PayloadDamage):
                return part
            state[n.O_RECORD] = 0
            write = (part.memory, part.batches, self._records, reasons[at : at + self._records.count], run.cells)
            at += self._records.count
            while kernels.write_records(*write, self._output, state) == n.WRITE_ROOM:
                self._grow(run)
        if run.batches.column("codec")[row]:
            self._pack(run)
        else:
            kernels.finish_batch(run.batches, run.cells, self._output, self._columns, state)
        return None

    def _stays_legacy(self, run: _Run, row: int) -> bool:
        """Return whether a batch of magic 0 or 1 keeps its format, for which offsets are looked up one by one."""
        is_legacy: bool = run.batches.column("format")[row] < MAGIC_V2
        return is_legacy and not self._rules.converts_legacy

    def _pack(self, run: _Run) -> None:
        """Compress the records that follow the room for a header, and finish the batch."""
        state = run.state
        start = state[n.O_FILLED] + RECORD_BATCH_OVERHEAD
        codec = run.batches.column("codec")[state[n.O_BATCH]]
        plain, rules = self._output[start : state[n.O_END]], self._rules
        payload = compress(codec, plain, magic=MAGIC_V2, gzip_system=rules.gzip_system, lz4_java=rules.lz4_java)
        self._put(run, start, payload)
        kernels.finish_batch(run.batches, run.cells, self._output, self._columns, state)

    def _rewrap(self, run: _Run, piece: DecodedBatches) -> None:
        """Rebuild a wrapper of magic 0 or 1 in its own format."""
        row = run.state[n.O_BATCH]
        rows = self._records.column("batch").tolist()
        first = rows.index(row)
        last = first + rows.count(row)
        parts = self._parts or [(bytes(self._reasons[first:last]), self._records.column("offset")[first:last].tolist())]
        retained = [why < n.WHY_SUPERSEDED for reasons, _ in parts for why in reasons]
        offsets = [offset for _, some in parts for offset in some]
        rules = self._rules
        if rules.wrappers == FLAT:
            self._put_flat(run, row, flatten(piece, row, retained, offsets))
            return
        form = Form(rules.wrappers, rules.wrapper_magic, rules.gzip_system, rules.lz4_java)
        entry = rewrap(piece, row, retained, offsets, form)
        self._put(run, run.state[n.O_FILLED], entry)
        kernels.note_batch(run.cells, self._output, self._columns, run.state)

    def _put_flat(self, run: _Run, row: int, entries: list[bytes]) -> None:
        """Write several entries that replace one."""
        columns, start = self._columns, run.state[n.O_FILLED]
        rows = columns.count + len(entries) + run.batches.count - row
        if rows > columns.capacity:
            self._columns = BatchColumns(2 * rows)
            self._columns.count = columns.count
            for name in columns.fields:
                self._columns.column(name)[:] = columns.column(name)
        for entry in entries:
            run.state[n.O_BATCH] = row
            self._put(run, run.state[n.O_FILLED], entry)
            kernels.note_batch(run.cells, self._output, self._columns, run.state)
        run.cells[row * n.K_SIZE + n.K_BYTES] = run.state[n.O_FILLED] - start

    def _put(self, run: _Run, start: int, data: bytes) -> None:
        """Write bytes that end the current batch."""
        end = start + len(data)
        if end > len(self._output):
            run.state[n.O_NEED] = end - run.state[n.O_FILLED]
            self._grow(run)
        self._output[start:end] = data
        run.state[n.O_END] = end

    def _grow(self, run: _Run) -> None:
        """Make room for the current batch: at least double the size of the output."""
        larger = memoryview(kernels.uncleared(max(2 * len(self._output), run.state[n.O_FILLED] + run.state[n.O_NEED])))
        filled = max(run.state[n.O_FILLED], run.state[n.O_END])
        filled = min(filled, len(self._output))
        larger[:filled] = self._output[:filled]
        self._output = larger


@dataclass(frozen=True, slots=True)
class _Run:
    """The current run; `state` are the `O_*` cells."""

    memory: memoryview
    batches: BatchColumns
    bits: bytes
    cells: array[int]
    max_bytes: int
    state: array[int]

    def cell(self, row: int, cell: int) -> int:
        return self.cells[row * n.K_SIZE + cell]

    def trouble(self, row: int) -> PayloadDamage:
        """Return why a batch cannot be rebuilt."""
        trouble = self.cell(row, n.K_TROUBLE)
        reason, detail = next((reason, detail) for bit, reason, detail in _TROUBLES if trouble & bit)
        return PayloadDamage(row, reason, detail, self.cell(row, n.K_KEPT) + self.cell(row, n.K_DROPPED))


def _rule_bits(rules: FilterRules) -> int:
    bits = n.RULE_PAST if rules.keeps_past_latest else 0
    bits |= n.RULE_CONTROL_KEYS if rules.looks_up_control_keys else 0
    bits |= n.RULE_HORIZONS if rules.uses_horizons else 0
    bits |= n.RULE_COPY if rules.wrappers in COPIED_FORMS else 0
    return bits | (n.RULE_CONVERT if rules.converts_legacy else 0)


def _as_java_adds(left: int, right: int) -> int:
    """Return the sum as a signed 64-bit integer, as Java adds: an unlimited retention overflows it."""
    return (left + right + 2**63) % 2**64 - 2**63
