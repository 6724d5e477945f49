"""Somebody who comes again to a log that grows, rolls, is cut and cleaned: every record once, losses named."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import mkdtemp

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog_core.engine.report import Report
from kafkalog_core.errors import StorageError
from kafkalog_core.kafka.sim.logfiles import Unit, unit_of_partition
from kafkalog_core.ops.dump.file_parts import divide_file, read_file_part
from kafkalog_core.ops.dump.runs import DumpRequest
from kafkalog_core.spark.source.positions import Position, UnreadRecords, end_of, go_on, parts_between
from kafkalog_core.storage.partition import read_partition
from tests.support.build import batch_v2
from tests.support.logs import records

REQUEST = DumpRequest(targets=(), level="records")
SIZE = len(batch_v2(records(0, 1)))


class Reader:
    """Reads a partition as often as it is asked to, and remembers its position alone."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.position: Position | None = None
        self.offsets: list[int] = []
        self.damage: list[str] = []
        self.losses: list[UnreadRecords] = []

    @property
    def unit(self) -> Unit:
        return unit_of_partition(read_partition(str(self.directory)), None)

    def look(self, max_bytes: int | None = None, until: Position | None = None, split_bytes: int = 500) -> int:
        before, start = len(self.offsets), self.position
        end = go_on(self.unit, start, max_bytes=max_bytes, until=until, on_loss=self.losses.append)
        if end is not None and end != start:
            told = len(self.losses)
            pieces = [*parts_between(self.unit, start, end, self.losses.append)]
            del self.losses[told:]  # the same again
            for file_part in pieces:
                for piece in divide_file(file_part, split_bytes):
                    self._read(piece)
        self.position = end
        return len(self.offsets) - before

    def _read(self, piece: object) -> None:
        for chunk in read_file_part(piece, REQUEST, Report()):  # type: ignore[arg-type]
            for row in chunk.rows():
                if row["type"] == "record":
                    self.offsets.append(row["offset"])  # type: ignore[arg-type]
                else:
                    self.damage.append(str(row.get("reason") or row["code"]))


class Log:
    """A broker's part: appends, rolls, deletes."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.directory = directory
        self.bases = [0]
        self.next = 0
        self.half = b""
        self.append(1)

    @property
    def active(self) -> Path:
        return self.path(self.bases[-1])

    def path(self, base: int) -> Path:
        return self.directory / f"{base:020d}.log"

    def append(self, count: int, *, half: bool = False) -> None:
        self.complete()
        data = b""
        for _ in range(count):
            data += batch_v2(records(self.next, 1 + self.next % 3, size=self.next % 7 * 300))
            self.next += 1 + self.next % 3
        cut_at = len(data) - (len(data) // 3 if half else 0)
        self._write(data[:cut_at])
        self.half = data[cut_at:]

    def complete(self) -> None:
        self._write(self.half)
        self.half = b""

    def roll(self) -> None:
        self.complete()
        if self.next > self.bases[-1]:
            self.bases.append(self.next)
            self._write(b"")

    def delete_first(self) -> None:
        if len(self.bases) > 1:
            self.path(self.bases.pop(0)).unlink()

    def _write(self, data: bytes) -> None:
        with self.active.open("ab") as file:
            file.write(data)


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 6)),
        st.tuples(st.just("half"), st.integers(1, 3)),
        st.tuples(st.just("roll"), st.just(0)),
        st.tuples(st.just("delete"), st.just(0)),
        st.tuples(st.just("look"), st.sampled_from([1, 200, 1000, 5000, 10**9])),
    ),
    max_size=25,
)


@settings(max_examples=200)
@given(actions=ACTIONS)
def test_every_record_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory, actions: list[tuple[str, int]]
) -> None:
    log = Log(Path(mkdtemp(dir=tmp_path_factory.getbasetemp())) / "topic-0")
    reader = Reader(log.directory)
    deleted = 0
    for action, number in actions:
        if action in {"append", "half"}:
            log.append(number, half=action == "half")
        elif action == "roll":
            log.roll()
        elif action == "look":
            reader.look(number)
        elif len(log.bases) > 1:
            read_to = reader.position.offset if reader.position else 0
            deleted += max(0, log.bases[1] - max(read_to, log.bases[0]))
            log.delete_first()
    log.complete()
    while reader.look(1500):
        pass
    assert reader.offsets == sorted(set(reader.offsets))
    assert len(reader.offsets) == log.next - deleted
    assert reader.damage == []
    assert bool(reader.losses) == (bool(deleted) and any("deleted" in loss.message for loss in reader.losses))
    assert reader.position == go_on(reader.unit, reader.position, on_loss=reader.losses.append)


def test_a_batch_that_is_not_whole_is_left_for_later(tmp_path: Path) -> None:
    log = Log(tmp_path / "topic-0")
    reader = Reader(log.directory)
    log.append(2, half=True)
    assert reader.look() == 3
    assert (reader.look(), reader.damage, reader.losses) == (0, [], [])
    log.complete()
    assert reader.look() == 1
    data = log.active.read_bytes()
    wrong = batch_v2(records(4, 1))
    log.active.write_bytes(data + wrong[:-1] + bytes([wrong[-1] ^ 1]))  # its last page is not there yet
    assert (reader.look(), reader.damage) == (0, [])
    log.active.write_bytes(data + wrong)
    assert (reader.look(), reader.offsets) == (1, [0, 1, 2, 3, 4])
    log.active.write_bytes(data + wrong + bytes(4096))  # room made beforehand
    assert (reader.look(), reader.damage, reader.losses) == (0, [], [])


def test_damage_in_the_last_segment_is_said_and_waited_at(tmp_path: Path) -> None:
    log = Log(tmp_path / "topic-0")
    reader = Reader(log.directory)
    log._write(b"this is no batch, whatever else it may be" * 3)
    assert reader.look() == 1
    assert [loss.message for loss in reader.losses] == [
        f"byte {SIZE - 5} does not start a batch: nothing after it is read"
    ]
    log.bases.append(10)
    log._write(batch_v2(records(10, 1)))
    assert (reader.look(), reader.damage) == (1, ["unknown-magic"])


def test_what_retention_takes_before_it_is_read_is_a_loss(tmp_path: Path) -> None:
    log = Log(tmp_path / "topic-0")
    reader = Reader(log.directory)
    reader.look()
    log.append(3)
    log.roll()
    log.append(2)
    end = log.bases[-1]
    log.delete_first()
    reader.look()
    assert [loss.message for loss in reader.losses] == [
        f"offsets 1 to {end - 1} were deleted from the log's start before they were read"
    ]
    assert reader.offsets == [0, *range(end, log.next)]


@pytest.mark.parametrize("grown", [0, 3])
def test_a_log_that_was_cut_back(tmp_path: Path, grown: int) -> None:
    log = Log(tmp_path / "topic-0")
    log.append(4)
    reader = Reader(log.directory)
    reader.look()
    told = log.next
    os.truncate(log.active, SIZE - 5)
    log.next = 1
    if grown:
        log.append(1)
        log._write(batch_v2(records(log.next, 30, size=400)))  # longer than before, and other batches
        log.next += 30
    reader.look()
    (loss,) = reader.losses
    assert f"read up to offset {told}, then it was truncated" in loss.message
    assert reader.offsets[told:] == ([*range(3, log.next)] if grown else [])  # from the batch with the next offset on


def test_segments_that_compaction_made_one(tmp_path: Path) -> None:
    log = Log(tmp_path / "topic-0")
    for _ in range(3):
        log.append(2)
        log.roll()
    log.append(1)
    reader = Reader(log.directory)
    reader.look(max_bytes=900)
    at = reader.position.offset if reader.position else 0
    assert 0 < at < log.bases[-1]
    whole = b"".join(log.path(base).read_bytes() for base in log.bases[:-1])
    for base in log.bases[1:-1]:
        log.path(base).unlink()
    log.path(0).write_bytes(whole[SIZE - 5 :])  # a record less
    reader.look()
    assert (reader.offsets, reader.losses) == ([*range(log.next)], [])


def test_the_end_of_a_log_and_a_bound(tmp_path: Path) -> None:
    log = Log(tmp_path / "topic-0")
    log.append(3)
    log.roll()
    log.append(1)
    reader = Reader(log.directory)
    end = end_of(reader.unit, reader.losses.append)
    assert end is not None
    assert end.offset == log.next
    bound = log.next
    log.append(2)
    log.roll()
    log.append(2)
    while reader.look(max_bytes=300, until=end):
        pass
    assert reader.offsets == [*range(bound)]
    empty = tmp_path / "empty-0"
    empty.mkdir()
    assert end_of(unit_of_partition(read_partition(str(empty)), None), reader.losses.append) is None
    assert reader.losses == []


def test_a_file_that_is_cut_between_plan_and_reading(tmp_path: Path) -> None:
    log = Log(tmp_path / "topic-0")
    log.append(3)
    unit = Reader(log.directory).unit
    losses: list[UnreadRecords] = []
    end = go_on(unit, None, on_loss=losses.append)
    assert end is not None
    (file_part,) = parts_between(unit, None, end, losses.append)
    os.truncate(log.active, SIZE - 5)
    codes = [
        row["code"]
        for chunk in read_file_part(file_part, REQUEST, Report())
        for row in chunk.rows()
        if row["type"] == "finding"
    ]
    assert codes == ["file.shrank"]
    log.active.unlink()
    with pytest.raises(StorageError):
        go_on(unit, end, on_loss=losses.append)
