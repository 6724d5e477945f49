"""The replay of producer state: what a broker knows of every producer of a partition, batch after batch.

This is the one replay, for committed views, checks, snapshots and indexes alike. It follows `ProducerStateManager` of
4.3.1 with origin REPLICATION, as a broker that loads a log does: nothing is refused, and what is odd is reported.
Without a wall clock nothing expires. The state continues over damage, which `hole` reports to it.

The state is integers in three arrays, which the kernel updates from batch columns: 208 bytes a producer, at most an
eighth more for those to come, and 16 to 36 for the table of ids.
"""

from __future__ import annotations

import sys
from array import array
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Self

from kafkalog_core import kernels
from kafkalog_core.errors import FieldError
from kafkalog_core.format.layout import MAX_INT32
from kafkalog_core.format.snapshot import ProducerEntry
from kafkalog_core.kafka.rules.producer_anomalies import Anomaly, Header, Known, Marker, Recent, Sequences, diagnose
from kafkalog_core.kernels import constants as k
from kafkalog_core.structs import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kafkalog_core.format.columns import BatchColumns

__all__ = [
    "Anomaly",
    "CompletedTxn",
    "Marker",
    "OpenTxn",
    "ProducerStates",
    "Sequences",
    "SnapshotStyle",
    "sequences_of",
]

_NO_MARKERS: Final[Mapping[int, Marker]] = MappingProxyType({})
_MODES: Final[dict[Sequences, int]] = {
    "continuous": k.PLAIN,
    "gaps": k.PLAIN_WITH_GAPS,
    "unchecked": k.PLAIN_UNSEQUENCED,
}
_TXN_MARKERS: Final = frozenset({k.MARKER_ABORT, k.MARKER_COMMIT})
_GROUP_OFFSETS: Final = "__consumer_offsets"
_FIRST_CAPACITY: Final = 64
_NO_BATCH: Final = -2
_STATE_VERSION: Final = 2
_STATE_HEAD: Final = 4  # version, cells a producer, producers, holes
_HEADER_COLUMNS: Final = (
    "position",
    "base_offset",
    "attributes",
    "record_count",
    "producer_id",
    "producer_epoch",
    "base_sequence",
)


SnapshotStyle = Literal["marker-is-batch", "data-time", "marker-time"]
"""What a marker changes in the snapshot entry of its producer, apart from the two epochs and the transaction.

`marker-is-batch`: it counts as the last batch, of one offset (0.11: `ProducerAppendInfo.appendEndTxnMarker`).
`data-time`: nothing; the last timestamp is that of the last batch, none where the marker's epoch is a new one (1.0 to
2.3: `ProducerStateEntry.lastTimestamp`). `marker-time`: the last timestamp is the marker's (2.4 and later).
"""


def sequences_of(topic: str | None, *, is_compacted: bool) -> Sequences:
    """Return what can be expected of the sequence numbers of a topic's logs.

    Group coordinators write transactional commits of offsets with sequence 0 again and again (origin COORDINATOR).
    """
    if topic == _GROUP_OFFSETS:
        return "unchecked"
    return "gaps" if is_compacted else "continuous"


class CompletedTxn(NamedTuple):
    """A transaction that a marker ended; aborted ones are what a `.txnindex` lists, in this order.

    `last_offset` is the marker's. `last_stable_offset`: first offset of the transactions still open then, else the one
    after the marker. A follower that received several batches in one fetch may have written a higher one: the first
    offset of a transaction that began after the marker, in the same fetch. Where `first_offset` is the marker's too,
    the transaction had no data here; releases before 2.8 list it, see `ProducerStates.ends_empty`.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool
    last_stable_offset: int

    @property
    def is_empty(self) -> bool:
        """Whether it had no data in this partition."""
        return self.first_offset == self.last_offset


class OpenTxn(NamedTuple):
    """A transaction that no marker has ended; `is_behind_hole`: the missing part of the log since then may hold one."""

    producer_id: int
    first_offset: int
    timestamp_ms: int
    is_behind_hole: bool


class ProducerStates:
    """The state of all producers of one partition, at the offset up to which its log was replayed.

    Args:
        sequences: what is expected of sequence numbers (`sequences_of`). The state does not depend on it.
    """

    def __init__(self, *, sequences: Sequences = "continuous") -> None:
        self.sequences: Sequences = sequences
        self._mode = _MODES[sequences]
        self._state = array("q", bytes(8 * k.G_SIZE))
        self._producers = array("q")
        self._slots = array("q")
        self._ended = array("q", bytes(8 * k.E_SIZE * _FIRST_CAPACITY))
        self._make_room(_FIRST_CAPACITY)

    @property
    def count(self) -> int:
        """Number of producers."""
        return self._state[k.G_COUNT]

    @property
    def ends_empty(self) -> bool:
        """Whether a marker that finds no open transaction ends one without data, at its own offset."""
        return bool(self._state[k.G_EMPTY])

    @ends_empty.setter
    def ends_empty(self, ends_empty: bool) -> None:
        self._state[k.G_EMPTY] = ends_empty

    # --- replay -------------------------------------------------------------------------------------------------------
    def replay(
        self,
        batches: BatchColumns,
        markers: Mapping[int, Marker] = _NO_MARKERS,
        *,
        holes: Sequence[int] = (),
        first: int = 0,
        last: int | None = None,
    ) -> list[CompletedTxn | Anomaly]:
        """Replay a run of batches in log order; return transactions that ended and anomalies, in log order.

        Args:
            batches: rows of a walk; those of other formats and without a producer are skipped.
            markers: the content of the control batches among them, by row (`producer_anomalies.markers_of`).
            holes: rows in order, before which a part of the log is missing; see `hole`.
            first: row to start with.
            last: row to stop before.
        """
        last = batches.count if last is None else last
        if last - first > len(self._ended) // k.E_SIZE:
            self._ended = array("q", bytes(8 * k.E_SIZE * (last - first)))
        cells = array("q", (last, 0, 0))
        if markers:
            markers = {row: markers[row] for row in sorted(markers) if markers[row].type_id in _TXN_MARKERS}
            cells = array("q", chain.from_iterable((row, *marker) for row, marker in markers.items())) + cells
        gaps = array("q", (*holes, last))
        events: list[CompletedTxn | Anomaly] = []
        row = first
        while True:
            row = self._advance(batches, (cells, gaps), row, last, self._mode, events)
            if row >= last:
                return events
            self._odd(batches, (cells, gaps), row, markers.get(row), events)
            row += 1

    def hole(self) -> None:
        """Note that a part of the log is missing here: it explains gaps, and may have held markers."""
        self._state[k.G_HOLES] += 1

    def _advance(
        self,
        batches: BatchColumns,
        marks: tuple[array[int], array[int]],
        first: int,
        last: int,
        mode: int,
        events: list[CompletedTxn | Anomaly],
    ) -> int:
        """Call the kernel once; return the row that it stopped at."""
        ended = self._ended
        cells, holes = marks
        row = kernels.replay(batches, cells, holes, first, last, mode, self._state, self._producers, self._slots, ended)
        if self._state[k.G_ENDED]:
            end = k.E_SIZE * self._state[k.G_ENDED]
            pids, firsts, lasts, aborted, stable = (ended[field : end : k.E_SIZE] for field in range(k.E_SIZE))
            events += map(CompletedTxn, pids, firsts, lasts, map(bool, aborted), stable)
        return row

    def _odd(
        self,
        batches: BatchColumns,
        marks: tuple[array[int], array[int]],
        row: int,
        marker: Marker | None,
        events: list[CompletedTxn | Anomaly],
    ) -> None:
        """Handle a row at which the kernel stopped: there is no room, or it is an anomaly."""
        if self._state[k.G_COUNT] == self._state[k.G_CAPACITY]:
            self._make_room(_with_room(self._state[k.G_CAPACITY]))
        header = _header(batches, row)
        events += diagnose(header, self.known(header.producer_id), marker, sequences=self.sequences)
        self._advance(batches, marks, row, row + 1, k.ANY, events)

    def known(self, producer_id: int) -> Known | None:
        """Return what is known of a producer; None: nothing."""
        at = self._find(producer_id) if producer_id >= 0 else -1
        if at < 0:
            return None
        cells = self._producers[at : at + k.P_SIZE]
        txn_first_offset = cells[k.P_TXN_FIRST]
        return Known(
            epoch=cells[k.P_EPOCH],
            coordinator_epoch=cells[k.P_COORDINATOR],
            txn_first_offset=None if txn_first_offset < 0 else txn_first_offset,
            recent=tuple(_recent(cells)),
            is_new_epoch=cells[k.P_BATCHES] == 0,
            is_behind_hole=cells[k.P_HOLES] != self._state[k.G_HOLES],
        )

    def last_sequence(self, producer_id: int, epoch: int) -> int:
        """Return the last sequence number of a producer in an epoch; -2: it has no batch in it."""
        at = self._find(producer_id)
        if at < 0:
            return _NO_BATCH
        count, known_epoch = self._producers[at + k.P_BATCHES], self._producers[at + k.P_EPOCH]
        if count <= 0 or known_epoch != epoch:
            return _NO_BATCH
        return self._producers[at + k.P_SEQUENCE + (count - 1) % k.RECENT]

    def _find(self, producer_id: int) -> int:
        return kernels.find_producer(producer_id, self._state, self._producers, self._slots)

    def _make_room(self, capacity: int) -> None:
        """Make room for that many producers, in a table that is at most half full."""
        self._producers.frombytes(bytes(8 * (k.P_SIZE * capacity - len(self._producers))))
        self._state[k.G_CAPACITY] = capacity
        self._state[k.G_MASK] = mask = (1 << (2 * capacity - 1).bit_length()) - 1
        self._slots = array("q", [0]) * (mask + 1)
        kernels.index_producers(self._state, self._producers, self._slots)

    # --- what is known ------------------------------------------------------------------------------------------------
    @property
    def first_unstable_offset(self) -> int | None:
        """First offset of the open transactions; None: none is open."""
        return self._producers[self._producers[k.P_HEAP] + k.P_TXN_FIRST] if self._state[k.G_OPEN] else None

    def open_transactions(self) -> list[OpenTxn]:
        """Return the transactions that no marker has ended, the earliest first."""
        rows, found = self._producers, []
        places = rows[k.P_HEAP : k.P_SIZE * self._state[k.G_OPEN] : k.P_SIZE]
        for first, at in sorted((rows[at + k.P_TXN_FIRST], at) for at in places):
            is_behind_hole = rows[at + k.P_HOLES] != self._state[k.G_HOLES]
            found.append(OpenTxn(rows[at + k.P_PID], first, rows[at + k.P_TIME], is_behind_hole))
        return found

    def entry(self, producer_id: int, style: SnapshotStyle = "marker-time") -> ProducerEntry | None:
        """Return one producer as a snapshot would hold it; None: it is unknown."""
        at = self._find(producer_id)
        return None if at < 0 else _entry(self._producers[at : at + k.P_SIZE], style)

    def snapshot_entries(self, style: SnapshotStyle = "marker-time") -> Iterator[ProducerEntry]:
        """Yield all producers as a snapshot would hold them, in the order in which they were first seen."""
        for at in range(0, k.P_SIZE * self.count, k.P_SIZE):
            yield _entry(self._producers[at : at + k.P_SIZE], style)

    def rows(self) -> array[int]:
        """Return a copy of the cells of all producers, for `keep_batches`."""
        return self._producers[: k.P_SIZE * self.count]

    def keep_batches(self, producer_id: int, before: array[int]) -> None:
        """Give a producer without a batch those that it had before, where its epoch is the same as then.

        Args:
            producer_id: of a producer.
            before: what `rows` returned then.
        """
        at, rows = self._find(producer_id), self._producers
        if 0 <= at < len(before) and not rows[at + k.P_BATCHES] and rows[at + k.P_EPOCH] == before[at + k.P_EPOCH]:
            for cell in (k.P_DATA_TIME, *range(k.P_BATCHES, k.P_MARKER)):
                rows[at + cell] = before[at + cell]

    def recall(self, replayed: ProducerStates) -> None:
        """Take the batches before the last one of each producer from a replay of what ends at the same offset.

        A snapshot has only the last one, and a client may send again any of the five that a broker remembers.

        Args:
            replayed: the state of these last batches; of producers that are unknown, end
                otherwise, or have more batches here, nothing is taken.
        """
        theirs, ours = replayed._producers, self._producers
        for start in range(0, k.P_SIZE * replayed.count, k.P_SIZE):
            at, count = self._find(theirs[start + k.P_PID]), theirs[start + k.P_BATCHES]
            if at < 0 or not 1 <= ours[at + k.P_BATCHES] < count:
                continue
            last, known = (count - 1) % k.RECENT, (ours[at + k.P_BATCHES] - 1) % k.RECENT
            ends = [
                (rows[place + k.P_EPOCH], rows[place + k.P_OFFSET + number], rows[place + k.P_SEQUENCE + number])
                for rows, place, number in ((theirs, start, last), (ours, at, known))
            ]
            if ends[0] == ends[1]:
                cells = slice(k.P_BATCHES, k.P_DATA_TIME)
                ours[at + cells.start : at + cells.stop] = theirs[start + cells.start : start + cells.stop]

    # --- from and to elsewhere ----------------------------------------------------------------------------------------
    @classmethod
    def from_snapshot(cls, entries: Iterable[ProducerEntry], *, sequences: Sequences = "continuous") -> Self:
        """Return the state that a snapshot holds: of each producer only the last batch. Raises FieldError."""
        rows = array("q")
        for entry in entries:
            rows.extend(_cells_of_entry(entry))
        return cls._of_rows(rows, 0, sequences=sequences)

    @property
    def size_bytes(self) -> int:
        """The size of `state_bytes`."""
        return 8 * (_STATE_HEAD + k.P_SIZE * self.count)

    def state_bytes(self) -> memoryview:
        """Return the whole state, for `from_state`; 208 bytes a producer."""
        count = self.count
        cells = array("q", (_STATE_VERSION, k.P_SIZE, count, self._state[k.G_HOLES]))
        cells.frombytes(memoryview(self._producers)[: k.P_SIZE * count].cast("B"))
        for cell in (k.P_PLACE, k.P_HEAP):  # they follow from the rest
            cells[_STATE_HEAD + cell :: k.P_SIZE] = array("q", [0]) * count
        return memoryview(_little_endian(cells)).cast("B")

    @classmethod
    def from_state(cls, data: bytes | memoryview, *, sequences: Sequences = "continuous") -> Self:
        """Return the state that `state_bytes` returned. Raises FieldError for anything else."""
        if len(data) < 8 * _STATE_HEAD or len(data) % 8:
            raise FieldError(f"{len(data)} bytes do not form a producer state")
        head, rows = array("q"), array("q")
        head.frombytes(data[: 8 * _STATE_HEAD])
        rows.frombytes(memoryview(data)[8 * _STATE_HEAD :])
        version, size, count, holes = _little_endian(head)
        if (version, size) != (_STATE_VERSION, k.P_SIZE) or holes < 0 or len(rows) != k.P_SIZE * count:
            raise FieldError("not a producer state of this version")
        return cls._of_rows(_little_endian(rows), holes, sequences=sequences)

    @classmethod
    def _of_rows(cls, rows: array[int], holes: int, *, sequences: Sequences) -> Self:
        if min(rows[k.P_PID :: k.P_SIZE], default=0) < 0:
            raise FieldError("a producer has no id")
        if not {-1, *range(2 * k.RECENT)}.issuperset(rows[k.P_BATCHES :: k.P_SIZE]):
            raise FieldError("a producer with a number of batches that is none")
        states = cls(sequences=sequences)
        count = len(rows) // k.P_SIZE
        states._state[k.G_COUNT], states._state[k.G_HOLES] = count, holes
        states._producers = rows
        states._make_room(_with_room(count))
        if len(states._slots) - states._slots.count(0) != count:  # the table of ids has each of them once
            raise FieldError("a producer is there twice")
        states._link()
        return states

    def _link(self) -> None:
        """Build the heap of open transactions again: a sorted list is one."""
        rows = self._producers
        firsts = rows[k.P_TXN_FIRST : k.P_SIZE * self.count : k.P_SIZE]
        ordered = sorted((number for number, first in enumerate(firsts) if first >= 0), key=firsts.__getitem__)
        for place, number in enumerate(ordered):
            at = k.P_SIZE * number
            rows[at + k.P_PLACE] = place
            rows[k.P_SIZE * place + k.P_HEAP] = at
        self._state[k.G_OPEN] = len(ordered)


def _header(batches: BatchColumns, row: int) -> Header:
    cells = batches.row(row)
    header = Header._make([*map(cells.__getitem__, _HEADER_COLUMNS), -1])
    if header.base_sequence < 0:
        return header
    delta = cells["last_offset"] - header.base_offset
    return header._replace(last_sequence=(header.base_sequence + delta) & MAX_INT32)


def _recent(cells: array[int]) -> Iterator[Recent]:
    """Yield the remembered batches of a producer, the last one first (`ProducerStateEntry.batchMetadata`)."""
    count = cells[k.P_BATCHES]
    for number in range(count - 1, max(-1, count - 1 - k.RECENT), -1):
        at = number % k.RECENT
        delta, last_sequence = cells[k.P_DELTA + at], cells[k.P_SEQUENCE + at]
        yield Recent(cells[k.P_OFFSET + at] - delta, (last_sequence - delta) & MAX_INT32, last_sequence)


def _entry(cells: array[int], style: SnapshotStyle) -> ProducerEntry:
    count = cells[k.P_BATCHES]
    at = (count - 1) % k.RECENT
    entry = ProducerEntry(
        producer_id=cells[k.P_PID],
        producer_epoch=cells[k.P_EPOCH],
        last_sequence=cells[k.P_SEQUENCE + at] if count > 0 else -1,
        last_offset=cells[k.P_OFFSET + at] if count > 0 else -1,
        offset_delta=cells[k.P_DELTA + at] if count > 0 else 0,
        timestamp_ms=cells[k.P_DATA_TIME if style == "data-time" else k.P_TIME],
        coordinator_epoch=cells[k.P_COORDINATOR],
        current_txn_first_offset=cells[k.P_TXN_FIRST],
    )
    if style == "marker-is-batch" and cells[k.P_MARKER] >= 0:
        return replace(entry, last_offset=cells[k.P_MARKER], offset_delta=0)
    return entry


def _cells_of_entry(entry: ProducerEntry) -> array[int]:
    cells = array("q", bytes(8 * k.P_SIZE))
    cells[k.P_PID], cells[k.P_EPOCH] = entry.producer_id, entry.producer_epoch
    cells[k.P_COORDINATOR], cells[k.P_MARKER] = entry.coordinator_epoch, -1
    cells[k.P_TIME] = cells[k.P_DATA_TIME] = entry.timestamp_ms
    cells[k.P_TXN_FIRST] = max(-1, entry.current_txn_first_offset)
    cells[k.P_PLACE] = cells[k.P_BATCHES] = -1
    if entry.has_batch:
        cells[k.P_BATCHES] = 1
        cells[k.P_OFFSET], cells[k.P_DELTA] = entry.last_offset, entry.offset_delta
        cells[k.P_SEQUENCE] = entry.last_sequence
    return cells


def _with_room(count: int) -> int:
    """Return the number of producers to make room for: doubling at each step would take twice the memory."""
    return max(_FIRST_CAPACITY, count + count // 8 + 1)


def _little_endian(cells: array[int]) -> array[int]:
    if sys.byteorder == "big":
        cells.byteswap()
    return cells
