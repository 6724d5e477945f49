"""Which records a read_committed consumer gets: the column `is_committed`, and the view of an export with `committed`.

The outcome of a transaction is in a marker after its records, perhaps in a later segment. So a task that meets
transactional records reads the batch headers of their file, and of the files after it until all of its transactions
have ended. Most logs have none, and then nothing is read twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from kafkalog_core.kafka.sim.committed_findings import committed_findings
from kafkalog_core.kafka.sim.logfiles import Checkpoints, Compaction, files_in_range
from kafkalog_core.kafka.sim.outcomes import LogTransactions
from kafkalog_core.kafka.sim.read_committed import read_committed_view, segments_after

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalog_core.findings import Finding
    from kafkalog_core.kafka.sim.logfiles import Unit
    from kafkalog_core.kafka.sim.read_committed import CommittedView
    from kafkalog_core.ops.dump.file_parts import FilePart
    from kafkalog_core.storage.scan import ScanOptions

__all__ = ["Outcomes", "read_view"]

_Place = tuple[str | None, int | None, str]
_IS_COMMITTED: Final = {"committed": True, "aborted": False, "open": None, "unknown": None}


def read_view(
    unit: Unit, next_offset: int, options: ScanOptions, advance: Callable[[int], None]
) -> tuple[CommittedView, list[Finding]]:
    """Return what a read_committed consumer gets of a partition from an offset on, and findings on where it waits."""
    files = files_in_range(unit.files, (next_offset, None))
    checkpoints = Checkpoints()
    view = read_committed_view(
        files,
        options,
        None,
        checkpoints.bounds(unit).local_start,
        compaction=Compaction(unit, checkpoints, options),
    )
    advance(0)
    return view, committed_findings(view, unit)


class Outcomes:
    """The outcomes of the transactions in some log files; those of a file are read when one of its records needs them.

    Args:
        options: how the files are scanned.
    """

    def __init__(self, options: ScanOptions) -> None:
        self._options = options
        self._file_parts: dict[_Place, FilePart] = {}
        self._committed: set[_Place] = set()
        self._logs: dict[_Place, LogTransactions] = {}

    def expect(self, file_part: FilePart, *, all_committed: bool) -> None:
        """Take a part of a file whose records come next.

        all_committed: true: uncommitted records were already left out.
        """
        place = (file_part.topic, file_part.partition, file_part.file.place.segment)
        self._file_parts[place] = file_part
        if all_committed:
            self._committed.add(place)

    def column(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the column `is_committed` for records of one file.

        It is null for control records, which no consumer gets, and for transactions whose outcome is not known: they
        were open, or their markers cannot be read.
        """
        unknown = pa.scalar(None, pa.bool_())
        is_data = pc.is_null(batch.column("control_type"))
        plain = pc.if_else(is_data, pa.scalar(value=True), unknown)
        place = tuple(batch.column(name)[0].as_py() for name in ("topic", "partition", "segment"))
        if place in self._committed or not pc.any(batch.column("is_transactional")).as_py():
            return plain
        transactions = self._transactions(place)
        # A batch has one outcome
        runs = pc.run_end_encode(batch.column("position"), run_end_type=pa.int32())
        outcomes, first = [], 0
        for end in runs.run_ends.to_pylist():
            outcomes.append(_is_committed(transactions, batch, first))
            first = end
        # One outcome for each run of equal positions, expanded by pyarrow: a Python loop over rows would dominate the
        # task.
        decided = pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(runs.run_ends, pa.array(outcomes, pa.bool_())))
        return pc.if_else(is_data, decided, unknown)

    def _transactions(self, place: _Place) -> LogTransactions:
        if place not in self._logs:
            file_part = self._file_parts[place]
            following, is_whole = segments_after(file_part.file)
            # The records of a file come together
            self._logs.clear()
            view = read_committed_view(
                [file_part.file],
                self._options,
                None,
                compaction=Compaction(file_part.unit, Checkpoints(), self._options),
                following=following,
                is_whole=is_whole,
            )
            self._logs[place] = LogTransactions(view)
        return self._logs[place]


def _is_committed(transactions: LogTransactions, batch: pa.RecordBatch, row: int) -> bool | None:
    """Return whether the record of a row, and so its batch, is committed; None: unknown."""
    if not batch.column("is_transactional")[row].as_py():
        return True
    producer_id, offset = (batch.column(name)[row].as_py() for name in ("producer_id", "offset"))
    # The outcome follows from the next marker of the producer id.
    return _IS_COMMITTED[transactions.outcome_of(producer_id, offset)]
