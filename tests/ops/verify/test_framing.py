"""What of a log is no batch: code, place, offsets that are lost, and the severity of tails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalog_core.findings.logs import DAMAGE_CODES, DAMAGE_REASONS, LOG_DAMAGE, LOGS
from tests.ops.verify.segments import check_bytes
from tests.support.build import batch_v2, message_v07, wrapper_v0, wrapper_v1
from tests.support.logs import records

if TYPE_CHECKING:
    from pathlib import Path


def batches(*firsts: int, count: int = 5) -> list[bytes]:
    return [batch_v2(records(first, count)) for first in firsts]


def flipped(data: bytes, position: int, value: int | None = None) -> bytes:
    value = data[position] ^ 0xFF if value is None else value
    return data[:position] + bytes([value]) + data[position + 1 :]


def test_every_reason_of_damage_has_a_code_with_all_its_texts() -> None:
    assert set(DAMAGE_CODES) == set(LOG_DAMAGE)
    assert set(DAMAGE_REASONS.values()) == set(LOG_DAMAGE)
    assert set(DAMAGE_REASONS) <= set(LOGS)
    assert all(kind.meaning and kind.broker_action for kind in LOGS.values())
    assert all(kind.cure for kind in LOGS.values() if kind.severity == "error")


def test_whole_batches_give_no_findings(tmp_path: Path) -> None:
    assert check_bytes(tmp_path, b"".join(batches(0, 5, 10))).findings == ()
    assert check_bytes(tmp_path, b"").findings == ()


def test_a_bad_checksum_names_bytes_and_offsets(tmp_path: Path) -> None:
    one, two, three = batches(0, 5, 10)
    checked = check_bytes(tmp_path, one + flipped(two, len(two) - 3) + three)
    [finding] = checked.findings
    assert (finding.code, finding.severity) == ("batch.crc-mismatch", "error")
    assert (finding.position, finding.size_bytes, finding.offset) == (len(one), len(two), 5)
    assert (finding.topic, finding.partition) == ("t", 3)
    assert f"bytes {len(one)} to {len(one) + len(two) - 1} " in finding.message
    assert finding.message.endswith("; nothing of offsets 5 to 9 can be read.")


def test_one_lost_offset(tmp_path: Path) -> None:
    one, two, three = *batches(0), *batches(5, count=1), *batches(6)
    checked = check_bytes(tmp_path, one + flipped(two, len(two) - 3) + three)
    assert checked.findings[0].message.endswith("; nothing of offset 5 can be read.")


def test_places_in_a_row_lose_their_offsets_together(tmp_path: Path) -> None:
    one, two, three, four = batches(0, 5, 10, 15)
    checked = check_bytes(tmp_path, one + flipped(two, len(two) - 3) + flipped(three, len(three) - 3) + four)
    assert [finding.code for finding in checked.findings] == ["batch.crc-mismatch"] * 2
    for finding in checked.findings:
        assert "nothing of offsets 5 to 14 can be read (these are 2 damaged places in a row)" in finding.message


def test_bytes_between_batches_lose_no_offsets(tmp_path: Path) -> None:
    one, two = batches(0, 5)
    [finding] = check_bytes(tmp_path, one + b"\x7f" * 40 + two).findings
    assert finding.position == len(one)
    assert finding.message.endswith("no offsets are missing here.")


def test_at_the_end_it_is_not_known_how_much_is_lost(tmp_path: Path) -> None:
    one, two = batches(0, 5)
    [finding] = check_bytes(tmp_path, one + flipped(two, len(two) - 3)).findings
    assert finding.message.endswith("; nothing of offset 5 and above can be read here.")


def test_before_a_compressed_message_it_is_known_in_part(tmp_path: Path) -> None:
    one, two = batches(0, 5)
    data = one + flipped(two, len(two) - 3) + wrapper_v1(records(10, 3))
    [finding] = check_bytes(tmp_path, data).findings
    assert "offset 5 and above can be read here, up to those of the compressed message that ends with 12" in (
        finding.message
    )


@pytest.mark.parametrize(
    ("is_last", "severity", "text"),
    [(True, "error", "the rest is missing"), (False, "error", "the file was shortened")],
)
@pytest.mark.parametrize("left", [3, 16, 17, 60, 70])
def test_torn_tails(tmp_path: Path, is_last: bool, severity: str, text: str, left: int) -> None:
    one, two = batches(0, 5)
    [finding] = check_bytes(tmp_path, one + two[:left], is_last=is_last).findings
    assert (finding.code, finding.severity, finding.position) == ("log.torn-tail", severity, len(one))
    assert finding.size_bytes == left
    assert text in finding.message


@pytest.mark.parametrize(("is_last", "severity"), [(True, "warning"), (False, "error")])
def test_zero_tails_are_normal_in_the_last_segment_alone(tmp_path: Path, is_last: bool, severity: str) -> None:
    [one] = batches(0)
    [finding] = check_bytes(tmp_path, one + bytes(4000), is_last=is_last).findings
    assert (finding.code, finding.severity, finding.position) == ("log.zero-tail", severity, len(one))


@pytest.mark.parametrize("other", [b"\x01", bytes(range(256)) * 16], ids=["one byte", "many"])
@pytest.mark.parametrize("place", [17, 1000, 3999])
def test_a_zero_tail_with_other_bytes_is_an_error(tmp_path: Path, other: bytes, place: int) -> None:
    """One rule for verify and dump: a tail is plain only if all of it is zero."""
    [one] = batches(0)
    tail = bytearray(4000 + len(other))
    tail[place : place + len(other)] = other
    [finding] = check_bytes(tmp_path, one + tail).findings
    assert (finding.code, finding.severity, finding.position) == ("log.zero-filled", "error", len(one))
    assert "other bytes" in finding.message


def test_a_hole_of_zeros_is_an_error_wherever_it_is(tmp_path: Path) -> None:
    one, two, three = batches(0, 5, 10)
    [finding] = check_bytes(tmp_path, one + bytes(len(two)) + three).findings
    assert (finding.code, finding.severity, finding.offset) == ("log.zero-filled", "error", 5)


def test_other_damage(tmp_path: Path) -> None:
    one, two, three = batches(0, 5, 10)
    assert check_bytes(tmp_path, one + flipped(two, 16, 9) + three).places == [("log.unknown-magic", len(one))]
    assert check_bytes(tmp_path, one + flipped(two, 8, 0x7F) + three).places == [("log.bad-length", len(one))]
    assert check_bytes(tmp_path, one + two, max_batch_bytes=len(one) - 1).codes == ["batch.over-limit"] * 2


@pytest.mark.parametrize("base", [0, 4])
def test_offsets_that_go_back(tmp_path: Path, base: int) -> None:
    one, two, three, low = batches(0, 5, 10, base)
    [finding] = check_bytes(tmp_path, one + two + low + three).findings
    assert (finding.code, finding.position) == ("batch.offset-order", len(one + two))
    assert "where 10 or more was expected" in finding.message


def test_a_batch_twice(tmp_path: Path) -> None:
    one, two, three = batches(0, 5, 10)
    assert check_bytes(tmp_path, one + two + two + three).places == [("batch.offset-order", len(one + two))]


@pytest.mark.parametrize("alone", [True, False])
def test_the_batch_whose_offsets_are_too_high_is_named_and_not_the_one_behind(tmp_path: Path, alone: bool) -> None:
    one, high, three = batches(0, 1005, 10)
    before = b"" if alone else one
    checked = check_bytes(tmp_path, before + high + three)
    assert checked.places == [("batch.offset-order", len(before))]
    assert "they end with 1009, but the next batch" in checked.findings[0].message


def test_a_compressed_message_whose_offset_is_too_high(tmp_path: Path) -> None:
    one, high, three = wrapper_v0(records(0, 5)), wrapper_v0(records(5, 5), offset=1009), wrapper_v0(records(10, 5))
    checked = check_bytes(tmp_path, one + high + three)
    assert ("batch.offset-order", len(one)) in checked.places
    assert ("record.wrapper-end", len(one)) in checked.places


def test_below_the_file_name(tmp_path: Path) -> None:
    assert check_bytes(tmp_path, b"".join(batches(5, 10)), 7).places == [("batch.offset-order", 0)]


def test_addresses_of_kafka_0_7_are_no_offsets(tmp_path: Path) -> None:
    one, two, three = (message_v07(b"v" * 40) for _ in range(3))
    [finding] = check_bytes(tmp_path, one + flipped(two, len(two) - 1) + three, suffix="kafka").findings
    assert (finding.code, finding.position, finding.offset) == ("batch.crc-mismatch", len(one), None)
    assert "offset" not in finding.message
