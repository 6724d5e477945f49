"""A log and the indexes that brokers of each release write next to it, from the description of what they do alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from tests.support.build import Record, batch_v2, offset_index, time_index

if TYPE_CHECKING:
    from pathlib import Path

INTERVALS = (0, 60, 200, 500)
CONVENTIONS = ("first of set", "last of set", "last of batch")


@dataclass(frozen=True, slots=True)
class Batch:
    """What an index can know of a batch."""

    position: int
    size_bytes: int
    base: int
    last: int
    timestamp_ms: int


@dataclass(slots=True)
class Model:
    """A segment in the making: append sets of batches, then close it."""

    base: int
    interval: int
    convention: str
    data: bytearray = field(default_factory=bytearray)
    batches: list[Batch] = field(default_factory=list)
    offsets: list[tuple[int, int]] = field(default_factory=list)
    times: list[tuple[int, int]] = field(default_factory=list)
    since: int = 0
    top: tuple[int, int] = (-1, 0)

    def append(self, timestamps: list[list[int]]) -> None:
        """One call of append: a batch for each list, a record for each timestamp."""
        start, first = len(self.data), len(self.batches)
        for times in timestamps:
            base = self.batches[-1].last + 1 if self.batches else self.base
            records = [Record(offset=base + i, timestamp_ms=time, value=b"v" * 9) for i, time in enumerate(times)]
            data = batch_v2(records)
            self.batches.append(Batch(len(self.data), len(data), base, base + len(times) - 1, max(times)))
            self.data += data
            if self.convention == "last of batch":
                self._index(self.batches[-1:], self.batches[-1].last)
        if self.convention != "last of batch":
            added = self.batches[first:]
            self._index(added, added[-1].last if self.convention == "last of set" else added[0].base)
        assert start < len(self.data)

    def _index(self, added: list[Batch], offset: int) -> None:
        for batch in added:
            if batch.timestamp_ms > self.top[0]:
                self.top = (batch.timestamp_ms, batch.last)
        if self.since > self.interval:
            self.offsets.append((offset - self.base, added[0].position))
            self.note_time()
            self.since = 0
        self.since += sum(batch.size_bytes for batch in added)

    def note_time(self) -> None:
        """The largest timestamp goes to the time index where it is larger than its last one."""
        timestamp, offset = self.top
        if timestamp > (self.times[-1][0] if self.times else -1):
            self.times.append((timestamp, offset - self.base))

    def write(self, directory: Path, *, is_last: bool) -> Path:
        """The files; a segment that is not the last one has an empty one behind it."""
        directory.mkdir(parents=True, exist_ok=True)
        for path in directory.iterdir():
            path.unlink()
        stem = directory / f"{self.base:020d}"
        stem.with_suffix(".log").write_bytes(self.data)
        stem.with_suffix(".index").write_bytes(offset_index(self.offsets))
        stem.with_suffix(".timeindex").write_bytes(time_index(self.times))
        if not is_last:
            (directory / f"{self.batches[-1].last + 1:020d}.log").touch()
        return directory

    def allows_offset(self, slot: int) -> bool:
        """Whether the offset entries are true, of which the one at `slot` was changed."""
        return all(self._is_true_offset(i) for i in range(max(0, slot - 1), min(len(self.offsets), slot + 2)))

    def _is_true_offset(self, slot: int) -> bool:
        """At a batch but the first, behind the entry before; an offset from that batch on, before the next entry's.

        A batch here is whole, so the offset is the first or the last of a batch, or the first of the one it is at.
        """
        relative, position = self.offsets[slot]
        offset = self.base + relative
        at = next((batch for batch in self.batches[1:] if batch.position == position), None)
        if at is None or offset < at.base or (slot and position <= self.offsets[slot - 1][1]):
            return False
        bound = self.offsets[slot + 1][1] if slot + 1 < len(self.offsets) else len(self.data)
        edges = {
            edge for batch in self.batches if position <= batch.position < bound for edge in (batch.base, batch.last)
        }
        return offset in edges

    def allows_time(self, slot: int) -> bool:
        """Whether the time entries are true, of which the one at `slot` was changed."""
        near = range(max(0, slot - 1), min(len(self.times), slot + 2))
        return all(self._is_true_time(i) for i in near) and self.times[-1][0] == self.top[0]

    def _is_true_time(self, slot: int) -> bool:
        timestamp, relative = self.times[slot]
        holder = next((b for b in self.batches if b.base <= self.base + relative <= b.last), None)
        if holder is None or holder.timestamp_ms != timestamp:
            return False
        if any(b.timestamp_ms > timestamp for b in self.batches if b.last <= self.base + relative):
            return False
        before = self.times[slot - 1] if slot else (-1, 0)
        return before[0] < timestamp and before[1] <= relative


@st.composite
def models(draw: st.DrawFn, *, min_sets: int = 1) -> Model:
    """A closed segment of some release."""
    base = draw(st.sampled_from([0, 7, 10**12]))
    model = Model(base, draw(st.sampled_from(INTERVALS)), draw(st.sampled_from(CONVENTIONS)))
    timestamps = st.lists(st.integers(1, 60), min_size=1, max_size=3)
    for number in range(draw(st.integers(min_sets, min_sets + 8))):
        model.append(draw(st.lists(timestamps, min_size=1, max_size=4)))
        if number and draw(st.integers(0, 9)) == 0:  # a clean stop and a start
            model.note_time()
            model.since, model.top = 0, model.top if model.times else (-1, 0)
    model.note_time()
    return model
