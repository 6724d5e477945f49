"""How segments follow each other: what is missing between them, what is in two, and what is normal."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.findings import Finding
from kafkalog_core.kafka.sim.held_offsets import not_held
from kafkalog_core.kafka.sim.logfiles import SegmentExtent, chain_findings
from kafkalog_core.ops.verify.engine import verify
from kafkalog_core.ops.verify.request import VerifyRequest
from kafkalog_core.storage.scan import Damage
from tests.support.build import GZIP, batch_v2, empty_batch, message_v0, wrapper_v0, wrapper_v1
from tests.support.logs import Row, dump_rows, records, write_segments

if TYPE_CHECKING:
    from pathlib import Path

LEVELS: list[dict[str, Any]] = [
    {"level": "segments"},
    {"level": "batches"},
    {"level": "records"},
    {"stats": True},
    {"newest_first": True},
    {"committed": "log-end"},
]


def batches(*ranges: tuple[int, int]) -> bytes:
    """A batch for each first offset and count."""
    return b"".join(batch_v2(records(first, count)) for first, count in ranges)


def found_in(*paths: Path, **request: Any) -> list[tuple[str, str, object, str]]:
    """Code, severity, offset and the offsets in the message of what is said about the chain."""
    rows = [row for row in dump_rows(*paths, **request) if row["type"] == "finding"]
    return [brief(row) for row in rows if row["code"].startswith(("segment.gap", "segment.overlap"))]


def brief(row: Row) -> tuple[str, str, object, str]:
    return row["code"], row["severity"], row["offset"], os.path.basename(row["file"])


# --- a log whose segments hold every offset ---------------------------------------------------------------------------
@pytest.mark.parametrize("request_", LEVELS, ids=str)
def test_a_segment_that_is_missing(tmp_path: Path, request_: dict[str, Any]) -> None:
    segments = {0: batches((0, 5), (5, 5)), 30: batches((30, 5)), 35: batches((35, 1))}
    home = write_segments(tmp_path / "t-0", segments)
    report = Report()
    assert found_in(home, report=report, **request_) == [("segment.gap", "warning", 10, f"{30:020d}.log")]
    assert report.exit_status == 0


def test_a_missing_segment_is_said_in_words(tmp_path: Path) -> None:
    home = write_segments(tmp_path / "t-0", {0: batches((0, 5)), 30: batches((30, 5))})
    (row,) = [row for row in dump_rows(home) if row["type"] == "finding"]
    assert "Offsets 5 to 29 are missing" in row["message"]
    assert row["cure"].startswith("If the topic is or was compacted, nothing needs to be done.")
    assert f"{0:020d}.log" in row["message"]
    assert (row["topic"], row["partition"]) == ("t", 0)


def test_segments_that_follow_each_other_say_nothing(tmp_path: Path) -> None:
    segments = {7: batches((7, 3)), 10: batches((10, 2), (12, 1)), 13: b""}
    assert found_in(write_segments(tmp_path / "t-0", segments), level="segments") == []


def test_a_log_that_starts_late_has_no_gap(tmp_path: Path) -> None:
    assert found_in(write_segments(tmp_path / "t-0", {500: batches((500, 3))}), level="segments") == []


@pytest.mark.parametrize("request_", LEVELS, ids=str)
def test_segments_that_overlap(tmp_path: Path, request_: dict[str, Any]) -> None:
    segments = {0: batches((0, 5), (5, 5)), 8: batches((8, 4)), 12: batches((12, 1))}
    report = Report()
    home = write_segments(tmp_path / "t-0", segments)
    assert found_in(home, report=report, **request_) == [("segment.overlap", "error", 8, f"{8:020d}.log")]
    assert report.exit_status == 4


def test_a_segment_that_reaches_over_two_others(tmp_path: Path) -> None:
    segments = {0: batches((0, 20)), 5: batches((5, 1)), 10: batches((10, 10)), 20: batches((20, 1))}
    seen = found_in(write_segments(tmp_path / "t-0", segments))
    assert [(code, offset) for code, _, offset, _ in seen] == [("segment.overlap", 5), ("segment.overlap", 10)]


def test_an_empty_segment_inside_of_another_ones_offsets(tmp_path: Path) -> None:
    seen = found_in(write_segments(tmp_path / "t-0", {0: batches((0, 10)), 5: b""}))
    assert [(code, offset) for code, _, offset, _ in seen] == [("segment.overlap", 5)]


def test_a_segment_that_was_emptied(tmp_path: Path) -> None:
    segments = {0: batches((0, 10)), 10: b"", 20: batches((20, 10))}
    assert found_in(write_segments(tmp_path / "t-0", segments)) == [("segment.gap", "warning", 10, f"{20:020d}.log")]


@pytest.mark.parametrize("make", [wrapper_v0, wrapper_v1])
def test_wrappers_without_holes(tmp_path: Path, make: Any) -> None:
    segments = {
        0: make(records(0, 5), codec=GZIP) + make(records(5, 2), codec=GZIP),
        9: make(records(9, 2), codec=GZIP),
    }
    assert found_in(write_segments(tmp_path / "t-0", segments)) == [("segment.gap", "warning", 7, f"{9:020d}.log")]


# --- what is normal ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "holes",
    [
        batches((0, 2), (5, 2)),
        batches((1, 4)),
        batch_v2(records(1, 3), base_offset=0, last_offset=5),
        batches((0, 2)) + empty_batch(2, 5),
        message_v0(records(0, 1)[0]) + message_v0(records(3, 1)[0]),
        wrapper_v0([*records(0, 1), *records(4, 2)], codec=GZIP),
        wrapper_v0(records(0, 2), codec=GZIP) + wrapper_v0(records(4, 2), codec=GZIP),
        wrapper_v1([*records(0, 1), *records(4, 2)], codec=GZIP),
    ],
    ids=["between", "at-the-start", "inside", "emptied", "v0", "inner-v0", "between-v0", "inner-v1"],
)
def test_a_compacted_log_is_told_by_its_holes(tmp_path: Path, holes: bytes) -> None:
    home = write_segments(tmp_path / "t-0", {0: holes, 20: batches((20, 3)), 30: batches((30, 3))})
    assert [(code, severity) for code, severity, _, _ in found_in(home, level="segments")] == [
        ("segment.gap-compacted", "info")
    ] * 2
    assert found_in(home) == []


def test_holes_that_damage_made_are_no_sign_of_compaction(tmp_path: Path) -> None:
    bad = bytearray(batches((0, 2), (2, 2), (4, 2)))
    bad[len(batches((0, 2))) + 30] ^= 0xFF
    home = write_segments(tmp_path / "t-0", {0: bytes(bad), 20: batches((20, 3))})
    assert [code for code, _, _, _ in found_in(home)] == ["segment.gap"]


def test_damage_at_a_segments_end_is_no_compaction(tmp_path: Path) -> None:
    torn = batches((0, 2), (5, 2), (7, 2))[:-3]
    home = write_segments(tmp_path / "t-0", {0: torn, 9: batches((9, 3))})
    assert found_in(home) == [("segment.gap", "warning", 7, f"{9:020d}.log")]
    (row,) = (row for row in dump_rows(home) if row["type"] == "finding")
    assert "compacted" not in row["cure"]


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_kafkas_own_compacted_topics(tmp_path: Path, topic: str) -> None:
    home = write_segments(tmp_path / f"{topic}-3", {0: batches((0, 2)), 20: batches((20, 3))})
    assert [code for code, _, _, _ in found_in(home, level="segments")] == ["segment.gap-compacted"]


def test_a_partition_that_a_broker_has_cleaned(tmp_path: Path) -> None:
    for name in ("t-0", "t-1"):
        write_segments(tmp_path / name, {0: batches((0, 2)), 20: batches((20, 3))})
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 20\n")
    assert [code for code, _, _, _ in found_in(tmp_path, level="segments")] == ["segment.gap-compacted", "segment.gap"]


# --- what was not read ------------------------------------------------------------------------------------------------
def test_what_lies_behind_the_limit_is_not_judged(tmp_path: Path) -> None:
    home = write_segments(tmp_path / "t-0", {0: batches((0, 2)), 20: batches((20, 3)), 40: batches((40, 1))})
    assert found_in(home, limit=1) == []
    assert [offset for _, _, offset, _ in found_in(home, limit=3)] == [2]


def test_segments_are_compared_with_their_neighbours_alone() -> None:
    spans = [SegmentExtent("a", 0, last_offset=9), None, SegmentExtent("c", 20, last_offset=29), SegmentExtent("d", 40)]
    findings = list(chain_findings(spans, is_compacted=lambda: False, held=list))
    assert [(finding.code, finding.path, finding.offset) for finding in findings] == [("segment.gap", "d", 30)]
    assert all(isinstance(finding, Finding) for finding in findings)


def test_it_is_asked_once_whether_the_log_is_compacted() -> None:
    asked: list[bool] = []

    def is_compacted() -> bool:
        asked.append(True)
        return True

    spans = [SegmentExtent("a", 0, last_offset=9), SegmentExtent("b", 20, last_offset=29), SegmentExtent("c", 40)]
    assert len(list(chain_findings(spans, is_compacted=is_compacted, held=list))) == 2
    assert len(asked) == 1


def test_damage_of_no_bytes_is_not_damage_at_the_end() -> None:
    span = SegmentExtent("a", 0)
    span.add(Damage(100, 0, "offset-order", "", None))
    assert not span.ends_in_damage
    span.add(Damage(100, 5, "torn-tail", "", None))
    assert span.ends_in_damage
    assert span.next_offset == 0


# --- offsets that are in another place --------------------------------------------------------------------------------
def test_offsets_in_another_place_are_not_missing(tmp_path: Path) -> None:
    """The second segment begins with two batches that fill a part of the gap before it."""
    data = {0: batches((0, 2)), 20: batches((4, 2), (8, 3), (20, 3))}
    write_segments(tmp_path / "t-0", data)
    found = [
        (each.code, each.offset, each.message.partition(" are missing")[0])
        for verdict in verify(VerifyRequest(targets=tuple(resolve([str(tmp_path / "t-0")])), now_ms=0))
        for each in verdict.findings
        if each.code == "segment.gap"
    ]
    spans = [(2, "Offsets 2 to 3"), (6, "Offsets 6 to 7"), (11, "Offsets 11 to 19")]
    assert found == [("segment.gap", offset, text) for offset, text in spans]


def test_the_logs_are_read_again_only_where_offsets_are_mixed() -> None:
    apart = [SegmentExtent("a", 0, last_offset=9), SegmentExtent("b", 20, last_offset=29)]
    mixed = [*apart, SegmentExtent("c", 25, last_offset=40)]
    read: list[str] = []

    def held(name: str) -> list[tuple[int, int]]:
        read.append(name)
        return [(12, 15)]

    list(chain_findings(apart, is_compacted=lambda: False, held=lambda: held("apart")))
    found = list(chain_findings(mixed, is_compacted=lambda: False, held=lambda: held("mixed")))
    assert read == ["mixed"]
    parts = [("segment.gap", 10), ("segment.gap", 16), ("segment.overlap", 25)]
    assert [(each.code, each.offset) for each in found] == parts


@pytest.mark.parametrize(
    ("held", "parts"),
    [
        ([], [(5, 9)]),
        ([(0, 4), (10, 20)], [(5, 9)]),
        ([(0, 6)], [(7, 9)]),
        ([(8, 30)], [(5, 7)]),
        ([(6, 6), (8, 8)], [(5, 5), (7, 7), (9, 9)]),
        ([(0, 20)], []),
    ],
)
def test_what_of_a_span_is_held_nowhere(held: list[tuple[int, int]], parts: list[tuple[int, int]]) -> None:
    assert not_held(5, 9, held) == parts
