"""Every byte flipped, every length cut: what leaves no trace is what `format.layout` lists, no more and no less.

The segments are in a partition directory with all their companion files, and are looked at as `dump --records` does.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.format import layout
from kafkalog_core.ops.dump.dump import dump
from kafkalog_core.ops.dump.runs import DumpRequest
from kafkalog_core.storage.scan import Damage
from kafkalog_core.storage.source import Source
from tests.storage.scans import scan_source
from tests.storage.segments import SEGMENTS, Segment, write_partition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from kafkalog_core.format.layout import Layout, UnprotectedField

FLIP = (0xFF,)
BITS = tuple(1 << bit for bit in range(8))
BIT_BY_BIT = ("v07", "v07-wrappers", "v0", "v1", "v0-gzip", "v1-lz4", "v2-none", "v2-transactions", "v2-compacted")
LAYOUTS = {"v0": layout.MESSAGE_V0, "v1": layout.MESSAGE_V1, "v2": layout.BATCH_V2}
LENGTH_FIELDS = {"v0": "size", "v1": "size", "v2": "batchLength"}
Change = tuple[int, int]
"""A byte of the file, and what it is XORed with."""


class Disk:
    """A partition directory whose log file is written again and looked at, again and again."""

    def __init__(self, directory: Path, segment: Segment) -> None:
        self._log = write_partition(directory, segment)
        self._descriptor = os.open(self._log, os.O_WRONLY)
        self._segment = segment
        self.lost_bytes = 0
        self._request = DumpRequest(targets=tuple(resolve([str(directory)])), level="records")

    def close(self) -> None:
        os.close(self._descriptor)

    def findings(self, data: bytes) -> set[str]:
        """Codes and reasons of all that a dump of the records finds; what it reads adds up to the file's size.

        `lost_bytes` is then the number of bytes that are in no batch.
        """
        os.pwrite(self._descriptor, data, 0)  # opening it again with truncation takes most of the time
        os.ftruncate(self._descriptor, len(data))
        report = Report()
        for chunk in dump(self._request, report):
            chunk.ndjson("auto")
        assert report.bytes == len(data)
        assert (report.exit_status == 4) == bool(report.codes)
        with Source.open(self._log) as source:
            items = scan_source(source, base_offset=self._segment.base_offset, is_v07=self._segment.format == "v07")
        self.lost_bytes = sum(item.size_bytes for item in items if isinstance(item, Damage))
        return set(report.codes)


@pytest.fixture
def segment(request: pytest.FixtureRequest) -> Segment:
    return SEGMENTS[request.param]


@pytest.fixture
def disk(segment: Segment, tmp_path: Path) -> Iterator[Disk]:
    opened = Disk(tmp_path / "topic-0", segment)
    yield opened
    opened.close()


# --- what the list says -----------------------------------------------------------------------------------------------
def layout_of(segment: Segment, entry: bytes) -> Layout:
    if segment.format != "v07":
        return LAYOUTS[segment.format]
    return layout.MESSAGE_V07_1 if entry[layout.MESSAGE_V07_1.at("magic")] else layout.MESSAGE_V07_0


def rule_for(segment: Segment, entry: bytes, at: int) -> UnprotectedField | None:
    """The item of the list that is about byte `at` of an entry."""
    its_layout = layout_of(segment, entry)
    for rule in layout.UNPROTECTED_FIELDS:
        if rule.layout is its_layout:
            start = its_layout.at(rule.field)
            ends = [place for place in its_layout.offsets.values() if place > start]
            if start <= at < min(ends, default=its_layout.size):
                return rule
    return None


def is_in_order(segment: Segment, entries: Iterable[bytes]) -> bool:
    previous = segment.base_offset - 1
    for entry in entries:
        first = last = int.from_bytes(entry[:8], "big", signed=True)
        if segment.format == "v2":
            delta = layout.V2_LAST_OFFSET_DELTA
            last += int.from_bytes(entry[delta : delta + 4], "big")
        if first <= previous:
            return False
        previous = last
    return True


def place_of(segment: Segment, position: int) -> tuple[int, int]:
    """The entry that a byte of the file is in, and the byte's place there."""
    index = max(number for number, start in enumerate(segment.starts[:-1]) if start <= position)
    return index, position - segment.starts[index]


def most_lost_bytes(segment: Segment, change: Change) -> int:
    """No more than the entry that was changed, unless it was its length: then the rest of the file may be lost."""
    index, at = place_of(segment, change[0])
    entry = segment.entries[index]
    its_layout = layout_of(segment, entry)
    length_at = its_layout.at("length" if segment.format == "v07" else LENGTH_FIELDS[segment.format])
    if length_at <= at < length_at + 4:
        return len(segment.data) - segment.starts[index]
    return len(entry)


def leaves_no_trace(segment: Segment, change: Change) -> bool:
    position, mask = change
    index, at = place_of(segment, position)
    old = segment.entries[index]
    rule = rule_for(segment, old, at)
    if rule is None:
        return False
    new = old[:at] + bytes([old[at] ^ mask]) + old[at + 1 :]
    if rule.values == "in order":
        return is_in_order(segment, [*segment.entries[:index], new, *segment.entries[index + 1 :]])
    if rule.values == "same codec or none":
        codec = layout.V07_CODEC_MASK
        return new[at] & codec in {0, old[at] & codec}
    return True


# --- what is found ----------------------------------------------------------------------------------------------------
def flipped(data: bytes, change: Change) -> bytes:
    position, mask = change
    return data[:position] + bytes([data[position] ^ mask]) + data[position + 1 :]


def check(segment: Segment, disk: Disk, changes: list[Change]) -> None:
    silent = set()
    for change in changes:
        if not disk.findings(flipped(segment.data, change)):
            silent.add(change)
        assert disk.lost_bytes <= most_lost_bytes(segment, change), change
    assert silent == {change for change in changes if leaves_no_trace(segment, change)}


@pytest.mark.parametrize("segment", SEGMENTS, indirect=True)
def test_the_segments_are_sound(segment: Segment, disk: Disk) -> None:
    assert disk.findings(segment.data) == set()
    assert is_in_order(segment, segment.entries) or segment.format == "v07"


@pytest.mark.slow
@pytest.mark.parametrize("segment", SEGMENTS, indirect=True)
def test_every_byte_flipped(segment: Segment, disk: Disk) -> None:
    check(segment, disk, [(position, mask) for position in range(len(segment.data)) for mask in FLIP])


@pytest.mark.slow
@pytest.mark.parametrize("segment", BIT_BY_BIT, indirect=True)
def test_every_bit_outside_of_the_checksum_flipped(segment: Segment, disk: Disk) -> None:
    changes = []
    for start, entry in zip(segment.starts, segment.entries, strict=False):
        its_layout = layout_of(segment, entry)
        ends_at = its_layout.at("crc") + 4 if segment.format != "v07" else its_layout.size
        changes += [(start + at, mask) for at in range(ends_at) for mask in BITS]
    check(segment, disk, changes)


@pytest.mark.slow
@pytest.mark.parametrize("segment", SEGMENTS, indirect=True)
def test_every_length_cut(segment: Segment, disk: Disk) -> None:
    silent = set()
    for size in range(len(segment.data)):
        if not disk.findings(segment.data[:size]):
            silent.add(size)
        assert disk.lost_bytes == size - max(start for start in segment.starts if start <= size)
    assert silent == set(segment.starts[:-1])


def test_the_list_is_complete() -> None:
    """Every field that no checksum covers is in it, or is one whose change contradicts something else."""
    listed = {(rule.layout.name, rule.field) for rule in layout.UNPROTECTED_FIELDS}
    for its_layout in (*LAYOUTS.values(), layout.MESSAGE_V07_1):
        open_fields = {field.name for field in its_layout.fields if not field.covered}
        framing = {"size", "length", "batchLength", "magic", "crc"}
        assert {(its_layout.name, name) for name in open_fields - framing} <= listed
    assert {rule.values for rule in layout.UNPROTECTED_FIELDS} == set(layout.UNPROTECTED_VALUES)
