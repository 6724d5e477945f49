"""However logs are cut into batches, segments and gaps: what is said of each offset is what a naive look says."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core.ops.copies.compare import Comparison, ReplicaTask, compare
from kafkalog_core.ops.copies.comparison import BatchCursor, Share, lockstep
from kafkalog_core.ops.copies.differences import Differences
from kafkalog_core.ops.copies.verdict import ReplicaDir
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.scan import ScanOptions
from tests.support.build import NONE, ZSTD, Record, batch_v2, empty_batch
from tests.support.logs import write_segments
from tests.support.scratch import MEMORY

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_BYTES = 1 << 20
Log = dict[int, str]


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[tuple[Log, dict[int, bytes]]], int]:
    """Some copies of a log: what each has by offset, its segments; and the end of the longest."""
    end = draw(st.integers(1, 40))
    copies = []
    for _ in range(draw(st.integers(2, 3))):
        changed = draw(st.sets(st.integers(0, end - 1), max_size=3))
        gone = draw(st.sets(st.integers(0, end - 1), max_size=8))
        stop = draw(st.integers(0, end))
        log = {offset: "x" if offset in changed else "" for offset in range(stop) if offset not in gone}
        copies.append((log, _segments(draw, log, stop)))
    return copies, end


def _segments(draw: st.DrawFn, log: Log, stop: int) -> dict[int, bytes]:
    """The log in batches of any size, some of them emptied, some offsets in no batch at all."""
    segments: dict[int, bytes] = {0: b""}
    base = first = 0
    while first < stop:
        last = min(stop - 1, first + draw(st.integers(0, 9)))
        kept = [
            Record(offset=offset, timestamp_ms=offset, value=f"{offset}{log[offset]}".encode())
            for offset in range(first, last + 1)
            if offset in log
        ]
        if first > base and draw(st.integers(0, 4)) == 0:
            base = first
            segments[base] = b""
        if kept:
            codec = draw(st.sampled_from([NONE, ZSTD]))
            segments[base] += batch_v2(kept, base_offset=first, last_offset=last, codec=codec)
        elif draw(st.booleans()):
            segments[base] += empty_batch(first, last)
        first = last + 1
    return segments


def _cursors(root: Path, copies: list[tuple[Log, dict[int, bytes]]]) -> Iterator[BatchCursor]:
    for number, (_, segments) in enumerate(copies):
        partition = read_partition(str(write_segments(root / str(number) / "t-0", segments)))
        yield BatchCursor(partition.segments, 0, ScanOptions(), lambda size_bytes: None)


@given(logs())
def test_every_offset_is_told_as_it_is(drawn: tuple[list[tuple[Log, dict[int, bytes]]], int]) -> None:
    copies, end = drawn
    ledger = Differences(len(copies))
    seen: list[tuple[int, int]] = []
    with TemporaryDirectory(dir=MEMORY) as root:
        cursors = list(_cursors(Path(root), copies))
        for stretch in lockstep(cursors, MAX_BYTES):
            ledger.add(stretch)
            seen.append((stretch.first, stretch.last))
            _check(stretch.first, stretch.last, [log for log, _ in copies], stretch.parts)
        for cursor in cursors:
            cursor.close()
    assert all(last < first for (_, last), (first, _) in pairwise(seen))
    told = {offset for first, last in seen for offset in range(first, last + 1)}
    assert told >= {offset for log, _ in copies for offset in log}
    for (one, other), offset in ledger.diverged.items():
        mine, theirs = copies[one][0], copies[other][0]
        both = [at for at in range(end) if at in mine and at in theirs and mine[at] != theirs[at]]
        assert both
        assert offset <= both[0]
    for one, (mine, _) in enumerate(copies):
        for other, (theirs, _) in enumerate(copies[one + 1 :], one + 1):
            if any(theirs.get(at, word) != word for at, word in mine.items()):
                assert (one, other) in ledger.diverged


def _check(first: int, last: int, all_logs: list[Log], parts: tuple[object, ...]) -> None:
    here = [{offset: log[offset] for offset in range(first, last + 1) if offset in log} for log in all_logs]
    for log, part in zip(here, parts, strict=True):
        assert (part.records if isinstance(part, Share) else 0) == len(log)
    for one, mine in zip(parts, here, strict=True):
        for other, theirs in zip(parts, here, strict=True):
            if isinstance(one, Share) and isinstance(other, Share):
                contradict = any(theirs.get(offset, word) != word for offset, word in mine.items())
                assert not (contradict and one.group == other.group)


@given(logs(), st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5000), st.integers(0, 255)), max_size=4), st.data())
def test_any_bytes_give_a_comparison(
    drawn: tuple[list[tuple[Log, dict[int, bytes]]], int], flips: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    """Bytes that are changed and files that are cut: an answer, whose counts fit together, and never an error."""
    copies = [dict(segments) for _, segments in drawn[0]]
    for number, position, value in flips:
        segments = copies[number % len(copies)]
        base = data.draw(st.sampled_from(sorted(segments)))
        changed = bytearray(segments[base])
        if position < len(changed):
            changed[position] = value
        else:
            del changed[len(changed) // 2 :]
        segments[base] = bytes(changed)
    with TemporaryDirectory(dir=MEMORY) as root:
        places = []
        for number, segments in enumerate(copies):
            places.append(ReplicaDir(path=str(write_segments(Path(root) / str(number) / "t-0", segments))))
        task = ReplicaTask(topic="t", partition=0, places=tuple(places), max_batch_bytes=MAX_BYTES)
        found = compare(task, lambda size_bytes: None)
    assert len(found.copies) == len(copies)
    assert [row["path"] for row in found.copies if row["state"] == "keep"] == [
        path for path in [found.replica["keep"]] if path is not None
    ]
    for row in found.ranges:
        assert row["first_offset"] <= row["last_offset"]  # type: ignore[operator]
    assert json_lines(found)


def json_lines(found: Comparison) -> bytes:
    return b"".join(chunk.ndjson("auto") for chunk in found.chunks())
