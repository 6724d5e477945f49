"""Headers that contradict themselves or the batch before, the figures of a segment, and what no check of these sees."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core.engine.targets import resolve
from kafkalog_core.format.columns import BATCH_FIELDS, BatchColumns
from kafkalog_core.format.layout import BATCH_V2
from kafkalog_core.kernels import constants
from kafkalog_core.ops.verify.engine import verify
from kafkalog_core.ops.verify.request import VerifyRequest
from kafkalog_core.ops.verify.verdict import SegmentEpochStart
from tests.ops.verify.segments import NOW_MS, check_bytes, check_headers
from tests.support.build import (
    ZSTD,
    Record,
    batch_v2,
    empty_batch,
    epoch_checkpoint,
    message_v0,
    message_v07,
    message_v1,
    wrapper_v0,
    wrapper_v1,
)
from tests.support.logs import records, write_segments
from tests.support.twins import TWINS, all_agree, twin

if TYPE_CHECKING:
    from pathlib import Path

DAY_MS = 86_400_000


def test_figures(tmp_path: Path) -> None:
    log = (
        batch_v2(records(10, 5), leader_epoch=2),
        batch_v2(records(15, 5), leader_epoch=2, log_append_time_ms=5000),
        batch_v2(records(20, 1), leader_epoch=7),
    )
    checked = check_headers(tmp_path, *log, base_offset=10)
    assert checked.findings == ()
    figures = checked.figures
    assert (figures.batches, figures.records) == (3, 11)
    assert (figures.first_offset, figures.last_offset) == (10, 20)
    assert (figures.first_timestamp_ms, figures.max_timestamp_ms) == (1014, 5000)
    assert figures.formats == ("v2",)
    assert figures.epochs == (SegmentEpochStart(2, 10, 0, 9), SegmentEpochStart(7, 20, len(log[0]) + len(log[1]), 19))
    assert (figures.is_thinned, figures.gaps, figures.gap_count) == (False, (), 0)


def test_figures_of_nothing(tmp_path: Path) -> None:
    figures = check_headers(tmp_path, b"").figures
    assert (figures.batches, figures.records, figures.formats, figures.epochs) == (0, 0, (), ())
    assert (figures.first_offset, figures.last_offset, figures.max_timestamp_ms) == (None, None, None)


def test_figures_of_older_formats(tmp_path: Path) -> None:
    log = message_v0(Record(offset=0)) + wrapper_v1(records(1, 4)) + message_v1(Record(offset=5, timestamp_ms=9))
    figures = check_headers(tmp_path, log, batch_v2(records(6, 2))).figures
    assert (figures.batches, figures.records) == (4, 4)
    assert (figures.first_offset, figures.last_offset) == (0, 7)
    assert (figures.first_timestamp_ms, figures.max_timestamp_ms) == (1004, 1007)
    assert figures.formats == ("v0", "v1", "v2")
    assert figures.gaps == ()
    assert check_headers(tmp_path, wrapper_v0(records(0, 3))).figures.first_offset is None


def test_figures_of_kafka_0_7(tmp_path: Path) -> None:
    data = message_v07(b"one") + message_v07(b"two")
    figures = check_bytes(tmp_path, data, suffix="kafka").figures
    assert (figures.batches, figures.records, figures.formats) == (2, 2, ("v07",))
    assert (figures.first_offset, figures.last_offset) == (0, len(data))
    assert (figures.max_timestamp_ms, figures.gaps) == (None, ())


@pytest.mark.parametrize(
    ("log", "base_offset", "gaps"),
    [
        ([batch_v2(records(0, 5)), batch_v2(records(6, 5))], 0, [(5, 5)]),
        ([batch_v2(records(3, 5))], 0, [(0, 2)]),
        ([message_v0(Record(offset=3)), message_v0(Record(offset=9))], 3, [(4, 8)]),
        ([message_v0(Record(offset=3)), message_v0(Record(offset=4))], 3, []),
        ([message_v0(Record(offset=3)), wrapper_v0(records(9, 2))], 3, []),
        ([batch_v2(records(0, 5), last_offset=7), batch_v2(records(8, 5))], 0, []),
        ([batch_v2(records(0, 5)), b"\x7f" * 50, batch_v2(records(8, 5))], 0, []),
    ],
)
def test_gaps_but_for_those_of_damage(
    tmp_path: Path, log: list[bytes], base_offset: int, gaps: list[tuple[int, int]]
) -> None:
    figures = check_headers(tmp_path, *log, base_offset=base_offset).figures
    assert [(gap.first_offset, gap.last_offset) for gap in figures.gaps] == gaps
    assert figures.gap_count == len(gaps)
    assert all(gap.position == len(b"".join(log[:-1])) for gap in figures.gaps)


def test_the_first_gaps_are_kept_and_all_are_counted(tmp_path: Path) -> None:
    figures = check_headers(tmp_path, *(batch_v2(records(2 * at, 1)) for at in range(100))).figures
    assert (len(figures.gaps), figures.gap_count) == (20, 99)


@pytest.mark.parametrize("batch", [batch_v2(records(0, 5), last_offset=7), empty_batch(0, 7)])
def test_batches_that_compaction_has_thinned_out(tmp_path: Path, batch: bytes) -> None:
    checked = check_bytes(tmp_path, batch)
    assert checked.findings == ()
    assert checked.figures.is_thinned


@pytest.mark.parametrize(
    "header",
    [
        {"base_offset": 4, "last_offset": 3},
        {"records_count": 6},
        {"records_count": -1},
        {"base_offset": 2**63 - 3, "last_offset": 2**63 + 2},
    ],
)
def test_counts_that_contradict_offsets(tmp_path: Path, header: dict[str, int]) -> None:
    data = batch_v2(records(0, 1), payload=b"", **({"last_offset": 4} | header))
    codes = check_bytes(tmp_path, data, level="checksums").codes
    assert "batch.header-contradiction" in codes


@pytest.mark.parametrize(
    ("fields", "code", "severity"),
    [
        ({"leader_epoch": -2}, "batch.bad-epoch", "error"),
        ({"attributes": 0x80}, "batch.unknown-attributes", "warning"),
        ({"attributes": 0x100}, "batch.unknown-attributes", "warning"),
        ({"attributes": 0x05, "payload": b"x"}, "batch.unknown-codec", "error"),
        ({"base_timestamp_ms": 2000}, "batch.timestamp-order", "warning"),
        ({"max_timestamp_ms": NOW_MS + DAY_MS + 1}, "batch.future-timestamp", "warning"),
        ({"base_timestamp_ms": -5}, "batch.negative-timestamp", "warning"),
    ],
)
def test_odd_headers(tmp_path: Path, fields: dict[str, int], code: str, severity: str) -> None:
    first = batch_v2(records(0, 1))
    [finding] = check_headers(tmp_path, first, batch_v2(records(1, 2), **fields)).findings
    assert (finding.code, finding.severity, finding.position) == (code, severity, len(first))


def test_an_offset_that_no_index_can_hold(tmp_path: Path) -> None:
    """A single batch far above the others has a wrong offset; several have right ones: the segment is too long."""
    first, far = batch_v2(records(0, 1)), [batch_v2(records(2**31 + at, 1)) for at in (0, 5)]
    places = check_headers(tmp_path, first, far[0]).places
    assert places == [("segment.offset-overflow", len(first)), ("batch.offset-order", len(first))]
    assert check_headers(tmp_path, first, *far).places == [("segment.offset-overflow", len(first))]


@pytest.mark.parametrize(
    "fields",
    [
        {"base_timestamp_ms": 2000, "log_append_time_ms": 1000},
        {"delete_horizon_ms": NOW_MS + 10 * DAY_MS},
        {"leader_epoch": -1},
        {"max_timestamp_ms": NOW_MS + DAY_MS},
        {"last_offset": 2**31 - 1},
        {"attributes": 0x70},
        {"codec": ZSTD},
    ],
)
def test_what_is_normal(tmp_path: Path, fields: dict[str, int]) -> None:
    assert check_headers(tmp_path, batch_v2(records(0, 2), **fields)).findings == ()


def test_an_emptied_batch_has_no_first_timestamp(tmp_path: Path) -> None:
    log = batch_v2(records(0, 2)) + empty_batch(2, 4, max_timestamp_ms=1000)
    assert check_bytes(tmp_path, log).findings == ()


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (message_v0(Record(), attributes=0x08), "batch.unknown-attributes"),
        (message_v1(Record(), attributes=0x10), "batch.unknown-attributes"),
        (wrapper_v0(records(0, 1), codec=1), None),
        (message_v1(Record(), attributes=0x08), None),
        (message_v1(Record(value=b"x"), attributes=0x04), "batch.unknown-codec"),
        (message_v0(Record(value=b"x"), attributes=0x06), "batch.unknown-codec"),
    ],
)
def test_attributes_of_older_formats(tmp_path: Path, message: bytes, code: str | None) -> None:
    assert check_bytes(tmp_path, message).codes == ([code] if code else [])


@pytest.mark.parametrize(
    ("epochs", "wrong", "starts"),
    [
        ([2, 9, 2, 2], [1], [2]),
        ([2, 2, 9, 2], [2], [2]),
        ([2, 9, 9, 2, 2, 2], [1, 2], [2]),
        ([5, 5, 3, 5], [2], [5]),
        ([5, 5, 3, 6], [2], [5, 6]),
        ([5, 5, 3], [2], [5]),
        ([5, 6, 6, -1, 6], [], [5, 6]),
        ([-1, 0, 1], [], [0, 1]),
    ],
)
def test_leader_epochs_that_go_back(tmp_path: Path, epochs: list[int], wrong: list[int], starts: list[int]) -> None:
    log = [batch_v2(records(5 * at, 5), leader_epoch=epoch) for at, epoch in enumerate(epochs)]
    checked = check_headers(tmp_path, *log)
    places = [("batch.epoch-back", sum(map(len, log[:row]))) for row in wrong]
    assert checked.places == places
    assert [start.epoch for start in checked.figures.epochs] == starts


@pytest.mark.parametrize(
    ("first", "second", "blamed"),
    [
        ([5, 5, 7], [5, 5], (0, 2)),
        ([5, 7, 7], [5, 5], (3, 0)),
        ([5, 5, 7], [5, 7], (3, 0)),
        ([5, 5], [7, 7], None),
    ],
)
def test_leader_epochs_that_go_back_from_one_segment_to_the_next(
    tmp_path: Path, first: list[int], second: list[int], blamed: tuple[int, int] | None
) -> None:
    """The last batch of a segment is wrong if it stands alone between what is before it and the next segment."""
    logs = {
        base: [batch_v2(records(base + at, 1), leader_epoch=epoch) for at, epoch in enumerate(epochs)]
        for base, epochs in ((0, first), (len(first), second))
    }
    place = tmp_path / "t-0"
    write_segments(place, {base: b"".join(log) for base, log in logs.items()})
    starts = [(5, 0)] if blamed == (0, 2) else [(5, 0), (7, 1)]
    (place / "leader-epoch-checkpoint").write_bytes(epoch_checkpoint(starts))
    request = VerifyRequest(targets=tuple(resolve([str(place)])), now_ms=NOW_MS)
    (verdict,) = verify(request)
    found = [(int(each.path[-24:-4]), each.position) for each in verdict.findings if each.code == "batch.epoch-back"]
    expected = [] if blamed is None else [(blamed[0], sum(map(len, logs[blamed[0]][: blamed[1]])))]
    assert found == expected
    if blamed == (0, 2):
        assert not [each.code for each in verdict.findings if each.code.startswith("epochs.")]


def test_what_is_wrong_very_often_is_said_some_times_and_counted(tmp_path: Path) -> None:
    log = b"".join(batch_v2(records(at, 1), attributes=0x80, leader_epoch=at & 1) for at in range(300))
    checked = check_headers(tmp_path, log)
    assert checked.codes.count("batch.unknown-attributes") == 20
    assert [finding.message for finding in checked.findings if "And 280 more" in finding.message]
    assert len(checked.figures.epochs) < 300


def test_an_offset_behind_all_indexes_is_said_once(tmp_path: Path) -> None:
    log = batch_v2(records(0, 5)) + batch_v2(records(2**31, 5)) + batch_v2(records(2**31 + 5, 5))
    assert check_headers(tmp_path, log).codes == ["segment.offset-overflow"]


def test_flips_of_what_no_checksum_covers(tmp_path: Path) -> None:
    """Each bit of the fields outside the checksum, in a batch between others whose offsets have no gaps."""
    log = [batch_v2(records(5 * at, 5), leader_epoch=3) for at in range(3)]
    unseen = set()
    for field in ("baseOffset", "batchLength", "partitionLeaderEpoch", "magic"):
        start = BATCH_V2.at(field)
        size = BATCH_V2.struct.size and {"baseOffset": 8, "magic": 1}.get(field, 4)
        for bit in range(8 * size):
            middle = bytearray(log[1])
            middle[start + bit // 8] ^= 1 << (bit % 8)
            if not check_bytes(tmp_path, log[0] + bytes(middle) + log[2]).findings:
                unseen.add((field, bit))
    assert unseen == set()


def test_flips_in_the_last_batch_leave_no_trace_where_they_make_it_higher(tmp_path: Path) -> None:
    log = [batch_v2(records(5 * at, 5), leader_epoch=3) for at in range(2)]
    unseen = set()
    for byte in (*range(8), *range(12, 16)):
        for bit in range(8):
            last = bytearray(log[1])
            last[byte] ^= 1 << bit
            if not check_bytes(tmp_path, log[0] + bytes(last)).findings:
                unseen.add((byte, bit))
    low_bits_of_offset = {(7, bit) for bit in range(8)} | {(byte, bit) for byte in (5, 6) for bit in range(8)}
    low_bits_of_offset |= {(4, bit) for bit in range(7)}
    makes_it_higher = {(byte, bit) for byte, bit in low_bits_of_offset if not 5 >> bit & 1 or byte != 7}
    epoch = {(byte, bit) for byte in range(12, 16) for bit in range(8)} - {(12, 7), (15, 0), (15, 1)}
    assert unseen == makes_it_higher | epoch


@pytest.fixture(scope="module", autouse=True)
def _twins() -> None:
    """Loaded once, before a test looks at the clock."""
    for name in TWINS:
        twin(name)


ROWS = st.lists(
    st.fixed_dictionaries(
        dict.fromkeys(BATCH_FIELDS, st.sampled_from([0, 1, -1, 5, -2, 2**31, 2**63 - 1, -(2**63)]))
        | {
            "format": st.sampled_from([0, 1, 2, 2, 2, 7]),
            "attributes": st.integers(-(2**15), 2**15 - 1),
            "record_count": st.integers(-2, 9),
        }
    ),
    max_size=8,
)


@given(ROWS, st.sampled_from([0, 2, 2**63 - 1]), st.integers(0, 127), st.sampled_from([-2, -1, 2**63 - 1]))
def test_twins_agree_on_any_headers(rows, largest, muted, previous):
    batches = BatchColumns(8)
    batches.count = len(rows)
    for row, values in enumerate(rows):
        for name, value in values.items():
            batches.column(name)[row] = value

    def outcome(name):
        state = array("q", bytes(8 * constants.BC_SIZE))
        state[constants.BC_LARGEST] = state[constants.BC_FUTURE_FROM] = largest
        state[constants.BC_MUTED] = muted
        state[constants.BC_PREVIOUS] = previous
        state[constants.BC_EPOCH] = state[constants.BC_MAX_TIME] = -1
        seen, row = [], 0
        while row < len(rows):
            row = twin(name).check_batches(batches, row, state) + 1
            seen.append((row, state.tolist()))
        return seen

    all_agree([outcome(name) for name in TWINS])


# --- offsets that cannot be right -------------------------------------------------------------------------------------
def _misplaced(tmp_path: Path, *batches: bytes) -> list[tuple[str, int | None]]:
    found = check_bytes(tmp_path, b"".join(batches), base_offset=0).findings
    return [(each.code, each.position) for each in found if each.severity == "error"]


def test_the_least_offset_is_no_order_of_records(tmp_path: Path) -> None:
    """No record is before the first one of a batch, whatever its offset is."""
    good, least = batch_v2(records(0, 2)), batch_v2(records(-(2**63), 3))
    assert _misplaced(tmp_path, good, least) == [("batch.offset-order", len(good))]


def test_a_batch_beyond_the_segment_makes_no_other_wrong(tmp_path: Path) -> None:
    """It is as long a chain with the batch before it as the batch after it is."""
    good, far, after = batch_v2(records(0, 2)), batch_v2(records(2, 3), last_offset=2**31 + 1), batch_v2(records(5, 2))
    found = _misplaced(tmp_path, good, far, after)
    assert sorted(found) == [("batch.offset-order", len(good)), ("segment.offset-overflow", len(good))]


def test_a_contradictory_batch_may_be_misplaced_too(tmp_path: Path) -> None:
    """Its header is no witness, but is reported where it contradicts the others."""
    first, after, last = batch_v2(records(0, 2)), batch_v2(records(6, 2)), batch_v2(records(8, 2))
    fitting, back = (batch_v2(records(base, 3), last_offset=base) for base in (4, 2))
    at = [len(first), len(first + fitting + after)]
    found = _misplaced(tmp_path, first, fitting, after, back, last)
    assert {position for code, position in found if code == "batch.header-contradiction"} == {*at}
    assert [position for code, position in found if code == "batch.offset-order"] == at[1:]
