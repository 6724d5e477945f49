"""What takes the place of damage in every format: an independent decoder reads all the rest, and no start cuts it."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from tests.support import build
from tests.support.excising import (
    EMPTY_BYTES,
    END,
    SEGMENTS,
    apply,
    batch_of,
    excision_of,
    places_of,
    plan,
    read_offsets,
    write,
    write_batches,
)
from tests.support.truncating import codes, started

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.excising import Written

ALL = range(END)
V2 = [(2, codec) for codec in (build.NONE, build.GZIP, build.SNAPPY, build.LZ4, build.ZSTD)]
LEGACY = [(magic, codec) for magic in (0, 1) for codec in (build.NONE, build.GZIP, build.SNAPPY, build.LZ4)]
RELEASES = {0: "0.9", 1: "0.10.2", 2: "4.3"}


def check(written: Written, lost: range, *offsets: int, kafka: str = "4.3") -> None:
    """Excise by offsets: all others are read afterwards, no start truncates, and the plan says what was lost."""
    draft = apply(written.partition, *offsets, kafka=kafka)
    assert [*read_offsets(written.partition)] == [each for each in ALL if each not in lost]
    named = [range(each.first_offset or 0, each.next_offset or 0) for each in draft.plan.report.losses]
    assert [*named] == ([lost] if len(lost) else [])
    for is_clean in (False, True):
        result = started(written.partition, is_clean=is_clean, kafka=kafka)
        assert (result.problem, result.lost_bytes, result.end_offset) == (None, 0, END)
    assert places_of(written.partition, kafka) == ()


# --- magic 2 ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("magic", "codec"), V2)
@pytest.mark.parametrize("number", [0, 1, 3])
def test_a_batch_with_a_wrong_checksum_becomes_an_empty_one(
    tmp_path: Path, magic: int, codec: int, number: int
) -> None:
    written = write(tmp_path, magic, codec)
    start, end = written.at(12, number)
    written.flip(12, end - 5)
    first = 12 + 3 * number
    check(written, range(first, first + 3), first + 1)
    new = written.log(12).read_bytes()[start : start + EMPTY_BYTES]
    assert new == build.empty_batch(first, first + 2, max_timestamp_ms=1000 + first + 2)


@pytest.mark.parametrize("flags", ["plain", "log-append-time"])
def test_an_empty_batch_keeps_the_producer_the_times_and_the_epoch(tmp_path: Path, flags: str) -> None:
    fields = {"leader_epoch": 0, "producer_id": 77, "producer_epoch": 3, "base_sequence": 5}
    if flags == "log-append-time":
        fields["log_append_time_ms"] = 9000
    written = write(tmp_path, 2, build.LZ4, **fields)
    start, end = written.at(12, 1)
    written.flip(12, end - 5)
    check(written, range(15, 18), 15)
    empty = build.empty_batch(15, 17, max_timestamp_ms=9000 if flags != "plain" else 1017, **fields)
    assert written.log(12).read_bytes()[start : start + EMPTY_BYTES] == empty


@pytest.mark.parametrize("bad", [b"\x00" * 61, b"\xff" * 61, b"\x55" * 80])
def test_without_a_header_the_fields_come_from_the_batches_around(tmp_path: Path, bad: bytes) -> None:
    written = write(tmp_path, leader_epoch=0)
    start, _ = written.at(12, 1)
    written.patch(12, start, bad)
    check(written, range(15, 18), 16)
    empty = build.empty_batch(15, 17, max_timestamp_ms=1014)
    assert written.log(12).read_bytes()[start : start + EMPTY_BYTES] == empty


def test_clients_without_idempotence_that_write_a_sequence_have_no_producer(tmp_path: Path) -> None:
    """aiokafka does."""
    fields = {"producer_id": -1, "producer_epoch": -1, "base_sequence": 0}
    written = write(tmp_path, **fields)
    start, end = written.at(12, 1)
    written.flip(12, end - 5)
    check(written, range(15, 18), 15)
    new = written.log(12).read_bytes()[start : start + EMPTY_BYTES]
    assert new == build.empty_batch(15, 17, max_timestamp_ms=1017, **fields)


def test_a_header_before_a_stretch_of_garbage_is_kept(tmp_path: Path) -> None:
    """The first of two batches keeps its producer; what follows it has none."""
    written = write(tmp_path, producer_id=5, producer_epoch=0, base_sequence=9)
    start, _ = written.at(12, 1)
    written.patch(12, start + EMPTY_BYTES, b"\xee" * (written.at(12, 2)[1] - start - EMPTY_BYTES))
    (place,) = places_of(written.partition)
    assert (place.start, place.end) == (start, written.at(12, 2)[1])
    check(written, range(15, 21), 16)
    new = written.log(12).read_bytes()[start : start + 2 * EMPTY_BYTES]
    kept = build.empty_batch(15, 17, max_timestamp_ms=1017, producer_id=5, producer_epoch=0, base_sequence=9)
    assert new == kept + build.empty_batch(18, 20, max_timestamp_ms=1014)


def test_one_wrong_field_of_three_names_no_producer(tmp_path: Path) -> None:
    """Seen on the disk of a real broker: the low byte of producer id -1 had become 0xbe."""
    written = write(tmp_path)
    start, _ = written.at(12, 1)
    written.patch(12, start + 50, b"\xbe")
    excision = excision_of(written.partition)
    (place,) = excision.places
    assert place.choice.content == build.empty_batch(15, 17, max_timestamp_ms=1014)
    assert (place.choice.reconstructed, place.choice.keeps_sequence) == ((), True)


def test_several_batches_without_a_header_become_one(tmp_path: Path) -> None:
    written = write(tmp_path)
    (start, _), (_, end) = written.at(12, 0), written.at(12, 2)
    written.patch(12, start, b"\xee" * (end - start))
    check(written, range(12, 21), 14)
    assert len(written.log(12).read_bytes()) == EMPTY_BYTES + len(written.segments[12][3])


def test_a_whole_segment_becomes_one_empty_batch(tmp_path: Path) -> None:
    written = write(tmp_path)
    written.log(12).write_bytes(b"\x33" * 1000)
    check(written, range(12, 24), 12)
    assert len(written.log(12).read_bytes()) == EMPTY_BYTES


def test_two_damaged_batches_keep_their_own_headers(tmp_path: Path) -> None:
    written = write(tmp_path, producer_id=5, producer_epoch=0, base_sequence=9)
    for number in (1, 2):
        written.flip(12, written.at(12, number)[1] - 5)
    draft = apply(written.partition, 15, 18)
    assert [each.records for each in draft.plan.report.losses] == [3, 3]
    assert read_offsets(written.partition) == [each for each in ALL if not 15 <= each <= 20]
    size = 2 * EMPTY_BYTES + sum(len(written.segments[12][each]) for each in (0, 3))
    assert len(written.log(12).read_bytes()) == size


# --- nothing is lost --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("position", "content"), [(0, b"\x7f"), (7, b"\xf0"), (8, b"\x00\x00\x10\x00"), (16, b"\x07")])
def test_a_field_that_no_checksum_covers_is_mended(tmp_path: Path, position: int, content: bytes) -> None:
    written = write(tmp_path)
    before = written.log(12).read_bytes()
    written.patch(12, written.at(12, 1)[0] + position, content)
    check(written, range(0), 16)
    assert written.log(12).read_bytes() == before


def test_bytes_between_two_batches_are_removed(tmp_path: Path) -> None:
    written = write(tmp_path)
    before, (start, _) = written.log(12).read_bytes(), written.at(12, 2)
    written.log(12).write_bytes(before[:start] + b"garbage" * 20 + before[start:])
    (place,) = places_of(written.partition)
    assert (place.start, place.end, place.first_offset, place.is_excisable) == (start, start + 140, None, True)
    excision = excision_of(written.partition)
    assert [each.choice.way for each in excision.places] == ["removed"]
    assert excision.losses == ()
    assert b"".join(excision.segments[0].pieces()) == before


def test_zeros_after_a_closed_segment_are_removed(tmp_path: Path) -> None:
    """A broker truncates them, and deletes all later segments."""
    written = write(tmp_path)
    before = written.log(12).read_bytes()
    written.log(12).write_bytes(before + bytes(4096))
    excision = excision_of(written.partition)
    assert b"".join(excision.segments[0].pieces()) == before
    assert (excision.problem, excision.still_truncates) == (None, None)


# --- magic 0 and 1 ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("magic", "codec"), LEGACY)
def test_messages_of_old_formats_are_removed(tmp_path: Path, magic: int, codec: int) -> None:
    written = write(tmp_path, magic, codec)
    start, end = written.at(12, 1)
    written.patch(12, start + 17, b"\xee" * (end - start - 18))
    if (magic, codec) == (0, build.LZ4):  # which aiokafka does not read
        apply(written.partition, 15, kafka=RELEASES[magic])
    else:
        check(written, range(15, 18), 15, kafka=RELEASES[magic])
    whole = b"".join(written.segments[12])
    assert written.log(12).read_bytes() == whole[:start] + whole[end:]


@pytest.mark.parametrize(("magic", "codec"), [each for each in LEGACY if each != (0, build.NONE)])
@pytest.mark.parametrize("position", [6, 8])
def test_a_message_with_a_wrong_offset_or_size_is_mended(tmp_path: Path, magic: int, codec: int, position: int) -> None:
    written = write(tmp_path, magic, codec)
    before = written.log(12).read_bytes()
    written.patch(12, written.at(12, 1)[0] + position, b"\x33")
    excision = excision_of(written.partition, RELEASES[magic])
    assert [each.choice.way for each in excision.places] == ["mended"]
    assert b"".join(excision.segments[0].pieces()) == before


def test_between_messages_and_batches_an_empty_batch_is_written(tmp_path: Path) -> None:
    """A log that was upgraded: the release reads magic 2."""
    segments = {0: [batch_of(1, 0, 0, 2), batch_of(2, 0, 3, 5), batch_of(2, 0, 6, 8)], 9: [batch_of(2, 0, 9, 11)]}
    written = write_batches(tmp_path, segments)
    start, end = written.at(0, 1)
    written.patch(0, start, b"\xee" * (end - start))
    apply(written.partition, 4)
    assert read_offsets(written.partition) == [0, 1, 2, 6, 7, 8, 9, 10, 11]
    assert started(written.partition, is_clean=False).lost_bytes == 0


# --- what is not excised ----------------------------------------------------------------------------------------------
def test_damage_at_the_end_is_a_tail(tmp_path: Path) -> None:
    written = write(tmp_path)
    written.flip(24, written.at(24, 3)[1] - 5)
    (place,) = places_of(written.partition)
    assert place.is_tail
    assert codes(plan(written.partition, 34)) == ["excise.at-end"]
    assert codes(plan(written.partition, 40)) == ["excise.at-end"]


def test_a_tail_of_the_same_segment_is_dropped(tmp_path: Path) -> None:
    written = write(tmp_path)
    written.flip(24, written.at(24, 1)[1] - 5)
    written.flip(24, written.at(24, 3)[1] - 5)
    draft = apply(written.partition, 27)
    assert codes(draft) == ["excise.emptied", "excise.tail"]
    assert [(each.first_offset, each.bytes) for each in draft.plan.report.losses] == [
        (27, len(written.segments[24][1])),
        (None, len(written.segments[24][3])),
    ]
    assert read_offsets(written.partition) == [each for each in range(33) if not 27 <= each <= 29]


def test_a_healthy_batch_needs_a_word(tmp_path: Path) -> None:
    written = write(tmp_path)
    refused = plan(written.partition, 16)
    assert (codes(refused), refused.plan.changes) == (["excise.healthy"], ())
    assert "offsets 15 to 17, 3 records" in refused.plan.report.refusals[0].message
    draft = apply(written.partition, 16, healthy=True)
    assert draft.plan.report.losses[0].records == 3
    assert read_offsets(written.partition) == [each for each in ALL if not 15 <= each <= 17]


@pytest.mark.parametrize("number", [0, 3])
def test_a_healthy_batch_at_either_end(tmp_path: Path, number: int) -> None:
    written = write(tmp_path)
    base, first = (0, 0) if number == 0 else (24, 33)
    apply(written.partition, first, healthy=True)
    assert read_offsets(written.partition) == [each for each in ALL if not first <= each <= first + 2]
    assert started(written.partition, is_clean=False).end_offset == END
    assert written.log(base).exists()


def test_the_last_message_of_an_old_format_is_not_excised(tmp_path: Path) -> None:
    """A broker would assign its offset again."""
    written = write(tmp_path, 1)
    assert codes(plan(written.partition, 35, kafka="0.10.2", healthy=True)) == ["excise.at-end"]


@pytest.mark.parametrize(("offset", "what"), [(36, "ends at offset 36"), (10**12, "ends at offset 36")])
def test_an_offset_that_is_not_there(tmp_path: Path, offset: int, what: str) -> None:
    refused = plan(write(tmp_path).partition, offset)
    assert codes(refused) == ["excise.no-batch"]
    assert what in refused.plan.report.refusals[0].message


def test_an_offset_that_compaction_removed(tmp_path: Path) -> None:
    written = write_batches(tmp_path, {5: [batch_of(2, 0, 5, 7), batch_of(2, 0, 20, 22)]})
    assert "missing between two batches" in plan(written.partition, 10).plan.report.refusals[0].message
    assert "starts at offset 5" in plan(written.partition, 2).plan.report.refusals[0].message


def test_other_places_of_the_segment_have_to_be_named(tmp_path: Path) -> None:
    written = write(tmp_path)
    for number in (0, 2):
        written.flip(12, written.at(12, number)[1] - 5)
    written.flip(0, written.at(0, 1)[1] - 5)
    refused = plan(written.partition, 12)
    assert (codes(refused), refused.plan.changes) == (["excise.others"], ())
    assert "--offset 18" in refused.plan.report.refusals[0].message
    draft = plan(written.partition, 12, 18)
    assert codes(draft) == ["excise.emptied", "excise.emptied"]


def test_the_metadata_log_is_refused(tmp_path: Path) -> None:
    written = write(tmp_path)
    written.flip(12, written.at(12, 1)[1] - 5)
    metadata = written.root / "__cluster_metadata-0"
    written.partition.rename(metadata)
    assert codes(plan(metadata, 15)) == ["excise.metadata-log"]
    assert not any(each.is_excisable for each in places_of(metadata))


def test_a_waiting_replacement_is_refused(tmp_path: Path) -> None:
    written = write(tmp_path)
    (written.partition / f"{0:020d}.log.swap").write_bytes(b"".join(written.segments[0]))
    assert codes(plan(written.partition, 15)) == ["excise.replacement"]


def test_0_7_is_refused(tmp_path: Path) -> None:
    partition = tmp_path / "t-0"
    partition.mkdir()
    (partition / f"{0:020d}.kafka").write_bytes(build.message_v07(b"v") * 3)
    assert codes(plan(partition, 0, kafka="0.7.2")) == ["excise.old-format"]
    assert places_of(partition, "0.7.2") == ()


# --- a poison batch ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("codec", [build.GZIP, build.SNAPPY, build.LZ4, build.ZSTD])
def test_a_batch_that_does_not_decompress_is_excised(tmp_path: Path, codec: int) -> None:
    """Its checksum is right, so that no broker truncates there, and no consumer gets past it."""
    bad = build.batch_v2([], base_offset=15, last_offset=17, codec=codec, records_count=3, payload=b"\x99" * 40)
    good = [batch_of(2, codec, first, first + 2) for first in (12, 18, 21)]
    written = write_batches(tmp_path, {12: [good[0], bad, *good[1:]], 24: [batch_of(2, codec, 24, 26)]})
    assert places_of(written.partition) == ()
    draft = apply(written.partition, 16)
    assert codes(draft) == ["excise.emptied"]
    assert "payload" in draft.plan.report.findings[0].message
    assert read_offsets(written.partition) == [12, 13, 14, *range(18, 27)]


# --- indexes ----------------------------------------------------------------------------------------------------------
def test_the_indexes_are_those_of_a_recovery_of_the_new_log(tmp_path: Path) -> None:
    written = write(tmp_path)
    written.flip(12, written.at(12, 1)[1] - 5)
    apply(written.partition, 15)
    first, _, third, _ = map(len, written.segments[12])
    index = [*struct.iter_unpack(">ii", written.log(12, "index").read_bytes())]
    assert index == [(5, first), (11, first + EMPTY_BYTES + third)]
    times = [*struct.iter_unpack(">qi", written.log(12, "timeindex").read_bytes())]
    assert times == [(1017, 5), (1023, 11)]


def test_other_segments_and_times_are_left_alone(tmp_path: Path) -> None:
    written = write(tmp_path)
    others = {path: path.read_bytes() for base in (0, 24) for path in written.partition.glob(f"{base:020d}.*")}
    written.flip(12, written.at(12, 1)[1] - 5)
    mtime_ns = written.log(12).stat().st_mtime_ns
    draft = apply(written.partition, 15)
    assert {path: path.read_bytes() for path in others} == others
    assert written.log(12).stat().st_mtime_ns == mtime_ns
    assert {each.swap for each in draft.plan.changes} == {SEGMENTS[1]}


@pytest.mark.parametrize("base", [0, 12])
def test_a_copy_of_another_batch_is_not_given_other_offsets(tmp_path: Path, base: int) -> None:
    """An append that was written twice, or an old block: its records are in the log already."""
    written = write(tmp_path)
    start, _ = written.at(12, 2)
    before = written.log(12).read_bytes()
    written.log(12).write_bytes(before[:start] + written.segments[base][1] + before[start:])
    (place,) = places_of(written.partition)
    assert (place.reason, place.first_offset, place.is_excisable) == ("copy", None, True)
    excision = excision_of(written.partition)
    assert [each.choice.way for each in excision.places] == ["removed"]
    assert b"".join(excision.segments[0].pieces()) == before


def test_a_copy_in_the_place_of_a_lost_batch_leaves_its_offsets_empty(tmp_path: Path) -> None:
    written = write(tmp_path)
    start, end = written.at(12, 2)
    data = written.log(12).read_bytes()
    written.log(12).write_bytes(data[:start] + written.segments[0][1] + data[end:])
    check(written, range(18, 21), 19)
