"""Offsets that are missing in a partition: a loss, what compaction leaves, or what nobody can tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalog_core.engine.targets import resolve
from kafkalog_core.ops.verify.engine import verify
from kafkalog_core.ops.verify.request import VerifyRequest
from tests.support.build import Record, batch_v2, message_v1, offset_checkpoint, wrapper_v1
from tests.support.log_dirs import write_log_dir
from tests.support.logs import write_segments

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog_core.findings import Finding

NOW_MS = 1_800_000_000_000


def keyed(first: int, *keys: bytes | None) -> bytes:
    records = [Record(offset=first + n, timestamp_ms=1000 + n, key=key, value=b"v") for n, key in enumerate(keys)]
    return batch_v2(records, leader_epoch=0)


def gaps(path: Path) -> list[Finding]:
    request = VerifyRequest(targets=tuple(resolve([str(path)])), now_ms=NOW_MS)
    findings = [finding for verdict in verify(request) for finding in verdict.findings]
    return [finding for finding in findings if finding.code.startswith(("batch.gap", "segment.gap"))]


def brief(path: Path) -> list[tuple[str, str, int | None]]:
    return [(finding.severity, finding.code, finding.offset) for finding in gaps(path)]


def log_dir(tmp_path: Path, segments: dict[int, bytes], *, cleaned: list[tuple[str, int, int]] | None = None) -> Path:
    """A log directory whose cleaner has run, for the partitions in `cleaned`."""
    home = write_log_dir(tmp_path / "data", is_clean=False)
    write_segments(home / "t-0", segments)
    (home / "cleaner-offset-checkpoint").write_bytes(offset_checkpoint(cleaned or []))
    return home


SAME = keyed(0, b"a") + keyed(1, b"a")
NO_KEY = keyed(0, b"a") + keyed(1, None)
OTHERS = keyed(0, b"a") + keyed(1, b"b")


@pytest.mark.parametrize("head", [SAME, NO_KEY])
def test_a_lost_batch(tmp_path: Path, head: bytes) -> None:
    home = log_dir(tmp_path, {0: head + keyed(3, b"c")})
    (finding,) = gaps(home)
    assert (finding.severity, finding.code, finding.offset, finding.position) == ("error", "batch.gap", 2, len(head))
    assert "show that no compaction removed them" in finding.message


@pytest.mark.parametrize("head", [SAME, NO_KEY])
def test_a_lost_segment(tmp_path: Path, head: bytes) -> None:
    home = log_dir(tmp_path, {0: head, 2: keyed(2, b"c"), 9: keyed(9, b"d")})
    (finding,) = gaps(home)
    assert (finding.severity, finding.code, finding.offset) == ("error", "segment.gap", 3)
    assert "compacted" not in (finding.cure or "")


def test_what_is_missing_below_the_log_start_is_no_loss(tmp_path: Path) -> None:
    """A segment that records were deleted from came back: no consumer gets there, and 4.3.1 skips nothing."""
    home = log_dir(tmp_path, {0: SAME, 9: keyed(9, b"d"), 12: keyed(12, b"e")})
    (home / "log-start-offset-checkpoint").write_bytes(offset_checkpoint([("t", 0, 9)]))
    assert [offset for _, _, offset in brief(home)] == [10]


def test_a_copy_of_a_compacted_leader_with_one_gap_is_no_error(tmp_path: Path) -> None:
    """A new replica of a small compacted topic: its leader has removed one batch, and it has compacted nothing yet.

    What came behind the last pass has the same keys again.
    """
    home = log_dir(tmp_path, {0: OTHERS + keyed(3, b"c", b"a") + keyed(5, b"a", b"c")})
    (finding,) = gaps(home)
    assert (finding.severity, finding.code) == ("warning", "batch.gap")
    assert "normal if the topic is or was compacted" in finding.message
    assert (finding.cure or "").startswith("If the topic is or was compacted, nothing needs to be done.")


def test_a_copy_of_a_compacted_leader_with_a_roll_in_the_gap_is_no_error(tmp_path: Path) -> None:
    home = log_dir(tmp_path, {0: OTHERS, 4: keyed(4, b"c", b"c")})
    assert brief(home) == [("warning", "segment.gap", 2)]


def test_a_first_batch_that_is_missing(tmp_path: Path) -> None:
    """One key alone: compaction leaves the last of all its records, and the name of the segment stays."""
    assert brief(log_dir(tmp_path, {0: keyed(100, b"a")})) == [("warning", "batch.gap", 0)]


def test_a_topic_that_was_compacted_here(tmp_path: Path) -> None:
    assert brief(log_dir(tmp_path, {0: SAME + keyed(3, b"c")}, cleaned=[("t", 0, 2)])) == []


def test_a_partition_by_itself(tmp_path: Path) -> None:
    """The cleaner's checkpoint is not there to say that nobody has compacted the log."""
    path = write_segments(tmp_path / "t-0", {0: SAME + keyed(3, b"c")})
    assert brief(path) == [("warning", "batch.gap", 2)]


def test_several_gaps(tmp_path: Path) -> None:
    home = log_dir(tmp_path, {0: SAME + keyed(3, b"c") + keyed(5, b"c"), 9: keyed(9, b"c")})
    assert brief(home) == [("warning", "segment.gap", 6), ("warning", "batch.gaps", 2)]
    assert brief(home / "t-0") == brief(home)


def test_a_gap_that_a_replacement_is_about_to_fill(tmp_path: Path) -> None:
    home = log_dir(tmp_path, {0: SAME, 9: keyed(9, b"d")})
    (home / "t-0" / f"{2:020d}.log.swap").write_bytes(keyed(2, b"c"))
    assert brief(home) == [("warning", "segment.gap", 2)]


def test_a_gap_that_waits_for_its_deletion(tmp_path: Path) -> None:
    home = log_dir(tmp_path, {0: SAME, 9: keyed(9, b"d")})
    (home / "t-0" / f"{2:020d}.log.deleted").write_bytes(keyed(2, b"c"))
    (finding,) = gaps(home)
    assert (finding.cure or "").startswith(f"{2:020d}.log.deleted may hold them: copy it away before a broker starts")


def test_a_batch_whose_records_are_out_of_order(tmp_path: Path) -> None:
    """Its first record is not the one with the lowest offset, so no offsets are known to be missing before it."""
    inner = b"".join(message_v1(Record(offset=n, timestamp_ms=1000, key=b"k", value=b"v")) for n in (2, 1, 0))
    segment = keyed(0, b"a", b"a") + wrapper_v1(inner=inner, offset=4) + keyed(5, b"a")
    home = log_dir(tmp_path, {0: segment})
    assert brief(home) == []
