"""A dump in pieces: whatever their size and whatever is broken, together they give what a whole dump does."""

from __future__ import annotations

import errno
import os
import pickle
import tempfile
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog_core.engine.parts import LogPart
from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.errors import AccessError, NotFoundError, SelectionError
from kafkalog_core.filters.expression import Filters
from kafkalog_core.ops.dump import file_parts as file_parts_module
from kafkalog_core.ops.dump.file_parts import FilePart, divide_file, growth_of, plan_file_parts, read_file_part
from kafkalog_core.ops.dump.logreader import LogReader
from kafkalog_core.ops.dump.runs import DumpRequest
from kafkalog_core.progress import NO_PROGRESS
from kafkalog_core.storage import scan as scan_module
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.source import Source
from kafkalog_core.structs import replace
from tests.support.build import GZIP, NONE, Record, batch_v2, message_v07, message_v1, meta_properties, wrapper_v0
from tests.support.logs import Row, dump_rows, offsets_of, records, write_segments

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalog_core.storage.partition import Partition
    from kafkalog_core.storage.scan import ScanPlace


DATA = ("record", "batch", "segment", "damage")
SMALL = batch_v2(records(0, 3))


def rows_of(file_parts: Iterable[FilePart], request: DumpRequest, report: Report | None = None) -> list[Row]:
    """Rows of pieces as tasks give them: pieces and request travel."""
    request, report = travelled(replace(request, targets=())), report or Report()
    return [
        row
        for file_part in file_parts
        for chunk in read_file_part(travelled(file_part), request, report)
        for row in chunk.rows()
    ]


def travelled(thing: Any) -> Any:
    data = pickle.dumps(thing)
    # All that grows with a path is left out: the directory that tests are given is as long as the machine likes.
    assert len(data.replace(os.fsencode(tempfile.gettempdir()), b"")) < 2400
    found = pickle.loads(data)  # noqa: S301 -- made one line above
    assert found == thing
    return found


def in_pieces(*paths: Path, split_bytes: int, **options: Any) -> list[Row]:
    request = DumpRequest(targets=tuple(resolve([str(path) for path in paths])), **options)
    plan = plan_file_parts(request, split_bytes)
    findings = [finding.row() | {"type": "finding"} for finding in plan.findings]
    return findings + rows_of(plan.file_parts, request)


class OneRange:
    """What a reader knows of a file that several read together, if it gets one range of it."""

    def __init__(self, range_bytes: int, place: ScanPlace | None) -> None:
        self.range_bytes = range_bytes
        self.place = place
        self.given: ScanPlace | None = None
        self.has_begun = False
        self._is_over = False

    def begin(self) -> bool:
        self.has_begun = not self._is_over
        return self.has_begun

    def give(self, place: ScanPlace) -> None:
        assert self.given is None
        self.given = place

    def end(self) -> None:
        assert self.given is not None
        self.has_begun, self._is_over = False, True


def in_ranges(file_part: FilePart, request: DumpRequest, range_bytes: int, report: Report) -> list[Row]:
    """Rows of a file, each range read by another reader."""
    rows, place = list[Row](), None
    while True:
        relay = OneRange(range_bytes, place)
        reader = LogReader(request, report, NO_PROGRESS)
        rows += [
            row for chunk in reader.rows(file_part.file, file_part.unit, None, relay=relay) for row in chunk.rows()
        ]
        place = relay.given
        if place is None:
            return rows


def data_rows(rows: Iterable[Row]) -> list[tuple[str, ...]]:
    """What is said of the data, without the findings about its surroundings; of one place in one order."""
    return sorted(tuple(f"{name}={row[name]!r}" for name in sorted(row)) for row in rows if row["type"] in DATA)


def log_of(kinds: list[int]) -> list[bytes]:
    """Entries of small and large sizes, one behind another, and of all formats that share a file."""
    entries, offset = [], 0
    for kind in kinds:
        some = records(offset, 1 + kind % 3, size=(3, 40, 1500, 9000)[kind % 4])
        if kind % 5 == 3:
            entries.append(b"".join(message_v1(record) for record in some))
        elif kind % 5 == 4:
            entries.append(wrapper_v0(some, codec=GZIP))
        else:
            entries.append(batch_v2(some, codec=GZIP if kind % 7 == 6 else NONE))
        offset += len(some)
    return entries


EDITS = st.tuples(
    st.sampled_from(["flip", "length", "cut", "insert", "zeros", "repeat"]), st.floats(0, 1), st.integers(0, 255)
)


def broken(data: bytes, edits: list[tuple[str, float, int]], starts: list[int]) -> bytes:
    """The log with some damage of every kind in it."""
    log = bytearray(data)
    for kind, where, value in edits:
        at = int(where * (len(log) - 1)) if log else 0
        start = starts[int(where * (len(starts) - 1))]
        if kind == "flip" and log:
            log[at] ^= value
        elif kind == "length" and start + 12 < len(log):  # a length that leads into or over what comes after
            log[start + 8 : start + 12] = (value * 37).to_bytes(4, "big")
        elif kind == "cut":
            del log[max(at, len(log) // 2) :]
        elif kind == "insert":
            log[at:at] = bytes([value]) * (value % 40)
        elif kind == "zeros":
            log[at : at + value] = bytes(len(log[at : at + value]))
        elif kind == "repeat":
            log[start:start] = SMALL
    return bytes(log)


@pytest.mark.slow
@settings(max_examples=300)
@given(
    kinds=st.lists(st.integers(0, 200), min_size=1, max_size=25),
    edits=st.lists(EDITS, max_size=4),
    split_bytes=st.sampled_from([1, 61, 200, 700, 3000, 10_000]),
    level=st.sampled_from(["records", "batches"]),
    beyond=st.sampled_from([1, 17, 100, 700, 5000, 32_768]),
)
def test_pieces_of_any_log_are_the_whole(
    tmp_path_factory: pytest.TempPathFactory,
    kinds: list[int],
    edits: list[tuple[str, float, int]],
    split_bytes: int,
    level: str,
    beyond: int,
) -> None:
    entries = log_of(kinds)
    starts = [sum(map(len, entries[:n])) for n in range(len(entries))]
    place = Path(mkdtemp(dir=tmp_path_factory.getbasetemp()))
    log = write_segments(place / "topic-0", {0: broken(b"".join(entries), edits, starts)})
    (path,) = log.glob("*.log")
    split_bytes = max(split_bytes, path.stat().st_size // 200)
    with mock.patch.object(scan_module, "_BEYOND_BYTES", beyond):
        pieces = in_pieces(log, split_bytes=split_bytes, level=level)
    assert data_rows(pieces) == data_rows(dump_rows(log, level=level))
    if pieces:
        assert_ranges_are_the_whole(log, split_bytes, level)


def assert_ranges_are_the_whole(log: Path, range_bytes: int, level: str) -> None:
    """Ranges of a file give the rows of a scan in their order, and the same counts."""
    request = DumpRequest(targets=tuple(resolve([str(log)])), level=level)
    (whole,) = plan_file_parts(request).file_parts
    of_one, of_many = Report(), Report()
    expected = rows_of([whole], request, of_one)
    assert in_ranges(whole, request, range_bytes, of_many) == expected
    assert of_many.summary_row() == of_one.summary_row()


@pytest.mark.parametrize("count", [70, 200])
def test_a_piece_behind_many_wrong_checksums(tmp_path: Path, count: int) -> None:
    """None of the batches before it can be trusted: the scan of the whole file tells."""
    bad = bytearray()
    for number in range(count):
        batch = bytearray(batch_v2(records(3 + number, 1)))
        batch[-1] ^= 1
        bad += batch
    data = SMALL + bad + batch_v2(records(3 + count, 2))
    log = write_segments(tmp_path / "topic-0", {0: bytes(data)})
    rows = in_pieces(log, split_bytes=200, level="records")
    assert offsets_of(rows) == [0, 1, 2, 3 + count, 4 + count]
    assert data_rows(rows) == data_rows(dump_rows(log, level="records"))


def test_a_length_that_leads_over_a_piece_to_a_whole_batch(tmp_path: Path) -> None:
    """A scan that passes it does not see the batches under it; nor does the piece they are in."""
    entries = [batch_v2(records(n, 1, size=50)) for n in range(20)]
    liar = bytearray(entries[4])
    liar[8:12] = (len(liar) - 12 + sum(map(len, entries[5:15]))).to_bytes(4, "big")
    log = write_segments(tmp_path / "topic-0", {0: b"".join([*entries[:4], bytes(liar), *entries[5:]])})
    for split_bytes in (100, 333, 1000):
        rows = in_pieces(log, split_bytes=split_bytes, level="records")
        assert offsets_of(rows) == [*range(4), *range(15, 20)]
        assert data_rows(rows) == data_rows(dump_rows(log, level="records"))


def test_pieces_of_real_logs_are_the_whole(corpus: Path) -> None:
    """Directories that real brokers left."""
    compared = 0
    paths = sorted({path.parent for path in corpus.rglob("0*.log") if 0 < path.stat().st_size < 100_000})
    assert len(paths) > 50
    for path in paths[::10]:
        for level in ("records", "batches", "segments"):
            whole = data_rows(dump_rows(path, level=level, path=True))
            assert data_rows(in_pieces(path, split_bytes=1500, level=level, path=True)) == whole, (path, level)
            compared += len(whole)
    assert compared > 500


@pytest.mark.parametrize("bad", [(0,), (4096,), (28_672,), (8192, 12_288, 16_384), (4096, 16_384, 28_672)])
def test_a_disk_that_cannot_read_some_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: tuple[int, ...]
) -> None:
    log = write_segments(tmp_path / "topic-0", {0: b"".join(batch_v2(records(n, 1, size=12_000)) for n in range(8))})
    original = Source._read_at

    def read_at(source: Source, target: memoryview, at: int) -> int:
        if any(at < position + 4096 and at + len(target) > position for position in bad):
            raise OSError(errno.EIO, "bad sector")
        return original(source, target, at)

    targets = tuple(resolve([str(log)]))
    monkeypatch.setattr(Source, "_read_at", read_at)
    request = DumpRequest(targets=targets, level="records")
    whole = dump_rows(log, level="records")
    assert any(row["type"] == "damage" for row in whole)
    for split_bytes in (2000, 12_100, 50_000):
        assert data_rows(rows_of(plan_file_parts(request, split_bytes).file_parts, request)) == data_rows(whole)


# --- what is planned ------------------------------------------------------------------------------------------------
def test_the_plan_of_a_log_directory(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_bytes(meta_properties({"version": "0", "broker.id": "1"}))
    write_segments(tmp_path / "a-0", {0: SMALL * 10, 30: SMALL})
    write_segments(tmp_path / "b-3", {0: SMALL})
    request = DumpRequest(targets=tuple(resolve([str(tmp_path)])), level="records")
    plan = plan_file_parts(request, 4 * len(SMALL))
    size = 10 * len(SMALL)
    assert [(s.topic, s.partition, s.part.start, s.part.end, s.size_bytes) for s in plan.file_parts] == [
        ("a", 0, 0, size // 3, size // 3),
        ("a", 0, size // 3, 2 * size // 3, 2 * size // 3 - size // 3),
        ("a", 0, 2 * size // 3, None, size - 2 * size // 3),
        ("a", 0, 0, None, len(SMALL)),
        ("b", 3, 0, None, len(SMALL)),
    ]
    assert plan.size_bytes == 12 * len(SMALL)
    assert {file_part.log_dir for file_part in plan.file_parts} == {str(tmp_path)}
    wanted = replace(request, filters=Filters(offsets=(30, None)))
    assert [file_part.file.base_offset for file_part in plan_file_parts(wanted).file_parts] == [30, 0]


def test_what_must_be_read_whole_is_not_cut(tmp_path: Path) -> None:
    old = write_segments(tmp_path / "old-0", {0: message_v07(b"v" * 50) * 20}, suffix="kafka")
    assert len(plan_file_parts(DumpRequest(targets=tuple(resolve([str(old)])), level="records"), 100).file_parts) == 1
    log = write_segments(tmp_path / "topic-0", {0: SMALL * 20})
    targets = tuple(resolve([str(log)]))
    assert len(plan_file_parts(DumpRequest(targets=targets, level="records", resync=True), 100).file_parts) == 1
    assert len(plan_file_parts(DumpRequest(targets=targets, level="segments"), 100).file_parts) == 1
    for refused in ({"committed": "log-end"}, {"limit": 3}, {"newest_first": True}, {"stats": True}, {"files": True}):
        with pytest.raises(SelectionError, match="in parts"):
            plan_file_parts(DumpRequest(targets=targets, level="records", **refused))
    with pytest.raises(SelectionError, match="no log to read"):
        plan_file_parts(DumpRequest(targets=tuple(resolve([str(log / f"{0:020d}.index")])), level="records"))


@pytest.mark.parametrize(
    ("error", "code", "severity"), [(AccessError, "dir.unreadable", "error"), (NotFoundError, "file.vanished", "info")]
)
def test_a_directory_that_cannot_be_listed_is_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[AccessError | NotFoundError], code: str, severity: str
) -> None:
    """One that is gone since the log directory was listed is not damaged: a broker has deleted the topic."""
    write_segments(tmp_path / "a-0", {0: SMALL})
    write_segments(tmp_path / "b-0", {0: SMALL})
    request = DumpRequest(targets=tuple(resolve([str(tmp_path)])), level="records")

    def refuse_one(path: str) -> Partition:
        if path.endswith("b-0"):
            raise error("it cannot be listed", path=path)
        return read_partition(path)

    monkeypatch.setattr(file_parts_module, "read_partition", refuse_one)
    plan = plan_file_parts(request)
    assert [(finding.code, finding.severity) for finding in plan.findings] == [(code, severity)]
    assert [file_part.topic for file_part in plan.file_parts] == ["a"]


# --- a broker at work, and going on where somebody stopped -----------------------------------------------------------
def test_a_file_that_goes_away_or_changes_is_said(tmp_path: Path) -> None:
    batches = [batch_v2(records(3 * n, 3)) for n in range(21)]
    data = b"".join(batches)
    log = write_segments(tmp_path / "topic-0", {0: b"".join(batches[:20])})
    request = DumpRequest(targets=tuple(resolve([str(log)])), level="records")
    first, *_, last = plan_file_parts(request, 200).file_parts
    path = log / f"{0:020d}.log"

    def codes(*file_parts: FilePart) -> list[str]:
        report = Report()
        found = [row["code"] for row in rows_of(file_parts, request, report) if row["type"] == "finding"]
        assert sorted(report.codes) == sorted(set(found))
        return found

    os.utime(path, ns=(1, 1))
    assert codes(first, last) == ["file.modified"]
    path.write_bytes(data)
    assert codes(first, last) == []
    os.truncate(path, len(SMALL))
    assert codes(first, last) == ["file.shrank", "file.shrank"]
    keep = path.open("rb")  # its inode stays taken
    path.unlink()
    path.write_bytes(data)
    assert codes(first, last) == ["file.replaced-since", "file.replaced-since"]
    keep.close()
    path.unlink()
    assert codes(first, last) == ["file.vanished", "file.vanished"]


def test_to_go_on_where_somebody_stopped(tmp_path: Path) -> None:
    data = b"".join(batch_v2(records(n, 1)) for n in range(40))
    log = write_segments(tmp_path / "topic-0", {0: data})
    request = DumpRequest(targets=tuple(resolve([str(log)])), level="records")
    (whole,) = plan_file_parts(request).file_parts
    size = len(data) // 40
    rest = replace(whole, part=LogPart(start=10 * size, end=30 * size, begin=10 * size, next_offset=10))
    assert rest.size_bytes == 20 * size
    assert offsets_of(rows_of(divide_file(rest, 150), request)) == list(range(10, 30))
    (log / f"{0:020d}.log").write_bytes(data[: 10 * size] + bytes(size) + data[11 * size :])
    (damage,) = rows_of([rest], request)
    assert (damage["position"], damage["next_offset"]) == (10 * size, 10)


_PLAIN, _GZIP = (batch_v2(records(5, 50, size=500), codec=codec) for codec in (NONE, GZIP))
_LONG = batch_v2([Record(offset=60, value=os.urandom(2 << 20))], codec=GZIP, base_offset=60)  # more than a window


@pytest.mark.parametrize(
    ("data", "growth"),
    [
        (_PLAIN, 1),
        (batch_v2(records(0, 1), codec=GZIP) + _GZIP, -(-(len(_PLAIN) - 61) // len(_GZIP))),
        (_GZIP + _LONG, -(-(len(_PLAIN) - 61) // len(_GZIP))),
        (_LONG, 1),
        (_GZIP[:90] + b"\xff" * 20 + _GZIP[110:], 1),
        (b"", 1),
    ],
)
def test_how_much_a_log_grows(data: bytes, growth: int, tmp_path: Path) -> None:
    """By its largest batch near the start, if that is whole and can be decompressed."""
    assert len(_PLAIN) > 20 * len(_GZIP)
    request = DumpRequest(targets=tuple(resolve([str(write_segments(tmp_path / "orders-0", {0: data}))])))
    (file_part,) = plan_file_parts(request).file_parts
    assert growth_of(file_part.file) == growth
